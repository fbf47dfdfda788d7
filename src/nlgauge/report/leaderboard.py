"""The leaderboard: systems ranked metric by metric, from result files, in clusters of equally good systems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from nlgauge._version import __version__
from nlgauge.data.sources.json_lines import BAD_JSON
from nlgauge.data.sources.pipes import on_disk
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.metrics.score import HigherIs, ItemValues, Level, RowKeys, Score
from nlgauge.report.tables import Sheet, ends, flat_frame, interval, number, one_line
from nlgauge.schema import check_schema, checked_document, stamped
from nlgauge.scoring.compared import SIGNIFICANT
from nlgauge.scoring.comparison import compare_scores, corrected, family_in_words
from nlgauge.scoring.pairing import OTHER_WAY
from nlgauge.scoring.sizes import size_notes
from nlgauge.signature import Signature
from nlgauge.stats.clusters import cluster
from nlgauge.stats.inference import Comparing
from nlgauge.stats.jackknife import LeftOut

_WRITE_IT = "expected a result file: nlgauge score FILE... -o results.json"


class _Keys(msgspec.Struct):
    id: list[str]
    context: list[str] | None = None
    run: list[str] | None = None


class _LeftOut(msgspec.Struct):
    values: list[float]
    sizes: list[float]
    keys: list[str] | None = None


class _Entry(msgspec.Struct):
    name: str
    label: str
    system: str
    value: float | None
    n: int
    higher_is: HigherIs
    signature: str
    level: Level = "set"
    aspect: str = ""
    ci: tuple[float, float] | None = None
    excluded: int = 0
    values: list[float | None] | None = None
    left_out: _LeftOut | None = None
    sizes: dict[int, int] = msgspec.field(default_factory=dict)


class _Stamp(msgspec.Struct):
    schema: str | None = None


class _Document(msgspec.Struct):
    scores: list[_Entry]
    sets: dict[str, _Keys] | None = None


@dataclass(frozen=True)
class Results:
    """The scores of one result file."""

    file: str
    scores: tuple[Score, ...]

    @property
    def contexts(self) -> frozenset[Any]:
        """The key of a dataset: contexts, else ids, else the sizes of a corpus' parts."""
        frames = [score.per_item for score in self.scores if score.per_item is not None]
        if frames:
            key = "context_hash" if all("context_hash" in frame.columns for frame in frames) else "id"
            return frozenset((key, one) for frame in frames for one in frame[key].to_list())
        return frozenset(tuple(s.left_out.sizes.tolist()) for s in self.scores if s.left_out is not None)


@dataclass(frozen=True)
class Place:
    """One system by one metric on one dataset; `rank` 1 is best, equal values share the mean of their ranks.

    Systems of one `cluster` do not differ significantly; None if the metric allows no test. `mean_rank` is over all
    datasets, None if the system is not ranked on all. `family` says which tests are corrected together.
    """

    dataset: str
    score: Score
    rank: float
    cluster: int | None
    mean_rank: float | None = None
    family: str = ""


@dataclass(frozen=True)
class Leaderboard:
    """Places, metric by metric and dataset by dataset, best first; notes list what was left out and why."""

    places: tuple[Place, ...]
    datasets: tuple[str, ...]
    notes: tuple[str, ...]


