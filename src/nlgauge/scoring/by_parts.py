"""Scoring by parts: workers collect parts of the input and share what is left to do, and every finished piece is kept.

Results do not depend on the engine, the number of workers or what died on the way: parts are cut in the same places,
merged in their order, and the work that follows falls into the same shares.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from nlgauge._version import __version__
from nlgauge.data.reading import Source
from nlgauge.data.sources.parts import PART_BYTES, Part, parts_of
from nlgauge.data.sources.pipes import name_given
from nlgauge.engine.cache import Cache, code_digest
from nlgauge.engine.cores import available_cores
from nlgauge.engine.opening import open_pool
from nlgauge.engine.pool import Pool, WorkerDied
from nlgauge.engine.progress import progress_bar
from nlgauge.engine.run_folder import RunFolder
from nlgauge.engine.scratch import Scratch, using_scratch
from nlgauge.engine.workers import finished
from nlgauge.errors import DataError, NLGaugeError, argument
from nlgauge.metrics.base import Metric, SetStats
from nlgauge.metrics.score import ItemValues, RowKeys, rows_together
from nlgauge.scoring.collecting import Bins, BySystem, CollectChunk, check_same, described, merge, signatures_of

if TYPE_CHECKING:
    from nlgauge.engine.running import Running

T = TypeVar("T")
_MOST_SKIPPED = 1000
_WORTH_SHARING = 256 << 20
_PARTS, _FEWEST_BYTES = 8, 8 << 20
_MOST_FILES = 1024
_PARTS_FOR_MODELS, _FEWEST_BYTES_FOR_MODELS = 1024, 16 << 10


@dataclass(frozen=True)
class Piece:
    """A part of the input, several small ones that follow each other, or a half of these, under a name for the results.

    The halves of `000007` are `000007-0` and `000007-1`, and so on.
    """

    name: str
    parts: tuple[Part, ...]

    @property
    def whole(self) -> str:
        """The name of the piece that this is a half of a half of."""
        return self.name.partition("-")[0]

    def halves(self) -> tuple[Piece, Piece] | None:
        """Two pieces; None when this is a single row."""
        if len(self.parts) > 1:
            middle = len(self.parts) // 2
            return Piece(f"{self.name}-0", self.parts[:middle]), Piece(f"{self.name}-1", self.parts[middle:])
        cut = self.parts[0].halves()
        return None if cut is None else (Piece(f"{self.name}-0", cut[:1]), Piece(f"{self.name}-1", cut[1:]))

    def check_unchanged(self) -> None:
        """An error when one of the files is not what it was when it was cut."""
        for part in self.parts:
            part.check_unchanged()


@dataclass(frozen=True)
class Kept:
    """What is kept of a piece: statistics by system, and rows left out; nothing of one that was cut in halves."""

    systems: BySystem
    skipped: tuple[str, ...] = ()


def _collect_piece(
    run: RunFolder,
    metrics: tuple[Metric, ...],
    signatures: tuple[str, ...],
    grouped: bool,
    cache: bool,
    chunk_bytes: int,
    bins: Sequence[Bins],
    piece: Piece,
) -> int:
    """Collect a piece, in whichever worker, and keep what it comes to; returns the number of rows."""
    merging, rows = _InOrder(), 0
    for part in piece.parts:
        part.check_unchanged()
        mine = bins[part.system] if bins else {}
        collect = CollectChunk(part.source, metrics, grouped, Cache() if cache else None, mine)
        for chunk in part.chunks(chunk_bytes):
            collected = collect(chunk)
            merging.add(collected.systems)
            rows += collected.rows
        part.check_unchanged()
    check_same(metrics, signatures)
    run.save(piece.name, Kept({system: _compact(stats) for system, stats in merging.whole().items()}))
    return rows


def _do_share(run: RunFolder, name: str, work: Callable[[int], Any], number: int) -> None:
    """Do one share of the work between merging and finishing, in whichever worker, and keep what it comes to."""
    run.save(_share_name(name, number), work(number))


@contextmanager
def collected_by_parts(
    sources: Sequence[Source],
    metrics: tuple[Metric, ...],
    grouped: bool,
    running: Running,
    scratch: Scratch,
    name: str = "",
    bins: Sequence[Bins] = (),
) -> Iterator[tuple[list[BySystem], list[tuple[str, ...]]]]:
    """Statistics of each source by system, and the rows of each that were left out, as long as the block lasts.

    A further round over the same input has a `name`, which is its folder in that of the run.
    """
    run = RunFolder((running.run or scratch.folder / "run") / name)
    sharing = running.workers if running.workers > 1 else available_cores()
    space = run.scratch(max(1, running.memory_bytes // sharing))
    with run.held(), using_scratch(space):
        isolated = running.on_error == "skip"
        with open_pool(running.engine, running.workers, space, isolated=isolated) as pool:
            part_bytes = chosen_part_bytes(sources, metrics, running)
            parts = _cut(sources, part_bytes, pool)
            signatures = signatures_of(metrics)
            contents = _contents(parts, running, pool)
            run.begin(_settings(sources, described(metrics, signatures), grouped, part_bytes, parts, contents))
            pool.use(
                partial(_collect_piece, run, metrics, signatures, grouped, running.cache, running.chunk_bytes, bins)
            )
            pieces = _pieces(parts, part_bytes)
            _Pieces(run, running, len(pieces)).finish(pieces, pool)
            found, skipped = _merged(run, pieces, len(sources))
            for source, systems in zip(sources, found, strict=True):
                if not systems:
                    raise DataError("the file has no records", file=source.name)
            found = _with_shares(run, metrics, found, pool, running.progress)
        if any(skipped):
            run.note("skipped", [row for rows in skipped for row in rows])
        yield found, skipped


def chosen_part_bytes(sources: Sequence[Source], metrics: Sequence[Metric], running: Running) -> int:
    """The size of parts that was asked for, or one that suits metrics and inputs."""
    return running.part_bytes or part_bytes_for(metrics, sum(source.size for source in sources))


def part_bytes_for(metrics: Sequence[Metric], size: int) -> int:
    """How much of an input is one part, where nobody says it: so much that all workers have some, little for models.

    It does not depend on the number of workers, so that a run can continue with another one.
    """
    parts, fewest = _PARTS, _FEWEST_BYTES
    if any(metric.costly for metric in metrics):
        parts, fewest = _PARTS_FOR_MODELS, _FEWEST_BYTES_FOR_MODELS
    return min(PART_BYTES, max(fewest, size // parts))


def _cut(sources: Sequence[Source], part_bytes: int, pool: Pool[Any]) -> list[Part]:
    """Parts; workers share the counting of lines when there is much of it."""
    if sum(source.size for source in sources) < _WORTH_SHARING:
        return parts_of(sources, part_bytes)
    return parts_of(sources, part_bytes, lambda function, values: _in_order(pool, function, values))


def _contents(parts: Sequence[Part], running: Running, pool: Pool[Any]) -> list[str]:
    """What the files hold, where a run may be resumed; workers share the hashing of large ones."""
    files = list({part.identity: part for part in parts}.values())
    if running.run is None:
        return [part.source.path for part in files]
    if sum(part.source.size for part in files) < _WORTH_SHARING:
        return [part.content() for part in files]
    return _in_order(pool, Part.content, files)


def _pieces(parts: Sequence[Part], part_bytes: int) -> list[Piece]:
    """Parts, the small ones that follow each other in one input together, since each piece costs some milliseconds."""
    together: list[list[Part]] = []
    size = 0
    for part in parts:
        last = together[-1] if together else []
        fits = last and last[0].system == part.system and size + part.size <= part_bytes and len(last) < _MOST_FILES
        if not fits:
            together.append([])
            size = 0
        together[-1].append(part)
        size += part.size
    return [Piece(f"{number:06}", tuple(some)) for number, some in enumerate(together)]


def _in_order(pool: Pool[Any], function: Callable[[Any], T], values: Iterable[Any]) -> list[T]:
    """All results, in the order of the values."""
    done = dict(finished(pool, function, list(values)))
    return [done[place] for place in range(len(done))]


def _settings(
    sources: Sequence[Source],
    metrics: Sequence[str],
    grouped: bool,
    part_bytes: int,
    parts: Sequence[Part],
    contents: Sequence[str],
) -> dict[str, Any]:
    """All that results depend on; a pipe is named as it was given, wherever it was copied to."""
    files = [file for one in sources for file in (one.path, *one.files, *one.reading.companions.values())]
    copied = {file: given for file in files if (given := name_given(file)) != file}

    def named(text: str) -> str:
        for copy, given in copied.items():
            text = text.replace(copy, given)
        return text

    return {
        "NLGauge": __version__,
        "code": code_digest(),
        "metrics": list(metrics),
        "intervals": grouped,
        "inputs": [named(repr(source)) for source in sources],
        "files": list(map(named, contents)),
        "bytes of a part": part_bytes,
        "parts": [named(f"{part.source.path}, {part.unit} {part.start} to {part.stop}") for part in parts],
    }


class _Pieces:
    """Brings all pieces to an end: those that fail are tried again, cut in two, and at last named or left out."""

    def __init__(self, run: RunFolder, running: Running, count: int) -> None:
        self._run, self._running, self._count = run, running, count
        self._waiting: deque[Piece] = deque()
        self._failed_once: set[str] = set()
        self._skipped = 0

    def finish(self, pieces: Sequence[Piece], pool: Pool[Any]) -> None:
        """Collect whatever is not there yet."""
        self._waiting = deque(piece for part in pieces for piece in self._unfinished(part))
        under_way: dict[int, Piece] = {}
        rows, began = 0, time.monotonic()
        with progress_bar("scoring", self._count, show=self._running.progress) as advance:
            while self._waiting or pool.under_way:
                while self._waiting and pool.room:
                    piece = self._waiting.popleft()
                    under_way[pool.give(piece)] = piece
                outcome = pool.take()
                piece = under_way.pop(outcome.ticket)
                if outcome.error is None:
                    rows += outcome.value
                else:
                    self._failed(piece, outcome.error)
                rate = rows / max(1e-9, time.monotonic() - began)
                done = self._count - len({piece.whole for piece in (*self._waiting, *under_way.values())})
                advance(done, f"{done} of {self._count} parts, {rows:,} rows, {rate:,.0f} a second")

    def _unfinished(self, piece: Piece) -> Iterator[Piece]:
        if self._run.is_done(_cut_name(piece.name)):
            for half in piece.halves() or ():
                yield from self._unfinished(half)
        elif not self._run.is_done(piece.name):
            yield piece

    def _failed(self, piece: Piece, error: Exception) -> None:
        died = isinstance(error, WorkerDied)
        if not died and not isinstance(error, DataError):
            raise error
        piece.check_unchanged()
        if isinstance(error, DataError) and self._running.on_error == "stop":
            raise error
        halves = piece.halves()
        if died and piece.name not in self._failed_once and (halves is None or piece.name == piece.whole):
            self._failed_once.add(piece.name)
            self._waiting.appendleft(piece)
        elif halves is not None:
            self._run.save(_cut_name(piece.name), Kept({}))
            self._waiting.extendleft(reversed(halves))
        else:
            self._leave_out(piece, error)

    def _leave_out(self, piece: Piece, error: Exception) -> None:
        (part,) = piece.parts
        stops = self._running.on_error == "stop"
        if not isinstance(error, DataError):
            advice = f"change it, or leave it out with {argument('on_error', 'skip')}" if stops else "change it"
            error = DataError(f"a worker {error} twice on this row; expected one that can be measured: {advice}")
        bad = error.at(file=part.source.name, line=part.first_line)
        if stops:
            raise bad
        self._skipped += 1
        if self._skipped > _MOST_SKIPPED:
            raise NLGaugeError(
                f"more than {_MOST_SKIPPED} rows had to be left out, the last since: {bad}; expected few: are the "
                "metrics and the columns those of this input?"
            ) from bad
        self._run.save(piece.name, Kept({}, skipped=(str(bad),)))
        warnings.warn(f"left out: {bad}", stacklevel=2)


def _cut_name(name: str) -> str:
    return f"{name}-cut"


def _merged(run: RunFolder, pieces: Sequence[Piece], sources: int) -> tuple[list[BySystem], list[tuple[str, ...]]]:
    """Statistics of all pieces, added in the order of the input."""
    merging = [_InOrder() for _ in range(sources)]
    skipped: list[tuple[str, ...]] = [() for _ in range(sources)]
    for piece in pieces:
        system = piece.parts[0].system
        for kept in _kept(run, piece.name):
            merging[system].add(kept.systems)
            skipped[system] += kept.skipped
    return [one.whole() for one in merging], skipped


class _InOrder:
    """Adds statistics in their order, like to like in size: what is large is not copied for each small one."""

    def __init__(self) -> None:
        self._held: list[tuple[int, BySystem]] = []

    def add(self, systems: BySystem) -> None:
        """Add what follows."""
        self._held.append((1, dict(systems)))
        while len(self._held) > 1 and self._held[-1][0] == self._held[-2][0]:
            self._join()

    def whole(self) -> BySystem:
        """The sum."""
        while len(self._held) > 1:
            self._join()
        return self._held[0][1] if self._held else {}

    def _join(self) -> None:
        (_, systems), (size, more) = self._held.pop(-2), self._held.pop()
        merge(systems, more)
        self._held.append((2 * size, systems))


def _kept(run: RunFolder, name: str) -> Iterator[Kept]:
    if run.is_done(_cut_name(name)):
        yield from _kept(run, f"{name}-0")
        yield from _kept(run, f"{name}-1")
    else:
        yield run.load(name)


def _with_shares(
    run: RunFolder, metrics: tuple[Metric, ...], found: list[BySystem], pool: Pool[Any], progress: bool
) -> list[BySystem]:
    """The same statistics with all that workers can do before the end: n-grams counted, samples drawn and embedded."""
    completed: list[BySystem] = [{} for _ in found]
    for source, systems in enumerate(found):
        for place, (system, stats) in enumerate(systems.items()):
            names = (f"share-{source}-{place}-{number}" for number in range(len(metrics)))
            parts = zip(names, metrics, stats, strict=True)
            completed[source][system] = tuple(_shared(run, *part, pool, progress) for part in parts)
    return completed


def _shared(run: RunFolder, name: str, metric: Metric, stats: Any, pool: Pool[Any], progress: bool) -> Any:
    """Statistics of one metric, once workers have done all rounds of its shares."""
    rounds = 0
    while (shares := metric.shares(stats)) is not None:
        here = f"{name}-{rounds}"
        missing = [number for number in range(shares.count) if not run.is_done(_share_name(here, number))]
        if missing:
            with progress_bar(f"finishing {metric.name}", shares.count, show=progress) as advance:
                for done, _ in enumerate(finished(pool, partial(_do_share, run, here, shares.work), missing), 1):
                    advance(shares.count - len(missing) + done)
        stats = shares.gather([run.load(_share_name(here, number)) for number in range(shares.count)])
        rounds += 1
    return stats


def _share_name(name: str, number: int) -> str:
    return f"{name}-{number:04}"


def _compact(stats: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same with the values of sets in one table, not one per chunk; metrics still share the keys of rows."""
    joined: dict[tuple[int, ...], RowKeys] = {}
    compact = []
    for one in stats:
        if isinstance(one, SetStats):
            rows = one.items.rows
            keys = joined.setdefault(tuple(map(id, rows)), rows_together(rows))
            one = replace(one, items=ItemValues((keys,), (one.items.all_values(),)))
        compact.append(one)
    return tuple(compact)
