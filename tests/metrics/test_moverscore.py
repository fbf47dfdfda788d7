"""MoverScore: equal to a linear program and to a direct computation from the tokeniser's own pieces."""

from __future__ import annotations

import importlib
import math
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import nlgauge
from nlgauge.arrays import Array
from nlgauge.data.tables import Items
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.reference.contextual import WeighedTokens, token_texts
from nlgauge.metrics.reference.moverscore import mover_score, ngrams
from nlgauge.metrics.registry import create_metric
from nlgauge.models.encoders.embedder import load_embedder
from nlgauge.models.fetch import resolve_model

ot: Any = importlib.import_module("ot")

TEXTS = [
    "Ann's antidisestablishmentarian uncle sat on the therapist's mat.",
    "The cat, a tabby, sat there.",
    "He ran; she walked (slowly) home!",
    "word",
]
REFERENCES = [
    ["Her uncle sat on a mat.", "Nobody sat anywhere, said the philatelist."],
    ["The cat sat there."],
    ["They walked home slowly.", "It rained."],
    ["words"],
]
CORPUS = ["the cat sat", "the dog ran home", "a cat walked on the mat", "she said it rained"]


@st.composite
def weighed(draw: st.DrawFn, most: int = 6) -> WeighedTokens:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.integers(1, most))
    vectors = rng.normal(size=(size, 3))
    if size > 1 and draw(st.booleans()):
        vectors[-1] = vectors[0]
    weights = rng.random(size) + 0.1
    if size > 1 and draw(st.booleans()):
        weights[0] = 0.0
    return WeighedTokens(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), weights)


def costs_of(one: Array, other: Array, squared: bool) -> list[list[float]]:
    """Distances, one by one."""
    squares = [[sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for y in other] for x in one]
    return squares if squared else [[math.sqrt(value) for value in row] for row in squares]


def by_linear_program(one: WeighedTokens, other: WeighedTokens, squared: bool) -> float:
    """The cheapest flow by its definition: rows and columns sum to the shares."""
    rows, columns = len(one.weights), len(other.weights)
    sums = [[float(k // columns == i) for k in range(rows * columns)] for i in range(rows)]
    sums += [[float(k % columns == j) for k in range(rows * columns)] for j in range(columns)]
    shares = np.concatenate([side.weights / side.weights.sum() for side in (one, other)])
    found = linprog(np.ravel(costs_of(one.units, other.units, squared)), A_eq=sums, b_eq=shares)
    return 1 - float(found.fun)


@settings(max_examples=60)
@given(weighed(), weighed(), st.booleans())
def test_the_score_is_1_minus_the_cost_of_the_cheapest_flow(
    one: WeighedTokens, other: WeighedTokens, squared: bool
) -> None:
    found = mover_score(one, other, squared=squared)
    shares = [side.weights / side.weights.sum() for side in (one, other)]
    assert found == pytest.approx(1 - ot.emd2(*shares, np.array(costs_of(one.units, other.units, squared))), abs=1e-9)
    assert found == pytest.approx(by_linear_program(one, other, squared), abs=1e-6)
    assert found == pytest.approx(mover_score(other, one, squared=squared), abs=1e-12)
    assert mover_score(one, one, squared=squared) == 1.0


def slow_ngrams(units: Sequence[Array], weights: Sequence[float], n: int) -> tuple[list[Array], list[float]]:
    """Windows of n tokens, or all tokens where there are fewer."""
    width = min(n, len(weights))
    vectors: list[Array] = []
    sums: list[float] = []
    for start in range(len(weights) - width + 1):
        mean = np.sum([weights[i] * units[i] for i in range(start, start + width)], axis=0)
        length = float(np.linalg.norm(mean))
        vectors.append(mean / length if length else mean)
        sums.append(sum(weights[start : start + width]))
    return vectors, sums


@given(weighed(), st.sampled_from([1, 2, 3]))
def test_ngrams_are_weighted_means_of_their_tokens(tokens: WeighedTokens, n: int) -> None:
    vectors, weights = slow_ngrams(list(tokens.units), tokens.weights.tolist(), n)
    found = ngrams(tokens, n)
    assert found.weights == pytest.approx(weights, abs=1e-12)
    filled = found.weights > 0
    assert found.units[filled] == pytest.approx(np.array(vectors)[filled], abs=1e-9)


def released_choice(pieces: Sequence[str], subwords: str, punctuation: str, stop: Sequence[str]) -> list[int]:
    """Which pieces the authors' code keeps, without the special tokens at either end."""
    return [
        number
        for number, piece in enumerate(pieces)
        if 0 < number < len(pieces) - 1
        and not (subwords == "first" and "##" in piece)
        and not (punctuation == "drop" and piece.removeprefix("##") in set(string.punctuation))
        and piece not in stop
    ]


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("distance", ["euclidean", "squared"])
@pytest.mark.parametrize(
    ("subwords", "punctuation", "stop", "idf"),
    [("first", "drop", False, False), ("all", "keep", False, True), ("first", "drop", True, True)],
)
def test_values_equal_a_direct_computation(
    minilm: str, tmp_path: Path, n: int, distance: str, subwords: str, punctuation: str, stop: bool, idf: bool
) -> None:
    import transformers

    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(resolve_model(minilm))
    corpus = [tokenizer(text).input_ids for text in CORPUS]
    (tmp_path / "stop.txt").write_text("The\non\n")
    (tmp_path / "corpus.txt").write_text("\n".join(CORPUS))

    def weight(token: int) -> float:
        seen = sum(token in ids for ids in corpus)
        return math.log((len(corpus) + 1) / (seen + 1)) if idf else 1.0

    def read(text: str) -> tuple[list[Array], list[float]]:
        ids = tokenizer(text).input_ids
        kept = released_choice(
            tokenizer.convert_ids_to_tokens(ids), subwords, punctuation, ["the", "on"] if stop else []
        )
        (vectors,) = load_embedder(minilm).token_embeddings([text], layer=4, special="keep")
        units = [vectors[i].astype(float) / np.linalg.norm(vectors[i].astype(float)) for i in kept]
        return slow_ngrams(units, [weight(ids[i]) for i in kept], n)

    def score(text: str, reference: str) -> float:
        (own, ours), (other, theirs) = read(text), read(reference)
        shares = [np.array(side) / sum(side) for side in (ours, theirs)]
        return 1 - float(ot.emd2(*shares, np.array(costs_of(np.array(own), np.array(other), distance == "squared"))))

    options = f"layer=4,n={n},distance={distance},subwords={subwords},punctuation={punctuation}"
    options += f",stop={tmp_path / 'stop.txt'}" if stop else ""
    options += f",idf={tmp_path / 'corpus.txt'}" if idf else ""
    each = [[score(text, reference) for reference in several] for text, several in zip(TEXTS, REFERENCES, strict=True)]
    for rule, combine in (("max", max), ("mean", np.mean)):
        metric = create_metric(f"moverscore:references={rule},{options}")
        found = metric.score(Items.of(TEXTS, references=REFERENCES))
        assert found.items is not None
        assert found.items.all_values() == pytest.approx([combine(values) for values in each], abs=1e-6)
        again = create_metric(str(found.signature))
        assert again.signature == metric.signature == create_metric(metric.label).signature


def test_a_text_scores_1_with_itself_and_the_same_both_ways(minilm: str) -> None:
    def values(texts: list[str], references: list[str]) -> list[float]:
        found = nlgauge.score(Items.of(texts, references=[[r] for r in references]), ["moverscore:n=2"])[0].items
        assert found is not None
        return [float(value) for value in found.all_values()]

    assert values(TEXTS, TEXTS) == [1.0] * len(TEXTS)
    others = [several[0] for several in REFERENCES]
    there, back = values(TEXTS, others), values(others, TEXTS)
    assert there == pytest.approx(back, abs=1e-6)
    assert max(there) < 1


def test_a_value_depends_on_its_own_item_only(minilm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "together"))
    found = create_metric("moverscore").score(Items.of(TEXTS, references=REFERENCES)).items
    assert found is not None
    together = found.all_values()
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "alone"))
    alone = [
        create_metric("moverscore").score(Items.of([text], references=[several[::-1]])).value
        for text, several in reversed(list(zip(TEXTS, REFERENCES, strict=True)))
    ]
    assert together == pytest.approx(alone[::-1], abs=1e-6)


