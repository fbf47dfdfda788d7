"""Token embeddings in batches, and BERTScore as the authors' package computes it."""

from __future__ import annotations

from itertools import combinations, permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nlgauge
from nlgauge.arrays import Array
from nlgauge.errors import ModelError, OptionError
from nlgauge.metrics.reference.bertscore import Match, match_pairs, weighted_match
from nlgauge.metrics.reference.contextual import WeighedTokens
from nlgauge.models.encoders.embedder import Embedder, TokenVectors
from nlgauge.models.encoders.encoding import halving, in_batches, window_of
from nlgauge.models.fetch import resolve_model

TEXTS = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "naïve café 日本語 😀",
    "word",
    "one two three " * 90,
    " A man is eating food.\n",
]


@pytest.fixture(scope="module")
def embedder(minilm: str) -> Embedder:
    return Embedder(minilm)


@pytest.fixture(scope="module")
def plain_encoder(minilm: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as transformers saves an encoder: masked language model, no pooling, no modules.json."""
    import transformers

    kind: Any = transformers.BertForMaskedLM
    folder = tmp_path_factory.mktemp("plain")
    config = transformers.BertConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    kind(config).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(resolve_model(minilm)).save_pretrained(folder)
    return folder


def test_token_embeddings_do_not_depend_on_batches_repeats_or_order(minilm: str, embedder: Embedder) -> None:
    whole = embedder.token_embeddings([*TEXTS, "", *TEXTS], layer=4, special="keep")
    single = Embedder(minilm, batch_size=1).token_embeddings(TEXTS[::-1], layer=4, special="keep")[::-1]
    for i, alone in enumerate(single):
        assert np.array_equal(whole[i], whole[i + len(TEXTS) + 1])
        assert np.abs(whole[i] - alone).max() < 1e-5


def test_special_tokens_are_dropped_or_kept(embedder: Embedder) -> None:
    texts = ["A man is eating food.", "", "😀"]
    dropped, kept = embedder.token_embeddings(texts), embedder.token_embeddings(texts, special="keep")
    assert [len(rows) for rows in dropped] == [6, 0, 1]
    assert [len(rows) for rows in kept] == [8, 2, 3]
    assert np.array_equal(kept[0][1:-1], dropped[0])
    assert embedder.token_embeddings([]) == []


def test_a_layer_that_does_not_exist_is_a_clear_error(embedder: Embedder) -> None:
    last, sixth = (embedder.token_embeddings(["some text"], layer=layer)[0] for layer in (-1, 6))
    assert np.array_equal(last, sixth)
    with pytest.raises(OptionError, match=r"layer 7 of minilm@.*expected 0 to 6, or -1"):
        embedder.token_embeddings(["some text"], layer=7)


def test_a_plain_encoder_gives_sentence_and_token_embeddings(plain_encoder: Path) -> None:
    plain = Embedder(str(plain_encoder))
    (tokens,) = plain.token_embeddings(["a plain encoder"], special="keep")
    assert np.abs(plain.encode(["a plain encoder"])[0] - tokens.mean(axis=0)).max() < 1e-5


def test_another_dtype_is_another_model(plain_encoder: Path) -> None:
    usual, half = Embedder(str(plain_encoder)), Embedder(str(plain_encoder), dtype="bfloat16")
    assert half.identity == f"{usual.identity}-bfloat16"
    difference = np.abs(usual.encode(["a text"]) - half.encode(["a text"])).max()
    assert 0 < difference < 0.1
    assert half.token_embeddings(["a text"])[0].dtype == np.float32
    with pytest.raises(OptionError, match="expected one of float32"):
        Embedder(str(plain_encoder), dtype="int8")


def test_an_encoder_with_missing_weights_is_refused(plain_encoder: Path, tmp_path: Path) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    folder = tmp_path / "damaged"
    shutil.copytree(plain_encoder, folder)
    weights = load_file(folder / "model.safetensors")
    del weights["bert.encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"1 weights are missing \(encoder.layer.1"):
        Embedder(str(folder)).encode(["a text"])


def test_the_window_is_what_both_tokeniser_and_positions_allow() -> None:
    import transformers

    small = {
        "vocab_size": 9,
        "hidden_size": 4,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 4,
    }
    kinds: Any = (
        (transformers.BertModel, transformers.BertConfig),
        (transformers.RobertaModel, transformers.RobertaConfig),
    )
    bert, roberta = (model(config(**small, max_position_embeddings=20)) for model, config in kinds)
    boundless, bounded = SimpleNamespace(model_max_length=10**30), SimpleNamespace(model_max_length=16)
    assert [window_of(bert, boundless), window_of(bert, bounded)] == [20, 16]
    assert window_of(roberta, boundless) == 18
    roberta.config.max_position_embeddings = 8194
    assert window_of(roberta, boundless) == 8192
    assert window_of(SimpleNamespace(config=SimpleNamespace()), boundless) == 512


def test_a_model_without_contexts_has_no_token_embeddings(minilm: str, tmp_path: Path) -> None:
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(resolve_model(minilm))
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=4)]).save(str(tmp_path / "static"))
    (tmp_path / "static" / "model.safetensors").write_bytes(
        next((tmp_path / "static").rglob("model.safetensors")).read_bytes()
    )
    with pytest.raises(ModelError, match=r"begins with a StaticEmbedding.*expected a transformer"):
        Embedder(str(tmp_path / "static")).token_embeddings(["a text"])


def test_batches_are_halved_when_memory_runs_out() -> None:
    sizes = []

    def run(batch: Any) -> list[int]:
        sizes.append(len(batch))
        if len(batch) > 3:
            raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 4 bytes")
        return [2 * item for item in batch]

    with pytest.warns(UserWarning, match="out of memory; continuing with batches of") as warned:
        assert in_batches(range(7), run, 8, "model") == list(range(0, 14, 2))
    assert (sizes, len(warned)) == ([7, 4, 2, 2, 2, 1], 2)


def test_memory_that_does_not_suffice_for_one_text_and_other_errors_are_not_hidden() -> None:
    def too_large(size: int) -> None:
        raise MemoryError

    def broken(size: int) -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(ModelError, match="even with one text"):
        halving(too_large, 1, "model")
    with pytest.raises(RuntimeError, match="shapes"):
        halving(broken, 8, "model")


def package_scores(folder: Path, pairs: list[tuple[str, str]], layer: int) -> Array:
    """P, R and F1 of the bert-score package, one row per pair.

    Its `score` calls a method for empty texts that tokenisers of transformers 5 lack; it is supplied here. One pair a
    batch: in a larger one, padding lifts negative similarities to 0 there, so that a score depends on its companions.
    """
    from bert_score.utils import bert_cos_score_idf, get_model, get_tokenizer

    tokenizer = get_tokenizer(str(folder), use_fast=True)
    edges = [tokenizer.cls_token_id, tokenizer.sep_token_id]
    if not hasattr(tokenizer, "build_inputs_with_special_tokens"):
        tokenizer.build_inputs_with_special_tokens = lambda _: edges
    weights = dict.fromkeys(range(len(tokenizer)), 1.0) | dict.fromkeys(edges, 0.0)
    candidates, references = map(list, zip(*pairs, strict=True))
    model = get_model(str(folder), layer)
    scores: Array = bert_cos_score_idf(
        model, references, candidates, tokenizer, weights, device="cpu", batch_size=1
    ).numpy()
    return scores


def greedy_match(candidate: TokenVectors, reference: TokenVectors) -> Match:
    if candidate.special.all() or reference.special.all():
        return Match(0.0, 0.0, 0.0)
    return weighted_match(WeighedTokens.of(candidate), WeighedTokens.of(reference))


@pytest.mark.parametrize("layer", [6, 3])
def test_precision_recall_and_f1_equal_the_bert_score_package(embedder: Embedder, minilm: str, layer: int) -> None:
    texts = [*TEXTS, "", "  ", TEXTS[0]]
    vectors = embedder.token_vectors([text.strip() for text in texts], layer=layer)
    pairs = list(permutations(range(len(texts)), 2))
    expected = package_scores(resolve_model(minilm), [(texts[i], texts[j]) for i, j in pairs], layer)
    found = np.array([greedy_match(vectors[i], vectors[j]) for i, j in pairs])
    assert np.abs(found - expected).max() < 1e-5


def test_the_metric_equals_the_package_end_to_end(minilm: str) -> None:
    import bert_score

    texts = [text for text in TEXTS if len(text) < 100]
    candidates, references = map(list, zip(*combinations(texts, 2), strict=True))
    _, _, f1 = bert_score.score(
        candidates, references, model_type=str(resolve_model(minilm)), num_layers=5, use_fast_tokenizer=True
    )
    (score,) = nlgauge.score([texts], [f"bertscore-div:model={minilm},layer=5"])
    assert score.value == pytest.approx(-float(f1.mean()), abs=1e-5)
    assert "|layer:5|" in str(score.signature)


def test_sets_of_equal_and_of_empty_texts(minilm: str) -> None:
    equal, half, empty = nlgauge.score([["so", "so"], ["so", "so", ""], ["", ""]], ["bertscore-div"])[0].per_item[  # type: ignore[index]
        "value"
    ]
    assert equal == pytest.approx(-1)
    assert half == pytest.approx(-1 / 3)
    assert empty == 0


def test_a_set_scores_the_same_in_whatever_company(
    minilm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = [[text for text in TEXTS if len(text) < 100], ["yes", "no no"], ["", "a longer text than the others", "b"]]
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "together"))
    together = nlgauge.score(sets, ["bertscore-div"])[0].items
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "alone"))
    alone = [nlgauge.score([texts[::-1]], ["bertscore-div"])[0].value for texts in sets]
    assert together is not None
    assert together.all_values() == pytest.approx(alone, abs=1e-6)


@st.composite
def sets_of_tokens(draw: st.DrawFn) -> list[TokenVectors]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    found = []
    for length in draw(st.lists(st.integers(0, 6), min_size=2, max_size=6)):
        vectors = rng.normal(size=(length, 4)).astype(np.float32)
        if length and draw(st.booleans()):
            vectors[0] = 0
        found.append(TokenVectors(vectors, rng.random(length) < draw(st.sampled_from([0.0, 0.3, 1.0]))))
    return found


@given(sets_of_tokens(), st.integers(1, 200))
def test_all_pairs_at_once_equal_one_pair_at_a_time(texts: list[TokenVectors], at_once: int) -> None:
    together = match_pairs(texts, at_once=at_once)
    for i, candidate in enumerate(texts):
        for j, reference in enumerate(texts):
            found = [part[i, j] for part in together]
            assert found == pytest.approx(greedy_match(candidate, reference), abs=1e-12)
