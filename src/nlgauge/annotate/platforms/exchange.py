"""Files of crowd platforms: Mechanical Turk's HITs and results, Prolific's links and submissions, HUSE's raw results.

Imported work is processed like work on this site: the worker joins the study under a hash of their id, takes the unit,
answers and submits, with the original times, and the study's quality rules judge the work. A file can be imported again
when it has grown: known assignments are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from email.utils import mktime_tz, parsedate_tz
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import polars as pl

from nlgauge.annotate.answers import check_answer, missing_answers
from nlgauge.annotate.database.records import DONE, Key, Rater, Snapshot, Study, hashed_id
from nlgauge.annotate.database.store import Store
from nlgauge.annotate.platforms.template import (
    external_question,
    make_hits,
    page_fields,
    read_answers,
    shown_unit,
    unit_name,
)
from nlgauge.annotate.units import Unit
from nlgauge.data.human.crowd import HUSE_WORDS, read_crowd
from nlgauge.data.human.forms import Form, Shape
from nlgauge.data.plain_tables import read_cells
from nlgauge.data.roles import no_such_column
from nlgauge.data.tables import Items, Origin
from nlgauge.data.writing import write_table
from nlgauge.engine.files import write_text
from nlgauge.errors import DataError, OptionError, argument

FORM_OF_HUSE = "typicality"
PROLIFIC_DONE = "https://app.prolific.com/submissions/complete"

_WORKER, _STATUS, _SECONDS, _AT = "WorkerId", "AssignmentStatus", "WorkTimeInSeconds", "SubmitTime"
_STATUSES = ("Approved", "Submitted", "Rejected")
_PROLIFIC_REASONS = {
    "REJECTED": "the submission was rejected on Prolific",
    "RETURNED": "the submission was returned on Prolific",
    "TIMED OUT": "the submission ran out of time on Prolific",
    "SCREENED OUT": "the participant was screened out on Prolific",
}
_PROLIFIC_STATUSES = ("APPROVED", "AWAITING REVIEW", "ACTIVE", "RESERVED", *_PROLIFIC_REASONS)
_PROLIFIC_IDS = ("Participant id", "Submission id")
_GUARD = re.compile(r"'(?=[=+\-@\t\r])")
_NOTHING = ("", "{}")
_TIME = re.compile(
    r"\w{3} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{1,2} \d\d:\d\d:\d\d (PST|PDT|UTC|GMT) \d{4}"
)


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The result of an import: the numbers of new, rejected and already known assignments."""

    raters: int
    new: int
    rejected: int
    known: int


@dataclass(frozen=True, kw_only=True)
class _Work:
    """One assignment of a file. `refused` is the requester's reason for rejection, or empty."""

    line: int
    worker: str
    unit_id: int
    answers: Mapping[Key, Any]
    seconds: float
    at: float
    refused: str = ""


def write_mturk(snapshot: Snapshot, folder: Path, *, address: str = "") -> list[Path]:
    """Write HITs and their page (`hits.csv`, `template.html`), numbered if units need different pages.

    With `address`, the study's entrance, also `external_question.xml`, for HITs that show this site.
    """
    folder.mkdir(parents=True, exist_ok=True)
    external = external_question(address) if address else ""
    files = make_hits(snapshot)
    written = []
    for number, (table, template) in enumerate(files, 1):
        mark = f"-{number}" if len(files) > 1 else ""
        hits, page = folder / f"hits{mark}.csv", folder / f"template{mark}.html"
        write_table(table, hits)
        write_text(page, template)
        written += [hits, page]
    if external:
        write_text(folder / "external_question.xml", external)
        written.append(folder / "external_question.xml")
    return written


def import_mturk(store: Store, study: Study, path: str | Path, *, who: str = "cli") -> Imported:
    """Import a results file of Mechanical Turk for the HITs of `write_mturk`.

    Each answer has its own column, or all are in `Answer.taskAnswers` if the page was put into a crowd-form.
    """
    needed = (_WORKER, _SECONDS, "Input.unit")
    table, origin = _read_rows(path, needed, "the results of HITs that NLGauge wrote")
    known = {unit_name(one): one for one in store.snapshot(study).units}
    rows = []
    for row, cells in enumerate(table):
        if not cells[_WORKER] and not any(cell for name, cell in cells.items() if name.startswith("Answer.")):
            continue
        one = known.get(cells["Input.unit"])
        if one is None:
            raise origin.error(
                row,
                f"found the unit '{cells['Input.unit'][:60]}'; expected one of study '{study.name}': import the file "
                "into the study whose HITs it answers",
                "Input.unit",
            )
        unit = shown_unit(study, one.unit)
        try:
            found = read_answers(study.form, unit, page_fields(cells))
        except DataError as error:
            raise origin.error(row, error.message, error.column) from error
        rows.append(_work(store, cells, row, origin, one.id, found))
    return _submit(store, study, rows, origin, who)


