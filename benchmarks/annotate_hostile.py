"""The annotation site under attack from one address: slow connections while raters work, and invented ids.

Starts a real server on the loopback with the usual 1,024 file descriptors. Raters take units, answer and hand in while
other connections send their requests a byte at a time, and come back when they are closed; then ids that no platform
knows ask for work. Exits with 1 where a rater had an error, where an acknowledged answer is missing, or where more
invented ids came in than a study allows per minute. It ends by itself.

    python benchmarks/annotate_hostile.py --database sqlite --slow 2000 --raters 50 --seconds 30 --invented 1000
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from annotate_load import Broken, Rater, Record, Server, database_for, faults, field_of, free_ports, load, new_units
from nlgauge.annotate.database.records import Snapshot
from nlgauge.annotate.pages.signing import entrance_address, read_secret, sign_link
from nlgauge.annotate.serving import opened_store, secret_file
from nlgauge.annotate.settings import StudySettings
from nlgauge.data.human.forms import load_form

STUDY = "load"
BEGINNINGS = (
    b"GET /login HTTP/1.1\r\nHost: site\r\nX-Slow: ",
    b"",
    b"POST /begin HTTP/1.1\r\nHost: site\r\nContent-Length: 100000\r\n\r\n",
)


@dataclass
class Slow:
    """Connections that never complete a request: how many are open, the most at once, how often the site closed one."""

    port: int
    open: int = 0
    most: int = 0
    closed: int = 0
    failed: int = 0
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self, count: int) -> None:
        """Open all of them."""
        self.tasks = [asyncio.create_task(self._hold(BEGINNINGS[one % len(BEGINNINGS)])) for one in range(count)]

    async def end(self) -> None:
        """Close all of them."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _hold(self, beginning: bytes) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                self.failed += 1
                await asyncio.sleep(1)
                continue
            self.open += 1
            self.most = max(self.most, self.open)
            try:
                writer.write(beginning)
                while not reader.at_eof():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(1):
                            await reader.read(1000)
                    writer.write(b"x" if beginning else b"")
                self.closed += 1
            except OSError:
                self.closed += 1
            finally:
                self.open -= 1
                writer.close()
            await asyncio.sleep(0.5)


async def besiege(server: Server, tokens: list[str], seconds: float, count: int) -> tuple[Record, Slow]:
    """Raters work while slow connections are held."""
    await server.start()
    slow = Slow(server.port)
    slow.start(count)
    await asyncio.sleep(2)
    try:
        record, _ = await load([server], tokens, seconds, kills=0, started=True)
    finally:
        await slow.end()
    return record, slow


async def invent(server: Server, path: str, count: int) -> Counter[int]:
    """Ask for work under ids that no platform has made; the status of the last page of each."""
    statuses: Counter[int] = Counter()
    gate = asyncio.Semaphore(20)

    async def one(number: int) -> None:
        async with gate:
            rater = Rater(number, "", [server], Record())
            try:
                query = f"?PROLIFIC_PID=invented{number}&STUDY_ID=s&SESSION_ID=x{number}"
                page = await rater.ask("entrance", "GET", path + query, expected=(200, 404))
                if page.status == 200:
                    fields = {"csrf": field_of(page.body, "csrf"), "entrance": field_of(page.body, "entrance")}
                    page = await rater.ask("begin", "POST", "/begin", form=fields, expected=(303, 403, 429))
                if page.status == 303:
                    page = await rater.ask("take a unit", "GET", page.headers["location"], expected=(200, 303))
                statuses[page.status] += 1
            except Broken:
                statuses[0] += 1
            finally:
                rater.hang_up()

    await asyncio.gather(*(one(number) for number in range(count)))
    return statuses


def run(
    database: str, folder: Path, *, raters: int, slow: int, seconds: float, invented: int, descriptors: int
) -> list[str]:
    """One run, printed; what was wrong."""
    settings = StudySettings(raters=3, completion_code="C0DE")
    with opened_store(database, must_exist=False) as store:
        study = store.create_study(STUDY, load_form("typicality"), new_units(2000), settings)
    secret = read_secret(folder / secret_file(database))
    tokens = [sign_link(secret, STUDY) for _ in range(raters)]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    server = Server(database, folder, free_ports(1)[0], descriptors=descriptors)
    path = urlsplit(entrance_address("http://site", STUDY, "prolific", secret)).path
    wrong: list[str] = []
    try:
        record, held = asyncio.run(besiege(server, tokens, seconds, slow))
        print(f"slow connections: {slow}\nopen at once: {held.most}\nclosed by the site: {held.closed}")
        print(f"not accepted: {held.failed}\nlog: {len(server.log())} bytes")
        if record.handed_in:
            with opened_store(database) as store:
                wrong += faults(record, store.snapshot(study))
        else:
            wrong.append("no rater could hand anything in")
        if record.broken:
            wrong.append(f"{record.broken} requests of raters were broken off")
        answered = sorted(value for values in record.seconds.values() for value in values)
        print(f"raters: {raters}\nrequests of raters: {len(answered)}\nhanded in: {len(record.handed_in)}")
        if answered:
            print(f"response, 99th percentile: {1000 * answered[int(0.99 * (len(answered) - 1))]:.0f} ms")
        print(f"errors of raters: {sum(record.errors.values()) + record.broken}")
        if invented:
            began = time.monotonic()
            statuses = asyncio.run(invent(server, path, invented))
            spent = time.monotonic() - began
            with opened_store(database) as store:
                joined = _joined(store.snapshot(study))
            most = settings.joins_per_minute * (1 + int(spent // 60))
            print(f"invented ids: {invented} in {spent:.1f} s\njoined: {joined}, at most {most}")
            print(f"pages: {dict(sorted(statuses.items()))}")
            if joined > most:
                wrong.append(f"{joined} invented ids joined, more than {most}")
        server.end(signal.SIGTERM)
    finally:
        server.end(signal.SIGKILL)
    if "Traceback" in (log := server.log()):
        wrong.append(f"the server printed a trace: {log[log.index('Traceback') :][:2000]}")
    print(f"wrong: {len(wrong)}")
    return wrong


def _joined(snapshot: Snapshot) -> int:
    return sum(rater.platform == "prolific" for rater in snapshot.raters)


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--database", default="sqlite", help="sqlite, postgres, or the address of an empty database")
    parser.add_argument("--raters", type=int, default=50)
    parser.add_argument("--slow", type=int, default=2000, help="connections that never complete a request")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--descriptors", type=int, default=1024, help="files that the server may have open")
    parser.add_argument("--invented", type=int, default=1000, help="ids that no platform knows")
    options = vars(parser.parse_args())
    kind = options.pop("database")
    with tempfile.TemporaryDirectory(prefix="nlgauge-hostile-") as name, database_for(kind, Path(name)) as database:
        wrong = run(database, Path(name), **options)
    for one in wrong:
        print(f"WRONG: {one}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
