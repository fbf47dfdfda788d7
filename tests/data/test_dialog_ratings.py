"""Replies rated by people (Gupta et al. 2019): metrics agree with them better when they see several references."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from scipy.stats import spearmanr

import nlgauge
from nlgauge.data import Reading, Source, read_items
from tests.helpers import nlgauge as command

SMOOTH = SmoothingFunction().method1
BUNDLED = (
    "bleu:case=lower,n=1", "bleu:case=lower,n=2", "bleu:case=lower,n=3", "bleu:case=lower", "rouge-l:case=lower",
    "embed-average", "vector-extrema", "greedy", "sent-cos",
)  # fmt: skip
SEVERAL = Reading(text="response", references="all_references", references_separator="\t", context="context")
ONE = Reading(text="response", references="prevgt", context="context")


@pytest.fixture(scope="module")
def file(research_data: Path) -> Path:
    return research_data / "dailydialog_multiref" / "mturk_ratings.csv"


@pytest.fixture(scope="module")
def studies(
    file: Path, minilm: str, glove: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the command prints, with several references and with one."""
    folder = tmp_path_factory.mktemp("studies")
    options = ("--truth", "human_average_rating", "--text", "response", "--context", "context", "-m", "dialog")
    found = []
    for references in (("all_references", "--references-separator", r"\t"), ("prevgt",)):
        done = command(
            "study", "correlation", str(file), *options, "--references", *references, "-f", "json", "--no-progress",
            cwd=folder, cache=folder / "cache",
        )  # fmt: skip
        assert done.code == 0, done.err
        found.append(json.loads(done.out))
    return found[0], found[1]


def test_the_table_has_five_replies_to_each_of_a_hundred_contexts(file: Path) -> None:
    several, one = (read_items(str(file), **vars(columns)).frame for columns in (SEVERAL, ONE))
    assert several.height == one.height == 500
    assert several.group_by("context").agg(pl.col("system").n_unique(), pl.len()).select(
        pl.len().alias("contexts"), pl.col("system").unique().implode(), pl.col("len").unique().implode()
    ).row(0) == (100, [5], [5])
    assert several["references"].list.len().unique().to_list() == [4]
    assert several["references"].list.last().to_list() == one["references"].list.first().to_list()


def test_every_item_counts_and_contexts_are_resampled(studies: tuple[dict[str, Any], dict[str, Any]]) -> None:
    for study, references in zip(studies, (4, 1), strict=True):
        assert [row["metric"] for row in study["rows"]] == list(BUNDLED)
        assert {row["n"] for row in study["rows"]} == {500}
        assert study["signature"].endswith(f"|#|refs:{references}|unit:context")
        notes = " ".join(study["notes"])
        assert "100 contexts are resampled, not 500 sets" in notes
        assert "bleu:over=corpus,case=lower,n=1,variant=nlg-eval" in notes
        assert "ttr:n=3" in notes
        for row in study["rows"]:
            for kind in ("pearson", "spearman", "kendall"):
                low, high = row[f"{kind}_ci"]
                assert low < row[kind] < high
                assert 0.05 < high - low < 0.3


def test_several_references_agree_better_with_people_than_one(
    studies: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    several, one = ({row["metric"]: row["spearman"] for row in study["rows"]} for study in studies)
    for metric in BUNDLED:
        assert several[metric] > one[metric] + 0.05, metric
    assert max(several, key=lambda metric: several[metric]) == "sent-cos"
    assert [row["metric"] for row in studies[0]["rows"] if row["cluster"] == 1] == ["sent-cos"]


@pytest.mark.parametrize("columns", [SEVERAL, ONE], ids=["several", "one"])
def test_correlations_equal_those_of_other_programs(file: Path, columns: Reading) -> None:
    study = nlgauge.CorrelationStudy(
        metrics=["bleu:n=2,case=lower", "rouge-l:variant=rouge-score"],
        truth="human_average_rating",
        significance=False,
        decimals=9,
    ).run(Source(path=str(file), reading=columns))
    table = pl.read_csv(file)
    cells = table[columns.references or ""].str.split(columns.references_separator or "\n").to_list()
    replies, truth = table["response"].to_list(), table["human_average_rating"].to_numpy()
    bleu = [
        max(sentence_bleu([r.lower().split()], reply.lower().split(), (0.5, 0.5), SMOOTH) for r in references)
        for reply, references in zip(replies, cells, strict=True)
    ]
    scorer: Any = importlib.import_module("rouge_score.rouge_scorer").RougeScorer(["rougeL"], use_stemmer=False)
    rouge = [
        scorer.score_multi(references, reply)["rougeL"].fmeasure
        for reply, references in zip(replies, cells, strict=True)
    ]
    for row, values in zip(study.rows, (bleu, rouge), strict=True):
        rounded = np.round(100 * np.array(values), 9)  # equal fractions must be ties, whichever way they were divided
        assert row["spearman"] == pytest.approx(spearmanr(rounded, truth).statistic, abs=1e-9)


def test_models_are_tasks_of_their_own_where_asked_for(file: Path) -> None:
    study = nlgauge.CorrelationStudy(metrics=["rouge-l"], truth="human_average_rating", by="model").run(
        Source(path=str(file), reading=SEVERAL)
    )
    assert study.tasks == ["human", "hredf", "seq2seqf", "CVAEf", "dualencoder_train"]
    assert {row["n"] for row in study.rows} == {100}
    assert study.signature.facts["unit"] == "set"
