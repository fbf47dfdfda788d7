"""Comparing systems metric by metric, on the same contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.errors import DataError
from nlgauge.metrics.score import HigherIs, Interval, Score
from nlgauge.stats.jackknife import LeftOut, jackknife_interval, jackknife_test
from nlgauge.stats.paired import holm, paired_bootstrap, paired_permutation

PERMUTATIONS = 10_000


@dataclass(frozen=True)
class Comparison:
    """Second system minus first, on the contexts that both answered.

    `p` is from a paired permutation test (from the jackknife for measures of a whole corpus); `p_holm` corrects it for
    the number of comparisons made together.
    """

    metric: str
    metric_label: str
    first: str
    second: str
    difference: float
    ci: tuple[float, float]
    p: float
    n: int
    higher_is: HigherIs
    signature: str
    p_holm: float = float("nan")

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.__dict__, "ci": list(self.ci)}


def compare(first: Score, second: Score, *, interval: Interval | None = None) -> Comparison:
    """Paired comparison of two systems' scores by the same metric."""
    how = interval or Interval()
    own, other = first.signature, second.signature
    if (own.name, own.options) != (other.name, other.options):
        raise DataError(f"cannot compare different metrics: {first.signature} and {second.signature}")
    if first.per_item is None or second.per_item is None:
        return _compare_corpora(first, second, how)
    one, two = pair_values(first, second)
    defined = ~(np.isnan(one) | np.isnan(two))
    one, two = one[defined], two[defined]
    facts = {"test": f"permutation-{PERMUTATIONS}", "ci": f"{how.confidence:g}", "by": f"bootstrap-{how.resamples}"}
    return Comparison(
        metric=first.name,
        metric_label=first.label,
        first=first.system,
        second=second.system,
        difference=float(np.mean(np.sort(two - one))),
        ci=paired_bootstrap(one, two, confidence=how.confidence, resamples=how.resamples, seed=how.seed),
        p=paired_permutation(one, two, resamples=PERMUTATIONS, seed=how.seed),
        n=len(one),
        higher_is=first.higher_is,
        signature=str(replace(own, facts={**facts, "seed": str(how.seed)})),
    )


def _compare_corpora(first: Score, second: Score, how: Interval) -> Comparison:
    if first.left_out is None or second.left_out is None:
        raise DataError(
            f"{first.name} over a whole corpus has no interval here, so systems cannot be compared; measure each set"
        )
    if not np.array_equal(first.left_out.sizes, second.left_out.sizes):
        raise DataError(f"{first.system} and {second.system} do not share their contexts; a paired test needs the same")
    difference = second.value - first.value
    left_out = LeftOut(second.left_out.values - first.left_out.values, first.left_out.sizes)
    facts = {"test": f"jackknife-{len(left_out)}", "ci": f"{how.confidence:g}"}
    return Comparison(
        metric=first.name,
        metric_label=first.label,
        first=first.system,
        second=second.system,
        difference=difference,
        ci=jackknife_interval(difference, left_out, how.confidence),
        p=jackknife_test(difference, left_out),
        n=len(left_out),
        higher_is=first.higher_is,
        signature=str(replace(first.signature, facts=facts)),
    )


def compare_all(scores: Sequence[Score], interval: Interval | None = None) -> list[Comparison]:
    """Every later system against the first, metric by metric, with Holm's correction over all of them."""
    systems = list(dict.fromkeys(score.system for score in scores))
    baseline = [score for score in scores if score.system == systems[0]]
    made = [
        compare(base, score, interval=interval)
        for base in baseline
        for score in scores
        if score.system != systems[0]
        and str(replace(score.signature, facts={})) == str(replace(base.signature, facts={}))
    ]
    adjusted = holm(np.array([comparison.p for comparison in made]))
    return [replace(comparison, p_holm=float(p)) for comparison, p in zip(made, adjusted, strict=True)]


def pair_values(first: Score, second: Score) -> tuple[Array, Array]:
    """Values of two systems on the same sets, matched by id, or by context where ids do not match."""
    if first.per_item is None or second.per_item is None:
        raise DataError("a measure of a whole corpus has no values of sets to pair")
    one, two = first.per_item, second.per_item
    for key in ("id", "context_hash"):
        if key not in one.columns or key not in two.columns:
            continue
        if one[key].n_unique() < len(one) or two[key].n_unique() < len(two):
            continue
        joined = one.join(two, on=key, how="inner", suffix="_2")
        same = len(joined) == len(one) == len(two)
        if same and (key != "id" or _same_contexts(joined)):
            return joined["value"].to_numpy(), joined["value_2"].to_numpy()
    raise DataError(_why_not(one, two, first.system, second.system))


def _same_contexts(joined: pl.DataFrame) -> bool:
    if "context_hash" not in joined.columns or "context_hash_2" not in joined.columns:
        return True
    return bool((joined["context_hash"] == joined["context_hash_2"]).all())


def _why_not(one: pl.DataFrame, two: pl.DataFrame, first: str, second: str) -> str:
    shared = len(set(one["id"]) & set(two["id"]))
    return (
        f"'{first}' and '{second}' cannot be paired: {len(one)} and {len(two)} sets, {shared} ids in common; a paired "
        "test needs the same ids with the same contexts (or, without ids, each context once) in both files; "
        "--no-compare prints the scores alone"
    )
