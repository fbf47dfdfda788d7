"""What OpenMEVA scores stories with: BERTScore, BLEURT, encoders in place of word vectors, and perplexity."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nlgauge
from nlgauge.arrays import Array
from nlgauge.data.tables import Items
from nlgauge.errors import DataError, ModelError, OptionError, UnknownName
from nlgauge.metrics.registry import create_metric
from nlgauge.models.encoders.embedder import load_embedder
from nlgauge.models.encoders.pair_scorer import PairScorer
from nlgauge.models.fetch import resolve_model
from tests.conftest import make_cross_encoder

TEXTS = ["A man is eating food.", " The girl carries a baby.\n", "word", "naïve café 日本語 😀"]
REFERENCES = [["A man eats bread.", "A man is eating food!"], ["A woman runs."], ["words", "no"], ["a café"]]
CORPUS = ["a man walks", "the man eats food", "a girl sings a song", "bread and food"]
VOCABULARY = ["the", "cat", "dog", "sat", "ran", "on", "a", "mat", ".", "and", "then", "it", "was", "late"]
PARTS = ("precision", "recall", "f1")


def values(spec: str, texts: Sequence[str] = TEXTS, references: Sequence[Sequence[str]] = REFERENCES) -> Array:
    found = nlgauge.score(Items.of(texts, references=references), [spec])[0].items
    assert found is not None
    return found.all_values()


def combined(numbers: Array, rule: str) -> list[float]:
    """One number a text from one a reference, in the order of `REFERENCES`."""
    left = iter(numbers.tolist())
    rows = [[next(left) for _ in several] for several in REFERENCES]
    return [max(row) if rule == "max" else sum(row) / len(row) for row in rows]


class TestBertScore:
    @pytest.mark.parametrize("rule", ["max", "mean"])
    def test_every_part_equals_the_package(self, minilm: str, rule: str) -> None:
        import bert_score

        pairs = [(text, r) for text, several in zip(TEXTS, REFERENCES, strict=True) for r in several]
        options = {"model_type": str(resolve_model(minilm)), "num_layers": 5, "use_fast_tokenizer": True}
        theirs = bert_score.score([text for text, _ in pairs], [r for _, r in pairs], **options, batch_size=1)
        for part, expected in zip(PARTS, theirs, strict=True):
            found = values(f"bertscore:part={part},references={rule},layer=5")
            assert found == pytest.approx(combined(expected.numpy(), rule), abs=1e-5)

    def test_the_best_of_several_references_is_the_packages(self, minilm: str) -> None:
        import bert_score

        options = {"model_type": str(resolve_model(minilm)), "num_layers": 6, "use_fast_tokenizer": True}
        theirs = bert_score.score(TEXTS, REFERENCES, **options, batch_size=1)
        for part, expected in zip(PARTS, theirs, strict=True):
            assert values(f"bertscore:part={part}") == pytest.approx(expected.numpy(), abs=1e-5)

    def test_idf_of_a_file_equals_the_package_with_the_same_texts(self, minilm: str, tmp_path: Path) -> None:
        from bert_score.utils import bert_cos_score_idf, get_idf_dict, get_model, get_tokenizer

        (tmp_path / "corpus.txt").write_text("\n".join(CORPUS))
        folder = str(resolve_model(minilm))
        tokenizer = get_tokenizer(folder, use_fast=True)
        weights = get_idf_dict(CORPUS, tokenizer, nthreads=0)
        pairs = [(text, r) for text, several in zip(TEXTS, REFERENCES, strict=True) for r in several]
        theirs = bert_cos_score_idf(
            get_model(folder, 6),
            [r for _, r in pairs],
            [t for t, _ in pairs],
            tokenizer,
            weights,
            device="cpu",
            batch_size=1,
        )
        spec = f"bertscore:idf={tmp_path / 'corpus.txt'}"
        for part, expected in zip(PARTS, theirs.numpy().T, strict=True):
            assert values(f"{spec},part={part}") == pytest.approx(combined(expected, "max"), abs=1e-5)
        assert np.abs(values(spec) - values("bertscore")).max() > 1e-3
        assert create_metric(str(create_metric(spec).signature)).signature == create_metric(spec).signature

    def test_parts_are_measured_together_and_remembered(self, minilm: str) -> None:
        texts, references = ["a text that is scored here only"], [["and its reference"]]
        precision, recall, f1 = (values(f"bertscore:part={part}", texts, references)[0] for part in PARTS)
        assert f1 == pytest.approx(2 * precision * recall / (precision + recall))
        identity = load_embedder(minilm).identity
        vars(load_embedder(identity)).pop("_model", None)  # whoever needs it loads it again
        assert values(f"bertscore:part=recall,references=mean,model={identity}", texts, references)[0] == recall
        assert "_model" not in vars(load_embedder(identity))

    def test_items_without_tokens_have_no_value_and_are_counted(self, minilm: str) -> None:
        items = Items.of(["same", "", "same", " \n"], references=[["same", ""], ["a"], ["", " "], ["a"]])
        for rule in ("max", "mean"):
            (score,) = nlgauge.score(items, [f"bertscore:references={rule}"])
            assert (score.n, score.excluded) == (1, 3)
            assert score.value == pytest.approx(1)

    def test_stories_of_mans_equal_the_package(self, minilm: str, research_data: Path) -> None:
        import bert_score

        told = json.loads((research_data / "openmeva" / "mans_roc.json").read_text())
        stories = [(one["gen"]["gpt"]["text"], one["gold_response"]) for one in list(told.values())[:24]]
        texts, references = [text for text, _ in stories], [reference for _, reference in stories]
        options = {"model_type": str(resolve_model(minilm)), "num_layers": 6, "use_fast_tokenizer": True}
        expected = bert_score.score(texts, references, **options)[2].numpy()
        assert values("bertscore", texts, [[r] for r in references]) == pytest.approx(expected, abs=1e-5)


class TestBleurt:
    @pytest.mark.parametrize("rule", ["max", "mean"])
    def test_the_reference_comes_first_and_the_number_is_raw(self, cross_encoder: Path, rule: str) -> None:
        pairs = [(r, text) for text, several in zip(TEXTS, REFERENCES, strict=True) for r in several]
        for output in ("raw", "sigmoid"):
            expected = PairScorer(str(cross_encoder), output=output).score(pairs)
            spec = f"bleurt:model={cross_encoder},output={output},references={rule}"
            assert values(spec) == pytest.approx(combined(expected, rule), abs=1e-12)
        swapped = PairScorer(str(cross_encoder), output="raw").score([(text, r) for r, text in pairs])
        assert np.abs(values(f"bleurt:model={cross_encoder}") - combined(swapped, "max")).max() > 1e-4

    def test_the_signature_makes_the_metric_again(self, cross_encoder: Path) -> None:
        metric = create_metric(f"bleurt:model={cross_encoder},references=mean")
        assert "|output:raw|" in str(metric.signature)
        assert create_metric(str(metric.signature)).signature == metric.signature

    def test_blank_texts_have_no_value_and_are_counted(self, cross_encoder: Path) -> None:
        items = Items.of(["a", "", "a"], references=[["b", " "], ["b"], [""]])
        (score,) = nlgauge.score(items, [f"bleurt:model={cross_encoder}"])
        assert (score.n, score.excluded) == (1, 2)
        assert score.value == PairScorer(str(cross_encoder), output="raw").score([("b", "a")])[0]

    def test_without_a_model_or_with_a_classifier_it_says_what_to_name(self, tmp_path: Path) -> None:
        items = Items.of(["a"], references=[["b"]])
        with pytest.raises(OptionError, match=r"none comes with NLGauge; name a folder, as in bleurt:model=FOLDER"):
            nlgauge.score(items, ["bleurt"])
        classifier = make_cross_encoder(tmp_path / "nli", ("no", "yes"))
        with pytest.raises(ModelError, match=r"has 2 outputs \(no, yes\); expected one number"):
            nlgauge.score(items, [f"bleurt:model={classifier}"])


def cosine(one: Array, other: Array) -> float:
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))


def slow_similarity(kind: str, own: Array, other: Array) -> float:
    """Of the token embeddings of a text and a reference."""
    if kind == "embed-average":
        return cosine(own.mean(axis=0), other.mean(axis=0))
    if kind == "vector-extrema":
        one, two = (np.array([max(column, key=abs) for column in rows.T]) for rows in (own, other))
        return cosine(one, two)
    forth = [max(cosine(a, b) for b in other) for a in own]
    back = [max(cosine(a, b) for a in own) for b in other]
    return (sum(forth) / len(forth) + sum(back) / len(back)) / 2


class TestEncoderVectors:
    @pytest.mark.parametrize("kind", ["embed-average", "vector-extrema", "greedy"])
    def test_token_embeddings_stand_in_for_word_vectors(self, minilm: str, kind: str) -> None:
        def read(text: str) -> Array:
            rows: Array = load_embedder(minilm).token_embeddings([text.strip()])[0].astype(np.float64)
            return rows

        expected = [
            max(slow_similarity(kind, read(text), read(reference)) for reference in several)
            for text, several in zip(TEXTS, REFERENCES, strict=True)
        ]
        assert values(f"{kind}:vectors=minilm,scale=1") == pytest.approx(expected, abs=1e-5)
        folder = resolve_model(minilm)
        assert values(f"{kind}:vectors={folder}") == pytest.approx(100 * np.array(expected), abs=1e-3)

    def test_the_signature_names_the_encoder_and_no_tokeniser_of_ours(self, minilm: str) -> None:
        metric = create_metric("greedy:vectors=minilm")
        assert str(metric.signature).startswith("greedy|vectors:minilm@")
        assert "tok:" not in str(metric.signature)
        assert create_metric(str(metric.signature)).signature == metric.signature
        with pytest.raises(OptionError, match="greedy: the encoder 'minilm' has its own tokens; tok and case require"):
            create_metric("greedy:vectors=minilm,tok=word")

    @pytest.mark.parametrize("kind", ["embed-average", "vector-extrema", "greedy"])
    def test_blank_texts_have_no_value_and_are_counted(self, minilm: str, kind: str) -> None:
        items = Items.of(["same", "", "same", " "], references=[["same", ""], ["a"], [" "], ["a"]])
        (score,) = nlgauge.score(items, [f"{kind}:vectors=minilm"])
        assert (score.n, score.excluded) == (1, 3)
        assert score.value == pytest.approx(100)

    def test_an_encoder_that_is_not_there_is_an_error(self) -> None:
        with pytest.raises(UnknownName, match="model 'minilmm'"):
            values("greedy:vectors=minilmm")


@pytest.mark.parametrize("name", ["bertscore", "moverscore", "bleurt"])
def test_items_without_references_are_an_error_that_names_the_first(name: str) -> None:
    with pytest.raises(DataError, match=f"item 'x' has no reference, and {name} compares every text with its own"):
        nlgauge.score(Items.of(["a"], ids=["x"]), [name])


@pytest.fixture(scope="module")
def tiny_gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A causal model of a few thousand weights that reads words of a small vocabulary, 64 tokens at a time."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("gpt")
    words = ["<end>", "<unknown>", *VOCABULARY]
    made: Any = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unknown>"))  # noqa: S106
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    kind: Any = transformers.PreTrainedTokenizerFast
    names = {"eos_token": "<end>", "bos_token": "<end>", "unk_token": "<unknown>", "model_max_length": 64}
    kind(tokenizer_object=made, **names).save_pretrained(folder)
    sizes: dict[str, Any] = {"n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": len(words)}
    network: Any = transformers.GPT2LMHeadModel
    with torch.random.fork_rng():
        torch.manual_seed(4)
        config = transformers.GPT2Config(**sizes, initializer_range=0.5, bos_token_id=0, eos_token_id=0)
        network(config).save_pretrained(folder)
    return folder


def slow_perplexity(folder: Path, context: str, text: str, *, end: bool = False) -> float:
    """Of the tokens of a text after its context, one at a time."""
    import torch
    import transformers

    network: Any = transformers.GPT2LMHeadModel.from_pretrained(folder)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    before, scored = [0, *tokenizer(context).input_ids], [*tokenizer(text).input_ids, *([0] if end else [])]
    total = 0.0
    for token in scored:
        with torch.no_grad():
            total += float(network(torch.tensor([before])).logits[0, -1].log_softmax(-1)[token])
        before.append(token)
    return float(np.exp(-total / len(scored)))


class TestPerplexity:
    CONTEXTS = ("the cat sat .", "a dog", "it was late .")
    STORIES = ("then the dog ran .", "sat on a mat and ran", "the cat")

    def found(self, folder: Path, options: str, stories: Sequence[str] = STORIES) -> list[float]:
        items = Items.of(stories, contexts=[*self.CONTEXTS][: len(stories)])
        score = create_metric(f"ppl:model={folder}{options}").score(items)
        assert score.items is not None
        return [-float(value) for value in score.items.all_values()]

    def test_a_story_is_scored_alone_after_its_context_or_with_it(self, tiny_gpt: Path) -> None:
        both = list(zip(self.CONTEXTS, self.STORIES, strict=True))
        alone = [slow_perplexity(tiny_gpt, "", story) for story in self.STORIES]
        given = [slow_perplexity(tiny_gpt, context, story) for context, story in both]
        scored = [slow_perplexity(tiny_gpt, "", f"{context} {story}") for context, story in both]
        ended = [slow_perplexity(tiny_gpt, "", story, end=True) for story in self.STORIES]
        assert self.found(tiny_gpt, ",context=none") == pytest.approx(alone, rel=1e-4)
        assert self.found(tiny_gpt, "") == pytest.approx(given, rel=1e-4)
        assert self.found(tiny_gpt, ",context=scored") == pytest.approx(scored, rel=1e-4)
        assert self.found(tiny_gpt, ",context=none,end=yes") == pytest.approx(ended, rel=1e-4)
        assert "|context:given|" in str(create_metric(f"ppl:model={tiny_gpt}").signature)

    def test_higher_is_better_so_that_studies_need_not_turn_it(self, tiny_gpt: Path) -> None:
        metric = create_metric(f"ppl:model={tiny_gpt}")
        assert metric.direction.sign == 1
        assert metric.score(Items.of(["the cat sat"])).value == pytest.approx(
            -slow_perplexity(tiny_gpt, "", "the cat sat"), rel=1e-4
        )

    @pytest.mark.parametrize("context", ["none", "given", "scored"])
    def test_blank_stories_have_no_value_and_are_counted(self, tiny_gpt: Path, context: str) -> None:
        items = Items.of(["", "the cat", " \n"], contexts=["a dog", "a dog", "a dog"])
        score = create_metric(f"ppl:model={tiny_gpt},context={context}").score(items)
        assert (score.n, score.excluded) == (1, 2)
        assert score.items is not None
        assert np.isnan(score.items.all_values()).tolist() == [True, False, True]

    def test_a_story_of_ten_thousand_words_is_scored_to_its_last_word(self, tiny_gpt: Path) -> None:
        story = " ".join((VOCABULARY * 1000)[:10_000])
        whole, longer = self.found(tiny_gpt, "", [story, f"{story} cat"])
        assert -20 < 10_000 * np.log(whole) - 10_001 * np.log(longer) < -1e-3
