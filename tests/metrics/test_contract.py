"""What every registered metric must do."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nlgauge
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.errors import DataError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.registry import create_metric, metric_names
from nlgauge.stats.inference import Inference
from tests.conftest import ROOT

NEED_MORE = ("column", "mauve", "sts-div", "bleurt", "union", "ruber", "llm-judge")
WORD_VECTORS = ("embed-average", "vector-extrema", "greedy")
VARIANTS = [
    *(name for name in metric_names() if name not in (*NEED_MORE, *WORD_VECTORS)),
    *(f"{name}:vectors=vectors.txt" for name in WORD_VECTORS),
    *(f"{name}:vectors=minilm" for name in WORD_VECTORS),
    "bleurt:model=cross-encoder",
    "bleurt:model=cross-encoder,references=mean,output=sigmoid",
    "union:model=union",
    "ruber:model=ruber",
    "ruber:model=ruber,part=unreferenced",
    "llm-judge:model=JUDGE",
    f"llm-judge:model=JUDGE,form=rnk-hds,against={ROOT / 'examples' / 'system_b.jsonl'},samples=2,temperature=1",
    "bertscore:part=recall,references=mean,layer=3",
    "moverscore:n=2,distance=squared,subwords=all,punctuation=keep,references=mean",
    "ppl:context=none",
    "column:column=human",
    f"mauve:against={ROOT / 'examples' / 'system_b.jsonl'}",
    f"mauve:against={ROOT / 'examples' / 'system_b.jsonl'},sample=10",
    "self-bleu:over=corpus",
    "compression:over=corpus,blocks=3",
    "sts-div:model=cross-encoder",
    "bertscore-div:layer=2",
    "content:lm=smollm2",
    "distinct:absent=omit",
    "distinct:over=corpus",
    "distinct:over=corpus,count=hll-12",
    "distinct:n=1+3,case=lower,tok=word",
    "cos-sim:variant=reference,tok=char",
    "self-bleu:n=2,smooth=none,tok=13a",
    "entropy:over=corpus,n=1-3",
    "ead:over=set,vocab=500,n=1-2",
    "ttr:over=set,n=2",
    "compression:by=zstd",
    "bleu:n=2,refs=multi,smooth=none,scale=1",
    "bleu:over=corpus,case=lower,tok=word,n=2",
    "bleu:over=corpus,variant=nlg-eval,n=1",
    "rouge-l:variant=rouge-score",
    "meteor:over=corpus",
]


@pytest.fixture(autouse=True)
def beside_the_models(metric_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that specs can name models by their folders."""
    monkeypatch.chdir(metric_models)


@pytest.fixture
def spec(request: pytest.FixtureRequest, judge: str) -> str:
    """A variant, with the address of the judge where it is to be."""
    return str(request.param).replace("JUDGE", judge)


def takes_references(metric: Metric | type[Metric]) -> bool:
    """Whether a metric is tried on single texts with contexts and references: RUBER needs them for one of its parts."""
    return metric.needs_references or metric.name == "ruber"


@pytest.fixture
def table(whole_table: ResponseSets, with_references: ResponseSets, spec: str) -> ResponseSets:
    """Fewer sets for metrics that need a model; single texts with references where a metric wants those."""
    metric = create_metric(spec)
    sets = with_references if takes_references(metric) else whole_table
    return sets.select(np.arange(8)) if metric.costly else sets


@pytest.fixture(scope="module")
def whole_table(examples: Path, minilm: str, smollm2: str) -> ResponseSets:
    sets = nlgauge.read(str(examples / "system_a.jsonl"))
    assert isinstance(sets, ResponseSets)
    rng = np.random.default_rng(5)
    import polars as pl

    return replace(sets, frame=sets.frame.with_columns(pl.Series("human", rng.random(len(sets)))))


@pytest.fixture(scope="module")
def with_references(whole_table: ResponseSets, examples: Path) -> ResponseSets:
    """The first response of each set of one system, with the other system's responses as references."""
    other = nlgauge.read(str(examples / "system_b.jsonl"))
    assert isinstance(other, ResponseSets)
    texts = whole_table.texts.gather(whole_table.offsets[:-1]).to_list()
    references = other.to_polars()["responses"].to_list()
    return Items.of(
        texts, contexts=Batch(whole_table).contexts(), references=references, ids=whole_table.ids.to_list()
    ).as_sets()


