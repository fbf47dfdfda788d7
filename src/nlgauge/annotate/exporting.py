"""Export of ratings and of written sets: the tables that studies read, with pseudonyms of raters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import polars as pl

from nlgauge.annotate.answers import ratings_of
from nlgauge.annotate.database.records import DONE, Snapshot
from nlgauge.annotate.written import PEOPLE, written_work
from nlgauge.data.tables import Ratings, ResponseSets
from nlgauge.errors import DataError, OptionError

Include = Literal["valid", "all"]


def exported(snapshot: Snapshot, include: Include = "valid") -> Ratings | ResponseSets:
    """What a study gives: the sets that people wrote where its form asks for some, else ratings."""
    return (
        response_sets(snapshot, include=include) if snapshot.study.form.writes else ratings(snapshot, include=include)
    )


def response_sets(snapshot: Snapshot, *, include: Include = "valid") -> ResponseSets:
    """The sets that people wrote, one row each, as `study content` reads them.

    Columns: `id`, `context_id` and `context`, `responses`, `content_diversity` (1: five different responses, 0: one in
    five wordings), `tester` (people) and `made_by`, the pseudonym of who wrote the set.
    """
    _check_include(include)
    work = [one for one in written_work(snapshot) if one.state in DONE or include == "all"]
    sets = [(one, label, texts) for one in work for label, texts in one.sets]
    if not sets:
        raise DataError(
            f"study '{snapshot.study.name}' has no {'valid ' if include == 'valid' else ''}sets; expected submitted "
            "work: wait for people to write"
        )
    return ResponseSets.of(
        [texts for *_, texts in sets],
        ids=[f"{one.context_id}-{one.writer}-{('low', 'high')[label]}" for one, label, _ in sets],
        contexts=[one.context for one, *_ in sets],
        columns={
            "context_id": [one.context_id for one, *_ in sets],
            "content_diversity": [label for _, label, _ in sets],
            "tester": [PEOPLE] * len(sets),
            "made_by": [one.writer for one, *_ in sets],
        },
    )


def _check_include(include: str) -> None:
    if include not in ("valid", "all"):
        raise OptionError(f"include = '{include}'; expected 'valid' or 'all'")


def ratings(
    snapshot: Snapshot,
    *,
    include: Include = "valid",
    questions: Sequence[str] | None = None,
    added: bool = False,
) -> Ratings:
    """One row per rating: `item, rater, question, value, time` (UTC seconds of the answer), `pair` for compared pairs,
    and `assignment`, the number of the unit, where numbers compare the items of one assignment only.

    By default the valid work on normal units, and the questions that the form marks for export; `all` includes
    all submitted work, rejected or not. `added` includes human texts and negatives that were added to units and are not
    in the data. `write_table` writes the table as CSV, JSON lines or Parquet.
    """
    _check_include(include)
    form = snapshot.study.form
    if form.writes:
        raise DataError(
            f"study '{snapshot.study.name}' has no ratings: its form '{form.name}' asks people to write sets"
        )
    wanted = [one.id for one in form.questions if one.export] if questions is None else list(questions)
    for question in wanted:
        form.question(question)
    units = {one.id: one.unit for one in snapshot.units if one.unit.kind == "normal"}
    names = {rater.id: rater.pseudonym for rater in snapshot.raters}
    handed_in = {
        one.id: one
        for one in snapshot.assignments
        if one.unit_id in units and (one.state in DONE or (include == "all" and one.submitted_at is not None))
    }
    numbers = {one.id: str(one.position) for one in snapshot.units}
    relative = {one.id for one in form.questions if one.relative}
    rows: list[tuple[Any, ...]] = []
    for answer in snapshot.answers:
        assignment = handed_in.get(answer.assignment_id)
        if assignment is None or answer.question not in wanted:
            continue
        unit = units[assignment.unit_id]
        left_out = set() if added else {item.id for item in unit.items if item.id.endswith(f"#{item.role}")}
        rows += [
            (
                rated.item,
                names[assignment.rater_id],
                rated.question,
                rated.value,
                numbers[assignment.unit_id] if answer.question in relative else None,
                rated.pair,
                answer.saved_at,
            )
            for rated in ratings_of(form, answer.question, answer.item, answer.value, unit)
            if rated.item not in left_out
        ]
    if not rows:
        raise DataError(
            f"study '{snapshot.study.name}' has no {'valid ' if include == 'valid' else ''}ratings of "
            f"{', '.join(wanted) or 'any question'}; expected submitted work: wait for raters"
        )
    schema = {"item": pl.String, "rater": pl.String, "question": pl.String, "value": pl.Float64}
    schema |= {"assignment": pl.String, "pair": pl.String, "time": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.col("pair").replace("", None))
    unused = [name for name in ("assignment", "pair") if frame[name].null_count() == len(frame)]
    return Ratings(frame.drop(unused))
