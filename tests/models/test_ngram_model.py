"""The n-gram model keeps the formulas of modified Kneser-Ney, and what language models promise."""

from __future__ import annotations

import json
import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlgauge.errors import DataError, ModelError, OptionError, OutputError
from nlgauge.models.language.base import Sampling, load_language_model
from nlgauge.models.language.kneser_ney import FALLBACK, discounts
from nlgauge.models.language.ngram import NgramModel, join_words
from nlgauge.text.tokens import Tokenizer
from tests.helpers import write_document

WORDS = "abcde"
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
corpora = st.lists(sentences, min_size=1, max_size=12)
contexts = st.lists(st.sampled_from([*WORDS, "unseen"]), max_size=5)
orders = st.integers(1, 4)

STORIES = [
    "The dog ran to the park. It was happy.",
    "The cat sat on the mat. It was happy too.",
    "The dog sat on the cat, and the cat ran away!",
    'She said "go away" to the dog (a big one).',
    "We went to the park, and it was a good day.",
]


@pytest.fixture(scope="module")
def model() -> NgramModel:
    return NgramModel.train(STORIES)


class Slow:
    """Modified Kneser-Ney from the formulas, with dictionaries of tuples."""

    def __init__(self, texts: Sequence[Sequence[str]], order: int, min_count: int = 1) -> None:
        frequency = Counter(word for text in texts for word in text)
        self.words = {word for word, count in frequency.items() if count >= min_count}
        self.vocabulary = [*self.words, "<unk>", "</s>"]
        self.order = order
        self.raw: list[Counter[tuple[str, ...]]] = [Counter() for _ in range(order + 1)]
        for text in texts:
            row = ["<s>", *(self.known(word) for word in text), "</s>"]
            for n in range(1, order + 1):
                for end in range(max(n, 2), len(row) + 1):
                    self.raw[n][tuple(row[end - n : end])] += 1
        self.adjusted = [Counter[tuple[str, ...]](), *(self.adjust(n) for n in range(1, order + 1))]
        self.discounts = [(0.0, 0.0, 0.0), *(self.discount(n) for n in range(1, order + 1))]

    def known(self, word: str) -> str:
        return word if word in self.words else "<unk>"

    def adjust(self, n: int) -> Counter[tuple[str, ...]]:
        if n == self.order:
            return self.raw[n]
        result = Counter({gram: count for gram, count in self.raw[n].items() if gram[0] == "<s>"})
        result.update(longer[1:] for longer in self.raw[n + 1])
        return result

    def discount(self, n: int) -> tuple[float, float, float]:
        n1, n2, n3, n4 = (sum(1 for count in self.adjusted[n].values() if count == wanted) for wanted in (1, 2, 3, 4))
        if 0 in (n1, n2, n3, n4):
            return FALLBACK
        y = n1 / (n1 + 2 * n2)
        found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        return FALLBACK if any(value <= 0 for value in found) else found

    def probability(self, word: str, context: tuple[str, ...]) -> float:
        n = len(context) + 1
        shorter = self.probability(word, context[1:]) if context else 1 / len(self.vocabulary)
        followers = {gram[-1]: count for gram, count in self.adjusted[n].items() if gram[:-1] == context}
        if not followers:
            return shorter
        total = sum(followers.values())
        passed_on = sum(self.discounts[n][min(count, 3) - 1] for count in followers.values()) / total
        count = followers.get(word, 0)
        own = (count - self.discounts[n][min(count, 3) - 1]) / total if count else 0.0
        return own + passed_on * shorter

    def after(self, context: Sequence[str]) -> dict[str, float]:
        whole = ("<s>", *(self.known(word) for word in context))
        used = whole[max(0, len(whole) - self.order + 1) :]
        return {word: self.probability(word, used) for word in self.vocabulary}


