"""Negatives of stories: they differ, say how, and depend on the story, the seed and the pool alone."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgauge.errors import DataError
from nlgauge.models.training.negatives import HOW_MANY, TECHNIQUES, Negative, NegativeMaker, StoryPool, read_antonyms
from nlgauge.text.negation import alterations
from nlgauge.text.words import keywords, sentence_spans, sentences

WHO = ("Anna", "Ben", "Carla", "David", "Eve", "Frank", "Gina", "Hugo")
DID = ("bought", "found", "painted", "repaired", "sold")
WHAT = ("a red bike", "an old clock", "the blue kite", "a small boat", "a wooden chair")
THEN = ("It was not cheap", "Nobody could believe it", "The neighbours didn't notice", "Everything had changed")
LAST = ("Everybody was happy", "They laughed loudly", "It rained all day", "The street became quiet")


def story(number: int) -> str:
    draw = random.Random(number)
    who = draw.choice(WHO)
    first = f"{who} {draw.choice(DID)} {draw.choice(WHAT)} number {number}."
    return f"{first} {draw.choice(THEN)}. {who} walked home slowly. {draw.choice(LAST)}!"


STORIES = [story(number) for number in range(400)]
MAKER = NegativeMaker(StoryPool.of(STORIES), seed=1)


def made(maker: NegativeMaker, text: str) -> Negative:
    found = maker.make(text)
    assert found is not None
    return found


def test_techniques_come_in_the_published_mixture() -> None:
    negatives = [made(MAKER, text) for text in STORIES]
    assert all(negative.text != text for negative, text in zip(negatives, STORIES, strict=True))
    counts = Counter(len(negative.techniques) for negative in negatives)
    for many, share in HOW_MANY.items():
        assert counts[many] / len(negatives) == pytest.approx(share, abs=0.08)
    first = Counter(negative.techniques[0].partition(":")[0] for negative in negatives)
    for name, share in TECHNIQUES.items():
        assert first[name] / len(negatives) == pytest.approx(share, abs=0.08)
    kinds = {name for negative in negatives for name in negative.techniques}
    assert kinds == {
        "repetition:words", "repetition:sentence", "substitution:keywords", "substitution:sentence", "reordering",
        "negation:insert", "negation:delete",
    }  # fmt: skip


def test_a_negative_depends_on_the_story_the_seed_and_the_pool_alone() -> None:
    shuffled = random.Random(3).sample(STORIES, len(STORIES))
    again = NegativeMaker(StoryPool.of(shuffled), seed=1)
    assert [again.make(text) for text in shuffled] == [MAKER.make(text) for text in shuffled]
    assert again.make(f"  {STORIES[5].replace(' ', '  ')}\n") == MAKER.make(STORIES[5])
    other = NegativeMaker(MAKER.pool, seed=2)
    assert sum(other.make(text) != MAKER.make(text) for text in STORIES) > 350


@pytest.mark.parametrize("text", STORIES[:120])
def test_a_single_technique_does_what_its_name_says(text: str) -> None:
    negative = made(MAKER, text)
    if len(negative.techniques) > 1:
        return
    before, after = sentences(text), sentences(negative.text)
    kind = negative.techniques[0]
    differing = [i for i, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    if kind == "reordering":
        assert sorted(before) == sorted(after)
        assert before != after
    elif kind == "repetition:sentence":
        assert len(differing) == 1
        assert after[differing[0]] == after[differing[0] - 1]
    elif kind == "substitution:sentence":
        assert len(differing) == 1
        assert after[differing[0]] in MAKER.pool.sentences
        assert after[differing[0]] not in before
    elif kind == "repetition:words":
        assert len(differing) == 1
        words, said = before[differing[0]].split(), after[differing[0]].split()
        more = len(said) - len(words)
        assert 1 <= more <= 4
        twice = [i for i in range(len(words)) if said[i : i + more] == said[i + more : i + 2 * more]]
        assert any(said[: i + more] + said[i + 2 * more :] == words for i in twice)
    elif kind == "substitution:keywords":
        assert len(negative.text.split()) == len(text.split())
    else:
        assert len(differing) == 1
        assert after[differing[0]] in {one.sentence for one in alterations(before[differing[0]])}


def test_antonyms_stand_in_for_keywords(tmp_path: Path) -> None:
    file = tmp_path / "antonyms.txt"
    file.write_text("happy|||/r/Antonym|||sad gloomy\nhappy|||/r/NotDesires|||money\nloud|||/r/Antonym|||\n")
    table = read_antonyms(str(file))
    assert table == {"happy": ("sad", "gloomy")}
    maker = NegativeMaker(StoryPool((), {}), 1, table)
    found = {made(maker, f"Happy {number}").text for number in range(40)}
    assert any(text.startswith("Sad") for text in found)
    assert any(text.startswith("Gloomy") for text in found)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("hot cold\n", "line 1: 'hot cold'; expected word"),
        ("", "the file is empty"),
        ("a|||/r/IsA|||b\n", "no antonyms"),
    ],
)
def test_a_bad_table_of_antonyms_is_explained(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "table.txt").write_text(content)
    with pytest.raises(DataError) as caught:
        read_antonyms(str(tmp_path / "table.txt"))
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "...", "Hm"])
def test_a_text_that_no_technique_changes_has_no_negative(text: str) -> None:
    assert NegativeMaker(StoryPool((), {}), 1).make(text) is None


def test_where_a_technique_does_not_apply_another_is_drawn() -> None:
    alone = NegativeMaker(StoryPool((), {}), 1)
    single = {made(alone, f"Number {number} slept").techniques for number in range(50)}
    assert single == {("repetition:words",)}


@given(st.text(alphabet="ab .!?'", max_size=60), st.integers(0, 5))
def test_whatever_the_text_a_negative_differs_in_more_than_space(text: str, seed: int) -> None:
    negative = NegativeMaker(MAKER.pool, seed).make(text)
    assert negative is None or (negative.text.split() != text.split() and negative.techniques)
    assert " ".join(sentences(text)) == " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. Smith met J. Doe. He left!", ["Mr. Smith met J. Doe.", "He left!"]),
        ('She said "no." Then she left.', ['She said "no."', "Then she left."]),
        ("she slept . . . he did n't .", ["she slept . . .", "he did n't ."]),
        ("no end", ["no end"]),
        ("  ", []),
    ],
)
def test_sentences_are_found_by_rules(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("He was late.", {("He was not late.", "insert"), ("He wasn't late.", "insert")}),
        ("he was late .", {("he was not late .", "insert"), ("he was n't late .", "insert")}),
        ("I can't swim.", {("I can swim.", "delete")}),
        ("she ca n't swim .", {("she can swim .", "delete")}),
        ("she did n ' t swim .", {("she did swim .", "delete")}),
        ("We do not know.", {("We do know.", "delete")}),
        ("Will it rain?", {("Will not it rain?", "insert"), ("Won't it rain?", "insert")}),
        ("They had a dog.", set()),
        ("They had moved.", {("They had not moved.", "insert"), ("They hadn't moved.", "insert")}),
        ("I am here.", {("I am not here.", "insert")}),
        ("Dogs bark.", set()),
    ],
)
def test_negation_is_put_in_or_taken_away(sentence: str, expected: set[tuple[str, str]]) -> None:
    assert {tuple(one) for one in alterations(sentence)} == expected


def test_keywords_have_a_rough_class() -> None:
    sentence = "Yesterday the tired dog [MALE] barked at Anna quickly"
    found = {sentence[word.start : word.end]: word.kind for word in keywords(sentence)}
    assert found == {
        "Yesterday": "first-", "tired": "thing-ed", "dog": "any-", "barked": "any-ed", "Anna": "name",
        "quickly": "any-ly",
    }  # fmt: skip


def test_ten_thousand_words_are_no_trouble() -> None:
    long = " ".join(f"Day {number} was long." for number in range(2500))
    assert made(MAKER, long).text != long


def test_sentence_spans_leave_every_character_in_its_place() -> None:
    text = ' "Stop!" he said.  Dr. No\nleft.\n\nA title\n\nThe end '
    assert [text[a:b] for a, b in sentence_spans(text)] == ['"Stop!" he said.', "Dr. No\nleft.", "A title", "The end"]


@given(st.text(alphabet='ab. !"\nA', max_size=40))
def test_sentences_are_the_spans_of_the_text_on_one_line(text: str) -> None:
    spans = sentence_spans(text)
    assert all(a < b and text[a:b].strip() == text[a:b] for a, b in spans)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    covered = {i for a, b in spans for i in range(a, b)}
    assert all(i in covered or c.isspace() for i, c in enumerate(text)) or not any(c.isalpha() for c in text)
