"""Crowd platforms' files: what goes out comes back as the same ratings, and bad files are refused by line."""

from __future__ import annotations

import csv
import html
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgauge.annotate.database.records import Lease, Study, hashed_id, pseudonym
from nlgauge.annotate.database.store import Store
from nlgauge.annotate.exporting import ratings, response_sets
from nlgauge.annotate.platforms.exchange import (
    crowd_units,
    import_huse,
    import_mturk,
    import_prolific,
    prolific_addresses,
    write_mturk,
)
from nlgauge.annotate.platforms.template import as_html, read_answers, shown_unit, unit_name
from nlgauge.annotate.settings import StudySettings
from nlgauge.annotate.units import make_units
from nlgauge.data.human.crowd import HUSE_WORDS, read_crowd
from nlgauge.data.human.forms import load_form
from nlgauge.data.tables import Items, Ratings, ResponseSets
from nlgauge.data.writing import write_table
from nlgauge.errors import DataError, OptionError
from nlgauge.studies.huse.score import Huse
from tests.annotate.fixtures import Clock, opened, work
from tests.errors import raises

FORMS = ("abs-hds", "asp-hds", "rnk-hds", "sim-hds", "set-diversity", "typicality", "story-quality", "write-different")
HOSTILE = "=1+1 <script>alert(1)</script> ${unit} {{7*7}} \"q\" 'a' & \U0001f600\u202e\nnext\x07"
Row = dict[str, str]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with opened(tmp_path / "site.db", clock) as found:
        yield found


def table_for(form: str) -> ResponseSets | Items:
    if form == "story-quality":
        rows = [(f"s{c}-{s}", f"begin {c}", f"system {s}") for c in range(2) for s in range(5)]
        return Items.of(
            [f"{HOSTILE} story {id}" for id, _, _ in rows],
            ids=[id for id, _, _ in rows], contexts=[context for _, context, _ in rows],
            systems=[system for _, _, system in rows],
            references=[[f"{context} was read. A dog barked loudly. All slept well."] for _, context, _ in rows],
        )  # fmt: skip
    if form == "write-different":
        return Items.of([f"{HOSTILE} {n}" for n in range(4)])
    if form == "typicality":
        return Items.of([f"text {n} {HOSTILE}" for n in range(50)], contexts=[f"context {n}" for n in range(50)])
    count = 20 if form == "set-diversity" else 4
    return ResponseSets.of(
        [[f"{HOSTILE} {n}", f"reply {n}", "-3"] for n in range(count)], ids=[f"set-{n}" for n in range(count)],
        contexts=[f"{HOSTILE} {n // (10 if count == 20 else 2)}" for n in range(count)],
        columns={"temperature": [n / 10 for n in range(count)]},
    )  # fmt: skip


def new_study(store: Store, form: str = "abs-hds", name: str = "pilot", **settings: Any) -> Study:
    chosen = load_form(form)
    units = make_units(chosen, table_for(form), seed=3)
    return store.create_study(name, chosen, units, StudySettings(**{"raters": 2, **settings}))


