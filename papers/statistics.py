"""Writes `docs/statistics.md`: how often intervals cover and tests reject, where the truth is known.

    python -m papers.statistics [TIMES]

Cells that are done are kept in `build/papers/statistics.jsonl`, under the code of `nlgauge.stats` that made them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from statistics import NormalDist

import numpy as np

import nlgauge.stats
from nlgauge.arrays import Array
from nlgauge.data.tables import ResponseSets
from nlgauge.engine.files import write_text
from nlgauge.scoring.comparison import compare
from nlgauge.scoring.scoring import score
from nlgauge.stats.clusters import cluster, compare_metrics
from nlgauge.stats.correlation import bootstrap_intervals
from nlgauge.stats.families import holm, paired_max_t
from nlgauge.stats.means import TOO_SKEWED, mean_interval, mean_of
from nlgauge.stats.oca import optimal_accuracy_test
from nlgauge.stats.permutation import paired_permutation, sign_tails, unpaired_permutation
from nlgauge.stats.power import smallest_difference
from nlgauge.stats.units import Units
from papers import statistics_ratings, statistics_sizes, statistics_stories
from papers.coverage import ERRORS, Cell, Generator, covered, share_covered
from papers.pages import table

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs" / "statistics.md"
KEPT = ROOT / "build" / "papers" / "statistics.jsonl"
TIMES = 1000
SIZES = (6, 10, 20, 45, 200)

Draw = Callable[[Generator, tuple[int, ...]], Array]
_ZIPF = np.arange(1, 100) ** -2.0 / (np.pi**2 / 6)
_ZIPF_MEAN = float((_ZIPF * np.arange(1, 100)).sum() + 100 * (1 - _ZIPF.sum()))
POPULATIONS: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, shape: rng.standard_normal(shape), 0.0),
    "beta(.5, 2)": (lambda rng, shape: rng.beta(0.5, 2, shape), 0.2),
    "beta(5, 1)": (lambda rng, shape: rng.beta(5, 1, shape), 5 / 6),
    "lognormal(.5)": (lambda rng, shape: rng.lognormal(0, 0.5, shape), float(np.exp(0.125))),
    "lognormal(1)": (lambda rng, shape: rng.lognormal(0, 1, shape), float(np.exp(0.5))),
    "Zipf, at most 100": (lambda rng, shape: np.minimum(rng.zipf(2.0, shape), 100).astype(float), _ZIPF_MEAN),
    "share .5": (lambda rng, shape: (rng.random(shape) < 0.5).astype(float), 0.5),
    "share .1": (lambda rng, shape: (rng.random(shape) < 0.1).astype(float), 0.1),
}
DEFAULT_UNITS = Units()


def cells(times: int) -> Iterator[Cell]:
    """All cells of the grid."""
    for name, (draw, truth) in POPULATIONS.items():
        for size in SIZES:
            yield Cell("means", name, f"{size}", covered(size), covers(draw, truth, size, DEFAULT_UNITS), 4 * times)
        for contexts in (10, 20, 45):
            yield Cell("contexts", name, f"{contexts}", covered(contexts), covers_shared(name, contexts), 4 * times)
        if not name.startswith("share"):
            for size in SIZES:
                yield Cell("skewed", name, f"{size}", (0.0, 1.0), warns(draw, size), times)
    for runs in (3, 5, 10):
        for contexts in (10, 20, 45):
            made = covers_runs(contexts, runs)
            yield Cell("runs", f"{runs} runs", f"{contexts}", covered(contexts), made, 2 * times)
    for name in ("normal", "lognormal(.5)", "beta(.5, 2)"):
        draw, _ = POPULATIONS[name]
        for size in SIZES[1:]:
            yield Cell("paired", name, f"{size}", ERRORS, rejects_paired(draw, size, None), 4 * times)
        for contexts in (10, 20):
            made = rejects_paired(draw, contexts, 6)
            yield Cell("paired", f"{name}, contexts of 6", f"{contexts}", ERRORS, made, 4 * times)
        for one, two in ((10, 10), (10, 40), (45, 45), (20, 200)):
            for spread in (1.0, 3.0) if name == "normal" else (1.0,):
                row = name if spread == 1 else f"{name}, first spread three times"
                made = rejects_unpaired(draw, one, two, spread)
                yield Cell("unpaired", row, f"{one} and {two}", ERRORS, made, 2 * times)
    for tests in (3, 10):
        for units in (10, 45):
            made = family_rejects(tests, units)
            yield Cell("families", f"max-T, {tests} tests", f"{units}", ERRORS, made, 4 * times)
    for metrics in (3, 6, 12):
        yield Cell("clusters", f"{metrics} metrics", "60", ERRORS, splits(metrics), times)
    for systems in (3, 10, 30):
        for units in (20, 60):
            row = f"{systems} systems"
            yield Cell("systems", row, f"{units}", ERRORS, splits_systems(systems, units), times)
    for metric in ("distinct", "entropy", "self-bleu", "vendi", "ead"):
        for sizes in ((3, 5), (3, 10), (5, 10)):
            column = f"{sizes[0]} and {sizes[1]}"
            yield Cell("sizes", metric, column, ERRORS, rejects_sizes(metric, sizes), times // 2)
    yield from statistics_sizes.cells(times)
    for kind in ("pearson", "spearman"):
        for rho in (0.0, 0.5, 0.9):
            for size in (10, 20, 45):
                made = covers_correlation(kind, rho, size)
                yield Cell("correlations", f"{kind}, {rho:g}", f"{size}", covered(size), made, 2 * times)
                if rho < 0.9:
                    row, made = f"{kind}, {rho:g}, contexts of 6", covers_correlation(kind, rho, size, 6)
                    yield Cell("correlations", row, f"{size}", covered(size), made, times)
    for distance in (0.0, 1.0, 2.0):
        for size in (20, 45, 200):
            row = f"true accuracy {NormalDist().cdf(distance / 2):.2f}"
            yield Cell("oca", row, f"{size}", (0.93, 1.0), covers_accuracy(distance, size), times // 2)
    yield from statistics_ratings.cells(times)
    yield from statistics_stories.cells(times)
    for name in ("normal", "lognormal(.5)"):
        for size in (20, 45, 200):
            for alpha in (0.05, 0.005):
                row = f"{name}, level {alpha:g}"
                yield Cell("power", row, f"{size}", (0.75, 0.85), promised(name, size, alpha), max(20, times // 2))


def covers(draw: Draw, truth: float, size: int, units: Units) -> Callable[[Generator, int], float]:
    """Whether the interval of a mean covers."""

    def once(rng: Generator, _: int) -> float:
        return share_covered(mean_interval(draw(rng, (size,)), 0.95, units), truth)

    return once


def warns(draw: Draw, size: int) -> Callable[[Generator, int], float]:
    """Whether commands would warn that the values are too skewed for so few of them."""
    return lambda rng, _: float(abs(mean_of(draw(rng, (size,))).skewness) > TOO_SKEWED)


def covers_shared(name: str, contexts: int) -> Callable[[Generator, int], float]:
    """The same where contexts have 1 to 11 sets and share half of the variance."""
    draw, truth = POPULATIONS[name]

    def once(rng: Generator, _: int) -> float:
        of = np.arange(contexts).repeat(rng.integers(1, 12, contexts))
        shared = draw(rng, (contexts,))[of]
        values = np.where(rng.random(len(of)) < 0.5**0.5, shared, draw(rng, (len(of),)))
        return share_covered(mean_interval(values, 0.95, Units(of, name="context")), truth)

    return once


def covers_runs(contexts: int, runs: int) -> Callable[[Generator, int], float]:
    """The same where every run has every context; contexts, runs and the rest have variances 1, .3 and .3."""
    of, run = np.divmod(np.arange(contexts * runs), runs)

    def once(rng: Generator, _: int) -> float:
        levels, of_runs = rng.normal(size=contexts), 0.3**0.5 * rng.normal(size=runs)
        values = levels[of] + of_runs[run] + 0.3**0.5 * rng.normal(size=len(of))
        return share_covered(mean_interval(values, 0.95, Units(of, run, "context-x-run")), 0.0)

    return once


def rejects_paired(draw: Draw, units: int, each: int | None) -> Callable[[Generator, int], float]:
    """Whether the paired test finds a difference where there is none."""

    def once(rng: Generator, seed: int) -> float:
        values = draw(rng, (2, units)) - draw(rng, (2, units))
        one, two = values if each is None else values.repeat(each, axis=1) + draw(rng, (2, units * each))
        groups = None if each is None else np.arange(units).repeat(each)
        return float(paired_permutation(one, two, groups=groups, resamples=1000, seed=seed) < 0.05)

    return once


def rejects_unpaired(draw: Draw, first: int, second: int, spread: float) -> Callable[[Generator, int], float]:
    """Whether the unpaired test finds a difference where there is none."""

    def once(rng: Generator, seed: int) -> float:
        one, two = spread * draw(rng, (first,)), draw(rng, (second,))
        return float(unpaired_permutation(one, two, resamples=1000, seed=seed) < 0.05)

    return once


def family_rejects(tests: int, units: int) -> Callable[[Generator, int], float]:
    """Whether any of several correlated tests is significant where nothing differs."""

    def once(rng: Generator, seed: int) -> float:
        values = 0.9 * rng.normal(size=(units, 1)) + 0.44 * rng.normal(size=(units, tests))
        return float((paired_max_t(values, resamples=1000, seed=seed).p < 0.05).any())

    return once


def splits(metrics: int) -> Callable[[Generator, int], float]:
    """Whether equally good metrics make several clusters."""

    def once(rng: Generator, seed: int) -> float:
        truth, common = rng.normal(size=60), rng.normal(size=60)
        values = {f"m{i}": 0.5 * truth + common + rng.normal(size=60) for i in range(metrics)}
        return float(max(compare_metrics(values, truth, permutations=400, seed=seed).clusters) > 1)

    return once


def splits_systems(systems: int, units: int) -> Callable[[Generator, int], float]:
    """Whether equally good systems make several clusters of a leaderboard."""

    def once(rng: Generator, seed: int) -> float:
        values = rng.normal(size=(units, 1)) + rng.normal(size=(units, systems))
        pairs = np.array(list(combinations(range(systems), 2)))
        p = paired_max_t(values[:, pairs[:, 0]] - values[:, pairs[:, 1]], resamples=1000, seed=seed).p
        table = np.ones((systems, systems))
        table[pairs[:, 0], pairs[:, 1]] = table[pairs[:, 1], pairs[:, 0]] = p
        order = np.argsort(-values.mean(axis=0))
        return float(max(cluster(table[np.ix_(order, order)], 0.05)) > 1)

    return once


def rejects_sizes(metric: str, sizes: tuple[int, int]) -> Callable[[Generator, int], float]:
    """Whether one generator that answers 50 contexts with other numbers of responses is found to differ."""
    words = np.array([f"word{number}" for number in range(300)])
    weights = 1 / np.arange(1, 301)
    pool_rng = np.random.default_rng(1)
    pool = [
        " ".join(pool_rng.choice(words, length, p=weights / weights.sum())) for length in pool_rng.integers(4, 10, 1000)
    ]
    contexts = [f"context {number}" for number in range(50)]

    def once(rng: Generator, seed: int) -> float:
        tables = [
            ResponseSets.of(
                [[pool[place] for place in rng.integers(0, len(pool), size)] for _ in contexts],
                contexts=contexts,
                ids=contexts,
                systems=[str(size)] * len(contexts),
            )
            for size in sizes
        ]
        first, second = score(ResponseSets.concat(tables), [metric], confidence=True)
        return float(compare(first, second, seed=seed).p < 0.05)

    return once


def covers_correlation(kind: str, rho: float, size: int, each: int = 1) -> Callable[[Generator, int], float]:
    """Whether the interval of a correlation of normal values covers; contexts of several items share half of it."""
    truth = rho if kind == "pearson" else 6 / np.pi * np.arcsin(rho / 2)
    groups = None if each == 1 else np.arange(size).repeat(each)

    def drawn(rng: Generator) -> Array:
        values = rng.normal(size=size)
        return values if groups is None else (values[groups] + rng.normal(size=len(groups))) / 2**0.5

    def once(rng: Generator, seed: int) -> float:
        x = drawn(rng)
        y = rho * x + (1 - rho**2) ** 0.5 * drawn(rng)
        how = {"groups": groups, "resamples": 400, "seed": seed}
        low, high = bootstrap_intervals(y[None], x, kind, **how)[0]  # type: ignore[arg-type]
        return float(low <= truth <= high)

    return once


def covers_accuracy(distance: float, size: int) -> Callable[[Generator, int], float]:
    """Whether the interval of OCA on new data covers the accuracy of the best threshold."""
    labels = np.arange(size) % 2.0

    def once(rng: Generator, seed: int) -> float:
        found = optimal_accuracy_test(rng.normal(size=size) + distance * labels, labels, seed=seed)
        return float(found.ci[0] <= NormalDist().cdf(distance / 2) <= found.ci[1])

    return once


def promised(name: str, size: int, alpha: float) -> Callable[[Generator, int], float]:
    """The power at the difference that is promised from a sample."""
    draw, truth = POPULATIONS[name]

    def once(rng: Generator, seed: int) -> float:
        found = smallest_difference(draw(rng, (size,)) - truth, np.ones(size), alpha, seed=seed)
        again = draw(rng, (200, size)) - truth + found
        return float(np.mean(sign_tails(np.abs(again), np.abs(again.sum(axis=1))) <= alpha))

    return once


def measured(wanted: Sequence[Cell]) -> dict[tuple[str, str, str], tuple[float, int]]:
    """The share of each cell, and how many times it was tried; cells that are done are not done again."""
    code = hashlib.sha256()
    for file in sorted(Path(str(nlgauge.stats.__file__)).parent.rglob("*.py")):
        code.update(file.read_bytes())
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []
    done = {tuple(line["cell"]): (line["share"], line["times"]) for line in lines if line["code"] == code.hexdigest()}
    for cell in wanted:
        key = (cell.table, cell.row, cell.column)
        if key in done and done[key][1] >= cell.times:
            continue
        print("statistics:", *key, file=sys.stderr, flush=True)
        found = [
            cell.once(np.random.default_rng([number, *"/".join(key).encode()]), number) for number in range(cell.times)
        ]
        done[key] = (float(np.mean(found)), cell.times)
        line = {"cell": key, "share": done[key][0], "times": cell.times, "code": code.hexdigest()}
        with KEPT.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
    return {(one.table, one.row, one.column): done[one.table, one.row, one.column] for one in wanted}


def comparison_of_corrections(times: int) -> list[list[str]]:
    """Family-wise error and power of max-T and of Holm's correction, on ten correlated tests of 45 units."""
    rows = []
    for shift, title in ((0.0, "any of ten is significant, none differs"), (0.5, "tests significant, all differ")):
        shares = []
        for seed in range(times // 2):
            rng = np.random.default_rng(seed)
            values = 0.9 * rng.normal(size=(45, 1)) + 0.44 * rng.normal(size=(45, 10)) + shift
            plain = [paired_permutation(np.zeros(45), one, resamples=1000, seed=seed) for one in values.T]
            found = [paired_max_t(values, resamples=1000, seed=seed).p < 0.05, holm(np.array(plain)) < 0.05]
            shares.append([one.mean() if shift else float(one.any()) for one in found])
        rows.append([title, *(f"{100 * share:.1f}" for share in np.mean(shares, axis=0))])
    return rows


TEXTS = {
    "means": "Coverage (%) of 95 % intervals of a mean over independent values. Shares have Wilson's interval, others "
    "Hall's transformation of Student's t, with the skewness of the sample times 1.3 (chosen on these populations). "
    "Columns: number of values.",
    "runs": "Coverage (%) of 95 % intervals of a mean over contexts that every run has answered; contexts, runs and "
    "the rest have variances 1, .3 and .3. Columns: number of contexts.",
    "contexts": "The same over sets that share contexts: 1 to 11 sets each, half of the variance shared. Columns: "
    "number of contexts.",
    "skewed": "How often (%) commands and reports warn that the values of a metric are so skewed that so few of them "
    "may not show their tail. A sample that has no large value by chance cannot show that there are some. Columns: "
    "number of values.",
    "paired": "Type I error (%) of the paired permutation test at .05; where contexts have 6 sets, whole contexts are "
    "swapped. Columns: number of units.",
    "unpaired": "Type I error (%) of the studentised unpaired permutation test at .05. Columns: sizes of the samples.",
    "families": "Family-wise error (%) of step-down max-T over correlated tests. Columns: number of units.",
    "clusters": "How often (%) equally good metrics are split into clusters; 60 items.",
    "systems": "How often (%) equally good systems are split into clusters of a leaderboard; all pairs are one family. "
    "Columns: number of contexts.",
    "sizes": "Type I error (%) where one generator has answered 50 contexts with other numbers of responses per set, "
    "compared at the common size; words of a text are drawn independently of each other. Columns: responses per set.",
    **statistics_sizes.TEXTS,
    "correlations": "Coverage (%) of 95 % intervals of correlations of normal values: Student's t on Fisher's scale, "
    "with the bootstrap's error. Contexts of 6 items share half of the variance, and are drawn whole. Columns: number "
    "of items, or of contexts.",
    "oca": "Coverage (%) of 95 % intervals of OCA on new data (`oca_corrected`). Columns: number of sets.",
    **statistics_ratings.TEXTS,
    **statistics_stories.TEXTS,
    "power": "Power (%) at the difference that is promised to be found in 80 %. Columns: number of units.",
}
TITLES = {
    "means": "Means", "contexts": "Means of sets that share contexts",
    "skewed": "Warnings of skewed values", "runs": "Means over several runs",
    "paired": "Paired tests", "unpaired": "Unpaired tests", "families": "Families of tests",
    "clusters": "Clusters of metrics", "systems": "Clusters of systems", "sizes": "Systems of different sizes",
    **statistics_sizes.TITLES,
    "correlations": "Correlations", "oca": "Optimal classification accuracy", "power": "Power",
    **statistics_ratings.TITLES, **statistics_stories.TITLES,
}  # fmt: skip
INTRODUCTION = """# Statistics: what is promised, and how often it holds

These intervals and tests were tried where the truth is known. **Bold** cells are outside of the limits: coverage of 93
to 98 % (91 to 99 % below 20 units; more is accepted for OCA, for ratings and for systems), errors of at most 6 %, power
of 75 to 85 %, allowing for two standard errors of the simulation. Written by `python -m papers.statistics`, which is a
part of `make papers`; `make test` has a short version.

The unit of an interval or a test is what is independent: the context where several sets share one, crossed with runs
where a system has several, else the set or the item. `--unit` names another, and every signature says which it was.
"""
END = """## Wider than promised

Some intervals cover in more than 98 %, which costs power and nothing else:

- OCA where a metric is useless: accuracy on new data is never said to be below that of the larger class, so that the
  interval can miss on one side only.
- Alpha, kappa and intraclass correlations with 3 raters: the errors of items and of raters are added, and both contain
  what neither explains. With the larger of the two alone, intervals of 5 raters cover too seldom: in 87 to 90 % for
  alpha.
- Spearman's correlation of 10 items, or of 5 systems: ranks of so few take few values.

## What is not covered

- Very skewed values: some hundred values of a Zipf distribution, or fewer than 20 of a lognormal one, do not show their
  own tail, and no interval that was tried covers there (Student's t and bootstrap-t less than this one). Commands and
  reports warn where a sample shows its skewness, as counted above.
- Systems of different sizes are compared by means over subsets on one side and single values on the other, which
  cannot be exchanged exactly. That shows where values are very skewed, as those of Self-BLEU where texts seldom share
  a phrase because their words are independent: differences are found too often there, and commands warn of such values.
  Texts that language models wrote have no such skewness, and errors within the limits.
- Spearman's correlation over a dozen systems whose means have errors larger than their differences: ranks change so
  often that 20 contexts do not show how much.
- Values that are all the same and are no shares have no interval: nothing shows their error.
- Intervals of measures of a whole corpus (`over=corpus`) do not see how runs differ: their groups hold contexts.
- Systems whose texts differ in length are compared as they are: the length of texts is part of what a system writes.
  `nlgauge study length-bias` shows how much a measure changes with length.
"""


def page(wanted: Sequence[Cell], found: dict[tuple[str, str, str], tuple[float, int]], times: int) -> str:
    """The page, all numbers from the cells."""
    parts = [INTRODUCTION]
    for key, title in TITLES.items():
        mine = [cell for cell in wanted if cell.table == key]
        header = list(dict.fromkeys(cell.column for cell in mine))
        rows = []
        for row in dict.fromkeys(cell.row for cell in mine):
            known = {cell.column: cell for cell in mine if cell.row == row}
            rows.append([row, *(shown(known[one], found) if one in known else "" for one in header)])
        parts += [f"## {title}\n", TEXTS[key] + "\n", table(["", *header], rows) + "\n"]
        if key == "families":
            corrections = comparison_of_corrections(times)
            parts += ["Ten correlated tests of 45 units (%):\n", table(["", "max-T", "Holm"], corrections) + "\n"]
    return "\n".join([*parts, END])


def shown(cell: Cell, found: dict[tuple[str, str, str], tuple[float, int]]) -> str:
    """A share in percent, bold where it is outside of its limits."""
    share, times = found[cell.table, cell.row, cell.column]
    slack = 2 * (0.05 * 0.95 / times) ** 0.5 if cell.table != "power" else 0.0
    text = f"{100 * share:.1f}"
    return text if cell.limits[0] - slack <= share <= cell.limits[1] + slack else f"**{text}**"


def main(times: int) -> None:
    """Measure what is missing, and write the page."""
    wanted = list(cells(times))
    write_text(OUT, page(wanted, measured(wanted), times))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TIMES)
