"""What to know of scores before they are believed: sizes, contexts, skewness, sets that are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nlgauge.metrics.score import Score, has_one_context, is_skewed
from nlgauge.scoring.sizes import size_notes
from nlgauge.stats.inference import Unit


def cautions(scores: Sequence[Score], unit: Unit = "auto") -> Iterator[str]:
    """Which scores leave sets out, and which intervals may not hold what they say; one line each."""
    yield from size_notes(scores)
    whole = dict.fromkeys(one.label for one in scores if one.left_out is not None and one.ci is not None)
    if unit in ("run", "set") and whole:
        grouped = "intervals of a whole corpus leave out groups of contexts (or of texts, where contexts are not known)"
        yield f"warning: {', '.join(whole)}: {grouped}, whatever the unit"
    for system, sets in {one.system: one.n for one in scores if has_one_context(one)}.items():
        yield (
            f"warning: all {sets} sets of '{system}' have one context; intervals and tests are about that context alone"
        )
    for one in scores:
        if one.ci is not None and is_skewed(one):
            yield (
                f"warning: values of {one.label} of '{one.system}' are so skewed that {one.n} of them may not show "
                "their tail; the interval may cover less than it says"
            )
        if one.excluded:
            yield (
                f"warning: {one.label} has no value on {one.excluded} of {one.excluded + one.n} sets of "
                f"'{one.system}'; they do not count in its mean"
            )
