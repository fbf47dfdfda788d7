"""HUSE: human judgment and model probability in one score that splits into quality and diversity (paper 3, section 4).

HUSE is twice the leave-one-out error of a k-nearest-neighbour classifier that tells the model's texts from references
by both features, HUSE-Q by the judgment alone, and HUSE-D is 1 + HUSE - HUSE-Q.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.errors import OptionError
from nlgauge.metrics.score import Interval
from nlgauge.metrics.signature import Signature
from nlgauge.models.shared import language_model_identity
from nlgauge.stats.neighbours import LeaveOneOut, Ties, leave_one_out
from nlgauge.studies.base import Row, Study, pair
from nlgauge.studies.huse_data import HuseData, HuseOptions, read_huse
from nlgauge.studies.huse_intervals import Ways, huse_intervals
from nlgauge.studies.judges import PEOPLE, judge_identity
from nlgauge.studies.tasks import Over, task_names

K = 16
QUALITY, DIVERSITY, ALIKE, TOLD = "quality failure", "diversity failure", "indistinguishable", "told apart"


@dataclass(frozen=True)
class HuseStudy(Study):
    """HUSE, HUSE-Q and HUSE-D of every system, with intervals.

    `items` has a row a text: features, votes of its neighbours by both features and by the judgment alone, and what
    the errors say (`verdict`): a *quality failure* is a text of the model that the judgment alone gives away, a
    *diversity failure* one that only the model's probability gives away (mostly references that the model would hardly
    write), an *indistinguishable* one is taken for the other side.
    """

    name: ClassVar[str] = "huse"
    index: ClassVar[str] = "system"
    columns: ClassVar[tuple[str, ...]] = (
        "system", "n", "k", "huse", "huse_ci", "huse_q", "huse_q_ci", "huse_d", "huse_d_ci", "judge"
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ()
    titles: ClassVar[Mapping[str, str]] = {"huse": "HUSE", "huse_q": "HUSE-Q", "huse_d": "HUSE-D"}

    items: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)
    data: tuple[HuseData, ...] = field(default=(), repr=False, kw_only=True)
    normalise: bool = field(default=True, kw_only=True)

    def chart(self) -> Any:
        """The two features with the classifier's regions and marginals, a panel a system (Figure 4)."""
        from nlgauge.studies.huse_charts import features_chart

        return features_chart(self)

    def examples(self, count: int = 5) -> pl.DataFrame:
        """The clearest texts of every kind of error, with their contexts (Table 2)."""
        surest = (pl.col("model_votes") / pl.col("votes") - 0.5).abs()
        ranked = self.items.filter(pl.col("verdict") != TOLD).with_columns(margin=-surest)
        ranked = ranked.sort("system", "verdict", "margin", "id")
        return ranked.group_by("system", "verdict", maintain_order=True).head(count).drop("margin")


def huse(
    data: Any,
    *,
    options: HuseOptions | None = None,
    k: int = K,
    normalise: bool = True,
    ties: Ties = "computed",
    way: Ways | None = None,
    over: Over = "auto",
    raters: bool = False,
    interval: Interval | None = None,
    by: str | None = None,
    names: Sequence[str] = (),
    **columns: Any,
) -> HuseStudy:
    """Compute HUSE, HUSE-Q and HUSE-D.

    `data` is a file (a tidy table, or a crowd export), `Items`, a Polars frame, `HuseData`, or a list of those: a
    system each, or a system a value of the column `by`. `columns` are fields of `HuseOptions`, such as
    `judgment="hj"`. The neighbours of a text are all others at most as far as the k-th nearest, ties included; a tied
    vote goes to human; features are divided by their population standard deviation. `way` of making intervals: see
    `huse_intervals`;
    `raters` resamples raters, too, where single ratings are known.
    """
    if k < 1:
        raise OptionError(f"k is {k}; expected at least 1 neighbour")
    chosen = options or HuseOptions(**columns)
    if options is not None and columns:
        raise OptionError(f"both options and '{min(columns)}' were given; name columns in one of them")
    using = interval or Interval()
    entries = list(data) if isinstance(data, list | tuple) else [data]
    found = [
        one
        for entry, name in zip(entries, task_names(entries, names), strict=True)
        for one in read_huse(entry, "" if by and len(entries) == 1 else name, chosen, by)
    ]
    rows, frames, notes = [], [], []
    for one in found:
        both, alone = classify(one, k=k, normalise=normalise, ties=ties)
        intervals = huse_intervals(
            one, k=k, normalise=normalise, ties=ties, way=way, over=over, raters=raters, interval=using
        )  # fmt: skip
        rows.append(_row(one, both, alone, intervals, k))
        frames.append(_items(one, both, alone, normalise))
        notes += [*_notes(one, rows[-1]), *_tie_notes(one, rows[-1], k, normalise, ties)]
    signature = Signature(
        "huse",
        {
            "k": str(k), "ties": f"all-{ties}", "even": "human", "logp": "per-token" if normalise else "total",
            "scale": "population-sd", "judge": judge_identity(chosen.judge),
            "model": "file" if chosen.model is None else language_model_identity(chosen.model),
            **({"template": chosen.template} if chosen.model is not None else {}),
            "ci": f"{using.confidence:g}", "by": f"{intervals.way}-{using.resamples}",
            "raters": "resampled" if raters else "fixed", "seed": str(using.seed),
        },
    )  # fmt: skip
    return HuseStudy(
        rows, signature, notes=tuple(notes), items=pl.concat(frames), data=tuple(found), normalise=normalise
    )


