"""Comparing systems metric by metric: on the same contexts, or as samples that have nothing to do with each other."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import spread
from nlgauge.errors import DataError, argument
from nlgauge.metrics.score import Score
from nlgauge.scoring.compared import SIGNIFICANT, Comparison, Evidence
from nlgauge.scoring.pairing import OTHER_WAY, Pairs, Side, crossed_sides, one_side, pair_values
from nlgauge.scoring.sizes import at_different_sizes
from nlgauge.signature import Signature
from nlgauge.stats.components import error_parts
from nlgauge.stats.families import holm, holm_family, paired_max_t
from nlgauge.stats.inference import Comparing
from nlgauge.stats.jackknife import LeftOut, jackknife_estimate
from nlgauge.stats.means import CROSSED, OF_DIFFERENCES, Estimate, crossed_estimate, is_share, mean_of, within
from nlgauge.stats.permutation import PERMUTATIONS, paired_permutation, unpaired_permutation
from nlgauge.stats.units import Units, numbered

_ROUNDING = 1e-9


def compare(first: Score, second: Score, *, paired: bool = True, **options: Any) -> Comparison:
    """Compare two systems' scores by the same metric: context by context, or with `paired=False` as two samples.

    Further options are those of `Comparing`.
    """
    (how,) = spread(options, Comparing)
    return compare_scores(first, second, how, paired=paired)


def compare_scores(first: Score, second: Score, how: Comparing, *, paired: bool = True) -> Comparison:
    """As `compare`, with options in a group."""
    if not (isinstance(first, Score) and isinstance(second, Score)):
        raise DataError(
            f"found {type(first).__name__} and {type(second).__name__}; expected two scores, not names of files or "
            "lists: first, second = nlgauge.score([FILE, FILE], ['distinct'])"
        )
    own, other = first.signature, second.signature
    if (own.name, own.options) != (other.name, other.options):
        raise DataError(f"cannot compare different metrics: {first.signature} and {second.signature}")
    if first.items is None or second.items is None:
        return _compare_corpora(first, second, how, paired)
    if not paired:
        return _compare_samples(first, second, how)
    crossed = crossed_sides(first, second, how)
    return _compare_pairs(first, second, how) if crossed is None else _compare_runs(first, second, how, *crossed)


def _compare_pairs(first: Score, second: Score, how: Comparing) -> Comparison:
    pairs = pair_values(first, second, how)
    if len(pairs) < 2:
        raise _too_few(first, second, f"{len(pairs)} context{'s' * (len(pairs) != 1)} on which both have a value")
    differences = pairs.second - pairs.first
    found = mean_of(differences, pairs.units).as_difference
    evidence = _evidence(differences, pairs)
    return _made(
        first,
        second,
        how,
        {"test": f"permutation-{PERMUTATIONS}", "effect": "cohen-dz", "by": OF_DIFFERENCES},
        found,
        ci=_paired_interval(found, pairs, how.level),
        p=paired_permutation(pairs.first, pairs.second, groups=pairs.units.of, seed=how.seed),
        n=len(pairs),
        units=len(evidence.sums),
        unit=pairs.units.name,
        first_value=float(np.mean(np.sort(pairs.first))),
        second_value=float(np.mean(np.sort(pairs.second))),
        effect=_in_deviations(found.value, np.sort(differences).std(ddof=1)),
        smallest_p=2.0 ** (1 - (np.count_nonzero(evidence.sums) or len(evidence.sums))),
        evidence=evidence,
    )


def _evidence(differences: Array, pairs: Pairs) -> Evidence:
    keys, place = np.unique(pairs.keys, return_inverse=True)
    order = np.argsort(differences, kind="stable")
    return Evidence(keys, np.bincount(place[order], weights=differences[order]), np.bincount(place))


def _paired_interval(found: Estimate, pairs: Pairs, level: float) -> tuple[float, float]:
    """Of shares, after one pair more in either direction, so that no interval lacks width (Bonett & Price 2012)."""
    if not (is_share(pairs.first) and is_share(pairs.second)):
        return found.interval(level)
    more = np.append(pairs.second - pairs.first, [1.0, -1.0])
    return within(mean_of(more, _and_two(pairs.units)).as_difference.interval(level), (-1.0, 1.0))


def _and_two(units: Units) -> Units:
    """These units, and one more for each of two values."""
    if units.of is None:
        return units
    of = numbered(units.of)
    return replace(units, of=np.append(of, [of.max() + 1, of.max() + 2]))


def _compare_runs(first: Score, second: Score, how: Comparing, one: Side, two: Side) -> Comparison:
    """Systems with several runs, on the same contexts: errors come from contexts and from runs."""
    before, after = (math.fsum(side.values) / len(side.values) for side in (one, two))
    parts = [(before - one.values) / len(one.values), (two.values - after) / len(two.values)]
    found = crossed_estimate(after - before, parts, [one.units, two.units])
    contexts = int(one.units.of.max()) + 1 if one.units.of is not None else 0
    p = 2 * min(found.p_at_most(0.0), found.negated().p_at_most(0.0))
    return _made(
        first,
        second,
        how,
        {"test": "t-of-contexts-and-runs", "effect": "none", "by": CROSSED},
        found,
        ci=found.interval(how.level),
        p=min(1.0, p),
        n=len(one.values) + len(two.values),
        units=contexts,
        unit=one.units.name,
        first_value=before,
        second_value=after,
        smallest_p=0.0 if contexts > 1 and found.error > 0 else min(1.0, 2.0 ** (1 - contexts)),
        parts=error_parts([(one.values, one.units), (two.values, two.units)]),
    )


def _compare_samples(first: Score, second: Score, how: Comparing) -> Comparison:
    """Systems as samples that have nothing to do with each other, in whatever order their sets come."""
    one, two = one_side(first, how), one_side(second, how)
    if min(len(one.values), len(two.values)) < 2:
        raise _too_few(first, second, f"{len(one.values)} and {len(two.values)} sets with a value")
    before, after = mean_of(one.values, one.units), mean_of(two.values, two.units)
    if min(before.freedom, after.freedom) < 1:
        raise _too_few(first, second, f"{before.freedom + 1:g} and {after.freedom + 1:g} {one.units.name}s")
    found = after.minus(before)
    units = int(before.freedom + after.freedom) + 2
    sizes = len(one.values) - 1, len(two.values) - 1
    spreads = one.values.var(ddof=1), two.values.var(ddof=1)
    pooled = math.sqrt((sizes[0] * spreads[0] + sizes[1] * spreads[1]) / sum(sizes))
    grouped = one.units.of is not None or two.units.of is not None
    groups = (_labels(one), _labels(two)) if grouped else None
    return _made(
        first,
        second,
        how,
        {"test": f"permutation-studentised-{PERMUTATIONS}", "effect": "cohen-d", "by": OF_DIFFERENCES},
        found,
        ci=_unpaired_interval(found, one, two, how.level),
        p=unpaired_permutation(one.values, two.values, groups=groups, seed=how.seed),
        n=len(one.values) + len(two.values),
        units=units,
        unit=one.units.name if one.units.of is not None else two.units.name,
        first_value=before.value,
        second_value=after.value,
        effect=_in_deviations(found.value, pooled),
        smallest_p=2 / math.comb(units, int(before.freedom) + 1),
        paired=False,
    )


def _unpaired_interval(found: Estimate, one: Side, two: Side, level: float) -> tuple[float, float]:
    """Of shares, after one success and one failure more on either side (Agresti & Caffo 2000)."""
    if not (is_share(one.values) and is_share(two.values)):
        return found.interval(level)
    before, after = (mean_of(np.append(side.values, [1.0, 0.0]), _and_two(side.units)) for side in (one, two))
    return within(after.minus(before).interval(level), (-1.0, 1.0))


def _labels(side: Side) -> Array:
    return np.arange(len(side.values)) if side.units.of is None else side.units.of


def _in_deviations(difference: float, deviation: float) -> float | None:
    if difference == 0:
        return 0.0
    return float(difference / deviation) if deviation > _ROUNDING * abs(difference) else None


def _too_few(first: Score, second: Score, found: str) -> DataError:
    return DataError(
        f"nothing can be said about '{first.system}' and '{second.system}' by {first.label}: {found}; a test needs at "
        "least 2, and 6 before a paired difference can be significant"
    )


def _compare_corpora(first: Score, second: Score, how: Comparing, paired: bool) -> Comparison:
    one, two = first.left_out, second.left_out
    if one is None or two is None:
        raise DataError(
            f"{first.name} over a whole corpus has no interval here, so nothing can be said about a difference between "
            f"'{first.system}' and '{second.system}'; expected several contexts and exact counts, or a measure of sets"
        )
    if paired and not one.same_units(two):
        not_here = f" ({argument('common', True)} is for measures of sets)" if how.common else ""
        raise DataError(
            f"'{first.system}' and '{second.system}' do not share their ids (or their contexts, where there are no "
            f"ids); a paired test of a whole corpus needs the same in both{not_here}; {OTHER_WAY}",
            option="paired",
        )
    if paired:
        left_out = LeftOut(two.values - one.values, one.sizes / one.sizes.sum() + two.sizes / two.sizes.sum())
        found = jackknife_estimate(second.value - first.value, left_out)
    else:
        found = jackknife_estimate(second.value, two).minus(jackknife_estimate(first.value, one))
    groups = min(len(one), len(two))
    return _made(
        first,
        second,
        how,
        {"test": f"jackknife-{len(one)}" if paired else f"jackknife-unpaired-{len(one)}-{len(two)}"},
        found,
        ci=found.interval(how.level),
        p=_t_test(found, groups),
        n=groups,
        units=groups,
        unit="group",
        first_value=first.value,
        second_value=second.value,
        smallest_p=2.0 ** (1 - groups),
        paired=paired,
    )


def _t_test(found: Estimate, groups: int) -> float:
    """Two-sided p-value of Student's t, not below what swapping the names of so many groups could give."""
    if found.value == 0:
        return 1.0
    p = 2 * min(found.p_at_most(0.0), found.negated().p_at_most(0.0))
    return min(1.0, max(p, 2.0 ** (1 - groups)))


