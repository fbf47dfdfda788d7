"""Sweeps: many systems side by side, their outputs scored, and how far the rankings agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nlgauge.data.tables import Items, ResponseSets
from nlgauge.errors import DataError, MissingExtra, OptionError
from nlgauge.metrics.reference.meteor import find_program
from nlgauge.models.language.ngram import NgramModel
from nlgauge.scoring.scoring import score
from nlgauge.stats.inference import Inference
from nlgauge.studies.ruq.score import Ruq, row_of
from nlgauge.studies.ruq.sweep import Sweep, rank_agreement
from tests.errors import raises
from tests.studies.test_ruq import IDK, PAIRS, TRAINING, items, run, write_pairs

RATIOS = ["ttr:n=1", "ttr:n=2", "ttr:n=3"]
WROTE = ["Yes, I like tea.", "", "At home.", "I don't know.", "I am at home."]


def test_the_rankings_of_the_paper_agree() -> None:
    tables_4_and_9 = ((12.2, 12.7), (35.7, 17.8), (15.5, 13.2), (32.5, 16.9))
    rows = [{"model": str(i), "ruq_test": r, "METEOR": m} for i, (r, m) in enumerate(tables_4_and_9)]
    assert rank_agreement(rows, "ruq_test")["kendall"].to_list() == [1.0]
    assert rank_agreement(rows[:2], "ruq_test")["kendall"].to_list() == [None]


@pytest.fixture(scope="module")
def three_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("models")
    corpora = {"knows": [f"{a} {b}" for a, b in PAIRS] * 3, "shy": TRAINING[1:4] * 3, "both": TRAINING}
    for name, texts in corpora.items():
        NgramModel.train(texts).save(place / name)
    return {name: f"ngram:{place / name}" for name in corpora}


def test_models_stand_side_by_side_and_rankings_are_compared(three_models: dict[str, str], tmp_path: Path) -> None:
    splits = {"train": items(PAIRS[:3]), "test": items()}
    scores = pl.DataFrame({"model": ["shy", "knows", "both"], "METEOR": [1.0, 3.0, 2.0], "remark": ["a", "b", "c"]})
    study = Sweep(models=three_models, scores=scores).run(splits)
    assert [row["model"] for row in study.rows] == ["knows", "shy", "both"]
    for row in study.rows:
        alone = Ruq(model=three_models[row["model"]]).run(splits)
        assert row["ruq_test"] == row_of(alone, IDK, "test")["ruq"]
        assert row["ruq_train_ci"] == row_of(alone, IDK, "train")["ruq_ci"]
    assert study.row("knows")["ruq_test"] > study.row("both")["ruq_test"] > study.row("shy")["ruq_test"]
    assert study.tables["agreement"].filter(column="METEOR")["kendall"].to_list() == [1.0]
    assert any("Kendall's tau of ruq_test with METEOR over 3 models: 1.00" in note for note in study.notes)
    assert study.chart().to_dict()
    write_pairs(tmp_path / "test.jsonl")
    scores.write_csv(tmp_path / "scores.csv")
    models = [part for model in three_models.values() for part in ("--model", model)]
    done = run(
        tmp_path, "sweep", *models, "--names", "knows,shy,both", "--test", "test.jsonl", "--scores", "scores.csv",
        "--chart", "sweep.svg",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.out.startswith("knows has the highest RUQ on test")
    assert done.out.splitlines()[2].split() == ["model", "RUQ-test", "RUQ-test", "interval", "METEOR"]
    against_all = run(tmp_path, "sweep", *models, "--test", "test.jsonl", "--against", "all", "--format", "json")
    assert [row["model"] for row in json.loads(against_all.out)["rows"]] == list(three_models.values())


def test_a_sweep_that_cannot_be_meant_is_refused(three_models: dict[str, str]) -> None:
    splits = {"test": items()}
    with raises(OptionError, option="target"):
        Sweep(models=three_models, target="train").run(splits)
    with pytest.raises(OptionError) as error:
        Sweep(models=[]).run(splits)
    assert error.value.option == "models"
    with pytest.raises(OptionError) as error:
        Sweep(models=list(three_models.values()), names=["a", "b", "a"])
    assert error.value.option == "names"
    with raises(OptionError, option="against"):
        Sweep(models=three_models, against="No.").run(splits)
    with pytest.raises(DataError, match="expected 'model' and numbers"):
        Sweep(models=three_models, scores=pl.DataFrame({"model": ["shy"]})).run(splits)
    with pytest.raises(DataError, match="models other; expected knows, shy, both"):
        Sweep(
            models=three_models,
            scores=pl.DataFrame({"model": ["other"], "METEOR": [1.0]}),
        ).run(splits)


@pytest.fixture(scope="session")
def java() -> None:
    try:
        find_program()
    except MissingExtra as error:
        pytest.skip(str(error))


def several_references() -> Items:
    references = [[text, f"Well, {text}"] for _, text in PAIRS]
    texts, contexts = [text for _, text in PAIRS], [context for context, _ in PAIRS]
    return Items.of(texts, contexts=contexts, references=references)


@pytest.mark.parametrize("several", [False, True])
def test_outputs_are_scored_as_the_score_command_scores_them(three_models: dict[str, str], several: bool) -> None:
    test = several_references() if several else items()
    using = Inference(resamples=100)
    outputs = {"shy": Items.of(WROTE), "person": Items.of([text for _, text in PAIRS])}
    metrics = ["bleu:n=1", *RATIOS]
    study = Sweep(models=three_models, test=test, outputs=outputs, metrics=metrics, resamples=100).run()
    references = test.frame["references"].to_list() if several else [[text] for _, text in PAIRS]
    contexts = test.frame["context"].to_list()
    wrote = Items.of(WROTE, references=references, contexts=contexts)
    expected = score(wrote, metrics, confidence=True, **vars(using))
    assert [row["model"] for row in study.rows] == ["knows", "shy", "both", "person"]
    for one in expected:
        assert study.row("shy")[one.label] == one.value
        assert study.row("shy")[f"{one.label}_ci"] == (None if one.ci is None else list(one.ci))
        assert study.row("knows")[one.label] is None
        assert f"{one.label}: {one.signature}" in study.notes
    assert study.row("person")["bleu:n=1"] == 100
    assert study.row("person")["ruq_test"] is None
    assert "person: no model, so no RUQ" in study.notes
    assert study.row("shy")["ruq_test"] == Ruq(model=three_models["shy"], test=test, resamples=100).run().rows[0]["ruq"]
    assert f"references:{'column' if several else 'text'}" in str(study.signature)


def test_models_write_their_own_and_all_columns_are_ranked(three_models: dict[str, str]) -> None:
    splits = {"train": items(PAIRS[:3]), "test": items()}
    study = Sweep(
        models=three_models,
        write=True,
        beam=1,
        max_new_tokens=8,
        metrics=["rouge-l", *RATIOS],
    ).run(splits)
    for name, model in three_models.items():
        alone = Ruq(model=model, beam=1, max_new_tokens=8).run(splits).tables["items"]
        table = Items.of(alone.filter(split="test")["output"].to_list(), references=[[text] for _, text in PAIRS])
        for one in score(table, ["rouge-l", *RATIOS]):
            assert study.row(name)[one.label] == one.value
    assert study.tables["agreement"]["column"].to_list() == ["ruq_train", "rouge-l", "ttr", "ttr:n=2", "ttr:n=3"]
    assert "written:greedy-of-8-tokens" in str(study.signature)
    drawn = study.chart().to_dict()
    assert len(drawn["vconcat"]) == 2
    assert [panel["title"] for panel in drawn["vconcat"][1]["concat"]] == ["rouge-l", "ttr", "ttr:n=2", "ttr:n=3"]
    assert json.loads(study.to_json())["agreement"] == study.tables["agreement"].to_dicts()


def test_a_limit_holds_for_outputs_too(three_models: dict[str, str]) -> None:
    study = Sweep(
        models=three_models,
        test=items(),
        outputs={"shy": Items.of(WROTE)},
        metrics=["ttr"],
        limit=3,
    ).run()
    assert study.row("shy")["ttr"] == score(Items.of(WROTE[:3]), ["ttr"])[0].value
    assert study.row("shy")["n_test"] == 3


def test_output_files_alone_make_a_sweep_without_ruq(tmp_path: Path, java: None) -> None:
    write_pairs(tmp_path / "test.jsonl")
    (tmp_path / "a.txt").write_text("\n".join(WROTE) + "\n")
    rows = [{"context": context, "responses": [text]} for context, text in PAIRS]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run(
        tmp_path, "sweep", "--test", "test.jsonl", "--outputs", "a=a.txt", "--outputs", "b=b.jsonl", "--format", "json",
        "--chart", "sweep.svg",
    )  # fmt: skip
    assert done.code == 0, done.err
    document = json.loads(done.out)
    a, b = document["rows"]
    assert (a["ruq_test"], b["ruq_test"]) == (None, None)
    for row, texts in ((a, WROTE), (b, [text for _, text in PAIRS])):
        expected = score(Items.of(texts, references=[[text] for _, text in PAIRS]), ["meteor:over=corpus", *RATIOS])
        assert [row[one.label] for one in expected] == [one.value for one in expected]
    assert 0 < a["meteor:over=corpus"] < b["meteor:over=corpus"]
    assert "b: no model, so no RUQ" in document["notes"]
    assert (tmp_path / "sweep.svg").read_text().count("meteor:over=corpus") >= 1


def test_a_bundle_of_metrics_stands_for_its_parts(tmp_path: Path) -> None:
    write_pairs(tmp_path / "test.jsonl")
    (tmp_path / "a.txt").write_text("\n".join(WROTE) + "\n")
    done = run(tmp_path, "sweep", "--test", "test.jsonl", "--outputs", "a=a.txt", "-m", "dialog", "--format", "json")
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["rows"]
    table = Items.of(WROTE, references=[[text] for _, text in PAIRS])
    for one in score(table, ["bleu:n=2,case=lower", "rouge-l:case=lower", *RATIOS]):
        assert row[one.label] == one.value


def test_bad_outputs_are_refused(three_models: dict[str, str]) -> None:
    splits = {"test": items()}
    turned = Items.of(WROTE, contexts=[context for context, _ in reversed(PAIRS)])
    two = ResponseSets.of([["a", "b"]] * 5)
    for wrote, message in (
        (Items.of(WROTE[:4]), "shy: 4 outputs for 5 prompts of test; expected one per prompt"),
        (turned, "output 1 answers 'Where are you\\?', but prompt 1 of test is 'Do you like tea\\?'"),
        (two, "found ResponseSets; expected one text per prompt of test"),
    ):
        with pytest.raises(DataError, match=message):
            Sweep(models=three_models, outputs={"shy": wrote}, metrics=["ttr"]).run(splits)
    idle: list[tuple[dict[str, Any], str]] = [
        ({"metrics": ["ttr"]}, "metrics"),
        ({"beam": 2}, "beam"),
        ({"outputs": {name: Items.of(WROTE) for name in three_models}, "write": True}, "write"),
    ]
    for options, name in idle:
        with pytest.raises(OptionError) as error:
            Sweep(models=three_models, **options)
        assert error.value.option == name
    scores = pl.DataFrame({"model": ["shy"], "ttr": [1.0]})
    with raises(DataError, option="scores", column="ttr"):
        Sweep(
            models=three_models,
            outputs={"shy": Items.of(WROTE)},
            metrics=["ttr"],
            scores=scores,
        ).run(splits)


@pytest.mark.parametrize("entry", ["a.txt", "=a.txt", "a=", "a=a.txt"])
def test_outputs_without_a_name_of_their_own_are_bad_usage(tmp_path: Path, entry: str) -> None:
    write_pairs(tmp_path / "test.jsonl")
    done = run(tmp_path, "sweep", "--test", "test.jsonl", "--outputs", "a=a.txt", "--outputs", entry)
    assert done.code == 2
    assert f"--outputs {entry}; expected NAME=FILE" in done.err