def crowd_units(path: str | Path, form: Form) -> tuple[Items, Shape]:
    """The items of a raw crowd export, such as HUSE's, and the shape of units that are its HITs."""
    items, _ = read_crowd(path, statuses=None)
    frame = items.frame.with_columns(hit=pl.col("id").str.replace(r":[^:]*$", ""))
    size = max(frame["hit"].value_counts()["count"].to_list(), default=0)
    return Items(frame), replace(form.unit, of="item", size=size, group="hit" if size > 1 else "", pairs="", add=())


def import_huse(store: Store, study: Study, path: str | Path, *, who: str = "cli") -> Imported:
    """Import HUSE's raw crowd file (paper 3, appendix A.3) into a study made from it, or from its items.

    The form counts typicality from 0, as the paper does; the authors' published averages count from 1.
    """
    if study.form.name != FORM_OF_HUSE:
        raise OptionError(f"study '{study.name}' uses the form '{study.form.name}'; expected '{FORM_OF_HUSE}'")
    _, ratings = read_crowd(path, statuses=None, words={word: value - 1 for word, value in HUSE_WORDS.items()})
    table, origin = _read_rows(path, (_WORKER, _SECONDS), "a crowd export with times")
    units = {item.id: one for one in store.snapshot(study).units for item in one.unit.items}
    answers: dict[int, dict[Key, Any]] = {}
    for line, (item, question, value) in zip(
        ratings.origin.lines if ratings.origin.lines is not None else (),
        ratings.frame.select("item", "question", "value").iter_rows(),
        strict=True,
    ):
        answers.setdefault(int(line), {})[item, question] = value
    lines = [] if origin.lines is None else [int(line) for line in origin.lines]
    rows = []
    for row, cells in enumerate(table):
        given = answers.get(lines[row])
        if given is None:
            continue
        found = {units[item].id if item in units else None for item, _ in given}
        if len(found) != 1 or None in found:
            raise origin.error(
                row,
                f"the items of this assignment are not a unit of study '{study.name}'; expected a study made from this "
                f"file: nlgauge annotate new NAME --form {FORM_OF_HUSE} --data FILE",
            )
        one = units[next(iter(given))[0]]
        checked = {key: check_answer(study.form, key[1], key[0], value, one.unit) for key, value in given.items()}
        rows.append(_work(store, cells, row, origin, one.id, checked))
    return _submit(store, study, rows, origin, who)


def prolific_addresses(study: Study, entrance: str) -> tuple[str, str]:
    """The address of the study for Prolific, with its placeholders, and its completion address."""
    if not study.settings.completion_code:
        raise OptionError(
            f"study '{study.name}' has no completion code; expected one: create the study with "
            f"{argument('completion_code')}"
        )
    names = ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")
    parameters = "&".join(f"{name}={{{{%{name}%}}}}" for name in names)
    return f"{entrance}?{parameters}", f"{PROLIFIC_DONE}?{urlencode({'cc': study.settings.completion_code})}"


def import_prolific(store: Store, study: Study, path: str | Path, *, who: str = "cli") -> Imported:
    """Import Prolific's file of submissions: demographics are kept, and unpaid participants are rejected.

    Rejected, returned, overdue and screened-out submissions are rejected here with all their work, each with its
    reason; people who never opened the study are left out.
    """
    table, origin = _read_rows(path, ("Participant id", "Status"), "submissions as Prolific exports them")
    key = store.export_key(study.name, who)
    known = {rater.hashed_id: rater for rater in store.snapshot(study).raters}
    found = []
    for row, cells in enumerate(table):
        status = cells["Status"].upper().replace("-", " ")
        if status not in _PROLIFIC_STATUSES:
            expected = ", ".join(_PROLIFIC_STATUSES)
            raise origin.error(row, f"found '{cells['Status'][:40]}'; expected one of {expected}", "Status")
        rater = known.get(hashed_id(key, "prolific", cells["Participant id"]))
        if rater is not None:
            found.append((rater, cells, status))
    rejected = 0
    for rater, cells, status in found:
        about = {name: value for name, value in cells.items() if name not in _PROLIFIC_IDS and value}
        store.join(study, "prolific", cells["Participant id"], {**rater.platform_data, **about})
        if status in _PROLIFIC_REASONS and rater.state != "rejected":
            store.reject(rater_id=rater.id, reason=_PROLIFIC_REASONS[status], who=who)
            rejected += 1
    result = Imported(raters=len({rater.id for rater, _, _ in found}), new=0, rejected=rejected, known=len(found))
    _note(store, study, "prolific", origin, result, who)
    return result


IMPORTS: Mapping[str, Callable[..., Imported]] = {
    "mturk": import_mturk,
    "prolific": import_prolific,
    "huse": import_huse,
}


