"""Nuggets: a subset in which form tells nothing about the label (paper 1, section 6.4 and appendix C.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.tables import ResponseSets
from nlgauge.drawing import inline
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.signature import Signature
from nlgauge.stats.correlation import correlation
from nlgauge.studies.base import Row, Study
from nlgauge.studies.content import LABELS, class_labels, find_column
from nlgauge.studies.decoding import canonical_order
from nlgauge.studies.tasks import Task, make_tasks

GROUP = 40


@dataclass(frozen=True)
class Nuggets(Study):
    """How many sets were kept, and the metric's correlation with the label before and after.

    `subsets[task]` are the kept sets, in the order of the file; `responses[task]` the same with their texts, when the
    metric was computed from them.
    """

    name: ClassVar[str] = "nuggets"
    columns: ClassVar[tuple[str, ...]] = (
        "metric", "n", "kept", "share", "low", "high", "spearman_before", "spearman"
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ("kept", "spearman_before", "spearman")
    titles: ClassVar[Mapping[str, str]] = {"spearman_before": "rho before", "spearman": "rho"}
    digits: ClassVar[Mapping[str, int]] = {"spearman": 3, "spearman_before": 3}

    subsets: Mapping[str, pl.DataFrame] = field(default_factory=dict, repr=False, kw_only=True)
    responses: Mapping[str, ResponseSets] = field(default_factory=dict, repr=False, kw_only=True)
    points: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)

    def chart(self) -> Any:
        """The two classes over the metric, all sets and kept ones."""
        import altair as alt

        scale = alt.Scale(domain=["low", "high"], range=["#dd7733", "#3366aa"])
        panels = []
        for task in self.tasks:
            for kept, words in ((False, "all sets"), (True, "nuggets")):
                mine = self.points.filter((pl.col("task") == task) & (pl.col("kept") | pl.lit(not kept)))
                base = alt.Chart(
                    inline(mine.select("value", "label").to_dicts()),
                    title=f"{task} {words}".strip(),
                    width=320,
                    height=220,
                )
                panels.append(
                    base.mark_bar(opacity=0.55).encode(
                        x=alt.X("value:Q", bin=alt.Bin(maxbins=24), title=str(self.rows[0]["metric"])),
                        y=alt.Y("count():Q", stack=None, title="sets"),
                        color=alt.Color("label:N", scale=scale, title="content diversity"),
                        tooltip=["label:N", "count():Q"],
                    )
                )
        return alt.concat(*panels, columns=2)


def build_nuggets(
    data: Any,
    metric: str | Metric = "distinct",
    *,
    column: str | None = None,
    label: str | None = None,
    high: str | None = None,
    group: int = GROUP,
    seed: int = 12345,
    by: str | None = None,
    names: Sequence[str] = (),
    **reading: Any,
) -> Nuggets:
    """Build a subset on which a metric of form is worth nothing.

    Sets are sorted by the metric and cut into groups of `group`; from each group as many sets of one class are drawn as
    of the other. The classes of the result are balanced, and the metric's correlation with them is near zero.
    """
    if group < 2:
        raise OptionError(f"groups of {group}; expected at least 2 sets a group")
    tasks = make_tasks(
        data, () if column else (metric,), columns=(column,) if column else (), by=by, names=names, needs_texts=True,
        **reading,
    )  # fmt: skip
    rows: list[Row] = []
    points = []
    subsets: dict[str, pl.DataFrame] = {}
    responses: dict[str, ResponseSets] = {}
    chosen = ""
    for task in tasks:
        chosen = label or find_column(task, LABELS, "label")
        classes = class_labels(task, chosen, high)
        one = task.measured[0]
        if not one.defined.all():
            missing = task.ids[int(np.flatnonzero(~one.defined)[0])]
            raise DataError(f"set '{missing}' has no {one.label}; expected a value on every set", file=task.name)
        if np.ptp(one.values) == 0:
            raise DataError(f"{one.label} is the same on all sets: there is no form to balance", file=task.name)
        kept = draw_balanced(one.values, classes, canonical_order(task, np.zeros(len(task))), group, seed)
        if len(kept) < 2:
            raise DataError(f"no group of {group} holds both classes; try larger groups", file=task.name)
        after = one.values[kept]
        rows.append(
            {
                "task": task.name, "metric": one.label, "n": len(task), "kept": len(kept),
                "share": len(kept) / len(task), "low": int((classes[kept] == 0).sum()),
                "high": int((classes[kept] == 1).sum()),
                "spearman_before": correlation(one.values, classes, "spearman"),
                "spearman": None if np.ptp(after) == 0 else correlation(after, classes[kept], "spearman"),
                "signature": one.signature,
            }
        )  # fmt: skip
        subsets[task.name] = task.frame[kept]
        if task.sets is not None:
            responses[task.name] = task.sets.select(kept)
        points.append(_points(task, one.values, classes, kept))
    options = {"label": chosen, "group": str(group), "seed": str(seed)}
    return Nuggets(rows, Signature("nuggets", options), subsets=subsets, responses=responses, points=pl.concat(points))


def draw_balanced(values: Array, classes: Array, order: Array, group: int, seed: int) -> Array:
    """Row numbers of the kept sets, ascending; `order` breaks ties, so that the file's order does not matter."""
    rng = np.random.default_rng(seed)
    ranked = order[np.argsort(values[order], kind="stable")]
    kept = []
    for start in range(0, len(ranked), group):
        members = ranked[start : start + group]
        low, high = members[classes[members] == 0], members[classes[members] == 1]
        size = min(len(low), len(high))
        kept += [rng.permutation(low)[:size], rng.permutation(high)[:size]]
    return np.sort(np.concatenate(kept))


def _points(task: Task, values: Array, classes: Array, kept: Array) -> pl.DataFrame:
    chosen = np.zeros(len(task), dtype=bool)
    chosen[kept] = True
    return pl.DataFrame(
        {
            "task": [task.name] * len(task),
            "value": values,
            "label": ["high" if high else "low" for high in classes],
            "kept": chosen,
        }
    )
