"""Does a judgment follow probability? Judgment against log-frequency in a corpus (paper 3, section 3.2, Figure 2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.plain_tables import read_table
from nlgauge.data.reading import Source
from nlgauge.data.tables import Items
from nlgauge.drawing import PALETTE, inline, shortened
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.column import numbers_in
from nlgauge.metrics.signature import Signature
from nlgauge.stats.bootstrap import bootstrap_mean
from nlgauge.stats.correlation import correlation_test
from nlgauge.studies.base import Row, Study, finite, pair

LEVEL = 0.9


@dataclass(frozen=True)
class Typicality(Study):
    """Mean judgment of texts of about the same frequency, with an interval; `pearson` is over all texts that occur."""

    name: ClassVar[str] = "typicality"
    index: ClassVar[str] = "bin"
    columns: ClassVar[tuple[str, ...]] = ("bin", "n", "log_frequency", "judgment", "judgment_ci")
    side_by_side: ClassVar[tuple[str, ...]] = ()
    titles: ClassVar[Mapping[str, str]] = {"bin": "times in the corpus", "log_frequency": "mean log frequency"}

    pearson: float | None = field(default=None, kw_only=True)
    points: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)

    def chart(self) -> Any:
        """Every text, and the mean of each group of frequencies with its interval (Figure 2)."""
        import altair as alt

        groups = [
            {
                "log_frequency": r["log_frequency"], "judgment": r["judgment"], "low": r["judgment_ci"][0],
                "high": r["judgment_ci"][1],
            }
            for r in self.rows
            if r["log_frequency"] is not None and r["judgment_ci"] is not None
        ]  # fmt: skip
        title = "no correlation" if self.pearson is None else f"r = {self.pearson:.2f}"
        x = alt.X("log_frequency:Q", title="log frequency in the corpus", scale=alt.Scale(zero=False))
        dots = (
            alt.Chart(inline(self.points.to_dicts()), title=title, width=420, height=300)
            .mark_circle(opacity=0.3, color=PALETTE[0])
            .encode(
                x=x,
                y=alt.Y("judgment:Q", scale=alt.Scale(zero=False)),
                tooltip=["text:N", "frequency:Q", "judgment:Q"],
            )
        )  # fmt: skip
        base = alt.Chart(inline(groups))
        bars = base.mark_rule(color=PALETTE[1], strokeWidth=2).encode(x=x, y="low:Q", y2="high:Q")
        means = base.mark_point(color=PALETTE[1], filled=True, size=80).encode(x=x, y="judgment:Q")
        return alt.layer(dots, bars, means)


def typicality(
    data: str | Path | pl.DataFrame | Items,
    corpus: str | Sequence[str],
    *,
    text: str = "text",
    judgment: str = "judgment",
    bins: int = 6,
    lower: bool = True,
    seed: int = 12345,
) -> Typicality:
    """Compare judgments of texts with how often each occurs, word for word, in a corpus (one text a line).

    White space at the ends and, with `lower`, case do not count. Texts that do not occur are a group of their own and
    have no logarithm, so they are not part of the correlation.
    """
    if bins < 2:
        raise OptionError(f"{bins} groups; expected at least 2")
    frame = data.frame if isinstance(data, Items) else read_table(str(data)) if isinstance(data, str | Path) else data
    for column in (text, judgment):
        if column not in frame.columns:
            raise DataError(f"no such column; found {', '.join(frame.columns)}", column=column)
    values = numbers_in(frame, judgment)
    texts = [str(value or "") for value in frame[text].to_list()]
    judged = np.isfinite(values)
    if judged.sum() < 3:
        raise DataError(f"{int(judged.sum())} judged texts; expected at least 3", column=judgment)
    counts = _counts(corpus, {_plain(value, lower) for value in texts}, lower)
    times = np.array([counts[_plain(value, lower)] for value in texts])
    occurs = judged & (times > 0)
    if occurs.sum() < 3:
        raise DataError(f"{int(occurs.sum())} of {len(texts)} texts occur in the corpus; expected at least 3")
    logs = np.log(np.maximum(times, 1))
    found = correlation_test(logs[occurs], values[occurs], "pearson")
    rows = [*_groups(times, logs, values, judged & (times == 0), occurs, bins, seed)]
    points = pl.DataFrame(
        {
            "text": [shortened(texts[i]) for i in np.flatnonzero(occurs)], "frequency": times[occurs],
            "log_frequency": logs[occurs], "judgment": values[occurs],
        }
    )  # fmt: skip
    options = {"bins": str(bins), "case": "lower" if lower else "keep", "ci": f"{LEVEL:g}", "seed": str(seed)}
    notes = (f"Pearson's r of judgment and log frequency is {found.value:.2f} (p = {found.p:.3g}, n = {occurs.sum()})",)
    return Typicality(rows, Signature("typicality", options), notes=notes, pearson=finite(found.value), points=points)


def _plain(text: str, lower: bool) -> str:
    text = " ".join(text.split())
    return text.lower() if lower else text


def _counts(corpus: str | Sequence[str], wanted: set[str], lower: bool) -> Counter[str]:
    counts: Counter[str] = Counter()
    if isinstance(corpus, str):
        for table in Source(path=corpus, extras=()).stream():
            counts.update(plain for line in table.texts.to_list() if (plain := _plain(line, lower)) in wanted)
    else:
        counts.update(plain for line in corpus if (plain := _plain(line, lower)) in wanted)
    return counts


def _groups(times: Array, logs: Array, values: Array, absent: Array, occurs: Array, bins: int, seed: int) -> list[Row]:
    rows = []
    if absent.any():
        rows.append(_row("never", None, values[absent], seed))
    order = np.flatnonzero(occurs)[np.argsort(times[occurs], kind="stable")]
    edges = np.unique(np.quantile(times[order], np.linspace(0, 1, bins + 1)))
    inner = edges[1:-1] if len(edges) > 2 else edges[:0]
    place = np.searchsorted(inner, times[order], side="right")
    for group in np.unique(place):
        rows_here = order[place == group]
        low, high = int(times[rows_here].min()), int(times[rows_here].max())
        name = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        rows.append(_row(name, float(logs[rows_here].mean()), values[rows_here], seed))
    return rows


def _row(name: str, log_frequency: float | None, values: Array, seed: int) -> Row:
    ci = pair(bootstrap_mean(values, LEVEL, 1000, seed)) if len(values) > 1 else None
    return {
        "bin": name, "n": len(values), "log_frequency": log_frequency, "judgment": float(values.mean()),
        "judgment_ci": ci,
    }  # fmt: skip
