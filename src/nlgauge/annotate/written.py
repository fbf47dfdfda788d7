"""Sets of responses that people wrote: what each handed in, with its verdicts, for review and export."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nlgauge.annotate.answers import written_sets
from nlgauge.annotate.database.records import AssignmentState, Key, Snapshot, Verdict
from nlgauge.errors import DataError

PEOPLE = "people"
CLASSES = ("one response in several wordings", "different responses")


@dataclass(frozen=True, kw_only=True)
class WrittenWork:
    """What one person wrote to one context: sets with their labels, and the verdicts in force about them.

    `open_verdicts` are those about the assignment or its writer that nobody overruled.
    """

    assignment: int
    state: AssignmentState
    writer: str
    seconds: float | None
    context_id: str
    context: str
    sets: tuple[tuple[int, tuple[str, ...]], ...]
    open_verdicts: tuple[Verdict, ...]


def written_work(snapshot: Snapshot) -> list[WrittenWork]:
    """All work that was handed in, the latest first."""
    form = snapshot.study.form
    answers: dict[int, dict[Key, object]] = {}
    for answer in snapshot.answers:
        answers.setdefault(answer.assignment_id, {})[answer.item, answer.question] = answer.value
    names = {rater.id: rater.pseudonym for rater in snapshot.raters}
    units = {row.id: row.unit for row in snapshot.units}
    standing = [verdict for verdict in snapshot.verdicts if verdict.overruled_at is None]
    found = []
    for one in snapshot.assignments:
        if one.submitted_at is None:
            continue
        unit = units[one.unit_id]
        sets = tuple((label, tuple(texts)) for label, texts in written_sets(form, answers.get(one.id, {})))
        about = (
            v for v in standing if v.assignment_id == one.id or (v.assignment_id is None and v.rater_id == one.rater_id)
        )
        found.append(
            WrittenWork(
                assignment=one.id,
                state=one.state,
                writer=names[one.rater_id],
                seconds=one.seconds,
                context_id=unit.items[0].id,
                context=unit.context,
                sets=sets,
                open_verdicts=tuple(about),
            )
        )
    return found[::-1]


def require_writing(snapshot: Snapshot) -> None:
    """Refuse a study of a form that asks for ratings."""
    study = snapshot.study
    if not study.form.writes:
        raise DataError(
            f"study '{study.name}' asks for ratings (form '{study.form.name}'); expected a form that asks people to "
            "write sets, such as write-different"
        )


def work_lines(work: list[WrittenWork]) -> Iterator[str]:
    """What people wrote, for a terminal: each assignment with its number, its state and its texts."""
    for one in work:
        time = "" if one.seconds is None else f", {one.seconds:.0f} seconds"
        yield f"assignment {one.assignment} ({one.state}{time}) by {one.writer}: {one.context!r}"
        for label, texts in one.sets:
            yield f"  {CLASSES[label]} (content_diversity {label}):"
            yield from (f"    {number}. {text!r}" for number, text in enumerate(texts, 1))
        yield from (
            f"  rejected by {verdict.rule} (verdict {verdict.id}): {verdict.reason!r}" for verdict in one.open_verdicts
        )
