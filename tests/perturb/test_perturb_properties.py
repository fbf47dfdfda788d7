"""What every perturbation promises, whatever it does and whatever it is given."""

from __future__ import annotations

import importlib.util
import re
import time
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlgauge.errors import MissingExtra, ModelError
from nlgauge.perturb.base import Change, Edit, Outcome, Perturbation, Perturbed, Unchanged, edited
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.pairs import Original, make_pairs
from nlgauge.perturb.registry import PERTURBATIONS, create_perturbation, perturbation_names
from nlgauge.perturb.story import Story

STORIES = [
    "[MALE] didn't like the rain. Eventually, he bought a red umbrella because his coat was wet. Before lunch, the "
    "wind broke it. [FEMALE] helped [MALE] and gave him her old one. They walked home together and they were happy.",
    "[FEMALE] did n't want to cook . so she ordered a pizza , but the driver got lost . then [NEUTRAL] called her . "
    "she was angry and never ordered again . [FEMALE] learned to bake her own bread .",
    "Grandpa taught me to fish when I was six. We always left before the sun came up. I was never bored, since he "
    "told funny stories. One day I caught a huge trout and he took a picture. After that, I could not stop smiling.",
    "The bakery on our street closed last winter. Nobody knew the reason, so people began to guess. My mother asked "
    "the owner. He was tired and wanted to travel. Now I will have to buy cake at the store.",
    "Ivy lost her keys at the beach. She looked everywhere until it was dark. A small boy found them under a towel. He "
    "gave the keys to the guard. As a result, Ivy could drive home and she thanked the boy.",
    "Omar decided to buy a kitten. He couldn't find his phone in the house. In the end, everybody had a lot of fun "
    "at the party. His parents were very happy. Omar loved to play with it.",
]
ODD = {
    "one sentence": "The dog sleeps.",
    "one word": "Dog",
    "no verb": "Rain. More rain, and a very long night.",
    "no letters": "... ?! 12 -- 34",
    "all capitals": "HE DID NOT WANT TO LEAVE THE HOUSE. SO HE STAYED, BUT SHE WAS ANGRY BECAUSE OF IT.",
    "not English": "Der Hund schläft, weil er müde ist. 昨日は雨が降りました。 Он не пришёл домой.",
    "markup": '<p class="x">He didn\'t go, &amp; she left.</p> {{ 7*7 }} [link](http://example.org) <script>a</script>',
    "broken brackets": "[MALE went home. FEMALE] stayed, because [ ] was late. [[MALE]] laughed.",
    "white space": "  He was\tlate ,  but\r\n\r\nshe   was not .\u00a0They\u2028left  ",
    "controls": "He \x00 was \x1b[31m late\u202e. She didn't \ud83d go.".encode("utf-8", "replace").decode(),
    "empty": "",
    "spaces": " \n\t ",
}
MASK = re.compile(r"\[(?:MALE|FEMALE|NEUTRAL)\]")
WHOLE = pytest.mark.parametrize("name", perturbation_names())
SENTENCES = [story[start:end] for story in STORIES for start, end in Story(story).sentences]
TEXTS = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=6).flatmap(
    lambda parts: st.sampled_from([" ", "  ", "\n"]).map(lambda space: space.join(parts))
)


@lru_cache(maxsize=1)
def corpus() -> Corpus:
    return Corpus.of([Story(story) for story in STORIES])


def made(name: str) -> Perturbation:
    """The perturbation of this name; a test of one that is not there, or cannot run here, is skipped and says why."""
    target = PERTURBATIONS.built_in.get(name, "").partition(":")[0]
    if target and importlib.util.find_spec(target) is None:
        pytest.skip(f"{target} does not exist")
    perturbation = create_perturbation(name)
    try:
        perturbation.prepare()
    except (MissingExtra, ModelError) as error:
        pytest.skip(f"{name} cannot run here: {error}")
    return perturbation


def apply(perturbation: Perturbation, text: str, seed: int = 1, version: int = 0) -> Outcome:
    return perturbation(
        text, seed=seed, version=version, corpus=corpus() if perturbation.parses or perturbation.uses_words else None
    )