@settings(max_examples=60)
@given(corpora, contexts, orders, st.integers(1, 2))
def test_probabilities_equal_the_formulas(texts: list[str], context: list[str], order: int, min_count: int) -> None:
    slow = Slow([text.split() for text in texts], order, min_count)
    if not slow.words:
        with pytest.raises(DataError, match="lower min_count"):
            NgramModel.train(texts, order=order, min_count=min_count)
        return
    model = NgramModel.train(texts, order=order, min_count=min_count)
    expected = slow.after(context)
    found = model.next_probabilities(" ".join(context))
    assert found == pytest.approx(expected, abs=1e-9)
    assert math.fsum(found.values()) == pytest.approx(1, abs=1e-9)
    assert min(found.values()) > 0


def test_probabilities_equal_the_formulas_with_estimated_discounts() -> None:
    draw = random.Random(1)
    weights = [1 / (rank + 1) for rank in range(26)]
    texts = [draw.choices("abcdefghijklmnopqrstuvwxyz", weights, k=draw.randint(1, 9)) for _ in range(60)]
    slow = Slow(texts, 3)
    assert FALLBACK not in slow.discounts[1:]
    model = NgramModel.train([" ".join(text) for text in texts], order=3)
    for context in ([], ["a"], ["b", "a"], texts[0], ["z", "z", "z"], ["unseen", "a"]):
        assert model.next_probabilities(" ".join(context)) == pytest.approx(slow.after(context), abs=1e-9)


@settings(max_examples=40)
@given(corpora, contexts, contexts, orders)
def test_scores_are_the_logarithms_of_next_token_probabilities(
    texts: list[str], prompt: list[str], text: list[str], order: int
) -> None:
    model = NgramModel.train(texts, order=order)
    [[found]] = model.score([" ".join(prompt)], [[" ".join(text)]], with_end=True)
    assert found.tokens == (*text, "</s>")
    for i, token in enumerate(found.tokens):
        after = model.next_probabilities(" ".join([*prompt, *text[:i]]))
        assert found.logprobs[i] == pytest.approx(math.log(after.get(token, after["<unk>"])), abs=1e-9)


def test_discounts_of_known_counts_of_counts() -> None:
    counts = np.repeat([1, 2, 3, 4, 9], [40, 20, 10, 5, 3])
    assert discounts(counts) == pytest.approx((0.5, 2 - 3 * 0.5 * 10 / 20, 3 - 4 * 0.5 * 5 / 10))
    assert discounts(np.array([1, 1, 2])) == FALLBACK
    assert discounts(np.repeat([1, 2, 3, 4], [40, 10, 12, 5])) == FALLBACK
    assert discounts(np.array([], np.int64)) == FALLBACK


def test_a_training_text_is_more_probable_than_a_shuffled_one(model: NgramModel) -> None:
    for story in STORIES:
        words = Tokenizer("word")(pl.Series([story])).tokens(0)
        shuffled = random.Random(0).sample(words, len(words))
        [[right, wrong]] = model.score([""], [[story, " ".join(shuffled)]], with_end=True)
        assert right.total > wrong.total


def test_scores_depend_on_the_prompt_and_on_nothing_else(model: NgramModel) -> None:
    prompts, texts = ["The dog", "", "It was"], [["ran", "sat on the"], ["The cat", ""], ["happy too."]]
    together = model.score(prompts, texts, with_end=True)
    for prompt, group, results in zip(prompts, texts, together, strict=True):
        for text, result in zip(group, results, strict=True):
            [[alone]] = model.score([prompt], [[text]], with_end=True)
            assert alone.tokens == result.tokens
            assert alone.logprobs.tolist() == result.logprobs.tolist()
    [[after], [at_start]] = model.score(["The dog", ""], [["ran"], ["ran"]])
    assert after.total > at_start.total


def test_empty_texts_have_no_tokens_or_the_end_alone(model: NgramModel) -> None:
    assert model.score([], []) == []
    assert model.score(["The dog"], [[]]) == [[]]
    [[empty]] = model.score([""], [[""]])
    assert empty.tokens == ()
    assert empty.logprobs.shape == (0,)
    [[ended]] = model.score([""], [[" "]], with_end=True)
    assert ended.tokens == (model.end_token,)


