"""Comparing systems metric by metric: on the same contexts, or as samples that have nothing to do with each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import spread
from nlgauge.errors import DataError, argument
from nlgauge.metrics.score import Direction, HigherIs, Level, Score
from nlgauge.stats.inference import Inference
from nlgauge.stats.jackknife import LeftOut, jackknife_error, jackknife_interval, jackknife_test
from nlgauge.stats.paired import holm, paired_bootstrap, paired_permutation

PERMUTATIONS = 10_000
SIGNIFICANT = 0.05
_DRAWS_AT_ONCE = 4_000_000
_ROUNDING = 1e-9
_SHOWN = 60
_OTHER_WAY = f"{argument('paired', False)} takes them as samples that have nothing to do with each other"


@dataclass(frozen=True)
class Comparison:
    """Second system minus first.

    Paired, on the contexts that both answered, `p` is from a paired permutation test; unpaired, from a permutation test
    over all sets of both. Measures of a whole corpus take the jackknife. `p_holm` corrects `p` for the number of
    comparisons made together, and equals it for one alone; `smallest_p` is the least that so few sets could have given.
    `first_value` and `second_value` are means over the compared sets. `effect` is the difference in standard deviations
    (Cohen's d; those of the differences when paired), None where there is no spread or no value of single sets.
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
    first_value: float = float("nan")
    second_value: float = float("nan")
    effect: float | None = None
    smallest_p: float = 0.0
    paired: bool = True
    level: Level = "set"

    @property
    def direction(self) -> Direction:
        """What a higher value means, with its sign."""
        return Direction(self.higher_is)

    @property
    def verdict(self) -> str:
        """What the test says, in words."""
        if (self.p if math.isnan(self.p_holm) else self.p_holm) < SIGNIFICANT:
            found = self.direction if self.difference > 0 else self.direction.opposite
            pooled = " over all contexts" if self.level == "corpus" else ""
            return f"{self.second} is {found.words} than {self.first}{pooled}"
        if self.smallest_p >= SIGNIFICANT:
            return f"too few {'contexts' if self.paired else 'sets'} to tell"
        return "no significant difference"

    def to_dict(self) -> dict[str, Any]:
        """For JSON; a number that is not finite is null there."""
        found = {name: _finite(value) for name, value in self.__dict__.items()}
        return {**found, "ci": [_finite(end) for end in self.ci], "verdict": self.verdict}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def compare(first: Score, second: Score, *, paired: bool = True, **options: Any) -> Comparison:
    """Compare two systems' scores by the same metric: context by context, or with `paired=False` as two samples.

    Further options are those of `Inference`.
    """
    (inference,) = spread(options, Inference)
    return compare_scores(first, second, inference, paired=paired)


def compare_scores(first: Score, second: Score, how: Inference, *, paired: bool = True) -> Comparison:
    """As `compare`, with options in a group."""
    if not (isinstance(first, Score) and isinstance(second, Score)):
        raise DataError(
            f"found {type(first).__name__} and {type(second).__name__}; expected two scores, not names of files or "
            "lists: first, second = nlgauge.score([FILE, FILE], ['distinct'])"
        )
    own, other = first.signature, second.signature
    if (own.name, own.options) != (other.name, other.options):
        raise DataError(f"cannot compare different metrics: {first.signature} and {second.signature}")
    if first.per_item is None or second.per_item is None:
        return _compare_corpora(first, second, how, paired)
    return _compare_pairs(first, second, how) if paired else _compare_samples(first, second, how)


def _compare_pairs(first: Score, second: Score, how: Inference) -> Comparison:
    one, two = pair_values(first, second)
    defined = ~(np.isnan(one) | np.isnan(two))
    one, two = one[defined], two[defined]
    if len(one) < 2:
        raise _too_few(first, second, f"{len(one)} context{'s' * (len(one) != 1)} on which both have a value")
    differences = np.sort(two - one)
    facts = {"test": f"permutation-{PERMUTATIONS}", "by": f"bootstrap-{how.resamples}", "effect": "cohen-dz"}
    return _made(
        first,
        second,
        how,
        facts,
        difference=float(np.mean(differences)),
        ci=paired_bootstrap(one, two, confidence=how.level, resamples=how.resamples, seed=how.seed),
        p=paired_permutation(one, two, resamples=PERMUTATIONS, seed=how.seed),
        n=len(one),
        first_value=float(np.mean(np.sort(one))),
        second_value=float(np.mean(np.sort(two))),
        effect=_in_deviations(differences.mean(), differences.std(ddof=1)),
        smallest_p=max(2.0 ** (1 - len(one)), 1 / (PERMUTATIONS + 1)),
    )


def _compare_samples(first: Score, second: Score, how: Inference) -> Comparison:
    """A permutation test and a percentile bootstrap over sets, each system drawn apart, in whatever order it came."""
    from scipy.stats import bootstrap, permutation_test

    one, two = _defined(first), _defined(second)
    if min(len(one), len(two)) < 2:
        raise _too_few(first, second, f"{len(one)} and {len(two)} sets with a value")
    batch = max(1, _DRAWS_AT_ONCE // (len(one) + len(two)))
    options: dict[str, Any] = {"vectorized": True, "batch": batch}
    test = permutation_test(
        (one, two), _gain, n_resamples=PERMUTATIONS, random_state=np.random.default_rng(how.seed), **options
    )
    drawn = bootstrap(
        (one, two),
        _gain,
        n_resamples=how.resamples,
        confidence_level=how.level,
        method="percentile",
        random_state=np.random.default_rng(how.seed),
        **options,
    )
    freedom = len(one) + len(two) - 2
    pooled = math.sqrt(((len(one) - 1) * one.var(ddof=1) + (len(two) - 1) * two.var(ddof=1)) / freedom)
    difference = float(_gain(one, two))
    facts = {"test": f"permutation-unpaired-{PERMUTATIONS}", "by": f"bootstrap-{how.resamples}", "effect": "cohen-d"}
    return _made(
        first,
        second,
        how,
        facts,
        difference=difference,
        ci=(float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)),
        p=float(test.pvalue),
        n=len(one) + len(two),
        first_value=float(one.mean()),
        second_value=float(two.mean()),
        effect=_in_deviations(difference, pooled),
        smallest_p=2 / min(math.comb(len(one) + len(two), len(one)), PERMUTATIONS + 1),
        paired=False,
    )


def _gain(one: Array, two: Array, axis: int = -1) -> Array:
    gain: Array = two.mean(axis=axis) - one.mean(axis=axis)
    return gain


def _defined(score: Score) -> Array:
    values = score.items.all_values() if score.items is not None else np.empty(0)
    return np.sort(values[~np.isnan(values)])


def _in_deviations(difference: float, deviation: float) -> float | None:
    if difference == 0:
        return 0.0
    return float(difference / deviation) if deviation > _ROUNDING * abs(difference) else None


def _too_few(first: Score, second: Score, found: str) -> DataError:
    return DataError(
        f"nothing can be said about '{first.system}' and '{second.system}' by {first.label}: {found}; a test needs at "
        "least 2, and 6 before a paired difference can be significant"
    )


def _compare_corpora(first: Score, second: Score, how: Inference, paired: bool) -> Comparison:
    one, two = first.left_out, second.left_out
    if one is None or two is None:
        raise DataError(
            f"{first.name} over a whole corpus has no interval here, so nothing can be said about a difference between "
            f"'{first.system}' and '{second.system}'; expected several contexts and exact counts, or a measure of sets"
        )
    if paired and not np.array_equal(one.sizes, two.sizes):
        raise DataError(
            f"'{first.system}' and '{second.system}' do not share their ids (or their contexts, where there are no "
            f"ids); a paired test of a whole corpus needs the same in both; {_OTHER_WAY}"
        )
    difference = second.value - first.value
    if paired:
        left_out = LeftOut(two.values - one.values, one.sizes)
        ci, p = jackknife_interval(difference, left_out, how.level), jackknife_test(difference, left_out)
    else:
        ci, p = _compare_apart(first.value, second.value, one, two, how.level)
    return _made(
        first,
        second,
        how,
        {"test": f"jackknife-{len(one)}" if paired else f"jackknife-unpaired-{len(one)}-{len(two)}"},
        difference=difference,
        ci=ci,
        p=p,
        n=min(len(one), len(two)),
        first_value=first.value,
        second_value=second.value,
        paired=paired,
    )


def _compare_apart(
    first: float, second: float, one: LeftOut, two: LeftOut, confidence: float
) -> tuple[tuple[float, float], float]:
    """Interval and p-value when errors add up: Student's t with the fewer groups' degrees of freedom, to be careful."""
    from scipy.special import stdtr, stdtrit

    difference, freedom = second - first, min(len(one), len(two)) - 1
    error = math.hypot(jackknife_error(first, one), jackknife_error(second, two))
    half = float(stdtrit(freedom, (1 + confidence) / 2)) * error
    if error == 0:
        return (difference, difference), 1.0 if difference == 0 else 0.0
    return (difference - half, difference + half), float(2 * stdtr(freedom, -abs(difference) / error))


def _made(first: Score, second: Score, how: Inference, facts: dict[str, str], **found: Any) -> Comparison:
    facts = {**facts, "ci": f"{how.level:g}", **({"seed": str(how.seed)} if "by" in facts else {})}
    return Comparison(
        metric=first.name,
        metric_label=first.label,
        first=first.system,
        second=second.system,
        higher_is=first.higher_is,
        level=first.level,
        signature=str(replace(first.signature, facts=facts)),
        p_holm=found["p"],
        **found,
    )


def compare_all(scores: Sequence[Score], *, paired: bool = True, **options: Any) -> list[Comparison]:
    """Every later system against the first, metric by metric, with Holm's correction over all of them.

    Further options are those of `Inference`.
    """
    (inference,) = spread(options, Inference)
    return compare_systems(scores, inference, paired=paired)


def compare_systems(scores: Sequence[Score], how: Inference, *, paired: bool = True) -> list[Comparison]:
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
    adjusted = holm(np.array([comparison.p for comparison in made]))
    return [replace(comparison, p_holm=float(p)) for comparison, p in zip(made, adjusted, strict=True)]


def size_warnings(scores: Sequence[Score]) -> Iterator[str]:
    """Measures of a whole corpus mostly fall with its size (paper 2), which no test between corpora can take out."""
    for label in dict.fromkeys(score.label for score in scores if score.items is None):
        sizes = {score.system: score.n for score in scores if score.label == label}
        if len(set(sizes.values())) > 1:
            found = ", ".join(f"'{system}' {size:,}" for system, size in sizes.items())
            yield (
                f"{label} of a whole corpus depends on its size, and systems have different numbers of texts "
                f"({found}); compare as many texts of each"
            )


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
        if same and (key != "id" or not _changed_contexts(joined)):
            return joined["value"].to_numpy(), joined["value_2"].to_numpy()
    raise DataError(_why_not(one, two, first.system, second.system))


def _changed_contexts(joined: pl.DataFrame) -> int:
    """How many ids stand with another context on the other side."""
    if "context_hash" not in joined.columns or "context_hash_2" not in joined.columns:
        return 0
    return int((joined["context_hash"] != joined["context_hash_2"]).sum())


def _why_not(one: pl.DataFrame, two: pl.DataFrame, first: str, second: str) -> str:
    numbered = _is_numbered(one) and _is_numbered(two)
    with_contexts = "context_hash" in one.columns and "context_hash" in two.columns
    found = [] if numbered and with_contexts else [f"{len(set(one['id']) & set(two['id']))} ids in common"]
    twice = [
        f"id '{_printable(frame['id'].filter(frame['id'].is_duplicated())[0])}' stands several times in '{system}'"
        for frame, system in ((one, first), (two, second))
        if frame["id"].n_unique() < len(frame)
    ]
    changed = 0 if twice or numbered else _changed_contexts(one.join(two, on="id", how="inner", suffix="_2"))
    found += [f"{changed} of them with another context"] if changed else twice
    if with_contexts:
        found += _about_contexts(one, two, first, second)
    column = argument("context", "COL")
    hint = f" (ids look like line numbers, and no contexts are known: name their column with {column})"
    return (
        f"'{first}' and '{second}' cannot be paired: {len(one)} and {len(two)} sets, {', '.join(found)}"
        f"{hint if numbered and not with_contexts else ''}; a paired test needs the same ids with the same contexts "
        f"(or, without ids, each context once) in both files; {_OTHER_WAY}"
    )


def _about_contexts(one: pl.DataFrame, two: pl.DataFrame, first: str, second: str) -> list[str]:
    """How many contexts are shared, and a set whose context is missing on the other side or stands there again."""
    found = [f"{len(set(one['context_hash']) & set(two['context_hash']))} contexts in common"]
    for frame, system, others, other in ((one, first, two, second), (two, second, one, first)):
        lacking = frame.join(others, on="context_hash", how="anti", maintain_order="left")["id"]
        if len(lacking):
            return [*found, f"the context of set '{_printable(lacking[0])}' of '{system}' is not in '{other}'"]
    for frame, system in ((one, first), (two, second)):
        again = frame.filter(pl.col("context_hash").is_duplicated())["id"]
        if len(again):
            return [*found, f"the context of set '{_printable(again[0])}' stands several times in '{system}'"]
    return found


def _is_numbered(frame: pl.DataFrame) -> bool:
    """Whether ids look like the numbers of lines, which stand for ids where a file has none."""
    numbers = frame["id"].cast(pl.Int64, strict=False)
    return not numbers.null_count() and bool((numbers.diff().drop_nulls() > 0).all())


def _printable(text: str) -> str:
    """The beginning of a text, without characters that steer a terminal."""
    shown = "".join(character if character.isprintable() else "\ufffd" for character in text[:_SHOWN])
    return f"{shown}…" if len(text) > _SHOWN else shown
