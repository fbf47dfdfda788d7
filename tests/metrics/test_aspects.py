"""What a metric's class says about it: level, aspect, direction, and its options in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

import nlgauge
from nlgauge.configured import options_of
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.diversity.ngram import sketched
from nlgauge.metrics.registry import _BUILT_IN, create_metric, metric_class
from nlgauge.metrics.score import Direction

ASPECTS = {
    "form": ("distinct", "entropy", "cos-sim", "self-bleu", "compression", "pairs", "ead:over=set", "ttr:over=set"),
    "content": ("sent-sim", "content", "vendi", "kmeans-inertia", "volume", "bertscore-div", "sts-div", "llm-judge"),
    "repetition": (
        "ead",
        "ttr",
        "distinct:over=corpus",
        "entropy:over=corpus",
        "self-bleu:over=corpus",
        "compression:over=corpus",
    ),
    "quality": (
        "mauve",
        "bleu",
        "bleu:over=corpus",
        "rouge-l",
        "meteor",
        "meteor-nltk",
        "embed-average",
        "vector-extrema",
        "greedy",
        "sent-cos",
        "bertscore",
        "moverscore",
        "bleurt",
        "ruber",
        "llm-judge:form=typicality",
    ),
    "fluency": ("ppl", "relatedness", "union"),
    "columns": ("column",),
}
ASPECT_OF = {spec: aspect for aspect, specs in ASPECTS.items() for spec in specs}
LESS_DIVERSE = ("self-bleu", "self-bleu:over=corpus", "compression", "compression:over=corpus")


def test_every_metric_is_listed_here() -> None:
    assert {spec.partition(":")[0] for spec in ASPECT_OF} == set(_BUILT_IN)


@pytest.mark.parametrize("spec", ASPECT_OF)
def test_level_aspect_and_direction(spec: str) -> None:
    metric = create_metric(spec)
    diverse = ASPECT_OF[spec] not in ("quality", "fluency")
    words = "less diverse" if spec in LESS_DIVERSE else "more diverse" if diverse else "better"
    of_texts = ASPECT_OF[spec] in ("quality", "fluency", "columns") and spec != "mauve"
    pooled = ASPECT_OF[spec] == "repetition" or spec in ("mauve", "bleu:over=corpus")
    assert metric.aspect == ASPECT_OF[spec]
    assert metric.direction.words == words
    assert metric.direction.sign == (-1 if spec in LESS_DIVERSE else 1)
    assert metric.level == ("corpus" if pooled else "item" if of_texts else "set")
    assert metric.level in metric.levels


@pytest.mark.parametrize("name", _BUILT_IN)
def test_every_option_has_help(name: str) -> None:
    assert [one.name for one in options_of(metric_class(name)) if not one.about.help] == []


@pytest.mark.parametrize("direction", Direction)
def test_the_opposite_of_the_opposite_is_the_direction(direction: Direction) -> None:
    assert direction.opposite.opposite is direction
    assert direction.opposite.sign == -direction.sign
    assert direction.opposite.is_about_diversity == direction.is_about_diversity


def test_a_score_carries_what_its_metric_says() -> None:
    sets, corpus = nlgauge.score([["a b", "a c"], ["d"]], ["distinct:n=1", "self-bleu:over=corpus"])
    assert (sets.level, sets.aspect, sets.direction) == ("set", "form", Direction.MORE_DIVERSE)
    assert (corpus.level, corpus.aspect, corpus.direction) == ("corpus", "repetition", Direction.LESS_DIVERSE)
    assert {key: corpus.to_dict()[key] for key in ("higher_is", "level", "aspect")} == {
        "higher_is": "less diverse",
        "level": "corpus",
        "aspect": "repetition",
    }


def test_only_counts_of_a_corpus_can_be_estimated() -> None:
    others = [create_metric(spec) for spec in ("distinct", "entropy:over=corpus", "self-bleu:over=corpus", "cos-sim")]
    estimated = sketched([create_metric("distinct:over=corpus"), *others])
    assert estimated == [create_metric("distinct:over=corpus,count=hll-16"), *others]


def test_a_class_that_does_not_say_what_it_is_about_cannot_be_used() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Silent(SetMetric):
        name: ClassVar[str] = "silent"
        per_set = None  # type: ignore[assignment]

    with pytest.raises(TypeError, match="aspect"):
        Silent()  # type: ignore[abstract]