def _read_rows(path: str | Path, needed: Sequence[str], what: str) -> tuple[list[dict[str, str]], Origin]:
    """Cells without outer spaces and without the apostrophe before a formula; placeholders become empty."""
    frame, origin = read_cells(path)
    if missing := [name for name in needed if name not in frame.columns]:
        found = [name for name in frame.columns if not name.startswith(("Input.", "Answer."))]
        raise no_such_column(missing[0], found, file=origin.file, advice=f"expected {what}")
    rows = []
    for cells in frame.iter_rows(named=True):
        plain = {name: _GUARD.sub("", str(value or "").strip(), count=1) for name, value in cells.items()}
        rows.append({name: "" if value in _NOTHING else value for name, value in plain.items()})
    return rows, origin


def _work(
    store: Store, cells: Mapping[str, str], row: int, origin: Origin, unit_id: int, answers: Mapping[Key, Any]
) -> _Work:
    if not cells[_WORKER]:
        raise origin.error(row, "the cell is empty; expected a worker's id", _WORKER)
    status = cells.get(_STATUS) or "Submitted"
    if status not in _STATUSES:
        raise origin.error(row, f"found '{status[:40]}'; expected one of {', '.join(_STATUSES)}", _STATUS)
    if not cells[_SECONDS].isascii() or not cells[_SECONDS].isdigit():
        raise origin.error(row, f"found '{cells[_SECONDS][:40]}'; expected whole seconds", _SECONDS)
    feedback = cells.get("RequesterFeedback") or cells.get("Reject") or ""
    told = f": {feedback}" if feedback else ""
    return _Work(
        line=row + 2 if origin.lines is None else int(origin.lines[row]),
        worker=cells[_WORKER],
        unit_id=unit_id,
        answers=answers,
        seconds=float(cells[_SECONDS]),
        at=_time(cells.get(_AT, "")) or store.now(),
        refused=f"the assignment was rejected on Mechanical Turk{told}" if status == "Rejected" else "",
    )


def _time(text: str) -> float | None:
    """A time as Mechanical Turk writes it, `Thu Nov 08 14:34:33 PST 2018`, in UTC seconds; None for other formats."""
    read = parsedate_tz(text[4:]) if _TIME.fullmatch(text) else None
    return None if read is None else float(mktime_tz(read))


def _without_repeats(rows: Sequence[_Work], origin: Origin) -> list[_Work]:
    """Each assignment once, in the order of submission; contradictions raise an error."""
    first: dict[tuple[str, int], _Work] = {}
    for one in rows:
        before = first.setdefault((one.worker, one.unit_id), one)
        if before.answers != one.answers:
            raise DataError(
                f"the worker answered this HIT before, on line {before.line}, with different answers; expected one "
                "assignment: delete the other row",
                file=origin.file,
                line=one.line,
            )
    return sorted(first.values(), key=lambda one: (one.at, one.line))


def _submit(store: Store, study: Study, rows: Sequence[_Work], origin: Origin, who: str) -> Imported:
    once = _without_repeats(rows, origin)
    if not once:
        raise DataError("the file has no answers; expected at least one assignment", file=origin.file)
    units = {one.id: one.unit for one in store.snapshot(study).units}
    raters: dict[str, Rater] = {}
    new = rejected = 0
    for one in once:
        then = Store(store.engine, now=partial(float, one.at))
        if one.worker not in raters:
            raters[one.worker] = then.join(study, "mturk", one.worker)
        rater = raters[one.worker]
        taken = store.take_unit(study, rater, one.unit_id, one.at - one.seconds)
        assignment, state, reason = taken.id, str(taken.state), ""
        if state == "leased":
            new += 1
            state, reason = _answer(then, study, rater, assignment, one, units[one.unit_id])
            rejected += state == "rejected"
        elif store.answers(assignment) != one.answers:
            raise DataError(
                "the worker's earlier answers to this unit differ; expected the same answers: this is a result of "
                "another batch, or the file was changed",
                file=origin.file,
                line=one.line,
            )
        if reason := reason or (one.refused if state in DONE else ""):
            store.reject(assignment_id=assignment, reason=reason, who=who)
            rejected += 1
    result = Imported(raters=len(raters), new=new, rejected=rejected, known=len(rows) - new)
    _note(store, study, "mturk", origin, result, who)
    return result


def _answer(then: Store, study: Study, rater: Rater, assignment: int, one: _Work, unit: Unit) -> tuple[str, str]:
    """Save the answers, and submit them if none is missing; returns the state, and a reason to reject the work."""
    then.save_all(assignment, rater.id, one.answers)
    if missing := missing_answers(study.form, unit, one.answers):
        item, question = missing[0]
        about = f" of {item}" if item else ""
        return "leased", f"no answer to '{question}'{about}, and {len(missing) - 1} more are missing"
    outcome = then.submit(assignment, rater.id, one.seconds)
    was_rejected = outcome.state in DONE and outcome.rater_state == "rejected"
    return outcome.state, "the rater had been rejected before" if was_rejected else ""


def _note(store: Store, study: Study, platform: str, origin: Origin, result: Imported, who: str) -> None:
    details = {"study": study.name, "from": platform, "file": Path(origin.file or "").name}
    store.audit(who, "import", {**details, **asdict(result)})
