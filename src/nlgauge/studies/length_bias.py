"""The length-bias study: do distinct and EAD stay the same when texts get longer (paper 2, section 2, Figures 1 and 2)?

For every length, sets of texts of exactly that length are drawn, from a corpus and from the designated distribution.
A fair measure of diversity has a slope of zero on the designated distribution.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.files import STDIN
from nlgauge.data.reading import Source
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.drawing import colours, inline
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.ngram import Distinct, ExpectationAdjustedDistinct
from nlgauge.metrics.options import Orders
from nlgauge.metrics.signature import Signature
from nlgauge.studies.base import Row, Study, pair
from nlgauge.studies.designated import draw_designated
from nlgauge.studies.tasks import task_names

SCORES = ("distinct", "ead")
NOTABLE_CHANGE = 0.05
SAME = 0.01
_CORPUS, _DESIGNATED = 0, 1
_SUGGESTED_LENGTHS = 10
_CURVE_COLUMNS = {
    "task": pl.String, "metric": pl.String, "source": pl.String, "score": pl.String, "length": pl.Int64,
    "mean": pl.Float64, "sd": pl.Float64, "texts": pl.Int64,
}  # fmt: skip


@dataclass(frozen=True)
class LengthBias(Study):
    """Slopes of distinct and EAD against length.

    `slope` is of the least-squares line through the mean score of each length, `slope_ci` its t interval over lengths.
    `relative_slope` is the slope divided by `mean`, so that scores of different size compare: -.02 means that a token
    more costs 2 % of the score; `relative_slope_ci` is `slope_ci` divided likewise. `mean` is over lengths, `first` and
    `last` are the mean scores at the `shortest` and the `longest` length. `curves` has mean and standard deviation over
    sets at each length, and the number of texts of that length in the corpus (null for the designated distribution).
    """

    name: ClassVar[str] = "length-bias"
    index: ClassVar[str] = "metric"
    columns: ClassVar[tuple[str, ...]] = (
        "metric", "lengths", "slope", "slope_ci", "relative_slope", "relative_slope_ci", "mean", "first", "last"
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ("relative_slope",)
    titles: ClassVar[Mapping[str, str]] = {
        "relative_slope": "relative slope", "relative_slope_ci": "relative interval", "first": "at shortest",
        "last": "at longest",
    }  # fmt: skip
    digits: ClassVar[Mapping[str, int]] = {
        "slope": 5, "slope_ci": 5, "relative_slope": 4, "relative_slope_ci": 4, "mean": 3, "first": 3, "last": 3
    }  # fmt: skip

    curves: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """For JSON, with the curves."""
        return {**super().to_dict(), "curves": self.curves.to_dicts()}

    def chart(self) -> Any:
        """Score against length (Figure 1): means as dots, standard deviations over sets as bars, fits as lines."""
        import altair as alt

        lines = self.curves["metric"].unique(maintain_order=True).to_list()
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
        about_fit = [alt.Tooltip("metric:N", title="fit"), alt.Tooltip("slope:Q", title="slope a token", format=".5f")]
        panels = []
        for task in self.tasks:
            points = self.curves.filter(pl.col("task") == task).with_columns(**spread).to_dicts()
            ends = [end for row in self.rows if row["task"] == task for end in self._fit(row)]
            title = task or f"Scores of sets of {self.signature.options['set_size']} texts"
            base = alt.Chart(inline(points), title=title, width=380, height=260).encode(x=across, color=colour)
            dots = base.mark_circle(size=36, opacity=0.9).encode(y=alt.Y("mean:Q", title="score"), tooltip=about)
            bars = base.mark_rule(strokeWidth=2, opacity=0.5).encode(y="low:Q", y2="high:Q")
            fits = alt.Chart(inline(ends)).mark_line(strokeWidth=1.5)
            panels.append(alt.layer(fits.encode(x=across, y="mean:Q", color=colour, tooltip=about_fit), bars, dots))
        return alt.concat(*panels, columns=2)

    def _fit(self, row: Row) -> list[dict[str, Any]]:
        """Both ends of a fitted line, which goes through the mean length and the mean score."""
        middle = self.points_of(self.curves, row)["length"].to_numpy().mean()
        return [
            {
                "metric": row["metric"], "length": length, "mean": row["mean"] + row["slope"] * (length - middle),
                "slope": row["slope"],
            }
            for length in (row["shortest"], row["longest"])
        ]  # fmt: skip


def length_bias(
    data: Any = None,
    *,
    vocabulary: str | int = "30522",
    n: int = 1,
    set_size: int = 2000,
    sets: int = 10,
    lengths: tuple[int, int] | None = None,
    designated: bool = True,
    tok: str = "space",
    case: Literal["keep", "lower"] = "keep",
    confidence: float = 0.95,
    seed: int = 12345,
    by: str | None = None,
    names: Sequence[str] = (),
    **reading: Any,
) -> LengthBias:
    """Measure how distinct-n and EAD-n change with the length of texts, in tokens.

    `data` is a file name, a `Source`, `Items`, `ResponseSets` (each response is a text), or a list of those and of
    lists of texts: a task each, or a task a value of the column `by`; None is the designated distribution alone. Of
    every length from `lengths[0]` to `lengths[1]` that `set_size` texts have (None: of every length), `sets` sets are
    drawn, without replacement within a set. `designated` adds sets of equally long texts from the designated
    distribution over as many words as `vocabulary` says (as the option `vocab` of ead: a number, `bert`, or
    `corpus:FILE`). Further options are those of `nlgauge.data.Source`.

    Even the sign of EAD's slope on a corpus can depend on `vocabulary`, `set_size` and the tokeniser: keep them fixed.
    """
    if lengths is not None and not max(n, 1) <= lengths[0] < lengths[1]:
        raise OptionError(
            f"lengths {lengths[0]} to {lengths[1]}; expected two or more lengths of at least {n}, the order of n-grams"
        )
    if data is None and (lengths is None or not designated):
        raise OptionError(
            "nothing to study: give a corpus, or lengths for the designated distribution, such as (5, 30)"
        )
    if not 0 < confidence < 1:
        raise OptionError(f"confidence {confidence:g}; expected a level between 0 and 1")
    using = _Sets.make(n, set_size, sets, seed, str(vocabulary), tok, case)
    invented: dict[int, Array] = {}
    rows: list[Row] = []
    curves: list[pl.DataFrame] = []
    notes: list[str] = []
    for task, texts in [("", None)] if data is None else _corpora(data, by, names, reading):
        counts: dict[int, int] = {}
        usable = list(range(lengths[0], lengths[1] + 1)) if lengths else []
        if texts is not None:
            pool = _Pool.of(texts, using, lengths)
            counts = pool.counts
            usable = pool.lengths_with(set_size, task)
            notes += pool.notes(usable, set_size, task)
            scores = {length: using.from_corpus(pool.ids_of(length)) for length in usable}
            curves += _curves(task, "corpus", scores, counts)
        if designated:
            invented |= {length: using.from_designated(length) for length in usable if length not in invented}
            curves += _curves(task, "designated", {length: invented[length] for length in usable}, {})
        new = [_row(curve, confidence) for curve in curves[len(rows) :]]
        notes += _advice(task, new, curves[len(rows) :])
        rows += new
    options = {
        "n": str(n), "set_size": str(set_size), "sets": str(sets),
        "lengths": f"{lengths[0]}-{lengths[1]}" if lengths else "all", "tok": using.ead.tok, "case": case,
        "vocab": using.ead.vocab, "designated": "yes" if designated else "no", "fit": "least-squares",
        "ci": f"{confidence:g}", "by": "t-over-lengths", "seed": str(seed),
    }  # fmt: skip
    signature = Signature("length-bias", options, {"V": f"{using.ead.possible(n):.15g}"})
    return LengthBias(rows, signature, notes=tuple(notes), curves=pl.concat(curves))


@dataclass(frozen=True)
class _Sets:
    """How sets of equally long texts are drawn, and their scores.

    Every length has a generator of its own, so that its sets do not depend on which other lengths there are. Scores
    have a row for each of `SCORES` and a column a set. The designated distribution is over `words` words.
    """

    n: int
    size: int
    count: int
    seed: int
    distinct: Distinct
    ead: ExpectationAdjustedDistinct
    words: float

    @classmethod
    def make(
        cls, n: int, size: int, count: int, seed: int, vocabulary: str, tok: str, case: Literal["keep", "lower"]
    ) -> _Sets:
        if size < 1 or count < 1 or seed < 0:
            raise OptionError(f"{count} sets of {size} texts, seed {seed}; expected positive numbers")
        ead = ExpectationAdjustedDistinct(n=Orders(n), vocab=vocabulary, tok=tok, case=case)
        of_words = ead if n == 1 else ExpectationAdjustedDistinct(n=Orders(1), vocab=vocabulary, tok=tok, case=case)
        if ead.possible(n) < 1:
            raise DataError(f"{ead.vocab} has no {n}-gram; expected a corpus with texts of at least {n} tokens")
        distinct = Distinct(n=Orders(n), over="corpus", tok=tok, case=case)
        return cls(n, size, count, seed, distinct, ead, of_words.possible(1))

    def from_corpus(self, ids: Array) -> Array:
        """Scores of sets of these texts: token numbers, a row a text."""
        generator = np.random.default_rng([self.seed, ids.shape[1], _CORPUS])
        draws = (generator.choice(len(ids), self.size, replace=False, shuffle=False) for _ in range(self.count))
        return self._scores(ids[rows] for rows in draws)

    def from_designated(self, length: int) -> Array:
        """Scores of sets of texts of this length from the designated distribution."""
        generator = np.random.default_rng([self.seed, length, _DESIGNATED])
        return self._scores(draw_designated(generator, (self.size, length), self.words) for _ in range(self.count))

    def _scores(self, sets: Iterable[Array]) -> Array:
        counts = np.array([(count_different(ids, self.n), len(ids) * (ids.shape[1] - self.n + 1)) for ids in sets])
        different, total = counts[:, 0], counts[:, 1]
        return np.stack([metric.of_counts(different, total, self.n) for metric in (self.distinct, self.ead)])


def count_different(ids: Array, n: int) -> int:
    """Different n-grams of equally long texts: token numbers, a row a text."""
    from nlgauge.text.set_kernels import rank_ngrams

    texts, length = ids.shape
    offsets = np.arange(texts + 1, dtype=np.int64) * length
    different = rank_ngrams(ids.astype(np.int32, copy=False).ravel(), offsets, np.array([0, texts]), n)[1]
    return int(different[n - 1, 0])


@dataclass(frozen=True)
class _Pool:
    """The texts of a corpus by length, sorted, so that their order in the file does not matter."""

    ids: Array
    offsets: Array
    counts: dict[int, int]

    @classmethod
    def of(cls, texts: pl.Series, using: _Sets, lengths: tuple[int, int] | None) -> _Pool:
        table = using.ead.tokenizer(texts.sort())
        low, high = lengths or (using.n, max(int(table.lengths.max()), using.n))
        values, counts = np.unique(table.lengths, return_counts=True)
        kept = {int(v): int(c) for v, c in zip(values, counts, strict=True) if low <= v <= high}
        return cls(table.ids, table.offsets, kept)

    def ids_of(self, length: int) -> Array:
        """Token numbers of all texts of this length, a row a text."""
        starts = self.offsets[:-1][np.diff(self.offsets) == length]
        found: Array = self.ids[starts[:, None] + np.arange(length)]
        return found

    def lengths_with(self, set_size: int, task: str) -> list[int]:
        """Lengths that at least so many texts have."""
        usable = [length for length, count in self.counts.items() if count >= set_size]
        if len(usable) >= 2:
            return usable
        common = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        seen = ", ".join(f"{length} tokens ({count:,} texts)" for length, count in common[:5])
        if len(common) < 2:
            advice = "expected texts of different lengths"
        else:
            many = min(len(common), _SUGGESTED_LENGTHS)
            advice = f"--set-size {common[1][1]} would leave 2 lengths"
            advice += f", --set-size {common[many - 1][1]} at least {many}" if many > 2 else ""
        raise DataError(
            f"{len(usable)} lengths have at least {set_size:,} texts, and a slope needs 2; the most common lengths "
            f"are {seen or 'too short or not asked for'}; {advice}",
            file=task or None,
        )

    def notes(self, usable: Sequence[int], set_size: int, task: str) -> list[str]:
        """How many texts there were."""
        held = [self.counts[length] for length in usable]
        share = sum(held) / (len(self.offsets) - 1)
        where = f" of {task}" if task else ""
        notes = [
            f"{len(usable)} of {len(self.counts)} lengths{where}, from {usable[0]} to {usable[-1]} tokens, have enough "
            f"texts, {min(held):,} to {max(held):,} each, {share:.0%} of all texts"
        ]
        if exact := [str(length) for length in usable if self.counts[length] == set_size]:
            notes.append(
                f"length {', '.join(exact)}{where} has exactly {set_size:,} texts: all its sets are the same, and "
                "their standard deviation says nothing"
            )
        return notes


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
    """A curve a score: the mean and standard deviation over sets at each length."""
    for place, score in enumerate(SCORES):
        points = [
            {
                "task": task, "metric": f"{score} ({source})", "source": source, "score": score, "length": length,
                "mean": float(values[place].mean()), "texts": counts.get(length),
                "sd": float(values[place].std(ddof=1)) if values.shape[1] > 1 else None,
            }
            for length, values in scores.items()
        ]  # fmt: skip
        yield pl.DataFrame(points, schema=_CURVE_COLUMNS)


def _row(curve: pl.DataFrame, confidence: float) -> Row:
    lengths, means = curve["length"].to_numpy(), curve["mean"].to_numpy()
    slope, interval = fit_slope(lengths, means, confidence)
    mean = float(means.mean())
    return {
        **{key: curve[key][0] for key in ("task", "metric", "source", "score")}, "slope": slope,
        "slope_ci": pair(interval), "relative_slope": slope / mean,
        "relative_slope_ci": pair([end / mean for end in interval]), "lengths": len(lengths),
        "shortest": int(lengths[0]), "longest": int(lengths[-1]), "mean": mean, "first": float(means[0]),
        "last": float(means[-1]),
    }  # fmt: skip


def _advice(task: str, rows: Sequence[Row], curves: Sequence[pl.DataFrame]) -> Iterator[str]:
    """What the slopes mean for comparing systems on this corpus (paper 2, section 4)."""
    mine = {row["score"]: (row, curve) for row, curve in zip(rows, curves, strict=True) if row["source"] == "corpus"}
    if not mine:
        return
    (distinct, originals), (ead, adjusted) = mine["distinct"], mine["ead"]
    where = task or "this corpus"
    change = ead["relative_slope"] * (ead["longest"] - ead["shortest"])
    span = f"{abs(change):.0%} of its mean from {ead['shortest']} to {ead['longest']} tokens"
    if ead["slope_ci"] is None:
        yield f"{ead['lengths']} lengths of {where} leave no interval of the slopes; use a smaller set size"
    elif ead["slope_ci"][1] < 0 and change < -NOTABLE_CHANGE:
        yield (
            f"EAD itself declines with length on {where}, by {span}: comparing systems that write texts of different "
            "lengths is unfair with it, to those that write longer ones (paper 2, section 4, the Twitter case)"
        )
    elif ead["slope_ci"][0] > 0 and change > NOTABLE_CHANGE:
        yield f"EAD rises with length on {where}, by {span}: it favours systems that write longer texts"
    if float((adjusted["mean"] / originals["mean"] - 1).abs().to_numpy().max()) < SAME:
        yield f"EAD and distinct of {where} agree within {SAME:.0%}: with so many possible n-grams, little is adjusted"
    elif abs(distinct["relative_slope"]) < abs(ead["relative_slope"]):
        yield (
            f"on {where} distinct changes less with length than EAD: relative slope "
            f"{distinct['relative_slope']:.4f} against {ead['relative_slope']:.4f}"
        )


def _corpora(
    data: Any, by: str | None, names: Sequence[str], reading: Mapping[str, Any]
) -> Iterator[tuple[str, pl.Series]]:
    """Names and texts of the corpora, each text once a place where it stands."""
    entries = list(data) if isinstance(data, list | tuple) else [data]
    if not entries:
        raise DataError("nothing to study: the list of files is empty")
    if all(isinstance(entry, str) and not _is_file(entry) for entry in entries):
        raise DataError(f"no file is named '{entries[0][:60]}'; to study texts, give them as one corpus: [texts]")
    titles = task_names(entries, names)
    for entry, title in zip(entries, titles, strict=True):
        try:
            sets = _load(entry, reading)
            if by is None:
                yield title, sets.texts
                continue
            if by not in sets.frame.columns:
                raise DataError(f"no such column; found {', '.join(sets.frame.columns)}", column=by)
        except DataError as error:
            raise error.at(file=title or None) from error
        values = sets.frame[by].cast(pl.String).fill_null("")
        for value in values.unique(maintain_order=True).to_list():
            part = sets.select((values == value).arg_true().to_numpy()).texts
            yield (value if len(entries) == 1 else f"{title}: {value}"), part


def _is_file(name: str) -> bool:
    try:
        return name == STDIN or Path(name).exists()
    except (OSError, ValueError):
        return False


def _load(entry: Any, reading: Mapping[str, Any]) -> ResponseSets:
    if isinstance(entry, str | Path):
        entry = Source(path=str(entry), **reading)
    elif reading:
        raise OptionError(f"'{min(reading)}' is an option for reading files; the data was given in memory")
    if isinstance(entry, Source):
        entry = entry.read()
    if isinstance(entry, list | tuple):
        entry = Items.of(entry)
    if isinstance(entry, Items):
        entry = entry.as_sets()
    if not isinstance(entry, ResponseSets):
        raise DataError(f"cannot study a {type(entry).__name__}; expected a file name, a table or a list of texts")
    return entry
