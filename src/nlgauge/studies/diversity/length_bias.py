"""The length-bias study: do distinct and EAD stay the same when texts get longer (paper 2, section 2, Figures 1 and 2)?

A fair measure of diversity has a slope of zero on the designated distribution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import check_that, option
from nlgauge.data.tables import ResponseSets
from nlgauge.drawing import alt, colours, inline
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.metrics.batch import JACKKNIFE_GROUPS
from nlgauge.metrics.diversity.ngram import ExpectationAdjustedDistinct
from nlgauge.metrics.orders import Orders
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, columns, pair, with_interval
from nlgauge.studies.diversity.cut_lengths import (
    FEWEST_LENGTHS,
    FEWEST_TEXTS,
    CutSlopes,
    cut_slopes,
    in_percent,
    single_texts,
)
from nlgauge.studies.diversity.equal_lengths import SCORES, EqualSets, TextPool
from nlgauge.studies.loading import check_inputs, load_sets, part_name, parts_of, task_names
from nlgauge.studies.panels import points_of
from nlgauge.studies.sentences import listed
from nlgauge.studies.tasks import Seed, TaskOptions

NOTABLE_CHANGE = 0.05
SAME = 0.01


@dataclass(frozen=True, kw_only=True)
class LengthBias(Seed, TaskOptions, Study):
    """Length bias of distinct and EAD: scores of sets of texts of one length, against that length, with slopes.

    Of every length that `texts_per_set` texts of a corpus have, `sets` sets are drawn, without replacement within a
    set; of response sets, each response is a text. The designated distribution is over as many words as `vocabulary`
    says; without a corpus it is studied alone, over the `lengths`. Even the sign of EAD's slope on a corpus can depend
    on `vocabulary`, `texts_per_set` and the tokeniser: keep them fixed.

    With `cut`, `texts_per_set` of the corpus' texts that are long enough (all, if there are fewer) are also cut to
    common lengths in words, so that nothing but length differs: the longest is the median length, the shortest half of
    it. Slopes of these rows have jackknife intervals over contexts (or texts), and a note says which score changes less
    with length, if that is shown.

    `slope` is of the least-squares line through the mean score of each length, `slope_ci` its t interval over lengths.
    `relative_slope` is the slope divided by `mean`, so that scores of different size compare: -.02 means that one more
    token costs 2 % of the score; `relative_slope_ci` is `slope_ci` divided likewise. `mean` is over lengths, `first`
    and `last` are the mean scores at the `shortest` and the `longest` length.
    """

    name: ClassVar[str] = "length-bias"
    takes: ClassVar[Literal["files", "file", "any", "none"]] = "any"
    files: ClassVar[str] = "Corpora: one text per line, or any table of texts or response sets."
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study length-bias utterances.txt --chart bias.html",
        "nlgauge study length-bias --lengths 5:40",
    )
    layout: ClassVar[tuple[Column, ...]] = (
        *columns("metric", "lengths"),
        *with_interval("slope", digits=5),
        *with_interval("relative_slope", "relative slope", digits=4, beside=True),
        Column("mean", digits=3),
        Column("first", "at shortest", digits=3),
        Column("last", "at longest", digits=3),
    )
    tables: ClassVar[Mapping[str, str]] = {"curves": "Write the mean score and its deviation at each length:"}
    aspect: ClassVar[str] = "form"

    n: int = option(1, "Order of n-grams.", metavar="N", flags=("-n",))
    vocabulary: str | int = option("30522", "As ead's option vocab: a number, bert, or corpus:FILE.", metavar="V")
    texts_per_set: int = option(2000, "Texts in a set, all of one length.", metavar="N")
    sets: int = option(10, "Sets of each length.", metavar="N")
    lengths: Sequence[int] = option(
        (), "Lengths in tokens; default: all usable ones.", metavar="LOW:HIGH", separator=":"
    )
    designated: bool = option(True, "Also the designated distribution.")
    cut: bool = option(True, "Also texts of the corpus, cut to common lengths.")
    tok: str = option("space", "Tokeniser, as in `nlgauge metrics`.", metavar="NAME")
    case: Literal["keep", "lower"] = option("keep", "Keep upper case, or write all in lower case.")
    level: float = option(0.95, "Confidence level of intervals.", metavar="X")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.texts_per_set >= 1, "texts_per_set", self.texts_per_set, "at least 1")
        check_that(self.sets >= 1, "sets", self.sets, "at least 1")
        check_that(0.5 <= self.level < 1, "level", self.level, "at least 0.5 and less than 1, such as 0.95")
        right = len(self.lengths) == 2 and max(self.n, 1) <= self.lengths[0] < self.lengths[1]
        shown = ":".join(map(str, self.lengths))
        check_that(right or not self.lengths, "lengths", shown, f"LOW:HIGH, from {self.n}, the order of n-grams, on")

    def compute(self, data: StudyData) -> Result:
        """Curves and slopes of every corpus and of the designated distribution."""
        corpora: list[tuple[str, ResponseSets | None]] = list(self._corpora(data))
        if not corpora and not (self.lengths and self.designated):
            raise OptionError(
                f"nothing to study; expected a corpus, or {argument('lengths')} for the designated distribution"
            )
        vocabulary = str(self.vocabulary)
        ead = ExpectationAdjustedDistinct(n=Orders(self.n), vocab=vocabulary, tok=self.tok, case=self.case)
        if ead.possible(self.n) < 1:
            raise DataError(
                f"{ead.vocab} has no {self.n}-gram; expected a corpus with texts of at least {self.n} tokens"
            )
        using = EqualSets(ead, self.texts_per_set, self.sets, self.seed)
        misfit = ead.misfit()
        invented: dict[int, Array] = {}
        rows: list[Row] = []
        curves: list[pl.DataFrame] = []
        notes: list[str] = []
        for task, sets in corpora or [("", None)]:
            mine: list[pl.DataFrame] = []
            if sets is None:
                usable = list(range(self.lengths[0], self.lengths[1] + 1))
            else:
                pool = TextPool.of(sets.texts, using, self.lengths)
                usable = pool.lengths_with(self.texts_per_set, task)
                notes += pool.notes(usable, self.texts_per_set, task)
                scores = {length: using.from_corpus(pool.ids_of(length)) for length in usable}
                mine += _curves(task, "corpus", scores, pool.counts)
            if self.designated:
                invented |= {length: using.from_designated(length) for length in usable if length not in invented}
                mine += _curves(task, "designated", {length: invented[length] for length in usable}, {})
            found = [self._row(curve) for curve in mine]
            notes += _advice(task, found, mine)
            if self.cut and sets is not None:
                shortened = self._cut(sets, using)
                notes += _advice_on_cuts(task, shortened)
                if shortened is not None:
                    found += _cut_rows(task, shortened)
                    mine += _cut_curves(task, shortened)
            rows += found
            curves += mine
        notes += [misfit] if misfit and corpora else []
        facts = {"V": f"{ead.possible(self.n):.15g}", "fit": "least-squares", "interval": "t over lengths"}
        facts |= {"cut-interval": f"jackknife-{JACKKNIFE_GROUPS} over contexts"} if self.cut and corpora else {}
        facts |= {"vocab": ead.vocab} if ead.vocab != vocabulary else {}
        facts |= {"tok": ead.tok} if ead.tok != self.tok else {}
        joined = pl.concat(curves)
        return Result(self, rows, tuple(notes), facts, {"curves": joined}, extra={"curves": joined.to_dicts()})

    def _cut(self, sets: ResponseSets, using: EqualSets) -> CutSlopes | None:
        """Slopes on texts that are cut to common lengths."""
        return cut_slopes(
            [single_texts(sets)],
            (using.distinct, using.ead),
            level=self.level,
            lengths=self.lengths,
            at_most=self.texts_per_set,
            seed=self.seed,
        )

    def _corpora(self, data: StudyData) -> Iterator[tuple[str, ResponseSets]]:
        """Names and texts of the corpora; duplicate texts are all kept."""
        if data.reading.set_size:
            raise OptionError(
                f"{argument('set_size')} groups the lines of a file, and this study takes single texts; the size of "
                f"the sets that it draws is {argument('texts_per_set')}"
            )
        check_inputs(data)
        for entry, title in zip(data.entries, task_names(data.entries, self.tasks), strict=True):
            try:
                sets = load_sets(entry, data.reading)
                parts = parts_of(sets.frame, self.by)
            except DataError as error:
                raise error.at(file=title or None) from error
            for part, rows in parts:
                yield part_name(title, part, len(data.entries)), sets if rows is None else sets.select(rows)

    def _row(self, curve: pl.DataFrame) -> Row:
        lengths, means = curve["length"].to_numpy(), curve["mean"].to_numpy()
        slope, interval = fit_slope(lengths, means, self.level)
        mean = float(means.mean())
        return {
            **{key: curve[key][0] for key in ("task", "metric", "source", "score")},
            "slope": slope,
            "slope_ci": pair(interval),
            "relative_slope": slope / mean,
            "relative_slope_ci": pair([end / mean for end in interval]),
            "lengths": len(lengths),
            "shortest": int(lengths[0]),
            "longest": int(lengths[-1]),
            "mean": mean,
            "first": float(means[0]),
            "last": float(means[-1]),
        }

    def sentence(self, result: Result) -> str:
        """Which scores fall or rise with length, by the intervals of their slopes."""
        several = len(result.tasks) > 1
        return " ".join(
            _slopes_in_words([row for row in result.rows if row["task"] == task], task if several else "")
            for task in result.tasks
        )

    def chart(self, result: Result) -> Any:
        """Score against length (Figure 1): means as dots, standard deviations over sets as bars, fits as lines."""
        curves = result.tables["curves"]
        lines = curves["metric"].unique(maintain_order=True).to_list()
        colour = alt.Color(
            "metric:N",
            title=None,
            scale=alt.Scale(domain=lines, range=colours(len(lines))),
            legend=alt.Legend(orient="bottom", columns=4, labelLimit=300, symbolOpacity=1),
        )
        across = alt.X("length:Q", title="tokens in a text", scale=alt.Scale(zero=False), axis=alt.Axis(tickMinStep=1))
        spread = {"low": pl.col("mean") - pl.col("sd"), "high": pl.col("mean") + pl.col("sd")}
        about = [alt.Tooltip("metric:N", title="score"), alt.Tooltip("length:Q", title="tokens")]
        about += [alt.Tooltip("mean:Q", format=".4f"), alt.Tooltip("sd:Q", format=".5f")]
        about += [alt.Tooltip("texts:Q", title="texts of this length", format=",")]
        slope = alt.Tooltip("slope:Q", title="slope per token", format=".5f")
        panels = []
        for task in result.tasks:
            points = curves.filter(pl.col("task") == task).with_columns(**spread).to_dicts()
            ends = [end for row in result.rows if row["task"] == task for end in _fit(result, row)]
            title = task or f"Scores of sets of {self.texts_per_set} texts"
            base = alt.Chart(inline(points), title=title, width=380, height=260).encode(x=across, color=colour)
            dots = base.mark_circle(size=36, opacity=0.9).encode(y=alt.Y("mean:Q", title="score"), tooltip=about)
            bars = base.mark_rule(strokeWidth=2, opacity=0.5).encode(y="low:Q", y2="high:Q")
            fits = alt.Chart(inline(ends)).mark_line(strokeWidth=1.5)
            about_fit = [alt.Tooltip("metric:N", title="fit"), slope]
            panels.append(alt.layer(fits.encode(x=across, y="mean:Q", color=colour, tooltip=about_fit), bars, dots))
        return alt.concat(*panels, columns=2)


def _fit(result: Result, row: Row) -> list[dict[str, Any]]:
    """Both ends of a fitted line, which goes through the mean length and the mean score."""
    middle = points_of(result, row, "curves")["length"].to_numpy().mean()
    line = {"metric": row["metric"], "slope": row["slope"]}
    ends = (row["shortest"], row["longest"])
    return [{**line, "length": end, "mean": row["mean"] + row["slope"] * (end - middle)} for end in ends]


def _slopes_in_words(rows: Sequence[Row], task: str) -> str:
    falls, rises, same, unknown = (
        "with longer texts the score falls",
        "with longer texts the score rises",
        "no change with length is shown",
        "there are too few lengths for an interval",
    )
    ways: dict[str, list[str]] = {falls: [], rises: [], same: [], unknown: []}
    for row in rows:
        ends = row["relative_slope_ci"]
        way = unknown if ends is None else falls if ends[1] < 0 else rises if ends[0] > 0 else same
        shown = "" if ends is None else f" ({100 * ends[0]:.2g} to {100 * ends[1]:.2g} % per token)"
        ways[way].append(f"{row['metric']}{shown}")
    found = "; ".join(f"{way} for {listed(metrics)}" for way, metrics in ways.items() if metrics)
    return f"On {task}, {found}." if task else f"{found[0].upper()}{found[1:]}."


def fit_slope(lengths: Array, means: Array, confidence: float) -> tuple[float, tuple[float, float]]:
    """Slope of the least-squares line and its t interval, each length being one observation; NaN from two lengths."""
    from scipy.special import stdtrit

    centred = lengths - lengths.mean()
    spread = float(centred @ centred)
    slope = float(centred @ means) / spread
    free = len(lengths) - 2
    if free < 1:
        return slope, (np.nan, np.nan)
    residuals = means - means.mean() - slope * centred
    half = float(stdtrit(free, (1 + confidence) / 2) * np.sqrt(residuals @ residuals / free / spread))
    return slope, (slope - half, slope + half)


def _curves(task: str, source: str, scores: Mapping[int, Array], counts: Mapping[int, int]) -> Iterator[pl.DataFrame]:
    """One curve per score: the mean and standard deviation over sets at each length."""
    kinds = {"sd": pl.Float64, "texts": pl.Int64}
    for score, values in zip(SCORES, np.stack(list(scores.values()), axis=1), strict=True):
        points: Row = {"task": task, "metric": f"{score} ({source})", "source": source, "score": score}
        points |= {"length": list(scores), "mean": values.mean(axis=1)}
        points |= {"sd": values.std(axis=1, ddof=1) if values.shape[1] > 1 else None}
        yield pl.DataFrame({**points, "texts": list(map(counts.get, scores))}, schema_overrides=kinds)


def _advice(task: str, rows: Sequence[Row], curves: Sequence[pl.DataFrame]) -> Iterator[str]:
    """What the slopes mean for comparing systems on this corpus (paper 2, section 4)."""
    mine = {row["score"]: (row, curve) for row, curve in zip(rows, curves, strict=True) if row["source"] == "corpus"}
    if not mine:
        return
    (_, originals), (ead, adjusted) = mine["distinct"], mine["ead"]
    where = task or "this corpus"
    change = ead["relative_slope"] * (ead["longest"] - ead["shortest"])
    span = f"{abs(change):.0%} of its mean from {ead['shortest']} to {ead['longest']} tokens"
    if ead["slope_ci"] is None:
        yield f"{ead['lengths']} lengths of {where} leave no interval of the slopes; use smaller sets"
    elif ead["slope_ci"][1] < 0 and change < -NOTABLE_CHANGE:
        yield (
            f"EAD itself declines with length on {where}, by {span}: comparing systems that write texts of different "
            "lengths is unfair with it, to those that write longer ones (paper 2, section 4, the Twitter case)"
        )
    elif ead["slope_ci"][0] > 0 and change > NOTABLE_CHANGE:
        yield f"EAD rises with length on {where}, by {span}: it favours systems that write longer texts"
    if float((adjusted["mean"] / originals["mean"] - 1).abs().to_numpy().max()) < SAME:
        yield f"EAD and distinct of {where} agree within {SAME:.0%}: with so many possible n-grams, little is adjusted"


def _advice_on_cuts(task: str, found: CutSlopes | None) -> Iterator[str]:
    """Which of the two scores changes less with length alone, where the intervals show it."""
    where = task or "this corpus"
    if found is None:
        yield (
            f"no texts of {where} were cut to common lengths: expected {FEWEST_TEXTS} texts that are long enough for "
            f"{FEWEST_LENGTHS} lengths"
        )
        return
    shown = [f"{name} {in_percent(one)}" for name, one in zip(SCORES, found.slopes, strict=True)]
    cut = (
        f"{found.texts:,} texts of {where}, cut to {found.lengths[0]} to {found.lengths[-1]} words, change per word by"
    )
    if found.flatter is None:
        end = "which of the two changes less is not shown, and neither is better founded where they disagree"
    else:
        end = f"{SCORES[found.flatter]} changes less with length alone, at these settings and for sets of this size"
    yield f"{cut} {' and '.join(shown)}: {end}"


def _cut_rows(task: str, found: CutSlopes) -> list[Row]:
    return [
        {
            **{"task": task, "metric": f"{score} (cut)", "source": "cut", "score": score},
            "slope": one.value,
            "slope_ci": pair(one.interval),
            "relative_slope": one.relative,
            "relative_slope_ci": pair(one.relative_interval),
            "lengths": len(found.lengths),
            "shortest": found.lengths[0],
            "longest": found.lengths[-1],
            "mean": float(np.mean(one.means)),
            "first": one.means[0],
            "last": one.means[-1],
        }
        for score, one in zip(SCORES, found.slopes, strict=True)
    ]


def _cut_curves(task: str, found: CutSlopes) -> Iterator[pl.DataFrame]:
    scores = {
        length: np.array([[one.means[place]] for one in found.slopes]) for place, length in enumerate(found.lengths)
    }
    yield from _curves(task, "cut", scores, dict.fromkeys(found.lengths, found.texts))