def _made(
    first: Score, second: Score, how: Comparing, facts: dict[str, str], found: Estimate, **more: Any
) -> Comparison:
    if how.common and first.items is not None and more.get("paired", True):
        facts = {**facts, "common": str(more["units"])}
    facts = {**facts, "unit": more["unit"], "ci": f"{how.level:g}", "seed": str(how.seed)}
    none_varies = found.error <= _ROUNDING * (abs(more["first_value"]) + abs(more["second_value"]))
    least = max(more["smallest_p"] if none_varies else 0.0, sys.float_info.min)
    more["p"] = max(more["p"], least)
    tests: dict[str, Any] = {}
    if how.margin is not None:
        facts["margin"] = f"{how.margin:g}"
        toward_better = found if first.direction.sign > 0 else found.negated()
        sides = found.p_at_most(-how.margin), found.negated().p_at_most(-how.margin)
        tests = {"equal_p": max(*sides, least / 2), "not_worse_p": max(toward_better.p_at_most(-how.margin), least / 2)}
    reach = first.bounds[1] - first.bounds[0]
    if none_varies and more["smallest_p"] > 1 - how.level:
        more["ci"] = (-math.inf, math.inf)
    more["ci"] = within(more["ci"], (-reach, reach))
    return Comparison(
        metric=first.name,
        metric_label=first.label,
        first=first.system,
        second=second.system,
        higher_is=first.higher_is,
        level=first.level,
        signature=str(replace(first.signature, facts=facts)),
        difference=found.value,
        error=found.error,
        p_adjusted=more["p"],
        margin=how.margin,
        at_different_sizes=at_different_sizes(first, second),
        **tests,
        **more,
    )


