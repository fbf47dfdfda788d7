"""Released human judgments become items and ratings that every study reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import nlgauge
from nlgauge.data.human.error_types import error_type, known_error_type
from nlgauge.data.human.judgments import Judgments, read_judgments
from nlgauge.errors import DataError, OptionError
from tests.errors import raises
from tests.helpers import nlgauge as command
from tests.helpers import write_packed


def mans() -> dict[str, Any]:
    return {
        "7": {
            "prompt": "ann lost her key .",
            "gold_response": "she found it in the snow .",
            "gen": {
                "big": {"text": "she asked her neighbour for help .", "score": [4, 5, 5]},
                "small": {"text": "key key key .", "score": [1, 2, 1]},
            },
        },
        "8": {
            "prompt": "tom baked bread .",
            "gold_response": "it smelled of rye .",
            "gen": {
                "big": {"text": "his sister ate half of it .", "score": [3, 3, 4]},
                "small": {"text": "bread was a dog .", "score": [2, 2, 2]},
            },
        },
    }


def usr() -> list[dict[str, Any]]:
    def response(model: str, text: str, natural: list[Any], overall: list[Any]) -> dict[str, Any]:
        return {"response": text + "\n", "model": model, "Natural": natural, "Makes Sense": overall}

    return [
        {
            "context": "hello !\nhow was your walk ?\n",
            "fact": "i have a dog .\n",
            "annotators": ["kim", "lee"],
            "responses": [
                response("Original Ground Truth", "muddy , but fine", [3, 3], [5, 4]),
                response("Parrot", "how was your walk ?", [3, 2], [1, 2]),
            ],
        },
        {
            "context": "do you cook ?\n",
            "fact": "i love soup .\n",
            "annotators": ["lee", "sam"],
            "responses": [
                response("Original Ground Truth", "only soup", [3, 3], [5, 5]),
                response("Parrot", "do you cook ?", [2, 2], [1, 1]),
            ],
        },
    ]


def summeval() -> list[dict[str, Any]]:
    def summary(id: str, model: str, decoded: str, experts: list[int], crowd: list[int]) -> dict[str, Any]:
        return {
            "id": id, "model_id": model, "decoded": decoded, "text": f"the article {id}",
            "references": ["a dam broke", "the dam gave way"],
            "expert_annotations": [{"coherence": value, "fluency": 5} for value in experts],
            "turker_annotations": [{"coherence": value, "fluency": 1} for value in crowd],
        }  # fmt: skip

    return [summary("d1", "M0", "a dam broke .", [5, 4], [1, 1, 2]), summary("d1", "M1", "dam dam", [1, 1], [5, 5, 5])]


HANNA = (
    "Story ID,Prompt,Human,Story,Model,Relevance,Coherence,Worker ID,Comment\n"
    "0,a lighthouse,the lamp went out,the lamp went out,Human,5,4,w1,\n"
    '0,a lighthouse,the lamp went out,the lamp went out,Human,4,4,w2,"good, really"\n'
    "1,a lighthouse,the lamp went out,light light light,CTRL,2,1,w1,\n"
    "1,a lighthouse,the lamp went out,light light light,CTRL,,2,w3,\n"
)
TABLE = (
    "item,rater,question,value,text,system,context,reference\n"
    "a,w1,fluent,4,one text,m1,say it,one\na,w2,fluent,2,one text,m1,say it,one\nb,w1,fluent,1,two,m2,say it,one\n"
)


def save(folder: Path, content: Any, name: str = "") -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    path = folder / (name or ("judged.json" if text[:1] in "{[" else "judged.csv"))
    path.write_text(text)
    return path


def lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def ratings_of(found: Judgments) -> list[tuple[Any, ...]]:
    return found.ratings.frame.select("item", "rater", "question", "value").rows()


def test_mans_gives_an_item_for_every_generator_of_every_input(tmp_path: Path) -> None:
    found = read_judgments(save(tmp_path, mans()))
    assert found.format == "mans"
    assert not found.notes
    assert found.items.frame.columns == ["id", "context", "system", "human", "text", "references"]
    assert found.items.frame.row(1, named=True) == {
        "id": "7:small", "context": "ann lost her key .", "system": "small", "human": pytest.approx(4 / 3),
        "text": "key key key .", "references": ["she found it in the snow ."],
    }  # fmt: skip
    assert ratings_of(found)[:3] == [("7:big", str(r), "overall", v) for r, v in ((1, 4.0), (2, 5.0), (3, 5.0))]
    assert found.ratings.frame["system"].to_list() == ["big"] * 3 + ["small"] * 3 + ["big"] * 3 + ["small"] * 3


def test_usr_has_named_raters_several_questions_and_the_original_response_as_reference(tmp_path: Path) -> None:
    found = read_judgments(save(tmp_path, usr()))
    assert found.format == "usr"
    frame = found.items.frame
    assert frame["id"].to_list() == [
        "1:Original Ground Truth", "1:Parrot", "2:Original Ground Truth", "2:Parrot"
    ]  # fmt: skip
    assert frame["references"].to_list() == [["muddy , but fine"]] * 2 + [["only soup"]] * 2
    assert frame.select("context", "fact", "text", "human_natural", "human_makes_sense").row(1) == (
        "hello !\nhow was your walk ?", "i have a dog .", "how was your walk ?", 2.5, 1.5
    )  # fmt: skip
    assert ("2:Parrot", "sam", "makes_sense", 1.0) in ratings_of(found)
    assert found.notes == ("2 of 4 texts equal one of their references, by system: Original Ground Truth (2)",)


@pytest.mark.parametrize("layout", [lines, json.dumps])
def test_summeval_keeps_experts_and_crowd_apart(tmp_path: Path, layout: Callable[[Any], str]) -> None:
    found = read_judgments(save(tmp_path, layout(summeval()), "judged.jsonl"))
    assert found.format == "summeval"
    row = found.items.frame.row(0, named=True)
    assert (row["id"], row["system"], row["context"]) == ("d1:M0", "M0", "the article d1")
    assert row["references"] == ["a dam broke", "the dam gave way"]
    assert (row["human_coherence"], row["human_fluency"]) == (4.5, 5)
    assert (row["human_coherence_turkers"], row["human_fluency_turkers"]) == (pytest.approx(4 / 3), 1)
    mine = found.ratings.frame.filter(item="d1:M0", question="coherence")
    assert mine["rater"].to_list() == ["expert_1", "expert_2"]


def test_summaries_with_one_reference_and_without_a_model_are_read(tmp_path: Path) -> None:
    records = [
        {"id": i, "decoded": "short", "reference": "long", "expert_annotations": [{"fluency": i}]} for i in (1, 2)
    ]
    frame = read_judgments(save(tmp_path, lines(records), "judged.jsonl")).items.frame
    assert frame["id"].to_list() == ["1", "2"]
    assert frame["references"].to_list() == [["long"]] * 2
    assert "system" not in frame.columns
    assert frame["human"].to_list() == [1, 2]


def test_hanna_has_a_row_a_rater(tmp_path: Path) -> None:
    found = read_judgments(save(tmp_path, HANNA))
    assert found.format == "hanna"
    assert found.items.frame.select("id", "system", "context", "human_relevance", "human_coherence").rows() == [
        ("0:Human", "Human", "a lighthouse", 4.5, 4.0), ("1:CTRL", "CTRL", "a lighthouse", 2.0, 1.5)
    ]  # fmt: skip
    assert found.items.frame["references"].to_list() == [["the lamp went out"]] * 2
    assert [row for row in ratings_of(found) if row[1] == "w3"] == [("1:CTRL", "w3", "coherence", 2.0)]
    assert found.notes[0].startswith("relevance: 1 of 2 items do not have 2 ratings: 1:CTRL (1)")


def test_raters_without_names_go_by_their_place(tmp_path: Path) -> None:
    found = read_judgments(save(tmp_path, HANNA.replace("Worker ID", "Shift")))
    assert found.ratings.frame.filter(item="0:Human", question="coherence")["rater"].to_list() == ["1", "2"]


@pytest.mark.parametrize("name", ["judged.csv", "judged.jsonl"])
def test_a_plain_table_of_ratings_and_texts(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, TABLE)
    if name != "judged.csv":
        pl.read_csv(path).write_ndjson(tmp_path / name)
    found = read_judgments(tmp_path / name)
    assert found.format == "table"
    assert found.items.frame.select("id", "context", "system", "human", "text").rows() == [
        ("a", "say it", "m1", 3.0, "one text"), ("b", "say it", "m2", 1.0, "two")
    ]  # fmt: skip
    assert ratings_of(found) == [("a", "w1", "fluent", 4.0), ("a", "w2", "fluent", 2.0), ("b", "w1", "fluent", 1.0)]


@pytest.mark.parametrize("packing", [".gz", ".zst"])
def test_packed_files_are_read_and_a_format_may_be_named(tmp_path: Path, packing: str) -> None:
    path = write_packed(tmp_path / "m.json", json.dumps(mans()).encode(), packing)
    assert len(read_judgments(path, "mans").items) == 4


def with_change(change: Callable[[Any], object], make: Callable[[], Any] = mans) -> Any:
    document = make()
    change(document)
    return document


def test_missing_ratings_and_empty_texts_are_named_and_counted(tmp_path: Path) -> None:
    document = mans()
    document["7"]["gen"]["big"]["score"] = []
    document["7"]["gen"]["small"]["score"] = [1, None, 2]
    document["8"]["gen"]["small"]["text"] = " "
    found = read_judgments(save(tmp_path, document))
    assert found.items.frame["id"].to_list() == ["7:small", "8:big", "8:small"]
    assert found.items.frame["human"][0] == 1.5
    assert found.notes == (
        "1 of 4 items have no rating and were left out: 7:big",
        "overall: 1 of 3 items do not have 3 ratings: 7:small (2)",
        "1 of 3 texts are empty: 8:small",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(mans()).replace('"small"', '"big"', 1), "the name 'big' is a duplicate in one object"),
        (json.dumps(mans()).replace('"8"', '"7"'), "the name '7' is a duplicate in one object"),
        (json.dumps(mans()).replace("[4, 5, 5]", "[4, NaN, 5]"),
         "input '7', generator 'big', 'score', score 2: found float nan; expected a number, or null"),
        (json.dumps(mans()).replace("[4, 5, 5]", '[4, 5, "good"]'), "score 3: found text 'good'; expected a number"),
        (json.dumps(mans()).replace("[4, 5, 5]", "[true, 5, 5]"), "score 1: found bool True; expected a number"),
        (json.dumps(mans()).replace("[4, 5, 5]", f"[1{'0' * 400}, 5, 5]"), "score 1: found int 1000"),
        (json.dumps(mans()).replace("[4, 5, 5]", "4"), "'score': found int 4; expected a list of scores"),
        (json.dumps(mans()).replace('"key key key ."', "5"), "generator 'small', 'text': found int 5; expected text"),
        (json.dumps(mans()).replace("key key key", "key \\ud800"), "'text': holds a lone surrogate"),
        (json.dumps(mans()).replace('"gold_response": "it', '"gold": "it'),
         "input '8', generator 'big': has no reference, but others do"),
        (with_change(lambda d: d["8"].pop("gen")), "input '8', 'gen': found nothing; expected an object"),
        (with_change(lambda d: [m.update(score=[]) for i in d.values() for m in i["gen"].values()]),
         "none of 4 items has a rating"),
        (json.dumps(mans())[:-9], "line 1: invalid JSON"),
        (with_change(lambda d: d[1]["responses"][1].update(model="Original Ground Truth"), usr),
         "input 2, generator 'Original Ground Truth': duplicate; expected every generator once"),
        (with_change(lambda d: d[0]["responses"][1].update(Natural=[3]), usr),
         "input 1, generator 'Parrot', 'Natural': 1 scores by 2 raters; expected one each"),
        (with_change(lambda d: d[0]["responses"][1].update(natural=[3, 3]), usr),
         "generator 'Parrot', 'natural': a second rating of question 'natural' by rater 'kim'; expected one"),
        (lines(summeval()).replace('"fluency": 5', '"Coherence": 5', 1),
         "'Coherence': a second rating of question 'coherence' by rater 'expert_1'"),
        (TABLE + "a,w1,Fluent,3,one text,m1,say it,one\n", "line 5: a second rating of question 'fluent' by rater"),
        (with_change(lambda d: d[0]["responses"][1].update(Natural="fine"), usr), "found text 'fine'; expected a list"),
        (with_change(lambda d: d[0].update(annotators=["kim", "kim"]), usr), "expected a list of different names"),
        (with_change(lambda d: d[0].update(responses=[]), usr), "input 1: 'responses' is list []; expected a list of"),
        (with_change(lambda d: d[0]["responses"].append("x"), usr), "'responses': found text 'x'; expected an object"),
        (lines([*summeval(), summeval()[0]]), "line 3: summary 'd1', generator 'M0': duplicate"),
        (lines(summeval()).replace('"coherence": 5', '"coherence": "five"', 1),
         "line 1: summary 'd1', generator 'M0', 'expert_annotations' 1, 'coherence': found text 'five'"),
        (lines(summeval()) + '{"id": \n', "line 3: invalid JSON"),
        (HANNA.replace("4,4,w2", "four,4,w2"), "line 3: column 'relevance': found text 'four'; expected a number"),
        (HANNA.replace("4,4,w2", "nan,4,w2"), "line 3: column 'relevance': found float nan; expected a number"),
        (HANNA.replace("w2", "w1"), "line 3: rater 'w1' rated story '0:Human' on an earlier line"),
        (HANNA.replace("out,Human,4", "in,Human,4"),
         "line 3, column 'story': item '0:Human' has text 'the lamp went in' here and text 'the lamp went out' on"),
        (HANNA.replace("Comment", "Story_ID"), "column 'story_id': two columns have this name"),
        (HANNA.replace("Relevance", "A").replace("Coherence", "B"), "no column of ratings; expected some of relevance"),
        (HANNA.replace("1,a lighthouse", ",a lighthouse"), "line 4: column 'story_id': is empty; expected a name"),
        (TABLE.replace("one text,m1", "another,m1", 1), "line 3, column 'text': item 'a' has text 'one text' here"),
        (TABLE.replace("fluent,2", "fluent,bad"), "line 3, column 'value': 'bad'; expected a number"),
        ("a,b\n1,2\n", "found columns a, b; expected an object of inputs with 'gen' (mans)"),
        ('{"a": {"b": 1}}', "found an object with the names a, the first of which has b; expected an object of inputs"),
        ("[1, 2]", "found a list of objects with the names none; expected"),
        ("\n", "the file is empty; expected"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_an_error_that_names_the_place(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_judgments(save(tmp_path, content))
    assert str(caught.value).startswith(str(tmp_path))
    assert message in str(caught.value)


def test_options_that_make_no_sense_are_errors(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="judgment format 'csv'; expected one of mans, usr, summeval, hanna, table"):
        read_judgments(save(tmp_path, HANNA), "csv")
    with raises(DataError, file="judged.csv"):
        read_judgments(save(tmp_path, HANNA), "mans")
    with pytest.raises(OptionError, match="judgments from standard input"):
        read_judgments("-")
    with raises(DataError, file="none.json"):
        read_judgments(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("scores", "types", "expected"),
    [
        ([5, 5, 4, 4, 4], [[], [], [], [], []], "reasonable"),
        ([4, 4, 4, 4, 4], [[], [], [], [], []], "none"),
        ([2, 2, 2, 2, 2], [["chaotic"], ["chaotic"], ["chaotic"], [], []], "chaotic"),
        ([2, 2, 2, 2, 2], [["chaotic"], ["chaotic"], [], [], []], "none"),
        ([2, 2, 2, 2, 2], [["chaotic", "repetitive"]] * 3 + [[], []], "none"),
        ([2, 2, 2, 2, 2], [["chaotic", "repetitive"]] * 2 + [["repetitive"], [], []], "repetitive"),
        ([2, 2, 2, 2, 2], [["chaotic", "chaotic", "chaotic"], [], [], [], []], "none"),
        ([5, 5, 5, 5, 5], [["chaotic"]] * 5, "reasonable"),
    ],
)
def test_the_rule_of_section_4_2(scores: list[float], types: list[list[str]], expected: str) -> None:
    assert error_type(scores, types) == expected


def test_error_types_beside_scores_become_a_column(tmp_path: Path) -> None:
    document = mans()
    document["7"]["gen"]["big"]["error_types"] = [[], [], ["Unrelated events"]]
    document["7"]["gen"]["small"]["error types"] = [["Repeated plots"], "repetitive", None]
    document["8"]["gen"]["small"]["error_types"] = [["chaotic"], ["conflicting logic"], ["Chaotic scenes"]]
    frame = read_judgments(save(tmp_path, document)).items.frame
    assert dict(frame.select("id", "error_type").rows()) == {
        "7:big": "reasonable", "7:small": "repetitive", "8:big": None, "8:small": "chaotic",
    }  # fmt: skip
    for wrong, message in (
        ([["dull"], [], []], "found text 'dull'; expected repetitive, unrelated"),
        ([[]], "3 ratings"),
    ):
        document["7"]["gen"]["big"]["error_types"] = wrong
        with pytest.raises(DataError, match=f"input '7', generator 'big', 'error_types': .*{message}"):
            read_judgments(save(tmp_path, document))
    assert known_error_type("representative") is None
    assert known_error_type(" CONFLICTING ") == "conflicting"


def test_the_command_writes_what_studies_read(tmp_path: Path) -> None:
    document = {
        str(i): {
            "prompt": f"prompt {i} .", "gold_response": f"story {i} ends well .",
            "gen": {
                name: {"text": f"story {i} ends " + word * (i % 5), "score": [1 + (i + more) % 4, 1 + i % 4, 2 + i % 3]}
                for more, (name, word) in enumerate((("one", "well "), ("two", "badly ")))
            },
        }
        for i in range(12)
    }  # fmt: skip
    save(tmp_path, document, "m.json")

    def run(*arguments: str) -> Any:
        done = command(*arguments, cwd=tmp_path, cache=tmp_path / "cache")
        assert done.code == 0, done.err
        return done

    done = run("data", "judgments", "m.json", "-o", "items.jsonl", "--ratings", "ratings.csv")
    assert "24 items (mans) with human; ratings.csv: 72 ratings" in done.err
    study = json.loads(run("study", "agreement", "ratings.csv", "--by", "system", "--chart", "c.svg", "-f", "json").out)
    assert (study["rows"][0]["items"], study["rows"][0]["raters"]) == (24, 3)
    study = json.loads(
        run("study", "correlation", "items.jsonl", "--truth", "human", "-m", "bleu", "-f", "json", "--no-progress").out
    )
    assert study["rows"][0]["n"] == 24
    assert study["signature"].endswith("|#|refs:1|unit:context")
    for wrong in (("-o", "x.jsonl", "--ratings", "x.jsonl"), ("-o", "m.json"), ("-o", "x.jsonl", "-f", "odd")):
        refused = command("data", "judgments", "m.json", *wrong, cwd=tmp_path, cache=tmp_path / "cache")
        assert refused.code == 2, refused.err
    assert json.loads((tmp_path / "m.json").read_text()) == document


def test_mans_has_the_agreement_that_its_authors_report(research_data: Path) -> None:
    found = read_judgments(research_data / "openmeva" / "mans_roc.json")
    frame = found.items.frame
    assert (len(frame), frame["system"].n_unique(), frame["context"].n_unique()) == (1000, 5, 200)
    assert (len(found.ratings), found.notes) == (5000, ())
    study = nlgauge.AgreementStudy(scale=(1, 5), by="system", measures=("kappa", "icc"), resamples=200).run(
        found.ratings
    )
    row = study.row("overall")
    assert row["alpha"] == pytest.approx(0.771, abs=5e-4)
    assert row["ICC(1,1)"] == pytest.approx(row["alpha"], abs=1e-3)
    assert any("they were sorted" in note for note in study.notes)
    assert study.tables["scores"]["group"].n_unique() == 5


def test_usr_has_three_ratings_of_three_hundred_responses(research_data: Path) -> None:
    found = read_judgments(research_data / "usr" / "pc_usr_data.json")
    frame = found.items.frame
    assert (len(frame), frame["system"].n_unique(), frame["context"].n_unique()) == (300, 5, 60)
    assert len(found.ratings) == 300 * 3 * 6
    human = frame.group_by("system").agg(pl.col("human_overall").mean()).sort("human_overall")["system"].to_list()
    assert human[-2:] == ["Original Ground Truth", "New Human Generated"]
    assert found.notes == ("60 of 300 texts equal one of their references, by system: Original Ground Truth (60)",)