def test_unknown_words_keep_their_spelling_and_are_finite(model: NgramModel) -> None:
    [[found]] = model.score(["Zebras"], [["quietly grazed 🦓 the dog"]], with_end=True)
    assert found.tokens == ("quietly", "grazed", "🦓", "the", "dog", "</s>")
    assert np.isfinite(found.logprobs).all()
    rare = NgramModel.train(STORIES, min_count=2)
    assert rare.next_probabilities("")["<unk>"] > model.next_probabilities("")["<unk>"]
    assert "mat" not in rare.words


def test_texts_too_short_for_the_order_are_no_problem() -> None:
    model = NgramModel.train(["yes"], order=6)
    [[yes, no]] = model.score([""], [["yes", "no no no no no no no"]], with_end=True)
    assert yes.total > no.total
    assert model.generate(["yes yes yes yes"], Sampling(temperature=0), [0]) == [""]


def test_the_order_and_container_of_training_texts_do_not_matter(model: NgramModel) -> None:
    assert NgramModel.train(pl.Series(reversed(STORIES))).fingerprint == model.fingerprint
    assert NgramModel.train([*STORIES, " "]).fingerprint == model.fingerprint
    assert NgramModel.train(story for story in STORIES).fingerprint == model.fingerprint
    assert NgramModel.train(STORIES[1:]).fingerprint != model.fingerprint
    assert NgramModel.train(STORIES, order=2).fingerprint != model.fingerprint
    assert (model.name, model.end_token, model.start_context) == ("ngram-3", "</s>", "<s>")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "no texts"),
        (["", " \n"], "2 texts without a single word"),
        ("one text", "expected a list"),
        ([1, 2], "not text"),
        (["\ud800"], "not text"),
        (["a", None], "1 of 2 texts are missing"),
        (pl.Series([1, 2]), "Int64"),
    ],
)
def test_nothing_to_train_on_is_said(texts: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        NgramModel.train(texts)


def test_impossible_options_are_refused(model: NgramModel) -> None:
    for options in ({"order": 0}, {"order": 7}, {"min_count": 0}):
        with pytest.raises(OptionError, match="expected"):
            NgramModel.train(STORIES, **options)
    with pytest.raises(OptionError, match="beam"):
        model.generate([""], Sampling(beams=2), [0])
    with pytest.raises(OptionError, match="one seed per prompt"):
        model.generate(["", ""], Sampling(), [0])
    with pytest.raises(DataError, match="belong"):
        model.score([""], [])


SAMPLINGS = [
    Sampling(),
    Sampling(temperature=0.7, top_k=5),
    Sampling(top_p=0.8),
    Sampling(temperature=2.0, top_k=20, top_p=0.9),
]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_generation_depends_on_prompt_and_seed_only(model: NgramModel, sampling: Sampling) -> None:
    prompts = ["", "The dog", "", "It", "zebra"] * 4
    seeds = list(range(20))
    together = model.generate(prompts, sampling, seeds)
    assert together == model.generate(prompts, sampling, seeds)
    assert model.generate(prompts[::-1], sampling, seeds[::-1]) == together[::-1]
    assert [model.generate([p], sampling, [s])[0] for p, s in zip(prompts, seeds, strict=True)] == together
    assert len(set(together)) > 5
    tokens = {token for text in together for token in Tokenizer("word")(pl.Series([text])).tokens(0)}
    assert tokens <= set(model.words)


def test_greedy_takes_the_most_probable_and_sampling_nears_it(model: NgramModel) -> None:
    [text] = model.generate(["The dog"], Sampling(temperature=0), [1])
    assert model.generate(["The dog"] * 2, Sampling(temperature=1e-9), [2, 3]) == [text, text]
    assert model.generate(["The dog"] * 2, Sampling(temperature=1e-310), [2, 3]) == [text, text]
    assert model.generate(["The dog"] * 2, Sampling(top_k=1), [4, 5]) == [text, text]
    assert model.generate(["The dog"] * 2, Sampling(top_p=1e-6), [4, 5]) == [text, text]
    context = "The dog"
    for token in Tokenizer("word")(pl.Series([text])).tokens(0):
        after = model.next_probabilities(context)
        assert token == max((word for word in after if word != "<unk>"), key=lambda word: after[word])
        context += f" {token}"


@pytest.mark.parametrize("sampling", [*SAMPLINGS, Sampling(temperature=0)])
def test_all_texts_that_can_be_written_have_a_probability_of_one_together(sampling: Sampling) -> None:
    model = NgramModel.train(STORIES[:2], order=2)
    how = Sampling(**{**vars(sampling), "max_new_tokens": 2})
    words = model.words
    texts = ["", *words, *(join_words(pair) for pair in product(words, words))]
    (found,) = model.score_sampled(["The dog"], [texts], how)
    probabilities = {text: math.exp(one.total) for text, one in zip(texts, found, strict=True)}
    assert math.fsum(probabilities.values()) == pytest.approx(1, abs=1e-9)
    written = model.sample(["The dog"] * 50, how, range(50))
    for one in written:
        assert one.logprob == pytest.approx(math.log(probabilities[one.text]), abs=1e-9)
        assert one.truncated == (one.tokens == 2 and len(Tokenizer("word")(pl.Series([one.text])).tokens(0)) == 2)


def test_a_text_that_cannot_be_written_has_the_log_p_of_zero(model: NgramModel) -> None:
    texts = ["zebra", "dog cat dog cat", "dog\ncat", "dog"]
    (found,) = model.score_sampled([""], [texts], Sampling(max_new_tokens=3))
    assert [one.total for one in found[:3]] == [-math.inf] * 3
    assert -50 < found[3].total < 0
    (few,) = model.score_sampled([""], [["away"]], Sampling(top_k=1))
    assert few[0].total == -math.inf


def test_first_tokens_are_drawn_with_their_probabilities() -> None:
    model = NgramModel.train(STORIES, min_count=2)
    after = model.next_probabilities("")
    size = 4000
    texts = model.generate([""] * size, Sampling(max_new_tokens=1), range(size))
    seen = Counter(text or "</s>" for text in texts)
    kept = 1 - after.pop("<unk>")
    for word, probability in after.items():
        expected = probability / kept
        assert abs(seen[word] / size - expected) < 5 * math.sqrt(expected * (1 - expected) / size)


def test_generation_ends_at_a_stop_string_and_at_its_limit(model: NgramModel) -> None:
    whole = model.generate([""] * 20, Sampling(stop=()), range(20))
    cut = model.generate([""] * 20, Sampling(stop=("dog", ".")), range(20))
    for before, after in zip(whole, cut, strict=True):
        assert before.startswith(after)
        assert "." not in after
        assert "dog" not in after
    short = model.generate([""] * 20, Sampling(max_new_tokens=3), range(20))
    assert max(Tokenizer("word")(pl.Series(short)).lengths) == 3


def test_joined_words_read_well() -> None:
    tokens = Tokenizer("word")(pl.Series([*STORIES, "A well-known dog's $5 toy: 50% off…"]))
    assert [join_words(tokens.tokens(i)) for i in range(5)] == STORIES
    assert join_words(tokens.tokens(5)) == "A well-known dog's $5 toy: 50% off…"


@given(st.lists(st.one_of(st.sampled_from([*"\"'’“”()-/.,$#_", "dog's", "é", "x"]), st.characters()), max_size=12))
def test_joined_words_are_cut_into_the_same_words(pieces: list[str]) -> None:
    pieces = [piece for piece in pieces if not any("\ud800" <= letter <= "\udfff" for letter in piece)]
    words = Tokenizer("word")(pl.Series([" ".join(pieces)], dtype=pl.String)).tokens(0)
    assert Tokenizer("word")(pl.Series([join_words(words)], dtype=pl.String)).tokens(0) == words


@pytest.mark.parametrize(("order", "min_count"), [(1, 1), (3, 1), (4, 2)])
def test_a_saved_model_is_the_same_model(tmp_path: Path, order: int, min_count: int) -> None:
    model = NgramModel.train(STORIES, order=order, min_count=min_count)
    model.save(tmp_path / "model")
    loaded = load_language_model(f"ngram:{tmp_path / 'model'}")
    assert isinstance(loaded, NgramModel)
    assert (loaded.name, loaded.fingerprint, loaded.min_count) == (model.name, model.fingerprint, min_count)
    for [mine], [theirs] in zip(
        model.score([""] * 5, [[text] for text in STORIES], with_end=True),
        loaded.score([""] * 5, [[text] for text in STORIES], with_end=True),
        strict=True,
    ):
        assert mine.tokens == theirs.tokens
        assert mine.logprobs.tolist() == theirs.logprobs.tolist()
    assert loaded.generate([""], Sampling(), [7]) == model.generate([""], Sampling(), [7])


def test_saving_replaces_a_model_and_refuses_anything_else(tmp_path: Path, model: NgramModel) -> None:
    folder = tmp_path / "model"
    NgramModel.train(["another text"]).save(folder)
    model.save(folder)
    model.save(folder)
    assert NgramModel.load(folder).fingerprint == model.fingerprint
    assert len(list(folder.iterdir())) == 2
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match="something other than"):
        model.save(foreign)
    with pytest.raises(OutputError, match="cannot be a folder"):
        model.save(foreign / "thesis.txt")
    with pytest.raises(OutputError, match="cannot be a folder"):
        model.save(tmp_path / "missing" / "model")
    assert [path.name for path in foreign.iterdir()] == ["thesis.txt"]