def check(text: str, outcome: Outcome) -> None:
    """A change that is one, with spans that rebuild both texts; or a reason in words."""
    if isinstance(outcome, Unchanged):
        assert len(outcome.reason.split()) > 2
        return
    assert outcome.original == text != outcome.text
    assert outcome.rule
    assert outcome.changes
    for change in outcome.changes:
        assert text[change.start : change.end] == change.old != change.new
        assert outcome.text[change.new_start : change.new_end] == change.new
    assert rebuilt(text, [(one.start, one.end, one.new) for one in outcome.changes]) == outcome.text
    assert rebuilt(outcome.text, [(one.new_start, one.new_end, one.old) for one in outcome.changes]) == text


def rebuilt(text: str, edits: list[tuple[int, int, str]]) -> str:
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    return text


@WHOLE
def test_the_same_seed_gives_the_same_result_and_others_differ_at_times(name: str) -> None:
    perturbation = made(name)
    first = [apply(perturbation, text, seed=seed) for text in STORIES for seed in range(4)]
    again = [apply(create_perturbation(name), text, seed=seed) for text in STORIES for seed in range(4)]
    assert first == again
    assert any(isinstance(outcome, Perturbed) for outcome in first)
    for text, outcome in zip([text for text in STORIES for _ in range(4)], first, strict=True):
        check(text, outcome)


@WHOLE
def test_the_order_of_texts_does_not_matter(name: str) -> None:
    perturbation = made(name)
    originals = [Original(str(number), text) for number, text in enumerate(STORIES)]
    there = make_pairs(originals, [perturbation], versions=2).pairs
    back = make_pairs(originals[::-1], [perturbation], versions=2).pairs
    assert sorted(there, key=repr) == sorted(back, key=repr)


@WHOLE
@settings(max_examples=15)
@given(text=TEXTS, seed=st.integers(0, 99))
def test_spans_rebuild_both_texts_and_masked_names_stay_whole(name: str, text: str, seed: int) -> None:
    outcome = apply(made(name), text, seed=seed)
    check(text, outcome)
    if isinstance(outcome, Perturbed):
        rest = MASK.sub("", outcome.text)
        assert "[" not in rest
        assert "]" not in rest
        assert not re.search(r"\b(?:MALE|FEMALE|NEUTRAL)\b", rest)


@WHOLE
@pytest.mark.parametrize("kind", ODD)
def test_odd_texts_are_perturbed_or_the_reason_is_said(name: str, kind: str) -> None:
    perturbation = made(name)
    for version in range(3):
        check(ODD[kind], apply(perturbation, ODD[kind], version=version))
    perturbation.coherent(Story(ODD[kind]))


@WHOLE
@settings(max_examples=10)
@given(text=st.text(max_size=60))
def test_any_text_at_all_is_perturbed_or_the_reason_is_said(name: str, text: str) -> None:
    clean = text.encode("utf-8", "replace").decode()
    check(clean, apply(made(name), clean))


@WHOLE
def test_fifty_thousand_words_end_in_reasonable_time(name: str) -> None:
    perturbation = made(name)
    lines = [f"{sentence[:-1].rstrip()} in room {number}." for number in range(8) for sentence in SENTENCES]
    text = " ".join(lines * (50_000 // sum(len(line.split()) for line in lines) + 1))
    assert len(text.split()) >= 50_000
    began = time.monotonic()
    check(text, apply(perturbation, text))
    assert time.monotonic() - began < 120


def test_edits_are_made_where_they_say() -> None:
    outcome = edited("a bb c", [Edit(5, 6, "cc"), Edit(0, 1, ""), Edit(2, 4, "bb")], "test")
    assert isinstance(outcome, Perturbed)
    assert outcome.text == " bb cc"
    assert outcome.changes == (Change(0, 1, "a", 0, 0, ""), Change(5, 6, "c", 4, 6, "cc"))
    assert outcome.changed_sentences() == ["bb cc"]
    with pytest.raises(ValueError, match="overlap"):
        edited("abc", [Edit(0, 2, "x"), Edit(1, 3, "y")], "test")
