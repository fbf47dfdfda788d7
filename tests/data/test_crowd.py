"""Raw crowd exports: items and ratings out of assignments, exactly as the published averages were made."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from nlgauge.data.human.crowd import HUSE_WORDS, read_crowd
from nlgauge.data.plain_tables import read_table
from nlgauge.errors import DataError, OptionError

ITEMS = {
    ("H2", 0): ("a storm is coming", "HUMAN", "storm nears coast", "-9.5"),
    ("H2", 1): ("a bank was robbed", "HUMAN", "bank robbed , police say", "-12.25"),
    ("H1", 0): ("a storm is coming", "MODEL", "storm storm", "-3"),
    ("H1", 1): ("a bank was robbed", "MODEL", "bank wins", "-4.125"),
}
ANSWERS = {
    ("H2", "w2"): ("Typical", "Very Typical"),
    ("H1", "w1"): ("Invalid", "Rare"),
    ("H2", "w1"): ("Average", "Specific"),
}
STEMS = ("IDX", "CTX", "TYPE", "OUT", "LOGP")
Row = dict[str, str]


def export() -> list[Row]:
    """A tiny batch as the site writes it: one row per assignment, answers in the order of their names as text."""
    rows = []
    for (hit, worker), answers in ANSWERS.items():
        row = {"HITId": hit, "WorkerId": worker, "AssignmentStatus": "Submitted"}
        for number in (0, 1):
            context, kind, text, logp = ITEMS[hit, number]
            cells = {"IDX": str(number), "CTX": context, "TYPE": kind, "OUT": text, "LOGP": logp}
            row |= {f"Input.{stem}{number}": value for stem, value in cells.items()}
        row |= {f"Answer.{number}": answer for number, answer in enumerate(answers)}
        rows.append(row | {"Answer.comment": "", "Approve": "", "Reject": ""})
    return rows


def changed(row: int, cells: Mapping[str, str]) -> list[Row]:
    rows = export()
    rows[row] |= cells
    return rows


def renamed(names: Mapping[str, str]) -> list[Row]:
    return [{names.get(name, name): value for name, value in row.items()} for row in export()]


def without(*names: str) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in names} for row in export()]


def save(folder: Path, rows: list[Row]) -> Path:
    target = io.StringIO()
    writer = csv.DictWriter(target, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path = folder / "batch.csv"
    path.write_text(target.getvalue())
    return path


def rated(folder: Path, rows: list[Row], **options: Any) -> list[tuple[Any, ...]]:
    return read_crowd(save(folder, rows), **options)[1].frame.rows()


RATED = [
    ("H2:0", "w2", "typicality", 5.0),
    ("H2:1", "w2", "typicality", 6.0),
    ("H1:0", "w1", "typicality", 1.0),
    ("H1:1", "w1", "typicality", 2.0),
    ("H2:0", "w1", "typicality", 4.0),
    ("H2:1", "w1", "typicality", 3.0),
]


class TestExport:
    def test_items_stand_once_and_ratings_once_a_worker(self, tmp_path: Path) -> None:
        items, ratings = read_crowd(save(tmp_path, export()))
        expected = [
            (f"{hit}:{number}", context, kind, float(logp), len(text.split(" ")), text)
            for (hit, number), (context, kind, text, logp) in ITEMS.items()
        ]
        assert items.frame.columns == ["id", "context", "kind", "logp", "length", "text"]
        assert items.frame.rows() == expected
        assert ratings.frame.columns == ["item", "rater", "question", "value"]
        assert ratings.frame.rows() == RATED
        assert list(ratings.origin.lines or []) == [2, 2, 3, 3, 4, 4]

    def test_other_names_and_several_questions(self, tmp_path: Path) -> None:
        names = {
            "Input.OUT0": "Input.reply_1", "Input.OUT1": "Input.reply_2", "Answer.0": "Answer.fluent1",
            "Answer.1": "Answer.fluent2", "Input.LOGP0": "Answer.clear1", "Input.LOGP1": "Answer.clear2",
            "WorkerId": "who",
        }  # fmt: skip
        options = {"text": "reply", "context": None, "kind": None, "logp": None, "index": None, "worker": "who"}
        questions = {"fluent": "Is it fluent?", "clear": "Is it clear?"}
        items, ratings = read_crowd(save(tmp_path, renamed(names)), questions=questions, **options)  # type: ignore[arg-type]
        assert items.frame.columns == ["id", "length", "text"]
        assert items.frame["id"].to_list() == ["H2:1", "H2:2", "H1:1", "H1:2"]
        assert ratings.frame.rows()[:4] == [
            ("H2:1", "w2", "Is it fluent?", 5.0), ("H2:1", "w2", "Is it clear?", -9.5),
            ("H2:2", "w2", "Is it fluent?", 6.0), ("H2:2", "w2", "Is it clear?", -12.25),
        ]  # fmt: skip

    def test_an_item_of_several_hits_goes_by_its_index_alone(self, tmp_path: Path) -> None:
        rows = [export()[0], export()[2] | {"HITId": "H9"}]
        swap = {f"Input.{stem}{n}": rows[1][f"Input.{stem}{1 - n}"] for stem in STEMS for n in (0, 1)}
        items, ratings = read_crowd(save(tmp_path, [rows[0], rows[1] | swap]), hit=None)
        assert items.frame["id"].to_list() == ["0", "1"]
        assert [row[0] for row in ratings.frame.rows()] == ["0", "1", "1", "0"]

    def test_answers_may_be_numbers_or_words_of_ones_own(self, tmp_path: Path) -> None:
        numbers = [row | {"Answer.0": " 2.5", "Answer.1": "4"} for row in export()]
        assert [row[3] for row in rated(tmp_path, numbers)] == [2.5, 4.0] * 3
        words = [row | {"Answer.0": "no", "Answer.1": "yes"} for row in export()]
        assert [row[3] for row in rated(tmp_path, words, words={"no": 0, "yes": 1})] == [0.0, 1.0] * 3

    def test_json_gives_the_same_as_csv(self, tmp_path: Path) -> None:
        expected = read_crowd(save(tmp_path, export()))
        read_table(save(tmp_path, export())).write_ndjson(tmp_path / "batch.jsonl")
        items, ratings = read_crowd(tmp_path / "batch.jsonl")
        assert items.frame.equals(expected[0].frame)
        assert ratings.frame.equals(expected[1].frame)


class TestLeftOut:
    def test_an_empty_answer_is_no_rating_when_asked(self, tmp_path: Path) -> None:
        rows = changed(1, {"Answer.1": " "})
        assert rated(tmp_path, rows, unanswered="drop") == RATED[:3] + RATED[4:]
        assert len(read_crowd(save(tmp_path, rows), unanswered="drop")[0]) == 4

    def test_a_hit_that_nobody_took_is_no_assignment(self, tmp_path: Path) -> None:
        rows = changed(1, {"WorkerId": "", "AssignmentStatus": "", "Answer.0": "", "Answer.1": ""})
        assert rated(tmp_path, rows) == RATED[:2] + RATED[4:]
        assert read_crowd(save(tmp_path, rows))[0].frame["id"].to_list() == ["H2:0", "H2:1"]

    def test_rejected_work_does_not_count_unless_asked(self, tmp_path: Path) -> None:
        rows = changed(0, {"AssignmentStatus": "Rejected"})
        rows[1]["AssignmentStatus"] = "Approved"
        assert rated(tmp_path, rows) == RATED[2:]
        assert rated(tmp_path, rows, statuses=None) == RATED
        assert rated(tmp_path, without("AssignmentStatus")) == RATED

    def test_a_place_without_an_item_is_skipped(self, tmp_path: Path) -> None:
        empty = {f"Input.{stem}1": "" for stem in STEMS}
        assert rated(tmp_path, changed(1, {**empty, "Answer.1": ""})) == RATED[:3] + RATED[4:]

    def test_an_empty_text_is_an_item_all_the_same(self, tmp_path: Path) -> None:
        items, ratings = read_crowd(save(tmp_path, changed(1, {"Input.OUT1": ""})))
        assert items.frame.row(3)[-2:] == (0, "")
        assert len(ratings) == 6


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (changed(1, {"Answer.1": ""}), {}, "line 3, column 'Answer.1': the cell is empty; expected one of Invalid,"),
        (changed(1, {"Answer.1": "typical"}), {}, "line 3, column 'Answer.1': 'typical'; expected one of Invalid,"),
        (changed(2, {"Answer.0": "5"}), {}, "line 4, column 'Answer.0': '5'; expected one of Invalid, Rare, Specific"),
        (export(), {"words": {}}, "line 2, column 'Answer.0': 'Typical'; expected a number; add other words to"),
        (export(), {"words": {"no": 0}}, "line 2, column 'Answer.0': 'Typical'; expected a number or one of no;"),
        (
            [row | {"Answer.0": "1", "Answer.1": "nan"} for row in export()],
            {},
            "line 2, column 'Answer.1': 'nan'; expected a number or one of Invalid",
        ),
        (
            [row | {"Answer.0": "", "Answer.1": ""} for row in export()],
            {"unanswered": "drop"},
            "every answer is empty; expected ratings",
        ),
        (
            [*export(), export()[1] | {"Answer.0": "Rare"}],
            {},
            "line 5, column 'Answer.0': worker 'w1' answered 'typicality' for item 'H1:0' twice: 1 on line 3 and 2",
        ),
        (
            changed(0, {f"Input.{stem}1": export()[0][f"Input.{stem}0"] for stem in STEMS}),
            {},
            "line 2, column 'Answer.1': worker 'w2' answered 'typicality' for item 'H2:0' twice: 5 on line 2 and 6",
        ),
        (changed(2, {"WorkerId": " "}), {}, "line 4, column 'WorkerId': the cell is empty, but 'Answer.0' is answered"),
        (changed(2, {"HITId": ""}), {}, "line 4, column 'HITId': the cell is empty; expected the name of the HIT"),
        (changed(2, {"Input.IDX1": ""}), {}, "line 4, column 'Input.IDX1': the cell is empty; expected the index of"),
        (changed(2, {"Input.LOGP1": ""}), {}, "line 4, column 'Input.LOGP1': item 'H2:1' has '' here and '-12.25' on"),
        (changed(1, {"Input.LOGP1": ""}), {}, "line 3, column 'Input.LOGP1': the cell is empty; expected a number"),
        (changed(1, {"Input.LOGP1": "-inf"}), {}, "line 3, column 'Input.LOGP1': '-inf'; expected a number"),
        (changed(1, {"Input.LOGP1": "1_0"}), {}, "line 3, column 'Input.LOGP1': '1_0'; expected a number"),
        (
            changed(2, {"Input.OUT0": "storm"}),
            {},
            "line 4, column 'Input.OUT0': item 'H2:0' has 'storm' here and 'storm nears coast' on line 2; expected the",
        ),
        (export(), {"hit": None}, "line 3, column 'Input.TYPE0': item '0' has 'MODEL' here and 'HUMAN' on line 2"),
        (
            changed(1, {f"Input.{stem}1": "" for stem in STEMS}),
            {},
            "line 3, column 'Answer.1': is answered, but item 1 is empty; expected none",
        ),
        (without("Answer.1"), {}, "column 'Answer.1': no such column"),
        (without("Input.CTX0"), {}, "column 'Input.CTX0': no such column"),
        (renamed({"Answer.comment": "Answer.2"}), {}, "column 'Input.IDX2': no such column"),
        (renamed({"Answer.comment": "Answer._1"}), {}, "column 'Answer._1': has the same number as 'Answer.1'"),
        (export(), {"logp": "P"}, "column 'Input.P<number>': no such column; found Input.IDX0, …, Input.CTX0, …"),
        (export(), {"questions": {"q": "q"}}, "column 'Answer.q<number>': no such column; found Answer.0, …; name"),
        (without("Answer.0", "Answer.1"), {}, "column 'Answer.<number>': no such column; found none; name the stem"),
        (export(), {"worker": "who"}, "column 'who': no such column; found HITId, WorkerId, AssignmentStatus, Approve"),
        (without("HITId"), {}, "column 'HITId': no such column; found WorkerId"),
        (
            [row | {"AssignmentStatus": "Rejected"} for row in export()],
            {},
            "found only assignments that are Rejected; expected at least one assignment that counts",
        ),
        (
            [row | {"WorkerId": "", "Answer.0": "", "Answer.1": ""} for row in export()],
            {},
            "found no row with a worker; expected at least one assignment that counts",
        ),
        (
            [{name: "" if name[-1].isdigit() else value for name, value in row.items()} for row in export()],
            {},
            "column 'Input.OUT…': the assignments hold no items; expected texts",
        ),
    ],
)  # fmt: skip
def test_a_wrong_export_is_an_error_that_names_the_place(
    tmp_path: Path, rows: list[Row], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError) as caught:
        read_crowd(save(tmp_path, rows), **options)
    assert "batch.csv" in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "X", "context": "X"}, "the stem 'X' has two roles"),
        ({"questions": {"a": "q", "b": "q"}}, "the question 'q' has two roles"),
        ({"questions": {}}, "no questions; expected the stem of at least one group"),
        ({"hit": None, "index": None}, "neither hit nor index; expected at least one of them"),
        ({"unanswered": "keep"}, "unanswered is 'keep'; expected error or drop"),
        ({"statuses": "Submitted"}, "statuses is 'Submitted'; expected several"),
        ({"words": {"never": float("nan")}}, "the answer 'never' counts as nan; expected a finite number"),
        ({"format": "text"}, "format 'text'"),
    ],
)
def test_options_that_make_no_sense_are_errors(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_crowd(save(tmp_path, export()), **options)
    assert message in str(caught.value)


def test_the_raw_file_of_huse_aggregates_to_the_published_table(research_data: Path) -> None:
    """Every row of the clean file, in its order, bit for bit: HITs in the order of their ids, items by their index.

    The judgment is the mean over 20 workers. The log-probability, too, was averaged over the 20 rows of its item,
    which leaves rounding errors behind that a mean of 20 equal numbers has in NumPy.
    """
    items, ratings = read_crowd(research_data / "huse" / "summarization_raw_outputs.csv")
    assert len(items) == 200
    assert len(ratings) == 4000
    assert ratings.frame.group_by("item").len()["len"].unique().to_list() == [20]
    means = ratings.frame.group_by("item").agg(judgment=pl.col("value").sum() / pl.len())
    made = items.frame.join(means, left_on="id", right_on="item").with_columns(
        pl.col("id").str.extract(r"^(.*):").alias("hit"),
        pl.col("id").str.extract(r":(\d+)$").cast(pl.Int64).alias("index"),
    )
    made = made.sort("hit", "index")
    clean = read_table(research_data / "huse" / "summary_clean.csv")
    assert made["judgment"].to_list() == clean["HumanJudgement"].to_list()
    assert made["length"].to_list() == clean["LengthOfUtterance"].to_list()
    assert [str(kind == "SUM") for kind in made["kind"]] == clean["Label"].to_list()
    assert [float(np.mean([logp] * 20)) for logp in made["logp"]] == clean["ModelProbability"].to_list()
    assert np.abs(made["logp"].to_numpy() - clean["ModelProbability"].to_numpy()).max() < 1e-12


def test_the_scale_of_huse_is_the_one_that_the_published_averages_need(research_data: Path) -> None:
    """Six unknown numbers for six words, found by least squares, are 1 to 6."""
    one_hot = {word: float(2**place) for place, word in enumerate(HUSE_WORDS)}
    _, ratings = read_crowd(research_data / "huse" / "summarization_raw_outputs.csv", words=one_hot)
    counts = ratings.frame.pivot("value", index="item", values="rater", aggregate_function="len").fill_null(0)
    counts = counts.with_columns(
        pl.col("item").str.extract(r"^(.*):").alias("hit"),
        pl.col("item").str.extract(r":(\d+)$").cast(pl.Int64).alias("index"),
    ).sort("hit", "index")
    clean = read_table(research_data / "huse" / "summary_clean.csv")
    table = counts.select(str(float(number)) for number in one_hot.values()).to_numpy().astype(float)
    found = np.linalg.lstsq(table / 20, clean["HumanJudgement"].to_numpy(), rcond=None)[0]
    assert np.abs(found - list(HUSE_WORDS.values())).max() < 1e-9