class Page(HTMLParser):
    """What a browser finds in a page: inputs with their values, the elements, and the text."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.inputs: dict[str, list[str]] = {}
        self.kinds: dict[str, str] = {}
        self.tags: list[str] = []
        self.text = ""
        self._select = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        if tag == "select":
            self._select = values["name"]
        elif tag == "option":
            self.inputs.setdefault(self._select, []).append(values["value"])
        elif tag == "textarea":
            self.inputs[values["name"]], self.kinds[values["name"]] = [], "text"
        elif tag == "input" and values["type"] == "radio":
            self.inputs.setdefault(values["name"], []).append(values["value"])
            self.kinds[values["name"]] = "radio"
        elif tag == "input":
            self.kinds[values["name"]] = "number"
            self.inputs[values["name"]] = [str(n) for n in range(int(values["min"]), int(values["max"]) + 1)]

    def handle_data(self, data: str) -> None:
        self.text += data


def read_csv(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_csv(path: Path, rows: Sequence[Mapping[str, str]]) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def results(folder: Path, workers: Sequence[str] = ("A1", "A2")) -> list[Row]:
    """Answer every HIT of a folder at random, as Mechanical Turk would give the results back."""
    rows = []
    for hits in sorted(folder.glob("hits*.csv")):
        page = Page((folder / hits.name.replace("hits", "template").replace(".csv", ".html")).read_text())
        for number, hit in enumerate(read_csv(hits)):
            for worker in workers:
                draw = random.Random(f"{worker} {hit['unit']}")
                given = {
                    name: draw.choice(values) if values else f"-{worker} says {hit['unit']} {name}, friend"
                    for name, values in page.inputs.items()
                }
                rows.append(
                    {
                        "HITId": f"HIT{hits.name}{number}", "AssignmentId": f"{worker}-{number}", "WorkerId": worker,
                        "AssignmentStatus": "Submitted", "WorkTimeInSeconds": str(100 + number),
                        "SubmitTime": "Thu Nov 08 14:34:33 PST 2018", "RequesterFeedback": "",
                        **{f"Input.{name}": value for name, value in hit.items()},
                        **{f"Answer.{name}": value for name, value in given.items()}, "Approve": "", "Reject": "",
                    }
                )  # fmt: skip
    return rows


def in_a_crowd_form(rows: Sequence[Row], folder: Path) -> list[Row]:
    """The same results as Mechanical Turk gives them where the page stands in a crowd-form."""
    page = Page((folder / "template.html").read_text())
    found = []
    for row in rows:
        given = {name.removeprefix("Answer."): row[name] for name in row if name.startswith("Answer.")}
        fields: dict[str, Any] = {}
        for name, value in given.items():
            if page.kinds.get(name) == "radio":
                fields[name] = {choice: choice == value for choice in page.inputs[name]}
            else:
                fields[name] = int(value) if page.kinds.get(name) == "number" else value
        others = {name: value for name, value in row.items() if not name.startswith("Answer.")}
        found.append({**others, "Answer.taskAnswers": json.dumps([fields])})
    return found


def rated(store: Store, study: Study) -> list[tuple[Any, ...]]:
    """The exported ratings, or written sets, with who made them at the end."""
    if study.form.writes:
        sets = response_sets(store.snapshot(study)).to_polars().drop("id")
        sets = sets.with_columns(sets["responses"].list.join("\n"))
        return sorted(sets.drop("made_by").with_columns(sets["made_by"]).rows(), key=str)
    frame = ratings(store.snapshot(study)).frame.drop("time")
    return sorted(frame.drop("rater").with_columns(frame["rater"]).rows(), key=str)


@given(st.text())
def test_a_text_as_html_is_harmless_everywhere_and_reads_as_before(text: str) -> None:
    if not text.isprintable() or any("\ud800" <= letter <= "\udfff" for letter in text):
        text = "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")
        text = re.sub(r"[\ud800-\udfff]", "", text)
    found = as_html(text)
    assert html.unescape(found) == text
    assert found.isascii()
    assert not set("<>\"'${}`\n\t\r") & set(found)
    assert not found.startswith(("=", "+", "-", "@"))


def test_control_characters_become_replacement_characters() -> None:
    assert html.unescape(as_html("a\x00b\x07c\x7f\r\nd")) == "a\ufffdb\ufffdc\ufffd\nd"


@pytest.mark.parametrize("form", FORMS)
def test_hits_that_workers_answer_come_back_as_the_ratings_of_the_site(
    form: str, store: Store, tmp_path: Path, clock: Clock
) -> None:
    study, same = new_study(store, form), new_study(store, form, name="on the site")
    write_mturk(store.snapshot(study), tmp_path / "hits")
    rows = results(tmp_path / "hits")
    done = import_mturk(store, study, write_csv(tmp_path / "results.csv", rows))
    units = len(store.snapshot(study).units)
    assert (done.raters, done.new, done.rejected, done.known) == (2, 2 * units, 0, 0)
    by_name = {unit_name(one): shown_unit(study, one.unit) for one in store.snapshot(study).units}
    for worker in ("A1", "A2"):
        rater = store.join(same, "mturk", worker)
        while isinstance(lease := store.lease(same, rater), Lease):
            unit = next(one for one in by_name.values() if {*one.items} == {*lease.unit.items})
            name = next(name for name, one in by_name.items() if one is unit)
            row = next(row for row in rows if row["WorkerId"] == worker and row["Input.unit"] == name)
            cells = {key.removeprefix("Answer."): value for key, value in row.items() if key.startswith("Answer.")}
            store.save_all(lease.assignment.id, rater.id, read_answers(study.form, unit, cells))
            clock.time += 60
            assert store.submit(lease.assignment.id, rater.id, 60).state == "valid"
    names = {
        store.join(study, "mturk", name).pseudonym: store.join(same, "mturk", name).pseudonym for name in ("A1", "A2")
    }
    imported = sorted(((*row[:-1], names[row[-1]]) for row in rated(store, study)), key=str)
    assert imported == rated(store, same)


@pytest.mark.parametrize("form", FORMS)
def test_answers_of_a_crowd_form_are_those_of_columns(form: str, store: Store, tmp_path: Path) -> None:
    apart, together = new_study(store, form), new_study(store, form, name="together")
    write_mturk(store.snapshot(apart), tmp_path / "hits")
    rows = results(tmp_path / "hits")
    import_mturk(store, apart, write_csv(tmp_path / "apart.csv", rows))
    packed = in_a_crowd_form(rows, tmp_path / "hits")
    done = import_mturk(store, together, write_csv(tmp_path / "together.csv", packed))
    assert (done.new, done.rejected) == (len(rows), 0)
    values = [[row[:-1] for row in rated(store, study)] for study in (apart, together)]
    assert sorted(values[0], key=str) == sorted(values[1], key=str)
    texts = [
        {one.value for one in store.snapshot(study).answers if isinstance(one.value, str)}
        for study in (apart, together)
    ]
    assert texts[0] == texts[1]


def test_an_answer_is_stored_where_its_input_stands(store: Store, tmp_path: Path) -> None:
    study = new_study(store, "set-diversity", raters=1)
    write_mturk(store.snapshot(study), tmp_path / "hits")
    rows = results(tmp_path / "hits", ["A1"])
    import_mturk(store, study, write_csv(tmp_path / "results.csv", rows))
    expected = {}
    texts = {item.texts[0]: item.id for one in store.snapshot(study).units for item in one.unit.items}
    for row in rows:
        for number in range(1, 11):
            shown = html.unescape(row[f"Input.text_{number}_1"])
            expected[texts[shown.replace("\ufffd", "\x07")]] = float(row[f"Answer.diversity-{number}"])
    found = ratings(store.snapshot(study)).frame
    assert dict(found.select("item", "value").iter_rows()) == expected


def test_hostile_texts_stay_text_in_the_page(store: Store, tmp_path: Path) -> None:
    study = new_study(store)
    hits, template = write_mturk(store.snapshot(study), tmp_path / "hits")
    row = read_csv(hits)[0]
    source = template.read_text()
    variables = re.findall(r"\$\{(\w+)\}", source)
    assert set(variables) == set(row) - {"unit"}
    filled = re.sub(r"\$\{(\w+)\}", lambda match: row[match[1]], source)
    page, empty = Page(filled), Page(source)
    assert page.tags == empty.tags
    assert page.inputs == empty.inputs
    assert HOSTILE.replace("\x07", "\ufffd") in page.text
    assert all(cell.isascii() and not cell.startswith(("=", "+", "-", "@")) for cell in row.values())


def test_units_of_different_sizes_get_pages_of_their_own(store: Store, tmp_path: Path) -> None:
    form = load_form("abs-hds")
    table = ResponseSets.of([["a", "b"], ["c", "d", "e"], ["f", "g"]], ids=["x", "y", "z"])
    study = store.create_study("sizes", form, make_units(form, table, seed=1), StudySettings(raters=1))
    written = write_mturk(store.snapshot(study), tmp_path / "hits")
    assert [path.name for path in written] == ["hits-1.csv", "template-1.html", "hits-2.csv", "template-2.html"]
    rows = results(tmp_path / "hits", ["A1"])
    assert import_mturk(store, study, write_csv(tmp_path / "results.csv", rows)).new == 3


def test_spans_cannot_be_marked_on_mechanical_turk(store: Store, tmp_path: Path) -> None:
    form = load_form("story-errors")
    table = Items.of(["One.", "Two.", "Three."], contexts=["begin"] * 3)
    study = store.create_study("spans", form, make_units(form, table, seed=1), StudySettings())
    with pytest.raises(OptionError, match=r"asks for spans \('errors'\).*external question"):
        write_mturk(store.snapshot(study), tmp_path / "hits")


def test_the_external_question_is_xml_that_names_the_entrance(store: Store, tmp_path: Path) -> None:
    study = new_study(store)
    address = "https://rate.example.org/s/a&b/mturk"
    path = write_mturk(store.snapshot(study), tmp_path / "hits", address=address)[-1]
    space = "{http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd}"
    assert ElementTree.fromstring(path.read_text().encode()).findtext(f"{space}ExternalURL") == address  # noqa: S314
    with pytest.raises(OptionError, match=r"expected https://"):
        write_mturk(store.snapshot(study), tmp_path / "hits", address="http://rate.example.org")


class TestImport:
    @pytest.fixture
    def study(self, store: Store) -> Study:
        return new_study(store)

    @pytest.fixture
    def rows(self, store: Store, study: Study, tmp_path: Path) -> list[Row]:
        write_mturk(store.snapshot(study), tmp_path / "hits")
        return results(tmp_path / "hits")

    def take_in(self, store: Store, study: Study, tmp_path: Path, rows: Sequence[Row]) -> Any:
        return import_mturk(store, study, write_csv(tmp_path / "results.csv", rows))

    def test_a_second_time_changes_nothing(self, store: Store, study: Study, tmp_path: Path, rows: list[Row]) -> None:
        self.take_in(store, study, tmp_path, rows[:3])
        before = rated(store, study)
        done = self.take_in(store, study, tmp_path, rows[:3])
        assert (done.new, done.known) == (0, 3)
        assert rated(store, study) == before
        assert self.take_in(store, study, tmp_path, rows).new == len(rows) - 3

    def test_rows_that_stand_twice_count_once(
        self, store: Store, study: Study, tmp_path: Path, rows: list[Row]
    ) -> None:
        done = self.take_in(store, study, tmp_path, [*rows, rows[0]])
        assert (done.new, done.known) == (8, 1)
        with raises(DataError, file="results.csv", line=10):
            self.take_in(store, study, tmp_path, [*rows, {**rows[0], "Answer.diversity-1": _other(rows[0])}])

    def test_other_answers_than_before_are_refused(
        self, store: Store, study: Study, tmp_path: Path, rows: list[Row]
    ) -> None:
        self.take_in(store, study, tmp_path, rows[:1])
        changed = {**rows[0], "Answer.diversity-1": _other(rows[0])}
        with raises(DataError, file="results.csv", line=2):
            self.take_in(store, study, tmp_path, [changed])

    def test_hits_of_another_study_are_refused_before_anything_is_stored(
        self, store: Store, study: Study, tmp_path: Path, rows: list[Row]
    ) -> None:
        with raises(DataError, file="results.csv", line=9, column="Input.unit"):
            self.take_in(store, study, tmp_path, [*rows[:-1], {**rows[-1], "Input.unit": "99-0"}])
        assert store.snapshot(study).raters == ()

    @pytest.mark.parametrize(
        ("cells", "message"),
        [
            (
                {"Answer.diversity-1": "9"},
                r"line 2: question 'diversity': found '9'; expected a whole number from 1 to",
            ),
            ({"AssignmentStatus": "Lost"}, r"column 'AssignmentStatus': found 'Lost'; expected one of Approved"),
            ({"WorkTimeInSeconds": "-5"}, r"column 'WorkTimeInSeconds': found '-5'; expected whole seconds"),
            ({"WorkerId": ""}, r"column 'WorkerId': the cell is empty; expected a worker's id"),
        ],
    )
    def test_a_bad_cell_is_named(
        self, store: Store, study: Study, tmp_path: Path, rows: list[Row], cells: Row, message: str
    ) -> None:
        with pytest.raises(DataError, match=message):
            self.take_in(store, study, tmp_path, [{**rows[0], **cells}])

    @pytest.mark.parametrize(
        ("packed", "message"),
        [
            ("[{", r"line 2, column 'Answer.taskAnswers': found '\[\{' .*; expected a JSON list of objects"),
            ('{"diversity-1": "3"}', r"column 'Answer.taskAnswers': found .*; expected a JSON list of objects"),
            ('[{"diversity-1": {"1": true, "2": true}}]', r"line 2: question 'diversity': found .*; expected a whole"),
            ('[{"diversity-1": "6"}]', r"line 2: question 'diversity': found '6'; expected a whole number from 1 to 5"),
            ('[{"diversity-1": "3"}, {"diversity-1": 4}]', r"found '4' and '3' for 'diversity-1'; expected one value"),
        ],
    )
    def test_a_bad_crowd_form_is_refused_by_line(
        self, store: Store, study: Study, tmp_path: Path, rows: list[Row], packed: str, message: str
    ) -> None:
        bare = {name: value for name, value in rows[0].items() if not name.startswith("Answer.")}
        with pytest.raises(DataError, match=message):
            self.take_in(store, study, tmp_path, [{**bare, "Answer.taskAnswers": packed}])
        assert store.snapshot(study).raters == ()

    def test_columns_and_a_crowd_form_complete_each_other(
        self, store: Store, study: Study, tmp_path: Path, rows: list[Row]
    ) -> None:
        row = rows[0] | {"Answer.diversity-1": "{}"}
        row["Answer.taskAnswers"] = '[{"diversity-1": {"1": false, "4": true}, "consent": {"on": true, "off": true}}]'
        assert self.take_in(store, study, tmp_path, [row]).rejected == 0
        assert ratings(store.snapshot(study)).frame["value"].to_list() == [4.0]
        unanswered = {**rows[1], "Answer.diversity-1": "", "Answer.taskAnswers": '[{"diversity-1": {"1": false}}]'}
        assert self.take_in(store, study, tmp_path, [unanswered]).rejected == 1
        contrary = {**rows[2], "Answer.taskAnswers": json.dumps([{"diversity-1": _other(rows[2])}])}
        with pytest.raises(DataError, match=r"for 'diversity-1'; expected one value"):
            self.take_in(store, study, tmp_path, [contrary])

    def test_missing_columns_are_named(self, store: Store, study: Study, tmp_path: Path, rows: list[Row]) -> None:
        with raises(DataError, file="results.csv", column="Input.unit"):
            self.take_in(store, study, tmp_path, [{k: v for k, v in row.items() if k != "Input.unit"} for row in rows])

    def test_work_that_was_rejected_there_is_rejected_here_with_the_reason(
        self, store: Store, study: Study, tmp_path: Path, rows: list[Row]
    ) -> None:
        rows[0] |= {"AssignmentStatus": "Rejected", "RequesterFeedback": "copied text"}
        rows[1] |= {"AssignmentStatus": "Approved"}
        assert self.take_in(store, study, tmp_path, rows).rejected == 1
        (verdict,) = store.snapshot(study).verdicts
        assert verdict.reason == "the assignment was rejected on Mechanical Turk: copied text"
        assert len(ratings(store.snapshot(study))) == len(rows) - 1
        assert len(ratings(store.snapshot(study), include="all")) == len(rows)
        check_counters(store, study)

    def test_a_later_rejection_is_taken_over(self, store: Store, study: Study, tmp_path: Path, rows: list[Row]) -> None:
        self.take_in(store, study, tmp_path, rows)
        rows[2] |= {"AssignmentStatus": "Rejected"}
        assert self.take_in(store, study, tmp_path, rows).rejected == 1
        assert self.take_in(store, study, tmp_path, rows).rejected == 0
        check_counters(store, study)

    def test_incomplete_work_is_kept_and_rejected(
        self, store: Store, study: Study, tmp_path: Path, rows: list[Row]
    ) -> None:
        rows[0] |= {"Answer.diversity-1": "{}"}
        assert self.take_in(store, study, tmp_path, rows).rejected == 1
        (verdict,) = store.snapshot(study).verdicts
        assert verdict.reason.startswith("no answer to 'diversity' of set-")
        assert len(store.answers(verdict.assignment_id or 0)) == 2
        assert self.take_in(store, study, tmp_path, rows).new == 0
        check_counters(store, study)

    def test_quality_rules_judge_imported_work(self, store: Store, tmp_path: Path) -> None:
        study = new_study(store, name="timed", quality={"min-time": {"seconds": 102}})
        write_mturk(store.snapshot(study), tmp_path / "hits")
        rows = results(tmp_path / "hits", ["A1"])
        assert self.take_in(store, study, tmp_path, rows).rejected == 2
        assert {verdict.rule for verdict in store.snapshot(study).verdicts} == {"min-time"}
        check_counters(store, study)

    def test_answers_carry_the_time_at_which_they_were_given(
        self, store: Store, study: Study, tmp_path: Path, rows: list[Row]
    ) -> None:
        self.take_in(store, study, tmp_path, rows)
        snapshot = store.snapshot(study)
        assert {one.submitted_at for one in snapshot.assignments} == {1541716473.0}
        assert {one.seconds for one in snapshot.assignments} == {100.0, 101.0, 102.0, 103.0}
        assert all(one.state == "valid" for one in snapshot.assignments)

    def test_a_spreadsheet_in_between_changes_nothing(
        self, store: Store, study: Study, tmp_path: Path, rows: list[Row]
    ) -> None:
        guarded = tmp_path / "guarded.csv"
        write_table(pl.DataFrame(rows), guarded, spreadsheet=True)
        assert any(cell.startswith("'-") for row in read_csv(guarded) for cell in row.values())
        import_mturk(store, study, guarded)
        texts = {one.value for one in store.snapshot(study).answers if one.question == "own_response"}
        assert all(text.startswith("-A") for text in texts)

    def test_no_worker_id_reaches_the_database(
        self, store: Store, study: Study, tmp_path: Path, rows: list[Row]
    ) -> None:
        for row in rows:
            row["WorkerId"] = f"WORKERNAME{row['WorkerId']}"
            row["Answer.own_response-1"] = f"a response of {row['HITId']} and {row['AssignmentId']}"
        self.take_in(store, study, tmp_path, rows)
        key = store.export_key("pilot", "test")
        names = {rater.pseudonym for rater in store.snapshot(study).raters}
        assert names == {pseudonym(hashed_id(key, "mturk", f"WORKERNAME{name}")) for name in ("A1", "A2")}
        stored = b"".join(path.read_bytes() for path in tmp_path.glob("site.db*"))
        assert b"WORKERNAME" not in stored

    def test_a_live_lease_of_the_same_worker_is_finished(
        self, store: Store, study: Study, tmp_path: Path, rows: list[Row]
    ) -> None:
        store.lease(study, store.join(study, "mturk", "A1"))
        assert self.take_in(store, study, tmp_path, rows).new == 8
        check_counters(store, study)


def test_imports_work_on_postgresql_too(postgres_url: str, tmp_path: Path, clock: Clock) -> None:
    with opened(postgres_url, clock) as store:
        study = new_study(store)
        write_mturk(store.snapshot(study), tmp_path / "hits")
        rows = results(tmp_path / "hits")
        rows[0] |= {"AssignmentStatus": "Rejected"}
        path = write_csv(tmp_path / "results.csv", rows)
        assert import_mturk(store, study, path).new == 8
        again = import_mturk(store, study, path)
        assert (again.new, again.rejected) == (0, 0)
        assert len(ratings(store.snapshot(study))) == 7
        check_counters(store, study)


def _other(row: Row) -> str:
    return "1" if row["Answer.diversity-1"] != "1" else "2"


def check_counters(store: Store, study: Study) -> None:
    snapshot = store.snapshot(study)
    for one in snapshot.units:
        live = [each for each in snapshot.assignments if each.unit_id == one.id and each.state in ("leased", "valid")]
        assert one.taken == len(live)


def crowd_file(folder: Path) -> Path:
    words = list(HUSE_WORDS)
    rows = []
    for hit in range(2):
        for worker in range(3):
            row = {
                "HITId": f"H{hit}",
                "WorkerId": f"w{worker}",
                "AssignmentStatus": "Submitted",
                "WorkTimeInSeconds": "90",
            }
            for k in range(4):
                cells = {
                    "IDX": k,
                    "CTX": f"context {k}",
                    "TYPE": ("HUMAN", "SUM")[k % 2],
                    "OUT": f"text {hit} {k}",
                    "LOGP": -k - 1,
                }
                row |= {f"Input.{stem}{k}": str(value) for stem, value in cells.items()}
                row[f"Answer.{k}"] = words[(hit + worker + k) % 6]
            rows.append(row)
    return write_csv(folder / "crowd.csv", rows)


def from_crowd(store: Store, path: Path, raters: int) -> Study:
    form = load_form("typicality")
    items, shape = crowd_units(path, form)
    return store.create_study("huse", form, make_units(form, items, seed=1, shape=shape), StudySettings(raters=raters))


def compare_with_crowd_reader(store: Store, study: Study, path: Path) -> None:
    key = store.export_key(study.name, "test")
    direct = read_crowd(path)[1].frame
    names = {name: pseudonym(hashed_id(key, "mturk", name)) for name in direct["rater"].unique().to_list()}
    expected = {(item, names[rater]): value - 1 for item, rater, _, value in direct.iter_rows()}
    found = ratings(store.snapshot(study)).frame
    assert {
        (item, rater): value for item, rater, value in found.select("item", "rater", "value").iter_rows()
    } == expected
    assert len(found) == len(expected)


def test_a_crowd_export_becomes_a_study_and_its_answers_the_ratings(store: Store, tmp_path: Path) -> None:
    path = crowd_file(tmp_path)
    study = from_crowd(store, path, 3)
    done = import_huse(store, study, path)
    assert (done.raters, done.new) == (3, 6)
    compare_with_crowd_reader(store, study, path)
    assert import_huse(store, study, path).new == 0


def test_a_crowd_export_of_other_items_is_refused(store: Store, tmp_path: Path) -> None:
    path = crowd_file(tmp_path)
    study = new_study(store, "typicality")
    with raises(DataError, file=path.name, line=2):
        import_huse(store, study, path)
    with pytest.raises(OptionError, match=r"uses the form 'abs-hds'; expected 'typicality'"):
        import_huse(store, new_study(store, name="sets"), path)


def test_the_published_crowd_file_gives_its_ratings_and_huse(store: Store, research_data: Path) -> None:
    path = research_data / "huse" / "summarization_raw_outputs.csv"
    study = from_crowd(store, path, 20)
    assert import_huse(store, study, path).new == 160
    compare_with_crowd_reader(store, study, path)
    items = read_crowd(path)[0].frame
    frame = items.with_columns(is_model=~items["kind"].str.to_lowercase().str.contains("human|^ref"))
    counted = ratings(store.snapshot(study)).frame
    scores = ("huse", "huse_q", "huse_d")
    cases: list[tuple[Literal["equal", "computed"], list[float] | None]]
    cases = [("equal", None), ("computed", [0.53, 0.58, 0.95])]
    for ties, printed in cases:
        counted_from_one = Ratings(counted.with_columns(pl.col("value") + 1))
        from_site = Huse(ratings=counted_from_one, ties=ties).run(frame).rows[0]
        direct = Huse(ties=ties).run(str(path)).rows[0]
        assert [from_site[score] for score in scores] == [direct[score] for score in scores]
        assert printed is None or [round(from_site[score], 2) for score in scores] == printed
    from_zero = Huse(ratings=Ratings(counted)).run(frame).rows[0]
    assert [from_zero[score] for score in scores] == [Huse().run(str(path)).rows[0][score] for score in scores]


class TestProlific:
    @pytest.fixture
    def study(self, store: Store, clock: Clock) -> Study:
        study = new_study(store, raters=3, completion_code="C0DE")
        for name in ("p1", "p2", "p3"):
            rater = store.join(study, "prolific", name, {"STUDY_ID": "s"})
            while isinstance(lease := store.lease(study, rater), Lease):
                answers = {
                    ("", "own_response"): f"hello from {name} to {lease.unit.items[0].id}",
                    ("", "first_quality"): 3,
                }
                store.save_all(lease.assignment.id, rater.id, answers | {(lease.unit.items[0].id, "diversity"): 2})
                clock.time += 60
                store.submit(lease.assignment.id, rater.id, 60)
        return study

    def submissions(self, folder: Path, statuses: Mapping[str, str]) -> Path:
        return write_csv(
            folder / "prolific.csv",
            [
                {"Submission id": f"s-{name}", "Participant id": name, "Status": status, "Age": "31", "Sex": "Female"}
                for name, status in statuses.items()
            ],
        )

    def test_statuses_reject_raters_and_demographics_are_kept(self, store: Store, study: Study, tmp_path: Path) -> None:
        path = self.submissions(
            tmp_path, {"p1": "APPROVED", "p2": "RETURNED", "p3": "TIMED-OUT", "p4": "REJECTED", "p5": "AWAITING REVIEW"}
        )
        done = import_prolific(store, study, path)
        assert (done.raters, done.rejected) == (3, 2)
        raters = {rater.pseudonym: rater for rater in store.snapshot(study).raters}
        assert len(raters) == 3
        states = [rater.state for rater in raters.values()]
        assert sorted(states) == ["finished", "rejected", "rejected"]
        kept = next(iter(raters.values())).platform_data
        assert (kept["Age"], kept["Sex"], kept["STUDY_ID"]) == ("31", "Female", "s")
        assert not {"Participant id", "Submission id"} & set(kept)
        reasons = {verdict.reason for verdict in store.snapshot(study).verdicts}
        assert reasons == {"the submission was returned on Prolific", "the submission ran out of time on Prolific"}
        assert import_prolific(store, study, path).rejected == 0
        check_counters(store, study)

    def test_every_status_of_prolific_is_known(self, store: Store, study: Study, tmp_path: Path) -> None:
        path = self.submissions(tmp_path, {"p1": "Awaiting Review", "p2": "SCREENED OUT", "p3": "RESERVED"})
        assert import_prolific(store, study, path).rejected == 1
        assert store.snapshot(study).verdicts[0].reason == "the participant was screened out on Prolific"

    def test_an_unknown_status_is_refused_by_line(self, store: Store, study: Study, tmp_path: Path) -> None:
        with raises(DataError, line=3, column="Status"):
            import_prolific(store, study, self.submissions(tmp_path, {"p1": "APPROVED", "p2": "GONE"}))
        assert store.snapshot(study).verdicts == ()

    def test_addresses_have_placeholders_and_the_code(self, store: Store, study: Study) -> None:
        begin, end = prolific_addresses(study, "https://rate.example.org/s/pilot/prolific")
        assert begin.startswith("https://rate.example.org/s/pilot/prolific?PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID=")
        assert end == "https://app.prolific.com/submissions/complete?cc=C0DE"
        with pytest.raises(OptionError, match="no completion code"):
            prolific_addresses(new_study(store, name="without"), "https://rate.example.org/s/without/prolific")


def test_added_texts_are_left_out_of_the_export(store: Store, clock: Clock) -> None:
    study = new_study(store, "story-quality", raters=1)
    work(store, study, "ann", lambda *_: 3, clock)
    found, kept = ratings(store.snapshot(study), added=True), ratings(store.snapshot(study))
    assert (len(found), len(kept)) == (14, 10)
    assert not kept.frame["item"].str.contains("#").any()


def test_an_import_is_in_the_audit_log(store: Store, tmp_path: Path) -> None:
    study = new_study(store)
    write_mturk(store.snapshot(study), tmp_path / "hits")
    import_mturk(store, study, write_csv(tmp_path / "results.csv", results(tmp_path / "hits")), who="maria")
    entry = store.audit_log()[-1]
    assert (entry.who, entry.what, entry.details["new"], entry.details["file"]) == ("maria", "import", 8, "results.csv")
