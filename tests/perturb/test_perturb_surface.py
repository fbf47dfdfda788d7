"""Perturbations of the surface: punctuation, contractions and typos (paper 4, Table 2)."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgauge.errors import OptionError
from nlgauge.perturb.aspects.contractions import Contractions
from nlgauge.perturb.aspects.punctuation import Punctuation
from nlgauge.perturb.aspects.typos import TECHNIQUES, Typos
from nlgauge.perturb.base import Perturbed, Unchanged
from tests.errors import raises

VERSIONS = range(12)
STORY = (
    "Nora planted seven tulips behind the garage. Every morning, she watered them before school. A hungry rabbit "
    "found the flowers, and it ate nearly everything. Nora built a little fence from broken branches. The rabbit "
    "watched quietly from across the street."
)


def results(perturbation: Punctuation | Contractions | Typos, text: str) -> set[str]:
    """All texts that some version gives."""
    outcomes = [perturbation(text, version=version) for version in VERSIONS]
    return {outcome.text for outcome in outcomes if isinstance(outcome, Perturbed)}


@pytest.mark.parametrize(
    ("text", "expected", "rule"),
    [
        ("Eventually, he became hungry.", "Eventually he became hungry.", "introduction"),
        ("eventually , he became hungry .", "eventually he became hungry .", "introduction"),
        ("One day, [MALE] ran away.", "One day [MALE] ran away.", "introduction"),
        ("Two weeks later, the boat sank.", "Two weeks later the boat sank.", "introduction"),
        ("In the evening, her aunt called.", "In the evening her aunt called.", "introduction"),
        ("When the bell rang, they ran outside.", "When the bell rang they ran outside.", "introduction"),
        ("After eating lunch, she slept.", "After eating lunch she slept.", "introduction"),
        ("I wanted to stay, but it was late.", "I wanted to stay but it was late.", "conjunction"),
        ("We were cold , so we went home .", "We were cold so we went home .", "conjunction"),
        ("He bought eggs, milk, and bread.", "He bought eggs, milk and bread.", "list"),
        ("My sister came, too.", "My sister came too.", "final word"),
    ],
)
def test_an_inessential_comma_goes_and_nothing_else(text: str, expected: str, rule: str) -> None:
    outcome = Punctuation()(text)
    assert isinstance(outcome, Perturbed)
    assert (outcome.text, outcome.rule) == (expected, rule)
    assert [change.old.strip() for change in outcome.changes] == [","]


@pytest.mark.parametrize(
    "text",
    [
        "It cost 1,500 dollars and 3.50 in tax.",
        "After eating, the dog slept.",
        "My brother, Max, and his dog left.",
        "Tom, my friend, and I went fishing.",
        "The old house, which was empty, and the barn burned.",
        "Sara, come here.",
        "With me tonight is Otto, the man who built it.",
        "I sat in the car, confused, and called my mother.",
        "No, I never saw it.",
        "In Paris, Anna found work.",
        "However, he left early.",
        '"I am late," she said.',
        "He's a well-known man; nobody likes him - really!",
        "Roses are red\nOh dear, so red",
    ],
)
def test_a_comma_in_doubt_stays(text: str) -> None:
    assert results(Punctuation(), text) == set()


@given(
    st.lists(st.sampled_from(["Soon, he left.", "She ran, but fell.", " ,", "a, b, and c", "[MALE] , ok .", "1,000\n"]))
)
def test_punctuation_leaves_words_alone(parts: list[str]) -> None:
    text = " ".join(parts)
    outcome = Punctuation()(text)
    if isinstance(outcome, Perturbed):
        assert re.findall(r"[^\s,]+", outcome.text) == re.findall(r"[^\s,]+", text)
        assert 0 < text.count(",") - outcome.text.count(",") == len(outcome.changes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'll have to wait.", "I will have to wait."),
        ("i 'll have to wait .", "i will have to wait ."),
        ("He didn't go.", "He did not go."),
        ("[MALE] did n't go .", "[MALE] did not go ."),
        ("We can't stay.", "We cannot stay."),
        ("we ca n't stay .", "we can not stay ."),
        ("Dad won't mind.", "Dad will not mind."),
        ("I WON'T GO.", "I WILL NOT GO."),
        ("Don’t worry.", "Do not worry."),
        ("He's been ill.", "He has been ill."),
        ("She's a doctor.", "She is a doctor."),
        ("It's raining.", "It is raining."),
        ("They'd never seen snow.", "They had never seen snow."),
        ("They'd never go there.", "They would never go there."),
        ("You'd better run.", "You had better run."),
    ],
)
def test_contractions_are_written_in_full(text: str, expected: str) -> None:
    assert results(Contractions(way="expand"), text) == {expected}


@pytest.mark.parametrize(
    "text",
    [
        "Didn't he go?",
        "Why don't we leave?",
        "Isn't that nice?",
        "She left, didn't she?",
        "The cat licked it's paw.",
        "Tom's dog barked.",
        "It's finished.",
        "He's gone.",
        "They'd put it there.",
        "It ain't over.",
        "It was six o'clock.",
        "Let's go.",
    ],
)
def test_what_could_mean_two_things_is_not_written_in_full(text: str) -> None:
    assert results(Contractions(way="expand"), text) == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I am tired.", "I'm tired."),
        ("i am tired .", "i 'm tired ."),
        ("She did not know.", "She didn't know."),
        ("she did not know .", "she did n't know ."),
        ("They cannot swim.", "They can't swim."),
        ("they can not swim .", "they ca n't swim ."),
        ("You will not win.", "You won't win."),
        ("I WILL NOT WAIT.", "I WON'T WAIT."),
        ("We have been there.", "We've been there."),
        ("He had broken his leg.", "He'd broken his leg."),
        ("They would leave soon.", "They'd leave soon."),
        ("There is a bird.", "There's a bird."),
        ("She’s here; I am glad.", "She’s here; I’m glad."),
    ],
)
def test_what_english_contracts_is_contracted(text: str, expected: str) -> None:
    assert results(Contractions(way="contract"), text) == {expected}


@pytest.mark.parametrize(
    "text",
    [
        "Yes, I am.",
        "He is older than I am now.",
        "I know what it is.",
        "I am too.",
        "I wonder where he is today.",
        "He had broken ribs.",
        "We have mixed feelings.",
        "They let us go.",
        "I did NOT say that.",
        "It was not only cold.",
        "Tom and I will go.",
        "I hope I will.",
    ],
)
def test_nothing_is_contracted_where_english_does_not(text: str) -> None:
    assert results(Contractions(way="contract"), text) == set()


CLAUSES = st.lists(
    st.sampled_from([
        "I'm tired", "you're a good cook", "they're going home", "we've been there", "I'll go home", "she'll be late",
        "he didn't know", "Mom wasn't happy", "the dog can't swim", "nobody won't help", "they haven't seen it",
    ]),
    min_size=1,
)  # fmt: skip


@given(CLAUSES, st.booleans())
def test_contraction_there_and_back_gives_the_text(clauses: list[str], tokenised: bool) -> None:
    text = " ".join(f"{clause}." for clause in clauses)
    if tokenised:
        text = re.sub(r"(n't|'\w+)|\.", r" \g<0>", text)
    long, short = Contractions(way="expand"), Contractions(way="contract")
    full = text
    while isinstance(outcome := long(full), Perturbed):
        full = outcome.text
    assert "'" not in full
    back = full
    while isinstance(outcome := short(back), Perturbed):
        back = outcome.text
    assert back == text


def test_a_way_that_does_not_apply_gives_way_to_the_other() -> None:
    assert results(Contractions(), "He didn't go.") == {"He did not go."}
    assert results(Contractions(), "He did not go.") == {"He didn't go."}
    with raises(OptionError, option="way"):
        Contractions(way="up")  # type: ignore[arg-type]


def words(text: str) -> list[str]:
    return text.split()


@given(
    st.lists(
        st.sampled_from([*STORY.split(), "[MALE]", "n't", "http://a.example/page", "<b>bold</b>", "日本語"]),
        max_size=400,
    )
)
def test_typos_touch_under_two_percent_of_words_or_one(parts: list[str]) -> None:
    text = " ".join(parts)
    outcome = Typos()(text)
    if isinstance(outcome, Unchanged):
        return
    pairs = [(old, new) for old, new in zip(words(text), words(outcome.text), strict=True) if old != new]
    counted = sum(any(map(str.isalpha, word)) for word in words(text))
    assert len(pairs) == len(outcome.changes)
    assert len(pairs) == 1 or len(pairs) < 0.02 * counted
    for old, new in pairs:
        assert old in STORY.split()
        assert old[0] == new[0]
        assert len(re.sub(r"\W", "", old)) >= 4
        assert abs(len(old) - len(new)) <= 1


def test_half_of_the_typos_swap_and_a_quarter_each_repeats_and_deletes() -> None:
    rules = Counter(Typos()(STORY, version=version).rule for version in range(800))  # type: ignore[union-attr]
    assert {rule: round(100 * count / 800) for rule, count in rules.items()} == pytest.approx(TECHNIQUES, abs=5)


@pytest.mark.parametrize("word", ["form", "later", "trial", "quiet", "hoping", "diner", "there", "desert"])
def test_a_typo_makes_no_other_common_word(word: str) -> None:
    wrong = {"from", "latter", "trail", "quite", "hopping", "dinner", "three", "dessert", "quit", "here", "tree"}
    found = {outcome.text for version in range(60) if isinstance(outcome := Typos()(word, version=version), Perturbed)}
    assert found
    assert not found & wrong


def test_names_are_misspelt_only_where_nothing_else_is_left() -> None:
    assert all("Harold" in text for text in results(Typos(), "Harold ate an orange."))
    assert results(Typos(), "Harold is at sea.")
    assert results(Typos(), "I AM SO VERY HAPPY TODAY.")


@pytest.mark.parametrize("text", ["He is at sea.", "[FEMALE] [MALE] .", "日本語のテキストです", "x1234 don't a-b-c-d"])
def test_without_a_word_of_four_letters_there_is_no_typo(text: str) -> None:
    outcome = Typos()(text)
    assert isinstance(outcome, Unchanged)
    assert "four letters" in outcome.reason


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(OptionError, match="expected a share"):
        Typos(share=0)