def compare_all(scores: Sequence[Score], *, paired: bool = True, **options: Any) -> list[Comparison]:
    """Every later system against the first, metric by metric, corrected as one family.

    Further options are those of `Comparing`.
    """
    (how,) = spread(options, Comparing)
    return compare_systems(scores, how, paired=paired)


def compare_systems(scores: Sequence[Score], how: Comparing, *, paired: bool = True) -> list[Comparison]:
    """As `compare_all`, with options in a group."""
    systems = list(dict.fromkeys(score.system for score in scores))
    baseline = [score for score in scores if score.system == systems[0]]
    made = [
        compare_scores(base, score, how, paired=paired)
        for base in baseline
        for score in scores
        if score.system != systems[0]
        and str(replace(score.signature, facts={})) == str(replace(base.signature, facts={}))
    ]
    return corrected(made, how)


def corrected(comparisons: Sequence[Comparison], how: Comparing) -> list[Comparison]:
    """These comparisons as one family: p-values, and the smallest possible ones, after the correction.

    Max-T is for comparisons that share swaps: those of sets on the same contexts. Others are corrected by Holm's
    method, and each part of the family gets its share of the error.
    """
    family = len(comparisons)
    if family < 2:
        return list(comparisons)
    p, factors = np.array([one.p for one in comparisons]), np.ones(family)
    adjusted, alpha, critical = p.copy(), np.full(family, SIGNIFICANT), np.full(family, None)
    parts = _parts(comparisons) if how.correction == "max-t" else [np.arange(family)]
    for chosen in parts if how.correction != "none" else ():
        mine = [comparisons[int(place)] for place in chosen]
        together = _differences(mine) if how.correction == "max-t" and len(mine) > 1 else None
        share = len(mine) / family
        if together is None:
            found, factors[chosen] = holm_family(p[chosen], share * SIGNIFICANT), family
        else:
            found, factors[chosen] = paired_max_t(together, share * SIGNIFICANT, seed=how.seed), 1 / share
        adjusted[chosen] = np.minimum(1.0, np.maximum(found.p / share, p[chosen]))
        alpha[chosen], critical[chosen] = found.alpha, found.critical
    equal, not_worse = (
        _holm_of([getattr(one, name) for one in comparisons], how) for name in ("equal_p", "not_worse_p")
    )
    facts = {"correction": how.correction, "family": str(family)}
    return [
        replace(
            one,
            p_adjusted=float(adjusted[place]),
            smallest_p=min(1.0, float(factors[place]) * one.smallest_p),
            alpha=float(alpha[place]),
            family=family,
            evidence=one.evidence and replace(one.evidence, critical=critical[place]),
            equal_p=equal[place],
            not_worse_p=not_worse[place],
            signature=_with_facts(one.signature, facts),
        )
        for place, one in enumerate(comparisons)
    ]


