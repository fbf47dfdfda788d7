"""Many raters at once against the annotation site: is every acknowledged answer there, and how long do they wait?

Starts real servers on the loopback, lets raters take units, answer and hand in without a pause, kills servers on the
way if asked to (`--kills`), then reads the database and the export. Exits with 1 where anything is missing or wrong.

    python benchmarks/annotate_load.py --database sqlite --raters 200 --items 5000 --seconds 60
    python benchmarks/annotate_load.py --database postgres --raters 200 --items 5000 --seconds 60 --kills 20
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from nlgauge.annotate.database.records import Snapshot
from nlgauge.annotate.exporting import ratings
from nlgauge.annotate.pages.signing import read_secret, sign_link
from nlgauge.annotate.serving import opened_store, secret_file
from nlgauge.annotate.settings import StudySettings
from nlgauge.annotate.units import Item, Unit
from nlgauge.data.human.forms import load_form

STUDY, QUESTION, RATINGS = "load", "typicality", 3
START_SECONDS, ANSWER_SECONDS = 60.0, 60.0
COMMAND = "import sys; from nlgauge.cli.main import main; sys.exit(main())"


@dataclass(frozen=True)
class Answered:
    """A response of the site."""

    status: int
    headers: dict[str, str]
    cookies: dict[str, str]
    body: str


class Broken(Exception):
    """The connection ended before the response was complete."""


@dataclass
class Server:
    """One server process, always on the same port; `descriptors` is how many files it may have open, 0 the usual."""

    database: str
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    descriptors: int = 0

    async def start(self) -> None:
        """Start it, and wait until it takes connections."""
        command = [sys.executable, "-c", COMMAND, "annotate", "serve", "--database", self.database]
        with (self.folder / f"server-{self.port}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port)], cwd=self.folder, stdout=log, stderr=log, env=os.environ
            )
        if self.descriptors:
            resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (self.descriptors, self.descriptors))
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return
        raise RuntimeError(f"the server did not start: {self.log()[-2000:]}")

    def end(self, number: signal.Signals) -> None:
        """End it by its process id."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(timeout=60)
            self.process = None

    def log(self) -> str:
        """What it printed."""
        return (self.folder / f"server-{self.port}.log").read_text(errors="replace")