def classify(data: HuseData, *, k: int, normalise: bool, ties: Ties) -> tuple[LeaveOneOut, LeaveOneOut]:
    """The leave-one-out classifier by both features, and by the judgment alone."""
    features = data.features(normalise=normalise)
    both = leave_one_out(features, data.is_model, k=k, ties=ties)
    return both, leave_one_out(features[:, 1:], data.is_model, k=k, ties=ties)


def _row(data: HuseData, both: LeaveOneOut, alone: LeaveOneOut, intervals: Any, k: int) -> Row:
    huse_all, huse_q = 2 * both.error, 2 * alone.error
    return {
        "task": data.name, "system": data.name or "model", "n": len(data), "k": k, "huse": huse_all,
        "huse_ci": pair(intervals.huse), "huse_q": huse_q, "huse_q_ci": pair(intervals.huse_q),
        "huse_d": 1 + huse_all - huse_q, "huse_d_ci": pair(intervals.huse_d),
        "n_model": int(data.is_model.sum()), "n_reference": int((~data.is_model).sum()), "judge": data.judge,
    }  # fmt: skip


def _items(data: HuseData, both: LeaveOneOut, alone: LeaveOneOut, normalise: bool) -> pl.DataFrame:
    features = data.features(normalise=normalise)
    right, right_alone = both.predicted_model == data.is_model, alone.predicted_model == data.is_model
    verdicts = np.select([~right, data.is_model & right_alone, ~right_alone], [ALIKE, QUALITY, DIVERSITY], default=TOLD)
    return pl.DataFrame(
        {
            "system": [data.name or "model"] * len(data), "id": data.ids,
            "source": np.where(data.is_model, "model", "reference"), "verdict": verdicts,
            "judgment": features[:, 1], "logp": features[:, 0], "model_votes": both.votes_model, "votes": both.votes,
            "model_votes_by_judgment": alone.votes_model, "votes_by_judgment": alone.votes,
            "context": data.contexts, "text": data.texts,
        }
    )  # fmt: skip


def _notes(data: HuseData, row: Row) -> list[str]:
    notes = []
    where = f" of {data.name}" if data.name else ""
    if data.judge != PEOPLE:
        notes.append(f"judgments{where} are by {data.judge}, not by people: HUSE-Q measures what that scorer sees")
    if row["n_model"] != row["n_reference"]:
        notes.append(
            f"{row['n_model']} texts of the model and {row['n_reference']} references{where}: with unequal classes a "
            "blind guess errs less than half of the time, so scores are lower than with equal ones"
        )
    if row["huse"] > row["huse_q"]:
        notes.append(
            f"HUSE-D{where} is above 1: more information cannot raise the error of the best classifier, but it can "
            "raise that of a k-nearest-neighbour classifier in a small sample (section 3.3 is about populations)"
        )
    return notes


def _tie_notes(data: HuseData, row: Row, k: int, normalise: bool, ties: Ties) -> list[str]:
    """Say how much hangs on rounding: mean ratings lie on a grid, where many distances are equal but for rounding."""
    other: Ties = "equal" if ties == "computed" else "computed"
    both, alone = classify(data, k=k, normalise=normalise, ties=other)
    if (2 * both.error, 2 * alone.error) == (row["huse"], row["huse_q"]):
        return []
    where = f" of {data.name}" if data.name else ""
    words = "taken as equal" if other == "equal" else "compared as computed"
    return [
        f"with equal distances {words} (ties={other}), HUSE and HUSE-Q{where} are {2 * both.error:.3f} and "
        f"{2 * alone.error:.3f}: so much hangs on rounding"
    ]


def votes_at(data: HuseData, points: Array, k: int, *, normalise: bool = True) -> Array:
    """Share of the model among the neighbours of any points of the plane, by the classifier that makes the score."""
    from scipy.spatial import cKDTree

    features = data.features(normalise=normalise)
    spread = features.std(axis=0)
    tree = cKDTree(features / spread)
    scaled = np.asarray(points) / spread
    radius = tree.query(scaled, k=[k])[0][:, 0] * (1 + 1e-9)
    return np.array([data.is_model[rows].mean() for rows in tree.query_ball_point(scaled, radius)])