def family_in_words(comparisons: Sequence[Comparison]) -> str:
    """Which tests of one output are a family, and what corrects them; empty where there are none."""
    if not comparisons:
        return ""
    if len(comparisons) == 1:
        return f"one test, which needs no correction: p below {SIGNIFICANT:g} is significant"
    if Signature.parse(comparisons[0].signature).facts.get("correction") == "none":
        one_in = f"about one in {1 / SIGNIFICANT:.0f} is significant where nothing differs"
        return f"{len(comparisons)} tests, none of them corrected: {one_in}"
    by_max_t = {one.evidence is not None and one.evidence.critical is not None for one in comparisons}
    both = "max-T where tests share swaps and by Holm's method elsewhere"
    by = both if len(by_max_t) > 1 else "max-T" if by_max_t == {True} else "Holm's method"
    margin = "; the two tests of the margin are families of their own, by Holm's method" * bool(comparisons[0].margin)
    family = f"{len(comparisons)} tests are one family, corrected by {by}"
    return f"{family}: p (adjusted) below {SIGNIFICANT:g} is significant{margin}"


def _parts(comparisons: Sequence[Comparison]) -> list[Array]:
    """Comparisons with and without differences of units."""
    known = np.array([one.evidence is not None for one in comparisons])
    return [chosen for chosen in (np.flatnonzero(known), np.flatnonzero(~known)) if len(chosen)]


def _differences(comparisons: Sequence[Comparison]) -> Array | None:
    """Differences of units x comparisons, 0 where a comparison lacks a unit; None where they have none."""
    evidence = [one.evidence for one in comparisons if one.evidence is not None]
    if not evidence or len({one.keys.dtype.kind for one in evidence}) > 1:
        return None
    keys = np.unique(np.concatenate([one.keys for one in evidence]))
    table = np.zeros((len(keys), len(evidence)))
    for place, one in enumerate(evidence):
        table[np.searchsorted(keys, one.keys), place] = one.sums
    return table


def _holm_of(p_values: Sequence[float | None], how: Comparing) -> list[float | None]:
    known = [one for one in p_values if one is not None]
    if len(known) < len(p_values) or how.correction == "none":
        return list(p_values)
    return [float(one) for one in holm(np.array(known))]


def _with_facts(signature: str, facts: dict[str, str]) -> str:
    return str(Signature.parse(signature).with_facts(facts))