@dataclass
class Record:
    """What raters saw: seconds by kind of request, acknowledged answers by assignment, work handed in, errors."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    answers: dict[int, int] = field(default_factory=dict)
    handed_in: set[int] = field(default_factory=set)
    errors: Counter[str] = field(default_factory=Counter)
    broken: int = 0
    continued: int = 0


@dataclass
class Rater:
    """One browser; after each unit it goes on at the next server."""

    number: int
    token: str
    servers: list[Server]
    record: Record
    turn: int = 0
    cookies: dict[str, str] = field(default_factory=dict)
    csrf: str = ""
    home: str = ""
    open_assignment: int = 0
    lines: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=dict)

    async def work(self, until: asyncio.Event) -> None:
        """Come in, then take units, answer them and hand them in until told to stop, or until none is left."""
        try:
            while not until.is_set():
                try:
                    if not await (self.one_unit() if self.home else self.come_in()):
                        break
                except Broken:
                    self.record.broken += 1
                    await asyncio.sleep(0.1)
        finally:
            for _, writer in self.lines.values():
                writer.close()

    async def come_in(self) -> bool:
        """Open the link and begin."""
        page = await self.ask("open the link", "GET", f"/r/{self.token}", expected=(200, 303))
        if page.status == 200:
            fields = {"csrf": field_of(page.body, "csrf"), "link": self.token}
            page = await self.ask("begin", "POST", "/begin", form=fields, expected=(303,))
        self.home = page.headers["location"]
        return True

    async def one_unit(self) -> bool:
        """Take a unit, answer it, hand it in; False where there is nothing left to do."""
        found = await self.ask("take a unit", "GET", self.home, expected=(200, 303))
        if found.status == 200:
            return False
        place = found.headers["location"]
        assignment = int(place.split("/")[3])
        if self.open_assignment:
            self.record.continued += assignment == self.open_assignment
        self.open_assignment = assignment
        page = await self.ask("show it", "GET", place, expected=(200,))
        value = _value(self.number, assignment)
        csrf = field_of(page.body, "csrf")
        sent = {"step": 1, "fields": {"q0": [str(value)]}}
        api = f"/api/raters/{place.split('/')[2]}/assignments/{assignment}/answers"
        saved = await self.ask("save an answer", "POST", api, content=sent, csrf=csrf, expected=(200,))
        if json.loads(saved.body)["errors"]:
            self.record.errors[f"not saved: {saved.body[:200]}"] += 1
        self.record.answers[assignment] = value
        fields = {"csrf": csrf, "q0": str(value), "go": "submit", "seconds": ""}
        await self.ask("hand it in", "POST", place, form=fields, expected=(303,))
        self.record.handed_in.add(assignment)
        self.open_assignment, self.turn = 0, self.turn + 1
        return True

    async def ask(
        self,
        kind: str,
        method: str,
        path: str,
        *,
        expected: tuple[int, ...],
        form: dict[str, str] | None = None,
        content: object = None,
        csrf: str = "",
    ) -> Answered:
        """One request; a status that is not expected is an error of the run."""
        body, what = b"", ""
        if form is not None:
            body, what = urlencode(form).encode(), "application/x-www-form-urlencoded"
        elif content is not None:
            body, what = json.dumps(content).encode(), "application/json"
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Cookie: {cookies}", f"X-CSRF-Token: {csrf}"]
        head += [f"Content-Type: {what}", f"Content-Length: {len(body)}"] if what else []
        began = time.perf_counter()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                found = await self._exchange("\r\n".join([*head, "", ""]).encode() + body)
        except TimeoutError:
            self.record.errors[f"{kind}: no response in {ANSWER_SECONDS:g} seconds"] += 1
            raise Broken from None
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            self.hang_up()
            raise Broken from error
        self.record.seconds.setdefault(kind, []).append(time.perf_counter() - began)
        self.cookies |= found.cookies
        if found.status not in expected:
            self.record.errors[f"{kind}: status {found.status}: {_plain(found.body)[:200]}"] += 1
            raise Broken
        return found

    async def _exchange(self, request: bytes) -> Answered:
        port = self.servers[self.turn % len(self.servers)].port
        if port not in self.lines:
            self.lines[port] = await asyncio.open_connection("127.0.0.1", port)
        reader, writer = self.lines[port]
        writer.write(request)
        await writer.drain()
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = [line.split(": ", 1) for line in lines if line]
        headers = {name.lower(): value for name, value in pairs}
        set_cookies = [value.partition(";")[0] for name, value in pairs if name.lower() == "set-cookie"]
        body = await reader.readexactly(int(headers["content-length"]))
        cookies = {name: value for name, _, value in (cookie.partition("=") for cookie in set_cookies)}
        return Answered(int(first.split()[1]), headers, cookies, body.decode())

    def hang_up(self) -> None:
        """Close the connection."""
        line = self.lines.pop(self.servers[self.turn % len(self.servers)].port, None)
        if line is not None:
            line[1].close()


async def load(
    servers: list[Server], tokens: list[str], seconds: float, kills: int, *, started: bool = False
) -> tuple[Record, float]:
    """Let all raters work; servers take turns in being killed, at even distances."""
    record, until = Record(), asyncio.Event()
    for server in () if started else servers:
        await server.start()
    began = time.monotonic()
    raters = [Rater(number, token, servers, record) for number, token in enumerate(tokens)]
    tasks = [asyncio.create_task(rater.work(until)) for rater in raters]
    for number in range(kills):
        await asyncio.sleep(seconds / (kills + 1))
        victim = servers[number % len(servers)]
        victim.end(signal.SIGKILL)
        await victim.start()
    await asyncio.wait(tasks, timeout=seconds / (kills + 1))
    until.set()
    await asyncio.gather(*tasks)
    return record, time.monotonic() - began


def faults(record: Record, snapshot: Snapshot) -> list[str]:
    """What is wrong with the database and the export, by what raters were told."""
    found = [f"{count} times {error}" for error, count in record.errors.items()]
    units = {unit.id: unit.unit.items[0].id for unit in snapshot.units}
    names = {rater.id: rater.pseudonym for rater in snapshot.raters}
    work = {one.id: one for one in snapshot.assignments}
    stored = {one.assignment_id: one.value for one in snapshot.answers}
    exported = Counter(ratings(snapshot).frame.select("rater", "item", "value").iter_rows())
    lost = [one for one, value in record.answers.items() if stored.get(one) != value]
    open_again = [one for one in record.handed_in if work[one].state != "valid"]
    missing = [
        one
        for one in record.handed_in
        if exported[names[work[one].rater_id], units[work[one].unit_id], record.answers[one]] != 1
    ]
    twice = [
        key for key, count in Counter((rater, item) for rater, item, _ in exported.elements()).items() if count > 1
    ]
    pairs = Counter((one.rater_id, one.unit_id) for one in snapshot.assignments)
    too_many = [unit.id for unit in snapshot.units if unit.taken > RATINGS]
    live = Counter(one.unit_id for one in snapshot.assignments if one.state in ("leased", "valid"))
    for what, which in (
        ("acknowledged answers are not in the database", lost),
        ("assignments that were handed in are not valid", open_again),
        ("acknowledged answers of work that was handed in are not in the export", missing),
        ("items were rated twice by one rater", twice),
        ("units were given to one rater twice", [pair for pair, count in pairs.items() if count > 1]),
        ("units were given to more raters than wanted", too_many),
        ("units have a wrong counter", [unit.id for unit in snapshot.units if unit.taken != live[unit.id]]),
    ):
        if which:
            found.append(f"{len(which)} {what}, such as {which[0]}")
    return found


def run(database: str, folder: Path, *, raters: int, items: int, seconds: float, servers: int, kills: int) -> list[str]:
    """One run, printed; what was wrong."""
    with opened_store(database, must_exist=False) as store:
        store.create_study(STUDY, load_form("typicality"), new_units(items), StudySettings(raters=RATINGS))
    secret = read_secret(folder / secret_file(database))
    sites = [Server(database, folder, port) for port in free_ports(servers)]
    try:
        record, spent = asyncio.run(load(sites, [sign_link(secret, STUDY) for _ in range(raters)], seconds, kills))
        for site in sites:
            site.end(signal.SIGTERM)
    finally:
        for site in sites:
            site.end(signal.SIGKILL)
    with opened_store(database) as store:
        snapshot = store.snapshot(store.study(STUDY))
    wrong = faults(record, snapshot)
    if record.broken and not kills:
        wrong.append(f"{record.broken} requests were broken off, and no server was killed")
    if "Traceback" in (logs := "".join(site.log() for site in sites)):
        wrong.append(f"a server printed a trace: {logs[logs.index('Traceback') :][:2000]}")
    _print(record, spent, snapshot)
    if kills:
        print(f"killed: {kills}; requests broken off: {record.broken}; units continued: {record.continued}")
    print(f"wrong: {len(wrong)}")
    return wrong


def _print(record: Record, spent: float, snapshot: Snapshot) -> None:
    every = [value for values in record.seconds.values() for value in values]
    print(f"seconds: {spent:.1f}\nrequests: {len(every)}\nrequests a second: {len(every) / spent:.0f}")
    print(f"raters: {len(snapshot.raters)}\nanswers acknowledged: {len(record.answers)}")
    print(f"handed in: {len(record.handed_in)}")
    for kind, values in (("response", every), *sorted(record.seconds.items())):
        ordered = sorted(values)
        middle, late = ordered[len(ordered) // 2], ordered[int(0.99 * (len(ordered) - 1))]
        print(f"{kind}: median {1000 * middle:.0f} ms, 99th percentile {1000 * late:.0f} ms")


def new_units(count: int) -> list[Unit]:
    """Units of one text each."""
    return [
        Unit(items=(Item(id=f"item-{number}", texts=(f"The train of {number} past nine was late again.",)),),
             context=f"How was day {number}?")
        for number in range(count)
    ]  # fmt: skip


def _value(rater: int, assignment: int) -> int:
    return (7 * assignment + rater) % 6


def field_of(page: str, name: str) -> str:
    """The value of a hidden field."""
    found = re.search(rf'name="{name}" value="([^"]+)"', page)
    if found is None:
        raise ValueError(f"no field '{name}' in the page")
    return found[1]


def _plain(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody uses."""
    import socket

    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@contextmanager
def database_for(kind: str, folder: Path) -> Iterator[str]:
    """The address of an empty database: a file, a server of our own, or one that is given."""
    if kind == "sqlite":
        yield str(folder / "annotate.db")
    elif kind == "postgres":
        sys.path.insert(0, str(Path(__file__).parent.parent))
        from tests.postgres import ADDRESS, find_programs, running_server

        programs = find_programs()
        if programs is None:
            raise SystemExit("no PostgreSQL server is installed")
        with running_server(programs) as port:
            yield ADDRESS.format(port=port, database="postgres")
    else:
        yield kind


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--database", default="sqlite", help="sqlite, postgres, or the address of an empty database")
    parser.add_argument("--raters", type=int, default=200)
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--servers", type=int, default=1, help="how many share the database")
    parser.add_argument("--kills", type=int, default=0, help="how often a server is killed on the way")
    options = vars(parser.parse_args())
    kind = options.pop("database")
    with tempfile.TemporaryDirectory(prefix="nlgauge-load-") as name, database_for(kind, Path(name)) as database:
        wrong = run(database, Path(name), **options)
    for one in wrong:
        print(f"WRONG: {one}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
