"""Perturbations of order and reference: repetition, characters, relatedness, causes, times."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlgauge.errors import OptionError
from nlgauge.perturb.aspects import clauses
from nlgauge.perturb.aspects.causal import Causal
from nlgauge.perturb.aspects.character_behaviour import CharacterBehaviour, persons
from nlgauge.perturb.aspects.lexical_repetition import LexicalRepetition
from nlgauge.perturb.aspects.relatedness import Relatedness
from nlgauge.perturb.aspects.temporal import Temporal
from nlgauge.perturb.base import Perturbation, Perturbed, Unchanged
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.registry import create_perturbation
from nlgauge.perturb.resources.word_forms import inflected
from nlgauge.perturb.story import Story

NAMES = ["lexical-repetition", "character-behaviour", "relatedness", "causal", "temporal"]
RAW = [
    "Mara found a grey kitten behind the shed. She took it home because it was shivering. Her brother didn't like "
    "cats. Then the kitten climbed on his lap. He has always loved it since that day!",
    "Our boat leaked, so we rowed back to the pier. After lunch my uncle fixed the hole with tar. He showed me the "
    "tools. The next day we caught eleven fish. I thanked him before he drove home.",
]
TOKENISED = [
    "[MALE] baked a cake for his sister . she was n't at home , so he left it on the porch . a raccoon ate the cake . "
    "[FEMALE] laughed when she saw the crumbs . they bought a pie .",
    "[FEMALE] lost her keys in the park . she always forgot things . then a jogger found the keys and called her . "
    "she thanked him because he was kind . [FEMALE] got home late .",
]
ODD = [
    "  He  left\tearly because\n he was   ill .\n\nThen she   called him !",
    "TOM SAW THE DOG BECAUSE HE WAS LATE. THEN HE ATE THE CAKE.",
    "<p>Tom saw Ann.</p> Then he left &amp; she cried.",
    "Der Hund lief weg, weil er Angst hatte. Dann kam er wieder.",
    "The red barn on the hill.",
    "... !!!",
]
OTHERS = [
    "The senator polished seven trumpets. A glacier swallowed the lighthouse. Violins echoed through the canyon.",
    "the wizard painted a submarine . pilots repaired the telescope . an otter juggled walnuts .",
    "The tailor sewed a curtain. The astronaut drew a triangle and folded the blanket. Farmers hid the barrels.",
]


def corpus() -> Corpus:
    return Corpus.of([Story(text) for text in OTHERS])


def results(perturbation: Perturbation, text: str, rule: str | None = None, tries: int = 60) -> set[str]:
    """All texts that some versions give, by one rule or by any."""
    story, words = Story(text), corpus()
    made = [perturbation(story, version=version, corpus=words) for version in range(tries)]
    return {one.text for one in made if isinstance(one, Perturbed) and rule in (None, one.rule)}


def restored(made: Perturbed) -> str:
    """The text with every change undone, from its spans alone."""
    text = made.text
    for change in reversed(made.changes):
        assert text[change.new_start : change.new_end] == change.new
        assert made.original[change.start : change.end] == change.old
        text = text[: change.new_start] + change.old + text[change.new_end :]
    return text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", [*RAW, *TOKENISED, *ODD])
def test_spans_tell_all_that_changed_and_a_seed_repeats_it(name: str, text: str) -> None:
    perturbation, words = create_perturbation(name), corpus()
    for version in range(8):
        made = perturbation(text, version=version, corpus=words)
        assert made == perturbation(Story(text), version=version, corpus=words)
        if isinstance(made, Perturbed):
            assert made.text != text
            assert restored(made) == text
        else:
            assert made.reason


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", [*RAW, *TOKENISED])
def test_every_aspect_applies_to_ordinary_stories(name: str, text: str) -> None:
    assert results(create_perturbation(name), text, tries=6)


@pytest.mark.parametrize("name", NAMES)
def test_masked_names_stay_whole_and_small_letters_small(name: str) -> None:
    for text in TOKENISED:
        for made in results(create_perturbation(name), text, tries=20):
            plain = re.sub(r"\[(?:FE)?MALE\]", "", made)
            assert "[" not in plain
            assert "]" not in plain
            assert plain == plain.lower()


@settings(max_examples=25)
@given(st.text(alphabet="aeinst .,!?'\"[]\nTH", max_size=80), st.sampled_from(NAMES))
def test_any_text_is_perturbed_or_refused_with_a_reason(text: str, name: str) -> None:
    made = create_perturbation(name)(text, corpus=corpus())
    assert (isinstance(made, Unchanged) and made.reason) or (isinstance(made, Perturbed) and restored(made) == text)


def test_four_words_are_said_again_after_an_and() -> None:
    text = "He stepped on the stage."
    assert "He stepped on the stage and stepped on the stage." in results(LexicalRepetition(), text, "4-gram")


def test_a_repeated_phrase_at_the_start_loses_its_capital() -> None:
    made = results(LexicalRepetition(), "In the old barn, Ann slept.", "4-gram")
    assert made == {"In the old barn and in the old barn, Ann slept."}


def test_a_sentence_is_said_again_with_the_space_that_followed_it() -> None:
    made = results(LexicalRepetition(), "It rained hard.\nWe all ran.", "sentence")
    assert made == {"It rained hard.\nIt rained hard.\nWe all ran.", "It rained hard.\nWe all ran. We all ran."}


def test_half_of_a_quotation_is_not_repeated() -> None:
    made = results(LexicalRepetition(), '"I saw it. It was blue." Ann ran off.', "sentence")
    assert made == {'"I saw it. It was blue." Ann ran off. Ann ran off.'}


def test_lexical_repetition_needs_no_parser() -> None:
    story = Story(RAW[0])
    assert isinstance(LexicalRepetition()(story), Perturbed)
    assert "tokens" not in vars(story)
    assert not LexicalRepetition.parses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The old dog chased him.", "He chased the old dog."),
        ("She thanked Robert.", "Robert thanked her."),
        ("[MALE] hugged her .", "she hugged [MALE] ."),
        ("Robert was rescued by the two divers.", "The two divers were rescued by Robert."),
        ("The boys chase a cat.", "A cat chases the boys."),
        ("Yesterday I helped them.", "Yesterday they helped me."),
    ],
)
def test_subject_and_object_change_places_in_the_right_case_and_number(text: str, expected: str) -> None:
    assert results(CharacterBehaviour(), text, "exchange") == {expected}


def test_a_pronoun_becomes_another_persons_in_the_same_column() -> None:
    made = results(CharacterBehaviour(), "Ann slept. Her cat was ill.", "pronoun")
    assert made == {f"Ann slept. {word} cat was ill." for word in ("My", "Our", "Your", "His")}


def test_the_verb_agrees_with_a_new_pronoun() -> None:
    made = results(CharacterBehaviour(), "Ann rests. Now she is calm.", "pronoun")
    assert made == {f"Ann rests. Now {words} calm." for words in ("I am", "we are", "you are", "he is")}


def test_her_is_read_by_its_tag() -> None:
    made = results(CharacterBehaviour(), "Bob met her at noon.", "pronoun")
    assert made == {f"Bob met {word} at noon." for word in ("me", "us", "you", "him")}


def test_a_reflexive_follows_its_subject() -> None:
    made = results(CharacterBehaviour(), "Ann fell. She hurt herself badly.", "pronoun")
    assert "Ann fell. He hurt himself badly." in made
    assert not any("herself" in text for text in made)


def test_it_that_stands_for_nothing_is_left_alone() -> None:
    assert results(CharacterBehaviour(), "It was raining. It was late. It seemed that nobody cared.") == set()


def test_no_sentence_has_i_and_me_after_a_substitution() -> None:
    text = "I called him. I saw her."
    assert not any(re.search(r"\bI \w+ (?:me|us)\b", made) for made in results(CharacterBehaviour(), text, "pronoun"))


def test_stories_of_three_persons_or_with_a_passive_are_coherent_examples_of_characters() -> None:
    assert CharacterBehaviour().coherent(Story("I told him that they had left."))
    assert CharacterBehaviour().coherent(Story("The window was broken by a ball."))
    assert not CharacterBehaviour().coherent(Story("You told him that you had left."))


def test_pronouns_are_those_of_table_13() -> None:
    assert len(persons()) == 8
    assert persons()["she"].forms == {
        "subject": "she", "object": "her", "possessive_adjective": "her", "possessive_noun": "hers",
        "reflexive": "herself",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tom stayed home because he was ill.", "Tom was ill because he stayed home."),
        ("The road was icy, so Ann walked.", "Ann walked, so the road was icy."),
        ("The sky is clear. So he can see it.", "He can see it. So the sky is clear."),
        ("One day [MALE] was broke . so he sold a bike .", "One day [MALE] sold a bike . so he was broke ."),
        ("Since the shop was closed, we went home.", "Since we went home, the shop was closed."),
    ],
)
def test_cause_and_effect_change_places(text: str, expected: str) -> None:
    assert expected in results(Causal(), text, "reordering")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We stayed because it rained.", {"We stayed although it rained.", "We stayed, so it rained."}),
        ("It rained, so we stayed.", {"It rained because we stayed."}),
        ("it rained , so we stayed .", {"it rained because we stayed ."}),
        ("He broke it on purpose.", {"He broke it by accident."}),
        ("Because of the noise, she left.", {"In spite of the noise, she left."}),
        ("She was late. That's why she ran.", {"She was late. That's because she ran."}),
    ],
)
def test_causal_words_get_their_opposites(text: str, expected: set[str]) -> None:
    assert results(Causal(), text, "antonym") == expected


@pytest.mark.parametrize(
    "text",
    ["She was so happy today.", "He has lived here since he was born.", "He saved money so he could buy a car."],
)
def test_degree_time_and_purpose_are_no_causes(text: str) -> None:
    assert results(Causal(), text) == set()


def test_only_causal_words_make_a_coherent_example() -> None:
    assert Causal().coherent(Story("It rained, so we stayed."))
    assert not Causal().coherent(Story("She was so happy today."))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Robert cried until he slept.", "Robert slept until he cried."),
        ("When the bell rang, we ran.", "When we ran, the bell rang."),
        ("She boiled the rice. Soon she drained it.", "She drained it. Soon she boiled the rice."),
    ],
)
def test_two_events_change_places(text: str, expected: str) -> None:
    assert expected in results(Temporal(), text, "reordering")


def test_events_whose_order_may_not_matter_are_left_where_a_word_has_an_opposite() -> None:
    assert results(Temporal(), "Robert locked the door before he left.") == {"Robert locked the door after he left."}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("After eating one bite I was not hungry.", "Before eating one bite I was not hungry."),
        ("She has always liked tea.", "She has never liked tea."),
        ("Two days later, it broke.", "Two days earlier, it broke."),
        ("He cooked. Then he ate.", "He cooked. Before that, he ate."),
        ("he cooked . then he ate .", "he cooked . before that , he ate ."),
        ("At first we laughed.", "In the end we laughed."),
    ],
)
def test_temporal_words_get_their_opposites(text: str, expected: str) -> None:
    assert results(Temporal(), text, "antonym") == {expected}


@pytest.mark.parametrize(
    "text",
    [
        "While she cooked, he slept.",
        "He was sleeping when the phone rang.",
        "I was five when we moved.",
        "After all, it was cheap.",
        "She looked after him.",
        "He never went there again.",
    ],
)
def test_what_has_no_order_to_turn_round_is_left_alone(text: str) -> None:
    assert results(Temporal(), text) == set()


def test_only_temporal_words_make_a_coherent_example() -> None:
    assert Temporal().coherent(Story("He left before noon."))
    assert not Temporal().coherent(Story("The barn is red."))


def test_a_quarter_of_nouns_and_verbs_become_words_of_other_texts() -> None:
    story, words = Story(RAW[1]), corpus()
    total = sum(token.pos in ("NOUN", "VERB") for token in story.tokens)
    tags = {"NOUN": ("NN", "NNS"), "VERB": ("VB", "VBD", "VBZ", "VBP")}
    lent = {inflected(lemma, tag) for name, found in words.words.items() for lemma in found for tag in tags[name]}
    seen = 0
    for version in range(30):
        made = Relatedness()(story, version=version, corpus=words)
        if isinstance(made, Perturbed) and made.rule == "words":
            new = [change.new.lower() for change in made.changes if change.new.lower() not in ("a", "an")]
            assert 3 <= len(new) <= round(0.25 * total)
            assert lent.issuperset(new)
            seen += 1
    assert seen


def test_a_sentence_of_another_text_takes_a_place() -> None:
    made = results(Relatedness(), RAW[0], "sentence")
    assert made
    lines = [line for text in OTHERS for line in re.findall(r"[^.]+\.", text)]
    assert all(any(line.strip() in text for line in lines) for text in made)


def test_without_a_corpus_relatedness_says_why_not() -> None:
    assert isinstance(Relatedness()(RAW[0]), Unchanged)


def test_a_share_must_be_a_share() -> None:
    with pytest.raises(OptionError, match=r"share=1\.5"):
        create_perturbation("relatedness:share=1.5")


def test_weakly_related_sentences_make_a_coherent_example(minilm: str) -> None:
    apart, alike = Story(OTHERS[0]), Story("The dog barked at the cat. The dog barked at a cat. It snowed.")
    perturbation = Relatedness(model=minilm)
    perturbation.warm([apart, alike])
    assert perturbation.coherent(apart)
    assert not perturbation.coherent(alike)
    assert perturbation.coherent(Story("A single sentence."))


@pytest.mark.parametrize("name", ["causal", "temporal"])
def test_tables_hold_words_in_small_letters_and_no_opposite_of_itself(name: str) -> None:
    found = clauses.relation_table(name)
    assert all(word == word.strip().lower() for word in found.words)
    for one in found.substitutions:
        assert all(new != " ".join(one.old) for new in one.new)
        assert not one.before & one.not_before
        assert not one.after & one.not_after


def test_real_stories_are_changed_only_where_spans_say(research_data: Path) -> None:
    with (research_data / "rocstories" / "roc_5000.json").open(encoding="utf-8") as file:
        stories = [Story(json.loads(line)[0]) for line, _ in zip(file, range(60), strict=False)]
    words = Corpus.of(stories)
    for name in NAMES:
        made = [create_perturbation(name)(story, corpus=words) for story in stories]
        changed = [one for one in made if isinstance(one, Perturbed)]
        assert len(changed) >= 3
        assert all(restored(one) == one.original != one.text for one in changed)