def finish(metric: Any, tables: list[ResponseSets], interval: Inference | None = None) -> Any:
    parts = [metric.collect(Batch(sets, grouped=interval is not None)) for sets in tables]
    stats = parts[0]
    for part in parts[1:]:
        stats = stats + part
    return metric.finish(stats, interval)


@pytest.mark.parametrize("spec", VARIANTS, indirect=True)
def test_merging_parts_equals_the_whole(spec: str, table: ResponseSets) -> None:
    metric, interval = create_metric(spec), Inference(resamples=200)
    whole = finish(metric, [table], interval)
    for cuts in ([5], [1, 2, 6], list(range(1, len(table)))):
        edges = [0, *cuts, len(table)]
        parts = [table.select(np.arange(a, b)) for a, b in pairwise(edges)]
        merged = finish(metric, parts, interval)
        assert (merged.value, merged.ci, merged.n) == (whole.value, whole.ci, whole.n)


@pytest.mark.parametrize("spec", VARIANTS, indirect=True)
def test_the_order_of_sets_does_not_matter(spec: str, table: ResponseSets) -> None:
    metric, interval = create_metric(spec), Inference(resamples=200)
    whole = finish(metric, [table], interval)
    shuffled = table.select(np.random.default_rng(1).permutation(len(table)))
    again = finish(metric, [shuffled], interval)
    assert (again.value, again.ci) == (whole.value, whole.ci)


@pytest.mark.parametrize("spec", VARIANTS, indirect=True)
def test_the_order_of_responses_in_a_set_does_not_matter(spec: str, table: ResponseSets) -> None:
    metric = create_metric(spec)
    rng = np.random.default_rng(2)
    order = np.concatenate([a + rng.permutation(b - a) for a, b in pairwise(table.offsets)])
    shuffled = replace(table, texts=table.texts.gather(order))
    assert finish(metric, [shuffled]).value == pytest.approx(finish(metric, [table]).value, abs=1e-14)


@pytest.mark.parametrize("spec", VARIANTS, indirect=True)
def test_a_seed_reproduces_the_interval_and_another_seed_gives_another(spec: str, table: ResponseSets) -> None:
    metric = create_metric(spec)
    first = finish(metric, [table], Inference(seed=1, resamples=200))
    assert finish(metric, [table], Inference(seed=1, resamples=200)).ci == first.ci
    if first.ci is None:
        assert "ci" not in first.signature.facts
    else:
        assert first.ci[0] < first.value < first.ci[1]
        if "seed" in first.signature.facts:
            seeds = (2, 3, 4)  # few values, such as ratings, may give one interval twice
            assert any(finish(metric, [table], Inference(seed=seed, resamples=200)).ci != first.ci for seed in seeds)


@pytest.mark.parametrize("spec", VARIANTS, indirect=True)
def test_the_signature_makes_the_metric_again(spec: str, table: ResponseSets) -> None:
    score = finish(create_metric(spec), [table], Inference(resamples=200))
    again = create_metric(str(score.signature))
    assert again.signature == create_metric(spec).signature
    assert create_metric(again.label).signature == again.signature
    assert finish(again, [table]).value == score.value


@pytest.mark.parametrize("spec", VARIANTS, indirect=True)
def test_scores_go_to_json_and_values_of_sets_average_to_the_score(spec: str, table: ResponseSets) -> None:
    score = finish(create_metric(spec), [table])
    assert json.loads(json.dumps(score.to_dict(), allow_nan=False))["value"] == score.value
    if score.per_item is not None:
        assert score.per_item["id"].to_list() == table.ids.to_list()
        assert score.per_item["value"].mean() == pytest.approx(score.value)
        least, most = score.bounds
        assert score.per_item["value"].drop_nans().is_between(least - 1e-9, most + 1e-9).all()


@pytest.mark.parametrize("spec", VARIANTS, indirect=True)
def test_empty_input_is_a_clear_error(spec: str) -> None:
    with pytest.raises(DataError, match=r"empty|no rows"):
        nlgauge.score([], [spec])
    with pytest.raises(DataError, match="empty"):
        nlgauge.score([[]], [spec])


NEED_TWO = [variant for variant in VARIANTS if create_metric(variant).needs > 1 and "over=corpus" not in variant]


@pytest.mark.parametrize("spec", NEED_TWO, indirect=True)
def test_too_few_responses_are_an_error_that_names_the_set(spec: str) -> None:
    with pytest.raises(DataError, match=r"set '1' has 1 response; .* needs at least 2"):
        nlgauge.score([["a", "b"], ["alone"]], [spec])