def named_files(entries: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The files of `[DATASET=]RESULTS`, and the names of their datasets."""
    files: list[str] = []
    names: dict[str, str] = {}
    for entry in entries:
        name, equals, path = entry.partition("=")
        is_named = bool(equals) and not Path(entry).exists()
        files.append(path if is_named else entry)
        if is_named:
            names[path] = name
    if duplicates := {file for file in files if files.count(file) > 1}:
        raise OptionError(f"duplicate file {min(duplicates)}; expected every file once")
    return files, names


def read_results(path: str | Path) -> Results:
    """The scores that `nlgauge score ... -o results.json` wrote, with the values that a comparison needs."""
    place = Path(on_disk(str(path)))
    if not place.is_file():
        raise DataError(f"no such file; {_WRITE_IT}", file=str(path))
    data = place.read_bytes()
    try:
        schema = {"schema": msgspec.json.decode(data, type=_Stamp).schema}
        if schema["schema"] is not None:
            check_schema(schema, "scores", str(path))
            checked_document(data, str(path))
        document = msgspec.json.decode(data, type=_Document)
    except BAD_JSON as error:
        raise DataError(f"is not a result of NLGauge, but {_kind(data)}; {_WRITE_IT}", file=str(path)) from error
    check_schema(schema, "scores", str(path))
    if document.sets is None:
        raise DataError(f"has no values of single sets, so systems cannot be compared; {_WRITE_IT}", file=str(path))
    if not document.scores:
        raise DataError(f"has no scores; {_WRITE_IT}", file=str(path))
    return Results(str(path), tuple(_score(entry, document.sets, str(path)) for entry in document.scores))


def _kind(data: bytes) -> str:
    """A description of a file without a result."""
    if not data.strip():
        return "empty"
    try:
        found = msgspec.json.decode(data)
    except BAD_JSON:
        first = data.lstrip().partition(b"\n")[0]
        with suppress(*BAD_JSON):
            if isinstance(msgspec.json.decode(first), dict):
                return "JSON lines, such as nlgauge score reads"
        return "not a JSON document"
    if not isinstance(found, dict):
        return f"a JSON {type(found).__name__}"
    if "scores" in found:
        return "a JSON document with scores of another form"
    return f"a JSON document with {one_line(', '.join(list(found)[:8])) or 'nothing in it'}"


def _score(entry: _Entry, sets: Mapping[str, _Keys], file: str) -> Score:
    about = f"{entry.label} of '{entry.system}'"
    if entry.value is None:
        raise DataError(f"{about} has no numeric value and cannot be ranked; leave it out", file=file)
    try:
        signature = Signature.parse(entry.signature)
    except OptionError as error:
        raise DataError(f"{about}: {error.message}", file=file) from error
    items = None
    if entry.values is not None:
        keys = sets.get(entry.system)
        known = [] if keys is None else [one for one in (keys.id, keys.context, keys.run) if one is not None]
        if keys is None or any(len(one) != len(entry.values) for one in known):
            raise DataError(f"{about} has values that do not match the ids of its sets; {_WRITE_IT}", file=file)
        values = np.array([math.nan if value is None else value for value in entry.values], dtype=np.float64)
        ids = pl.Series("id", keys.id, dtype=pl.String)
        items = ItemValues((RowKeys(ids, _hashes(keys.context, file), _hashes(keys.run, file)),), (values,))
    left_out = None
    if entry.left_out is not None:
        parts, sizes = np.array(entry.left_out.values), np.array(entry.left_out.sizes)
        if len(parts) != len(sizes):
            raise DataError(f"{about} has {len(parts)} values of parts and {len(sizes)} sizes; {_WRITE_IT}", file=file)
        left_out = LeftOut(parts, sizes, _hashes(entry.left_out.keys, file))
    return Score(
        name=entry.name,
        label=entry.label,
        value=entry.value,
        n=entry.n,
        signature=signature,
        higher_is=entry.higher_is,
        level=entry.level,
        aspect=entry.aspect,
        ci=entry.ci,
        items=items,
        left_out=left_out,
        excluded=entry.excluded,
        system=entry.system,
        sizes=entry.sizes,
    )


def _hashes(texts: Sequence[str] | None, file: str) -> Any:
    if texts is None:
        return None
    try:
        return np.array([int(text, 16) for text in texts], dtype=np.uint64)
    except (ValueError, OverflowError) as error:
        raise DataError(f"has a context or run that is not a hash ({error}); {_WRITE_IT}", file=file) from error


def leaderboard(
    results: Sequence[Results], names: Mapping[str, str] | None = None, *, how: Comparing | None = None
) -> Leaderboard:
    """Rank the systems of all results, dataset by dataset.

    Files about the same contexts belong to one dataset, named after the first of them, unless `names` gives the
    dataset of a file. Every two systems are compared as `compare` does; the pairs of one metric on one dataset
    are one family.
    """
    if how is not None and how.margin is not None:
        raise OptionError(
            f"{argument('margin', how.margin)}: a leaderboard has clusters, and no verdicts on pairs of systems; "
            "expected no margin here: nlgauge compare takes one"
        )
    datasets = _datasets(results, names or {})
    notes = _version_notes(results)
    chosen = _same_signatures(datasets, notes)
    places: list[Place] = []
    for label in chosen:
        for dataset, files in datasets.items():
            scores = [score for result in files for score in result.scores if score.label == label]
            if len(scores) == 1:
                notes.append(f"{label} was measured of '{scores[0].system}' alone on {dataset}: no ranks")
            elif scores:
                places += _ranked(dataset, scores, how or Comparing(), notes)
    if not places:
        raise DataError(
            "no metric was measured of two systems on the same contexts; expected results of several systems on the "
            "same contexts, as nlgauge score a.jsonl b.jsonl -o results.json writes them"
        )
    return Leaderboard(_with_means(places, list(datasets), notes), tuple(datasets), tuple(dict.fromkeys(notes)))


def _datasets(results: Sequence[Results], names: Mapping[str, str]) -> dict[str, list[Results]]:
    stems = [Path(result.file).name.split(".")[0] for result in results]
    called: dict[frozenset[Any], str] = {}
    datasets: dict[str, list[Results]] = {}
    for result, stem in zip(results, stems, strict=True):
        own = stem if stems.count(stem) == 1 else result.file
        name = names.get(result.file) or (called.setdefault(result.contexts, own) if result.contexts else own)
        datasets.setdefault(name, []).append(result)
    for name, files in datasets.items():
        seen: dict[tuple[str, str], str] = {}
        for result in files:
            for score in result.scores:
                other = seen.setdefault((score.system, score.label), result.file)
                if other != result.file:
                    raise DataError(
                        f"{other} and {result.file} both have {score.label} of '{score.system}' on the same contexts "
                        f"({name}); leave one out, or name the dataset of a file: NAME={result.file}"
                    )
    return datasets


def _version_notes(results: Sequence[Results]) -> list[str]:
    found: dict[str, list[str]] = {}
    for result in results:
        for version in dict.fromkeys(score.signature.version for score in result.scores):
            found.setdefault(version, []).append(result.file)
    if set(found) == {__version__}:
        return []
    listed = ", ".join(f"{version} ({', '.join(files)})" for version, files in found.items())
    return [f"results come from NLGauge {listed}, and this is {__version__}; numbers may differ: score again with one"]


def _same_signatures(datasets: Mapping[str, Sequence[Results]], notes: list[str]) -> list[str]:
    """Labels of the metrics that all systems have with one signature; different signatures raise an error."""
    made: dict[str, dict[tuple[str, str], dict[tuple[str, str], str]]] = {}
    for dataset, files in datasets.items():
        for result in files:
            for score in result.scores:
                variant = (score.label, str(Signature(score.signature.name, score.signature.options, version="")))
                made.setdefault(score.name, {}).setdefault(variant, {})[dataset, score.system] = result.file
    labels = []
    for name, variants in made.items():
        measured = {key for places in variants.values() for key in places}
        common = [variant for variant, places in variants.items() if len(places) == len(measured)]
        if not common:
            raise DataError(_what_differs(name, variants))
        labels += [label for label, _ in common]
        partial = [label for label, signature in variants if (label, signature) not in common]
        notes += [f"{label} is left out: only some of the systems have it" for label in partial]
    return labels


def _what_differs(name: str, variants: Mapping[tuple[str, str], Mapping[tuple[str, str], str]]) -> str:
    options = {variant: Signature.parse(variant[1]).options for variant in variants}
    keys = dict.fromkeys(key for given in options.values() for key in given)
    differing = [key for key in keys if len({given.get(key) for given in options.values()}) > 1]
    listed = "; ".join(
        ", ".join(f"{key}:{options[variant].get(key, '-')}" for key in differing)
        + f" in {', '.join(dict.fromkeys(places.values()))}"
        for variant, places in variants.items()
    )
    return (
        f"{name} was not measured in the same way: {listed}; a leaderboard needs one signature of a metric for all "
        "systems; score them again with the same options"
    )


def _ranked(dataset: str, scores: list[Score], how: Comparing, notes: list[str]) -> list[Place]:
    ordered = sorted(scores, key=lambda score: (-score.direction.sign * score.value, score.system))
    values = [score.value for score in ordered]
    ranks = [values.index(value) + (values.count(value) + 1) / 2 for value in values]
    clusters: list[int | None] = [None] * len(ordered)
    family = ""
    notes += size_notes(ordered)
    if any(score.items is None and score.left_out is None for score in ordered):
        notes.append(f"{ordered[0].label} on {dataset} has no interval, so its ranks come without a test")
    else:
        pairs = list(combinations(range(len(ordered)), 2))
        p = np.ones((len(ordered), len(ordered)))
        try:
            made = corrected([compare_scores(ordered[i], ordered[j], how) for i, j in pairs], how)
        except DataError as error:
            raise DataError(error.message.removesuffix(f"; {OTHER_WAY}"), option=error.option) from error
        for (i, j), found in zip(pairs, made, strict=True):
            p[i, j] = p[j, i] = found.p_adjusted
        clusters, family = list(cluster(p, SIGNIFICANT)), family_in_words(made)
    placed = zip(ordered, ranks, clusters, strict=True)
    return [Place(dataset, score, rank, cluster, family=family) for score, rank, cluster in placed]


def _with_means(places: list[Place], datasets: list[str], notes: list[str]) -> tuple[Place, ...]:
    """Places with mean ranks, in their order; a system that is not on all datasets has none."""
    if len(datasets) == 1:
        return tuple(places)
    ranks: dict[tuple[str, str], list[float]] = {}
    for place in places:
        ranks.setdefault((place.score.label, place.score.system), []).append(place.rank)
    for (label, system), found in ranks.items():
        if len(found) < len(datasets):
            notes.append(f"'{system}' has {label} on {len(found)} of {len(datasets)} datasets: no mean rank")
    means = {key: sum(found) / len(found) for key, found in ranks.items() if len(found) == len(datasets)}
    return tuple(replace(place, mean_rank=means.get((place.score.label, place.score.system))) for place in places)


def leaderboard_sheet(board: Leaderboard) -> Sheet:
    """The leaderboard for every format: one line per place, or per system with its ranks on several datasets."""
    header, rows = _places(board) if len(board.datasets) == 1 else _by_dataset(board)
    flat = [
        {
            "dataset": place.dataset,
            "metric": place.score.label,
            "system": place.score.system,
            "rank": place.rank,
            "cluster": place.cluster,
            "value": place.score.value,
            **ends(place.score.ci),
            "n": place.score.n,
            "mean_rank": place.mean_rank,
            "higher_is": place.score.higher_is,
            "signature": str(place.score.signature),
        }
        for place in board.places
    ]
    return Sheet(
        header,
        rows,
        list(dict.fromkeys(str(place.score.signature) for place in board.places)),
        flat_frame(flat),
        stamped("leaderboard", {"leaderboard": flat, "notes": list(board.notes)}),
        tuple(one_line(note) for note in (*_families(board), *board.notes)),
    )


def _families(board: Leaderboard) -> list[str]:
    """Which tests decide on clusters, in words."""
    by: dict[str, dict[str, None]] = {}
    for place in board.places:
        where = f" on {place.dataset}" if len(board.datasets) > 1 else ""
        by.setdefault(place.family, {})[place.score.label + where] = None
    return [f"clusters by {', '.join(measured)}: {family}" for family, measured in by.items() if family]


def _places(board: Leaderboard) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            place.score.label,
            f"{place.rank:g}",
            _cell(place.cluster),
            one_line(place.score.system),
            number(place.score.value),
            interval(place.score.ci),
            str(place.score.n),
            place.score.higher_is,
        ]
        for place in board.places
    ]
    return ["metric", "rank", "cluster", "system", "value", "interval", "n", "higher is"], rows


def _by_dataset(board: Leaderboard) -> tuple[list[str], list[list[str]]]:
    titles = [title for dataset in board.datasets for title in (one_line(dataset), "rank", "cluster")]
    found: dict[tuple[str, str], dict[str, Place]] = {}
    for place in board.places:
        found.setdefault((place.score.label, place.score.system), {})[place.dataset] = place
    labels = list(dict.fromkeys(label for label, _ in found))
    means = {key: next(iter(mine.values())).mean_rank for key, mine in found.items()}
    directions = {place.score.label: place.score.higher_is for place in reversed(board.places)}
    rows = []
    for label, system in sorted(
        found, key=lambda key: (labels.index(key[0]), math.inf if means[key] is None else means[key], key[1])
    ):
        row = [label, _cell(means[label, system], ".2f"), one_line(system)]
        for dataset in board.datasets:
            one = found[label, system].get(dataset)
            row += ["-"] * 3 if one is None else [number(one.score.value), f"{one.rank:g}", _cell(one.cluster)]
        rows.append([*row, directions[label]])
    return ["metric", "mean rank", "system", *titles, "higher is"], rows


def _cell(value: float | None, form: str = "") -> str:
    return "-" if value is None else format(value, form)
