"""Writes `docs/papers/huse_coverage.md`: do intervals of HUSE cover, where the truth is known?"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import erf, sqrt
from statistics import NormalDist

import numpy as np

from nlgauge.arrays import Array
from nlgauge.engine.files import write_text
from nlgauge.stats.kernels.neighbours import leave_one_out, resample_errors, resample_halves, resample_items
from nlgauge.studies.huse.data import HuseData
from nlgauge.studies.huse.paired import compare_systems
from nlgauge.studies.huse.tradeoff import Tradeoff
from papers.pages import DOCS, table

OUT = DOCS / "huse_coverage.md"
SCORES = ("HUSE", "HUSE-Q", "HUSE-D")
TRUTHS = (0.2, 0.5, 0.8, 1.0)
CONTEXTS = (100, 20)
REPETITIONS = {200: 1000, 2000: 300}
RESAMPLES = 500
RECOMMENDED = "halves"
CONFIDENCE = 0.95

WAYS = {
    "errors, normal": "the score and 1.96 standard errors of the errors made, as if these were independent",
    "errors": "percentiles of `resample_errors`: errors drawn with replacement within each class",
    "errors, all": "the same, drawn from both classes together",
    "items": "percentiles of `resample_items`: items drawn with replacement, with new neighbours",
    "items, moved": "the same, moved so that their mean is the score",
    "items, mirrored": "the same, mirrored at the score (the basic bootstrap), which takes off their bias",
    "halves": "percentiles of `resample_halves`: half of the items of each class, moved as above",
    "halves, all": "the same, half of all items",
}

INTRODUCTION = """# Which interval for HUSE?

Hashimoto et al. (2019) print HUSE without intervals. Here are eight ways to make one, tried where the truth is known
(others that a pilot tried are named at the end). Items are points in the plane, half of them human, half the model's,
both normal with unit variance, the means a distance apart along the diagonal. The best that anybody could do is known
in closed form: L\\* = 2 Φ(-distance/2), and the same with the distance along one axis for the judgment alone. The
expected score is the mean over all repetitions. Intervals are to hold 95 %. Written by
`python -m papers.huse_coverage` (a quarter of an hour).
"""

SHARED = """## Items that share a context

As above with n = 200 and L\\* = .5, but items of a context, as many human as the model's, share half of their variance.
Intervals from halves of the items, or from halves of the contexts (`groups`).
"""


PAIRED = {(0.5, 0.5): 300, (0.8, 0.8): 300, (1.0, 1.0): 300, (0.5, 0.7): 150, (0.5, 0.9): 150}
PAIRED_INTRODUCTION = """## Paired tests of two systems