def test_a_damaged_or_foreign_folder_is_refused(tmp_path: Path, model: NgramModel) -> None:
    folder = tmp_path / "model"
    with pytest.raises(ModelError, match="no such folder"):
        NgramModel.load(folder)
    folder.mkdir()
    with pytest.raises(ModelError, match="cannot be read"):
        NgramModel.load(folder)
    model.save(folder)
    [counts] = folder.glob("*.arrow")
    card = folder / "ngram.json"
    good_counts, good_card = counts.read_bytes(), card.read_text()
    for bad in (b"", good_counts[:-20], good_counts[:100] + b"?" + good_counts[101:]):
        counts.write_bytes(bad)
        with pytest.raises(ModelError, match="damaged"):
            NgramModel.load(folder)
    counts.write_bytes(good_counts)
    for text in (
        "",
        "{}",
        "[1]",
        good_card.replace('"order": 3', '"order": 2'),
    ):
        card.write_text(text)
        with pytest.raises(ModelError, match="not the card"):
            NgramModel.load(folder)
    for changes in ({"format": "other"}, {"fingerprint": "../x"}):
        write_document(card, {**json.loads(good_card), **changes})
        with pytest.raises(ModelError, match="not the card"):
            NgramModel.load(folder)
    write_document(card, {**json.loads(good_card), "order": 2})
    with pytest.raises(ModelError, match="damaged"):
        NgramModel.load(folder)
    card.write_text(good_card)
    counts.unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        NgramModel.load(folder)


def test_longer_contexts_predict_held_out_stories_better(research_data: Path) -> None:
    lines = (research_data / "rocstories" / "roc_5000.json").read_text(encoding="utf-8").splitlines()
    stories = [json.loads(line)[0] for line in lines]
    perplexity = {}
    for order in (1, 2, 3):
        started = time.perf_counter()
        model = NgramModel.train(stories[:4000], order=order)
        seconds = time.perf_counter() - started
        scored = model.score([""] * 1000, [[story] for story in stories[4000:]], with_end=True)
        logprobs = np.concatenate([result.logprobs for [result] in scored])
        perplexity[order] = math.exp(-logprobs.mean())
        print(f"order {order}: trained in {seconds:.2f} s, perplexity {perplexity[order]:.1f} a word")
    assert perplexity[3] < perplexity[2] < perplexity[1]
