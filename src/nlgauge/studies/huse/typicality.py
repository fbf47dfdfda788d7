"""Does a judgment follow probability? Judgment against log-frequency in a corpus (paper 3, section 3.2, Figure 2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import check_that, option, required
from nlgauge.data.reading import Source
from nlgauge.data.roles import numbers_in, required_column
from nlgauge.drawing import PALETTE, alt, inline, shortened
from nlgauge.errors import DataError
from nlgauge.stats.correlation import Correlation, correlation_test
from nlgauge.stats.means import mean_interval
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, columns, pair, with_interval
from nlgauge.studies.huse.data import read_texts

LEVEL = 0.9
_RESAMPLES = 1000
_ALPHA = 0.05
_FEWEST = 3


@dataclass(frozen=True, kw_only=True)
class Typicality(Study):
    """Does a judgment follow probability? Judgment against log-frequency in a corpus.

    Judgments of texts are compared with how often each text occurs, word for word, in a corpus (one text per line).
    Rows are groups of texts of about the same frequency, with the mean judgment and its 90 % interval. White space at
    the ends and, unless it is kept, case do not count. Texts that do not occur are a group of their own and have no
    logarithm, so they are not part of the correlation.
    """

    name: ClassVar[str] = "typicality"
    takes: ClassVar[Literal["files", "file", "none"]] = "file"
    files: ClassVar[str] = "Judged texts, one per row."
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study typicality judged.csv --corpus comments.txt --chart typicality.html",
    )
    index: ClassVar[str] = "bin"
    layout: ClassVar[tuple[Column, ...]] = (
        *columns(bin="times in the corpus", n="", log_frequency="mean log frequency"),
        *with_interval("judgment"),
    )

    corpus: str | Path | Sequence[str] = required(
        "The corpus: one text per line, or any table of texts.", metavar="FILE"
    )
    judgment: str | None = option(None, "Column of judgments.", metavar="COL")
    bins: int = option(6, "Groups of frequencies.", metavar="N")
    case: Literal["lower", "keep"] = option("lower", "Whether upper and lower case differ (keep) or not (lower).")
    seed: int = option(12345, "Seed of every random step.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.bins >= 2, "bins", self.bins, "at least 2 groups")
        check_that(self.seed >= 0, "seed", self.seed, "0 or more")

    def relevant_options(self) -> Mapping[str, Any]:
        """A corpus in memory has no name."""
        shown = super().relevant_options()
        return {name: value for name, value in shown.items() if name != "corpus" or isinstance(value, str | Path)}

    def compute(self, data: StudyData) -> Result:
        """Mean judgments by frequency, and the correlation of judgment and log frequency (`detail`)."""
        (entry,) = data.entries
        frame, reading, file = read_texts(entry, data.reading)
        text = required_column(frame.columns, "text", reading.text, file=file)
        judgment = required_column(frame.columns, "judgment", self.judgment, file=file)
        values = numbers_in(frame, judgment, option="judgment", file=file)
        texts = [str(value or "") for value in frame[text].to_list()]
        judged = np.isfinite(values)
        if judged.sum() < _FEWEST:
            message = f"{int(judged.sum())} judged texts; expected at least {_FEWEST}"
            raise DataError(message, file=file, column=judgment)
        counts = self._counts({self._plain(value) for value in texts})
        times = np.array([counts[self._plain(value)] for value in texts])
        occurs = judged & (times > 0)
        if occurs.sum() < _FEWEST:
            message = f"{int(occurs.sum())} of {len(texts)} texts occur in the corpus; expected at least {_FEWEST}"
            raise DataError(message, file=file, option="corpus")
        logs = np.log(np.maximum(times, 1))
        found = correlation_test(logs[occurs], values[occurs], "pearson")
        points = pl.DataFrame(
            {"text": list(map(shortened, texts)), "frequency": times, "log_frequency": logs, "judgment": values}
        ).filter(occurs)
        rows = self._groups(times, logs, values, judged & (times == 0), occurs)
        facts = {"ci": f"{LEVEL:g}", "pearson": f"{found.value:.4f}", "p": f"{found.p:.3g}", "n": str(points.height)}
        facts["unit"] = "item"
        return Result(self, rows, (), facts, {"points": points}, found)

    def sentence(self, result: Result) -> str:
        """Whether judgments follow frequency, by the test of the correlation."""
        found: Correlation = result.detail
        test = f"Pearson's r {found.value:.2f} (p = {found.p:.3g}, n = {result.facts['n']})"
        if not found.p < _ALPHA:
            return f"Judgments are not shown to follow log frequency: {test}."
        return f"Judgments {'rise' if found.value > 0 else 'fall'} with log frequency: {test}."

    def chart(self, result: Result) -> Any:
        """Every text, and the mean of each group of frequencies with its interval (Figure 2)."""
        groups = [
            {"log_frequency": r["log_frequency"], "judgment": r["judgment"], "low": ends[0], "high": ends[1]}
            for r in result.rows
            if r["log_frequency"] is not None and (ends := r["judgment_ci"]) is not None
        ]
        pearson = result.detail.value
        title = f"r = {pearson:.2f}" if np.isfinite(pearson) else "no correlation"
        x = alt.X("log_frequency:Q", title="log frequency in the corpus", scale=alt.Scale(zero=False))
        points = alt.Chart(inline(result.tables["points"].to_dicts()), title=title, width=420, height=300)
        dots = points.mark_circle(opacity=0.3, color=PALETTE[0]).encode(
            x=x,
            y=alt.Y("judgment:Q", scale=alt.Scale(zero=False)),
            tooltip=["text:N", "frequency:Q", "judgment:Q"],
        )
        base = alt.Chart(inline(groups))
        bars = base.mark_rule(color=PALETTE[1], strokeWidth=2).encode(x=x, y="low:Q", y2="high:Q")
        means = base.mark_point(color=PALETTE[1], filled=True, size=80).encode(x=x, y="judgment:Q")
        return alt.layer(dots, bars, means)

    def _plain(self, text: str) -> str:
        text = " ".join(text.split())
        return text.lower() if self.case == "lower" else text

    def _counts(self, wanted: set[str]) -> Counter[str]:
        """How often each of these texts occurs in the corpus."""
        parts: Any = (self.corpus,)
        if isinstance(self.corpus, str | Path):
            parts = (table.texts.to_list() for table in Source(path=str(self.corpus), extras=()).stream())
        counts: Counter[str] = Counter()
        for part in parts:
            counts.update(plain for line in part if (plain := self._plain(line)) in wanted)
        return counts

    def _groups(self, times: Array, logs: Array, values: Array, absent: Array, occurs: Array) -> list[Row]:
        rows = []
        if absent.any():
            rows.append(self._row("never", None, values[absent]))
        order = np.flatnonzero(occurs)[np.argsort(times[occurs], kind="stable")]
        edges = np.unique(np.quantile(times[order], np.linspace(0, 1, self.bins + 1)))
        inner = edges[1:-1] if len(edges) > 2 else edges[:0]
        place = np.searchsorted(inner, times[order], side="right")
        for group in np.unique(place):
            here = order[place == group]
            low, high = int(times[here].min()), int(times[here].max())
            name = f"{low:,}" if low == high else f"{low:,} to {high:,}"
            rows.append(self._row(name, float(logs[here].mean()), values[here]))
        return rows

    def _row(self, name: str, log_frequency: float | None, values: Array) -> Row:
        interval = pair(mean_interval(values, LEVEL))
        return {
            "bin": name,
            "n": len(values),
            "log_frequency": log_frequency,
            "judgment": float(values.mean()),
            "judgment_ci": interval,
        }
