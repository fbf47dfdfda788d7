"""Raters made of paper: studies in a real store, answered by a rule, without a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nlgauge.annotate.answers import questions_for
from nlgauge.annotate.database.records import Lease, Rater, Study
from nlgauge.annotate.database.schema import connect, migrate
from nlgauge.annotate.database.store import Store
from nlgauge.annotate.units import Unit
from nlgauge.data.human.forms import Form

Rule = Callable[[str, str, str], Any]


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def __call__(self) -> float:
        return self.time


@contextmanager
def opened(database: str | Path, clock: Callable[[], float] | None = None) -> Iterator[Store]:
    """A store with its tables."""
    engine = connect(str(database))
    try:
        migrate(engine)
        yield Store(engine) if clock is None else Store(engine, clock)
    finally:
        engine.dispose()


def answers_by(form: Form, unit: Unit, rater: str, rule: Rule) -> dict[tuple[str, str], Any]:
    """An answer to everything that is asked: what the rule says of (rater, item, question), or a text of its own."""
    found: dict[tuple[str, str], Any] = {}
    for step in range(len(form.steps)):
        for item, question in questions_for(form, unit, step):
            text = f"what {rater} would say about {unit.items[0].id}"
            found[item, question.id] = text if question.widget == "text" else rule(rater, item, question.id)
    return found


def work(
    store: Store, study: Study, name: str, rule: Rule, clock: Clock, seconds: float = 100.0, most: int = 999
) -> Rater:
    """Let a rater take units and hand them in until there are none, or so many."""
    rater = store.join(study, "direct", name)
    for _ in range(most):
        lease = store.lease(study, rater)
        if not isinstance(lease, Lease):
            break
        store.save_all(lease.assignment.id, rater.id, answers_by(study.form, lease.unit, name, rule))
        clock.time += seconds
        assert not store.submit(lease.assignment.id, rater.id, seconds).missing
    return store.rater(rater.id)


def from_table(values: Mapping[str, Sequence[int]], items: Sequence[str], *, other: int = 3) -> Rule:
    """A rule that looks a rater's answers up by the place of the item; about the unit as a whole it says `other`."""

    def rule(rater: str, item: str, _: str) -> int:
        return values[rater][items.index(item)] if item in items else other

    return rule