def test_items_without_tokens_have_no_value_and_are_counted(minilm: str) -> None:
    texts = ["the cat", "", " ?! ", "the cat", "the cat"]
    references = [["the cat", ""], ["a cat"], ["a cat"], ["", "..."], ["the cat"]]
    for rule in ("max", "mean"):
        (score,) = nlgauge.score(Items.of(texts, references=references), [f"moverscore:references={rule}"])
        assert (score.value, score.n, score.excluded) == (1.0, 2, 3)
        assert score.items is not None
        assert np.isnan(score.items.all_values()).tolist() == [False, True, True, True, False]
    with pytest.raises(DataError, match="no value on any of the 1 sets"):
        nlgauge.score(Items.of(["..."], references=[["a"]]), ["moverscore"])


def test_a_text_beyond_the_window_is_cut_there(minilm: str) -> None:
    tale = "once there was a queen who ruled an island of birds and nobody knew why " * 800
    (score,) = nlgauge.score(Items.of([tale, "a"], references=[[tale + "the end"], ["a"]]), ["moverscore:n=2"])
    assert (score.value, score.n) == (1.0, 2)


def test_tokens_know_the_word_that_they_are_in(minilm: str) -> None:
    (found,) = token_texts(minilm, ["The Philatelist’s café!"])
    assert found.places.tolist()[0] == found.places.tolist()[-1] == -1
    assert [word for word in dict.fromkeys(found.words) if word] == ["the", "philatelist", "’", "s", "café", "!"]
    assert "".join(dict.fromkeys(found.tokens)).startswith("thephil")


def test_files_that_changed_or_say_nothing_are_errors(minilm: str, tmp_path: Path) -> None:
    items = Items.of(["a cat"], references=[["a dog"]])
    for option in ("idf", "stop"):
        path = tmp_path / f"{option}.txt"
        path.write_text("the\nof\n")
        spec = str(create_metric(f"moverscore:{option}={path}").signature)
        path.write_text("another\n")
        with pytest.raises(OptionError, match=r"has hash [0-9a-f]{12}; expected [0-9a-f]{12}: these are different"):
            create_metric(spec)
    (tmp_path / "stop.txt").write_text("\n\n")
    with pytest.raises(OptionError, match="holds no stop word"):
        nlgauge.score(items, [f"moverscore:stop={tmp_path / 'stop.txt'}"])
    with pytest.raises(DataError, match="cannot be read: No such file"):
        create_metric("moverscore:idf=nowhere.txt")
