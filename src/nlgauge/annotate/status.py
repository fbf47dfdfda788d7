"""The dashboard of a study, and a form, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nlgauge.annotate.dashboard import Dashboard
    from nlgauge.data.human.forms import Form


def status_lines(found: Dashboard) -> Iterator[str]:
    """Progress, cost, agreement and raters, one per line."""
    done, cost = found.progress, found.cost
    yield f"{found.study} ({found.state}): {done.share:.0%}, {done.units_done} of {done.units} units done"
    yield (
        f"assignments: {done.valid} valid, {done.leased} open, {done.rejected} rejected, {done.expired} run out, "
        f"{done.left} to go"
    )
    if done.median_seconds is not None:
        yield f"time: {done.median_seconds:.0f} seconds per assignment (median)"
    if cost.pay:
        yield f"cost: {cost.so_far:.2f} {cost.currency} so far, {cost.to_finish:.2f} to finish"
    for one in found.agreement:
        if one.alpha is None or one.interval is None:
            yield f"agreement on {one.question}: none ({one.reason})"
        else:
            low, high = one.interval
            yield f"agreement on {one.question}: alpha {one.alpha:.3f} [{low:.3f}, {high:.3f}]"
    yield from (f"more raters or more items, {one.question}: {one.advice}" for one in found.stability if one.advice)
    for rater in found.raters:
        rules = ", ".join(f"{rule} {count}" for rule, count in rater.rules.items())
        numbers = ", ".join(map(str, rater.verdicts))
        against = f"; rejected by {rules} (verdicts {numbers})" if rules else ""
        follows = "" if rater.correlation is None else f", follows the others {rater.correlation:.2f}"
        yield f"{rater.pseudonym} ({rater.state}): {rater.assignments} handed in, {rater.valid} valid{follows}{against}"


def form_lines(form: Form) -> Iterator[str]:
    """What a form shows and asks."""
    minutes = "1 minute" if form.minutes == 1 else f"{form.minutes:g} minutes"
    yield f"{form.name}: {form.title}"
    yield f"{form.paper or form.plugin or 'a form of your own'}; about {minutes}"
    yield f"per unit: {form.unit.size} {form.unit.of}{'s' if form.unit.size > 1 else ''}"
    for step in form.steps:
        yield f"\n{step.title} (shows {', '.join(step.show)})"
        for question in step.questions:
            notes = [question.widget, f"per {question.per}"]
            notes += [] if question.required else ["optional"]
            notes += [] if question.export else ["not exported"]
            yield f"  {question.id}: {question.prompt} ({', '.join(notes)})"
