"""Retrieval by BM25: the best hit of the slow formula, whatever the order of the file."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgauge.data.reading import read_sets
from nlgauge.errors import DataError, MissingExtra, ModelError, OptionError
from nlgauge.models.language.base import Sampling, load_language_model
from nlgauge.models.language.retrieval import RetrievalModel
from tests.helpers import nlgauge as command_line

K1, B = 1.5, 0.75
BEST = Sampling(temperature=0)
PAIRS = [
    ("Where is the station?", "Over there."),
    ("Where is the bank?", "Next to the station."),
    ("How do you like the soup?", "It's too hot."),
    ("I like soup.", "So do I."),
    ("...", "What?"),
]


def slow_scores(contexts: list[str], prompt: str) -> list[float]:
    """Lucene's BM25, word by word (Kamphuis et al. 2020, table 1)."""

    def words(text: str) -> list[str]:
        return re.findall(r"\w+(?:'\w+)*", text.lower())

    documents = [words(context) for context in contexts]
    average = sum(map(len, documents)) / len(documents)
    scores = []
    for document in documents:
        score = 0.0
        for word in words(prompt):
            containing = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - containing + 0.5) / (containing + 0.5))
            count = document.count(word)
            score += idf * count / (count + K1 * (1 - B + B * len(document) / average))
        scores.append(score)
    return scores