Two systems on the same 100 contexts with the same references, as `nlgauge study tradeoff` tests them: the same halves
of the contexts are drawn for both, and a difference is divided by the standard deviation of the differences between
halves. How often the tests are significant at 5 %, in per cent: at most 5 where both are alike (the first lines), as
often as possible where they differ. A share of 5 % has a standard error of 1.3 points with 300 repetitions.
"""


@dataclass(frozen=True)
class Coverage:
    """How the intervals of one way did on one score."""

    score: str
    items: int
    truth: float
    way: str
    mean: float
    deviation: float
    width: float
    covers_expected: float
    covers_truth: float


def measure(
    items: int, truth: float, *, repetitions: int, resamples: int = RESAMPLES, contexts: int | None = None
) -> list[Coverage]:
    """Score samples of so many items, make every interval, and count how many hold the truth.

    With `contexts`, items of one context share half of their variance, and the ways are halves of items and halves of
    contexts.
    """
    distance = -2 * NormalDist().inv_cdf(truth / 2)
    truths = _scores(truth, _overlap(distance / sqrt(2)))
    found, intervals = [], defaultdict(list)
    for number in range(repetitions):
        rng = np.random.default_rng([items, round(1000 * truth), number])
        features, is_model, groups = _sample(items, distance, contexts, rng)
        maps = [features, features[:, 1:]]
        errors = [leave_one_out(one, is_model) for one in maps]
        scores = _scores(*(2 * one.error for one in errors))
        found.append(scores)
        if groups is not None:
            for way, labels in {"halves": None, "halves of contexts": groups}.items():
                halves = resample_halves(maps, is_model, groups=labels, resamples=resamples, seed=number)
                intervals[way].append(_percentiles(halves))
            continue
        spread = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * _standard_errors([one.wrong for one in errors], is_model)
        intervals["errors, normal"].append((scores - spread, scores + spread))
        intervals["errors"].append(_percentiles(resample_errors(errors, resamples=resamples, seed=number)))
        drawn_errors = resample_errors(errors, by_class=False, resamples=resamples, seed=number)
        intervals["errors, all"].append(_percentiles(drawn_errors))
        drawn_items = resample_items(maps, is_model, resamples=resamples, seed=number)
        low, high = _percentiles(drawn_items)
        off = _scores(*drawn_items.mean(axis=1)) - scores
        intervals["items"].append((low, high))
        intervals["items, moved"].append((low - off, high - off))
        intervals["items, mirrored"].append((2 * scores - high, 2 * scores - low))
        for way, by_class in {"halves": True, "halves, all": False}.items():
            halves = resample_halves(maps, is_model, by_class=by_class, resamples=resamples, seed=number)
            intervals[way].append(_percentiles(halves))
    return list(_counted(items, truths, np.array(found), intervals))


def _sample(
    items: int, distance: float, contexts: int | None, rng: np.random.Generator
) -> tuple[Array, Array, Array | None]:
    """Points, whether they are the model's, and their contexts; a context has as many human as model items."""
    points = rng.normal(size=(items, 2))
    is_model = np.arange(items) >= items // 2
    groups = None
    if contexts is not None:
        groups = np.arange(items) % (items // 2) % contexts
        points = (points + rng.normal(size=(contexts, 2))[groups]) / sqrt(2)
    points[is_model] += distance / sqrt(2)
    return points, is_model, groups


def _overlap(distance: float) -> float:
    """L* of two normal distributions of unit variance that far apart."""
    return 1 - erf(distance / 2 / sqrt(2))


def _scores(huse: float | Array, huse_q: float | Array) -> Array:
    """HUSE, HUSE-Q and HUSE-D (equation 9)."""
    return np.array([huse, huse_q, 1 + huse - huse_q])


def _percentiles(drawn: Array) -> tuple[Array, Array]:
    low, high = np.quantile(_scores(*drawn), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=1)
    return low, high


def _standard_errors(wrong: list[Array], is_model: Array) -> Array:
    terms = 2 * _scores(*(one.astype(np.float64) for one in wrong))
    squares = sum(terms[:, side].var(axis=1) * np.count_nonzero(side) for side in (is_model, ~is_model))
    errors: Array = np.sqrt(squares) / len(is_model)
    return errors


def _counted(
    items: int, truths: Array, found: Array, intervals: dict[str, list[tuple[Array, Array]]]
) -> Iterator[Coverage]:
    means, deviations = found.mean(axis=0), found.std(axis=0)
    for way, pairs in intervals.items():
        low, high = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
        expected, true = (((low <= value) & (value <= high)).mean(axis=0) for value in (means, truths))
        widths = (high - low).mean(axis=0)
        for i, score in enumerate(SCORES):
            numbers = (truths, means, deviations, widths, expected, true)
            truth, mean, deviation, width, hit_expected, hit_truth = (float(values[i]) for values in numbers)
            yield Coverage(score, items, truth, way, mean, deviation, width, hit_expected, hit_truth)


def main() -> int:
    """Measure everything and write the page."""
    rows = []
    for items, repetitions in REPETITIONS.items():
        for truth in TRUTHS:
            rows += measure(items, truth, repetitions=repetitions)
            print(f"papers: {items} items, L* = {truth}", file=sys.stderr, flush=True)
    shared = [
        (contexts, row)
        for contexts in CONTEXTS
        for row in measure(200, 0.5, repetitions=REPETITIONS[200], contexts=contexts)
    ]
    parts = [INTRODUCTION, "\n".join(f"- *{way}*: {text}" for way, text in WAYS.items()), ""]
    parts += [_estimates(rows), *(_part(score, rows) for score in SCORES), SHARED, _shared(shared), "", _paired_part()]
    write_text(OUT, "\n".join([*parts, CLOSING]))
    print(f"papers: wrote {OUT}", file=sys.stderr)
    return 0


def _estimates(rows: list[Coverage]) -> str:
    header = ["score", "n", "L\\*", "mean", "bias", "deviation", "deviation by *errors*", "by *halves*"]
    widths = {(row.score, row.items, row.truth, row.way): row.width for row in rows}
    lines = []
    for row in (row for score in SCORES for row in rows if row.way == "halves" and row.score == score):
        numbers = (row.truth, row.mean, row.mean - row.truth)
        spreads = (widths[row.score, row.items, row.truth, way] / 3.92 for way in ("errors", "halves"))
        cells = [row.score, f"{row.items:,}", *(f"{v:.3f}" for v in numbers), f"{row.deviation:.4f}"]
        lines.append([*cells, *(f"{v:.4f}" for v in spreads)])
    repetitions = " and ".join(f"{count:,} with n = {items:,}" for items, count in REPETITIONS.items())
    return (
        f"## The scores themselves\n\nRepetitions: {repetitions}; {RESAMPLES} resamples each. The deviation is that of "
        "the score between repetitions; beside it, what two ways take it for (the width of their intervals / 3.92).\n\n"
        f"{table(header, lines)}\n"
    )


def _part(score: str, rows: list[Coverage]) -> str:
    header = ["n", "L\\*", "way", "holds the expected score", "holds L\\*", "width"]
    lines = [[f"{row.items:,}", f"{row.truth:.3f}", *_cells(row)] for row in rows if row.score == score]
    return f"## Coverage of {score}\n\n{table(header, lines)}\n"


def _shared(rows: list[tuple[int, Coverage]]) -> str:
    header = ["contexts", "score", "way", "holds the expected score", "holds L\\*", "width"]
    return table(header, [[str(contexts), row.score, *_cells(row)] for contexts, row in rows])


def _cells(row: Coverage) -> list[str]:
    """The way, the shares of intervals that hold the expected score and the truth, in per cent, and the mean width."""
    shares = (f"{100 * share:.1f}" for share in (row.covers_expected, row.covers_truth))
    return [f"**{row.way}**" if row.way == RECOMMENDED else row.way, *shares, f"{row.width:.3f}"]


@dataclass(frozen=True)
class Rejections:
    """How often the paired tests of two systems are significant at 5 %, for each score alone and for any of them."""

    truths: tuple[float, float]
    repetitions: int
    shares: dict[str, float]
    any: float


def paired_tests(
    items: int, truths: tuple[float, float], *, repetitions: int, resamples: int = RESAMPLES
) -> Rejections:
    """Two systems on the same contexts and references, whose best possible scores are these.

    Texts of a context share half of their variance; the second system's log p is on another scale.
    """
    study = Tradeoff(resamples=resamples)
    distances = [-2 * NormalDist().inv_cdf(truth / 2) / sqrt(2) for truth in truths]
    contexts = items // 2
    alone: list[list[bool]] = []
    family: list[list[bool]] = []
    for number in range(repetitions):
        rng = np.random.default_rng([items, *(round(1000 * truth) for truth in truths), number])
        shared, references = rng.normal(size=(contexts, 2)), rng.normal(size=(contexts, 2))
        systems = []
        for place, distance in enumerate(distances):
            own = (shared + rng.normal(size=(contexts, 2))) / sqrt(2) + distance
            under = (references[:, 0] + rng.normal(size=contexts)) / sqrt(2)
            rated = (shared + np.stack([under, references[:, 1]], axis=1)) / sqrt(2)
            points = np.concatenate([own, rated])
            names = [f"c{i}" for i in range(contexts)]
            systems.append(
                HuseData(
                    f"system {place}",
                    [f"text {name}" for name in names] + [f"reference {name}" for name in names],
                    np.arange(items) < contexts,
                    points[:, 1],
                    (1 + place) * points[:, 0],
                    np.ones(items),
                    ["a"] * contexts + ["b"] * contexts,
                    names * 2,
                )
            )
        alone.append([row["p"] < 1 - CONFIDENCE for row in compare_systems(systems, study, "none")[0]])
        family.append([row["p"] < 1 - CONFIDENCE for row in compare_systems(systems, study, "max-t")[0]])
    shares = dict(zip(SCORES, np.mean(alone, axis=0).tolist(), strict=True))
    return Rejections(truths, repetitions, shares, float(np.any(family, axis=1).mean()))


def _paired_part() -> str:
    header = ["L\\* of the two", "repetitions", *(f"{score} alone" for score in SCORES), "any of them, max-T"]
    lines = []
    for truths, repetitions in PAIRED.items():
        found = paired_tests(200, truths, repetitions=repetitions)
        cells = [" and ".join(map(str, truths)), str(repetitions)]
        lines.append([*cells, *(f"{100 * found.shares[score]:.1f}" for score in SCORES), f"{100 * found.any:.1f}"])
        print(f"papers: paired tests, {truths}", file=sys.stderr, flush=True)
    return f"{PAIRED_INTRODUCTION}\n{table(header, lines)}\n"


CLOSING = """## How to read this

A share has a standard error of its own: .7 points at 95 % with 1,000 repetitions, 1.3 with 300.

- **Take `resample_halves`.** Of the ways in these tables, its intervals hold the expected score (what HUSE with this k
  and n estimates) most nearly as often as they should: 95 to 99 % for all three scores. They are too wide rather than
  too narrow, by 5 % where human and model items are easy to tell apart, by up to 30 % where they are not.
- L\\* itself is another matter, since HUSE is biased: sixteen neighbours vote less well than the best discriminator
  would, so HUSE is too high, by .01 to .08 here, by less where L\\* is 1. Ten times as many items hardly help while k
  stays at 16. With 200 items, the bias is smaller than the deviation, and halves hold L\\* 93 to 99 % of the time.
  With 2,000 items it is larger at L\\* = .5 and .8, where they hold L\\* 81 and 60 % of the time (94 % at .2, 98 % at
  1). Read HUSE as an upper bound, as the paper does. Most of the bias cancels in HUSE-D, whose halves hold the truth 95
  to 99 % of the time.
- Errors are not independent, since neighbours share their voters: the score deviates by up to 1.6 times as much as
  `resample_errors` or a standard error believes, and what should be 95 % is 76 to 94 %.
- `resample_items` adds a bias of its own: with copies among sixteen neighbours, as good as eight different ones vote.
  Its percentiles lie too high and are too wide. Moved, they are much like halves, but wider where items are easy to
  tell apart. Mirrored, they lose about as much bias as HUSE has, and hold L\\* best where that is large (95 and 82 % at
  L\\* = .5 and .8 with 2,000 items), but the expected score only 81 to 93 % of the time.
- Drawing within classes or from all items makes no difference that shows. Within classes is what the design says.
- Where a context has one item of each side, the two vary together, and halves of contexts are narrower than halves of
  items, and closer to 95 %. With ten items per context, the two are alike here. Draw contexts where they are known.
- Paired tests of two systems hold their level: alike systems differ 1 to 3 % of the time, with all three scores as one
  family 1 to 2 %. They lose some power by that, as halves are too wide rather than too narrow.

The choice was made in a pilot with other random samples (300 to 500 of 200 items, 100 of 2,000), which also tried parts
other than a half (.25, .33, .4, .75; their spread scaled by the root of part / (1 - part)), halves with normal limits,
limits moved or widened by the bias of `resample_items`. Parts of .33 and .4 came somewhat nearer to 95 % for the
expected score of 200 items (HUSE: 95 to 98 %, halves 95 to 99 %) and held L\\* less often; .75 was wider; .25 leaves
too few items. A half needs no scaling and leaves the most items among those that did well.
"""

if __name__ == "__main__":
    sys.exit(main())