def write_lines(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_response_to_the_most_similar_context_is_retrieved() -> None:
    model = RetrievalModel(PAIRS)
    prompts = ["Excuse me, where's the BANK?", "Do you like soup?", "station"]
    assert model.generate(prompts, BEST, [1, 2, 3]) == ["Next to the station.", "It's too hot.", "Over there."]
    assert model.name == "bm25-lucene"
    assert len(model) == 5


texts = st.lists(st.sampled_from(["a", "b", "B", "c's", "d", "?", "-"]), max_size=6).map(" ".join)


@given(st.lists(texts, min_size=1, max_size=8).filter(lambda all: any(re.search(r"\w", text) for text in all)), texts)
def test_hits_and_scores_are_those_of_the_slow_formula(contexts: list[str], prompt: str) -> None:
    model = RetrievalModel([(context, f"{number}") for number, context in enumerate(contexts)])
    expected = {f"{number}": score for number, score in enumerate(slow_scores(contexts, prompt)) if score > 0}
    hits = model.hits(prompt, limit=100)
    assert {hit.response: hit.score for hit in hits} == pytest.approx(expected, rel=1e-12)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert model.generate([prompt], BEST, [0]) == [hits[0].response if hits else ""]


def test_the_order_of_pairs_does_not_matter_and_ties_go_by_text() -> None:
    pairs = [("soup and bread", "b"), ("bread and soup", "z"), ("soup and bread", "a"), ("fish", "c")]
    models = [RetrievalModel(order) for order in (pairs, pairs[::-1], sorted(pairs))]
    assert {model.fingerprint for model in models} == {models[0].fingerprint}
    for model in models:
        assert [hit.response for hit in model.hits("soup, bread")] == ["z", "a", "b"]
        assert model.generate(["soup bread"], BEST, [7]) == ["z"]
    seeds = range(40)
    drawn = [model.generate(["soup, fish"] * 40, Sampling(temperature=2), seeds) for model in models]
    assert drawn[0] == drawn[1] == drawn[2]


def test_other_pairs_have_another_fingerprint() -> None:
    prints = {
        RetrievalModel(pairs).fingerprint
        for pairs in ([("ab", "c")], [("a", "bc")], [("c", "ab")], [("ab", "c"), ("ab", "c")])
    }
    assert len(prints) == 4


def test_temperature_draws_hits_by_the_softmax_of_their_scores() -> None:
    model = RetrievalModel(PAIRS)
    prompt, temperature, draws = "where is the soup", 0.5, 4000
    hits = model.hits(prompt)
    weights = np.exp(np.array([hit.score for hit in hits]) / temperature)
    drawn = Counter(model.generate([prompt] * draws, Sampling(temperature=temperature), range(draws)))
    assert set(drawn) == {hit.response for hit in hits} == {response for _, response in PAIRS[:4]}
    for hit, share in zip(hits, weights / weights.sum(), strict=True):
        assert abs(drawn[hit.response] / draws - share) < 4 * math.sqrt(share * (1 - share) / draws)


def test_log_p_is_that_of_the_retrieval_itself() -> None:
    twice = [*PAIRS, ("Where is the station now?", "Over there.")]
    model, prompt = RetrievalModel(twice), "where is the soup"
    hits = model.hits(prompt)
    for sampling in (Sampling(temperature=0.5), Sampling(temperature=2), Sampling(temperature=1, top_k=2), BEST):
        kept = hits[: sampling.top_k or None] if sampling.temperature else hits[:1]
        weights = np.exp(np.array([hit.score / (sampling.temperature or 1) for hit in kept]))
        expected = Counter[str]()
        for hit, share in zip(kept, weights / weights.sum(), strict=True):
            expected[hit.response] += share
        texts = [" Over there.", *expected, "Never heard.", ""]
        (found,) = model.score_sampled([prompt], [texts], sampling)
        for text, one in zip(texts, found, strict=True):
            assert math.exp(one.total) == pytest.approx(expected[text.strip()], abs=1e-12)
        written = model.sample([prompt] * 20, sampling, range(20))
        assert [one.text for one in written] == model.generate([prompt] * 20, sampling, range(20))
        assert all(math.exp(one.logprob) == pytest.approx(expected[one.text]) for one in written)
    (surely,) = model.score_sampled([prompt], [[hits[0].response]], BEST)
    assert surely[0].total == 0


def test_without_a_hit_the_response_is_surely_empty() -> None:
    model = RetrievalModel(PAIRS)
    (found,) = model.score_sampled(["Wolkenkuckucksheim"], [["", "Over there."]], Sampling())
    assert [one.total for one in found] == [0, -math.inf]
    assert model.sample(["Wolkenkuckucksheim"], Sampling(), [1])[0].logprob == 0


def test_top_k_and_top_p_keep_the_best_hits() -> None:
    model = RetrievalModel(PAIRS)
    prompt = "where is the soup"
    best = [hit.response for hit in model.hits(prompt)]
    for sampling, kept in (
        (Sampling(temperature=9, top_k=1), 1),
        (Sampling(temperature=9, top_k=2), 2),
        (Sampling(temperature=9, top_p=0.6), 3),
        (Sampling(temperature=9, top_k=100), 4),
        (Sampling(temperature=1e-300), 2),  # the first two are equally good
    ):
        assert set(model.generate([prompt] * 300, sampling, range(300))) == set(best[:kept])


def test_a_response_depends_on_its_own_prompt_and_seed_only() -> None:
    model = RetrievalModel(PAIRS)
    prompts, seeds = ["the soup", "the bank", "the soup", "nothing here"], [5, 6, 7, 8]
    sampling = Sampling(temperature=3)
    alone = [model.generate([prompt], sampling, [seed])[0] for prompt, seed in zip(prompts, seeds, strict=True)]
    assert model.generate(prompts, sampling, seeds) == alone
    assert model.generate(prompts[::-1], sampling, seeds[::-1]) == alone[::-1]


def test_a_prompt_without_hits_has_an_empty_response() -> None:
    model = RetrievalModel(PAIRS)
    for sampling in (BEST, Sampling(temperature=1)):
        assert model.generate(["", "...", "Wolkenkuckucksheim"], sampling, [1, 2, 3]) == ["", "", ""]
    assert model.hits("...") == ()
    assert model.generate([], BEST, []) == []


def test_a_response_is_whole_but_ends_before_a_stop_string() -> None:
    long = " ".join(["very"] * 100)
    model = RetrievalModel([("soup", f" {long} \nand more"), ("bread", "\ngood\n")])
    assert model.generate(["soup", "bread"], Sampling(temperature=0, max_new_tokens=3), [0, 0]) == [long, "good"]


def test_scoring_beams_and_bad_arguments_are_refused() -> None:
    model = RetrievalModel(PAIRS)
    with pytest.raises(ModelError, match=r"bm25-lucene retrieves responses and has no probabilities.*score its"):
        model.score(["Where?"], [["There."]])
    with pytest.raises(OptionError, match="no beam search, but beams is 2; use beams=1"):
        model.generate(["a"], Sampling(beams=2), [0])
    with pytest.raises(OptionError, match="expected one seed per prompt"):
        model.generate(["a"], BEST, [])
    with pytest.raises(OptionError, match="limit is 0; expected at least 1"):
        model.hits("a", limit=0)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "found no pairs; expected at least one context with its response"),
        ([("?", "a"), ("", "b")], "found 2 contexts without a single word"),
        ([("a", "b"), ("a", None)], "pair 1 is .*; expected a tuple of two texts"),
        (["ab"], "pair 0 is ab; expected a tuple of two texts"),
        ([("a", "\ud800")], "pair 0 has half a surrogate pair"),
    ],
)
def test_pairs_that_are_none_are_errors(pairs: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        RetrievalModel(pairs)


def test_every_kind_of_file_gives_the_same_model(tmp_path: Path) -> None:
    pairs = [("the soup", "hot"), ("the soup", "cold"), ("the bank", "closed")]
    sets = [{"context": "the soup", "responses": ["hot", "cold"]}, {"context": "the bank", "responses": ["closed"]}]
    files = [
        write_lines(tmp_path / "sets.jsonl", [dict(row) for row in sets]),
        write_lines(tmp_path / "items.jsonl", [{"context": context, "text": text} for context, text in pairs]),
    ]
    for name, content in (
        ("pairs.tsv", "".join(f"{context}\t{response}\n" for context, response in [("context", "response"), *pairs])),
        ("pairs.csv", "response,context,note\nclosed,the bank,x\nhot,the soup,\ncold,the soup,\n"),
        ("wide.csv", "context,resp_0,resp_1\nthe soup,hot,cold\nthe bank,closed,\n"),
    ):
        files.append(tmp_path / name)
        files[-1].write_text(content)
    expected = RetrievalModel(pairs)
    for file in files:
        model = load_language_model(f"bm25:{file}")
        assert model.fingerprint == expected.fingerprint, file.name
        assert model.generate(["soup"], BEST, [0]) == ["cold"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"responses": ["a"]}\n', "a.jsonl: contexts are missing; expected pairs to search in"),
        ("a.txt", "one\ntwo\n", "a.txt: contexts are missing"),
        ("a.jsonl", '{"context": null, "id": "x", "text": "a"}\n', "a.jsonl: the context of 'x' is missing"),
        ("a.csv", "context,answer\na,b\n", "found columns context, answer; expected"),
        ("a.csv", "context,response\n,b\n", "found 1 contexts without a single word"),
    ],
)
def test_a_file_without_pairs_is_an_error_that_names_it(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as caught:
        load_language_model(f"bm25:{tmp_path / name}")
    assert message in str(caught.value)
    assert name in str(caught.value)


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(MissingExtra, match=r"pip install 'nlgauge\[retrieval\]'"):
        load_language_model(f"bm25:{tmp_path / 'a.jsonl'}")


def test_the_command_line_writes_what_was_retrieved(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.jsonl", [{"context": context, "response": answer} for context, answer in PAIRS])
    (tmp_path / "contexts.txt").write_text("the station\nany soup\n")
    run = command_line(
        *("generate", "contexts.txt", "--model", "bm25:train.jsonl", "-o", "out.jsonl", "--no-progress"),
        *("--sweep", "temperature=0", "--responses-per-set", "1"),
        cwd=tmp_path,
        cache=tmp_path / "cache",
    )
    assert run.code == 0, run.err
    sets = read_sets(str(tmp_path / "out.jsonl"))
    assert sets.texts.to_list() == ["Over there.", "So do I."]
    assert sets.frame["system"].to_list() == ["bm25:train.jsonl"] * 2


@pytest.fixture(scope="module")
def dialogues(research_data: Path) -> dict[str, list[tuple[str, str]]]:
    """Each turn of DailyDialog with the next one."""
    pairs = {}
    for split in ("train", "test"):
        lines = (research_data / "dailydialog" / f"dialogues_{split}.txt").read_text().splitlines()
        turns = [[turn.strip() for turn in line.split("__eou__") if turn.strip()] for line in lines]
        pairs[split] = [pair for dialogue in turns for pair in pairwise(dialogue)]
    return pairs


def test_dailydialog_gives_sensible_hits(dialogues: dict[str, list[tuple[str, str]]]) -> None:
    model = RetrievalModel(dialogues["train"])
    assert len(model) > 70_000
    for context, word in (
        ("Can I pay by credit card ?", "credit"),
        ("My flight was delayed , when will the plane leave ?", "flight"),
        ("The taxi drivers are on strike again .", "strike"),
    ):
        assert word in model.hits(context, limit=1)[0].context.lower()
    prompts = [context for context, _ in dialogues["test"][:300]]
    found = model.generate(prompts, BEST, [0] * len(prompts))
    answers = {response for _, response in dialogues["train"]}
    assert sum(bool(text) for text in found) >= 295
    assert all(text in answers for text in found if text)
    known = {context for context, _ in dialogues["train"]}
    same = [prompt for prompt in dict.fromkeys(prompts) if prompt in known and len(prompt.split()) > 6]
    themselves = [model.hits(prompt, limit=1)[0].context == prompt for prompt in same]
    assert len(themselves) > 20
    assert np.mean(themselves) > 0.9
