"""Perturbations of words: synonyms, antonyms and negation, and entities that do not belong."""

from __future__ import annotations

from pathlib import Path

import pytest

from nlgauge.errors import DataError, OptionError
from nlgauge.perturb.aspects.common_sense import CommonSense
from nlgauge.perturb.aspects.consistency import Consistency
from nlgauge.perturb.aspects.synonyms import Synonyms
from nlgauge.perturb.base import Perturbation, Perturbed, Unchanged
from nlgauge.perturb.registry import create_perturbation
from nlgauge.perturb.story import Story
from tests.errors import raises

NAMES = ("synonyms", "consistency", "common-sense")
STORIES = [
    "Maria wanted to buy a car.  She had never owned one before, but she didn't mind.\nThe dealer was unhappy.",
    "[MALE] wanted to purchase a baby 's toy . he did n't find it at the store . [FEMALE] was happy to help .",
    "OUR TEACHER BOUGHT A CHEAP COUCH. NOBODY LIKED IT. THE DOG ATE THE CUSHION.",
    "“We can’t go,” said Ann—“the kitchen is full of smoke!” Her friends agreed; the children were scared.",
    "The boy opened the door and hid the book. He could not sleep. It was a huge snake, and he screamed.",
    "<p>The teacher <b>quickly</b> forgot the phone.</p> Nobody knew why, and no one asked.",
]
PEOPLE = ("man", "woman", "boy", "girl", "nurse", "cook", "king", "queen", "guest", "clerk")


def outcomes(perturbation: Perturbation, text: str, versions: int = 40) -> set[str]:
    """All that a perturbation makes of a text."""
    found = (perturbation(text, version=version) for version in range(versions))
    return {one.text for one in found if isinstance(one, Perturbed)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She agreed to come.", "She disagreed to come."),
        ("She agreed to come.", "She agreed not to come."),
        ("The old man smiled.", "The old man did not smile."),
        ("He goes home.", "He does not go home."),
        ("They go home.", "They do not go home."),
        ("She was very proud.", "She was not very proud."),
        ("We can swim.", "We cannot swim."),
        ("He has eaten it.", "He has not eaten it."),
        ("Tom decided to give up.", "Tom decided not to give up."),
        ("Tom decided not to give up.", "Tom decided to give up."),
        ("He didn't go.", "He went."),
        ("He didn’t go.", "He went."),
        ("She doesn't care.", "She cares."),
        ("[MALE] did n't go .", "[MALE] went ."),
        ("[MALE] was n't there .", "[MALE] was there ."),
        ("They can't swim.", "They can swim."),
        ("She won't stay.", "She will stay."),
        ("I do not have any friends.", "I have some friends."),
        ("She never liked it.", "She liked it."),
        ("Nobody came.", "Somebody came."),
        ("No one came.", "Someone came."),
        ("He no longer works there.", "He still works there."),
        ("They had no money.", "They had some money."),
        ("They had no answer.", "They had an answer."),
        ("She was unhappy.", "She was happy."),
        ("The cat disappeared.", "The cat appeared."),
        ("He managed to find it.", "He failed to find it."),
        ("It was an expensive ring.", "It was a cheap ring."),
        ("HE WENT HOME.", "HE DID NOT GO HOME."),
    ],
)
def test_consistency_negates_and_finds_antonyms_in_the_right_form(text: str, expected: str) -> None:
    assert expected in outcomes(Consistency(), text)


@pytest.mark.parametrize(
    "text", ["Did he go?", "Blue skies.", "Run!", "Der Hund schläft auf dem Sofa.", "He had not slept until then."]
)
def test_consistency_leaves_alone_what_it_cannot_negate(text: str) -> None:
    assert isinstance(Consistency()(text), Unchanged)


def test_consistency_changes_a_fifth_of_the_sentences() -> None:
    text = " ".join(f"The {name} smiled at the door." for name in PEOPLE)
    result = Consistency()(text)
    assert isinstance(result, Perturbed)
    assert len(result.changes) == 2
    every = Consistency(share=1.0)(text)
    assert isinstance(every, Perturbed)
    assert len(every.changes) == 10


def test_consistent_examples_have_a_negated_word() -> None:
    for text in ("He did n't go .", "She was unhappy.", "They hardly spoke.", "Nobody came.", "He disliked it."):
        assert Consistency().coherent(Story(text)), text
    assert not Consistency().coherent(Story("She was happy. They spoke. Under the bridge, uncles met."))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He purchased a uniform.", "He bought a uniform."),
        ("She had a baby.", "She had an infant."),
        ("Two doctors came.", "Two physicians came."),
        ("Luckily, it rained.", "Fortunately, it rained."),
        ("she tried to swim .", "she attempted to swim ."),
        ("It happened at noon.", "It occurred at noon."),
    ],
)
def test_synonyms_stand_in_the_right_form(text: str, expected: str) -> None:
    assert expected in outcomes(Synonyms(), text)


@pytest.mark.parametrize(
    "text",
    [
        "She tried the soup.",
        "He helped her to move.",
        "It happened to him.",
        "Tom took the car key.",
        "They did it by chance.",
        "She came as quickly as possible.",
        "Store owned it.",
    ],
)
def test_synonyms_that_would_not_fit_their_place_are_refused(text: str) -> None:
    assert outcomes(Synonyms(), text) == set()


def test_synonyms_change_no_more_words_than_asked_for() -> None:
    text = "The teacher bought a cheap couch. The doctor screamed. Luckily, the lawyer wanted to build a bathtub."
    for most in (1, 2, 5):
        result = Synonyms(most=most)(text)
        assert isinstance(result, Perturbed)
        assert len([change for change in result.changes if change.old not in ("a", "an")]) == most
    with pytest.raises(OptionError, match="most=0; expected 1 or more"):
        Synonyms(most=0)


@pytest.fixture
def triples(tmp_path: Path) -> Path:
    """A small graph: "glass" cannot be counted, and a kitchen is as good a place as a house."""
    file = tmp_path / "triples.tsv"
    rows = ["AtLocation\tbook\tshelf", "AtLocation\tcat\tsofa", "MadeOf\twindow\tglass", "AtLocation\tapple\ttree"]
    rows += ["PartOf\tkitchen\thouse", "Antonym\teat\tdrink", "IsA\tdog\tanimal", "AtLocation\towl\ttree"]
    file.write_text("\n".join(rows) + "\n")
    return file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He read the book.", {"He read the shelf."}),
        ("she read two books .", {"she read two shelves ."}),
        ("The cat slept.", {"The sofa slept."}),
        ("She saw an apple.", {"She saw a tree."}),
        ("She climbed a tree.", {"She climbed an apple.", "She climbed an owl."}),
        ("He ate a stone.", {"He drank a stone."}),
        ("He ate up.", set()),
        ("They washed the window.", set()),
        ("She sat in the kitchen.", set()),
        ("His dog barked.", set()),
        ("He bought book paper.", set()),
    ],
)
def test_entities_become_neighbours_in_the_right_form(text: str, expected: set[str], triples: Path) -> None:
    assert outcomes(CommonSense(conceptnet=str(triples)), text) == expected


def test_a_tenth_of_the_entities_changes_and_at_least_one() -> None:
    text = " ".join(f"The {name} saw a book." for name in ("dog", "nurse", "lion", "boy", "bird", "cow", "chef"))
    for share, count in ((0.01, 1), (0.1, 2), (0.5, 10)):
        result = CommonSense(share=share)(text)
        assert isinstance(result, Perturbed)
        assert len(result.changes) == count
    with pytest.raises(OptionError, match="common-sense:share=0"):
        CommonSense(share=0)


def test_a_sensible_example_has_both_ends_of_a_triple(triples: Path) -> None:
    perturbation = CommonSense(conceptnet=str(triples))
    assert perturbation.coherent(Story("The books stood in a row. The shelf was new."))
    assert not perturbation.coherent(Story("The books stood in a row. The cat was new."))


def test_the_graph_is_named_with_its_hash_and_checked(triples: Path) -> None:
    made = CommonSense(conceptnet=str(triples))
    written = made.signature.options["conceptnet"]
    assert written.startswith(f"{triples}@")
    assert create_perturbation(f"common-sense:conceptnet={written}") == made
    triples.write_text("AtLocation\tbook\tbarn\n")
    with pytest.raises(OptionError, match="these are different triples"):
        CommonSense(conceptnet=written)
    assert outcomes(CommonSense(conceptnet=str(triples)), "He read the book.") == {"He read the barn."}


def test_an_empty_graph_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").write_text("")
    with raises(DataError, file="empty.tsv"):
        CommonSense(conceptnet=str(tmp_path / "empty.tsv")).prepare()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", STORIES)
def test_only_the_spans_change_and_masks_stay(name: str, text: str) -> None:
    perturbation = create_perturbation(name)
    for version in range(5):
        result = perturbation(text, version=version)
        assert result == perturbation(Story(text), version=version)
        if isinstance(result, Unchanged):
            continue
        assert result.text != text == result.original
        place, pieces = 0, []
        for change in result.changes:
            assert text[change.start : change.end] == change.old != change.new
            assert result.text[change.new_start : change.new_end] == change.new
            pieces += [text[place : change.start], change.new]
            place = change.end
        assert "".join([*pieces, text[place:]]) == result.text
        for mask in ("[MALE]", "[FEMALE]", "<p>", "</b>"):
            assert result.text.count(mask) == text.count(mask)


@pytest.mark.parametrize("name", NAMES)
def test_most_stories_can_be_changed(name: str) -> None:
    perturbation = create_perturbation(name)
    assert sum(isinstance(perturbation(text), Perturbed) for text in STORIES) >= 4


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["", "...", "Hm", "1 2 3", "Ein Haus am See.", "🙂🙂 !!", "BOOK", "not", "no", "n't"])
def test_odd_texts_do_no_harm(name: str, text: str) -> None:
    assert isinstance(create_perturbation(name)(text), Unchanged | Perturbed)


@pytest.mark.parametrize("name", NAMES)
def test_a_story_of_fifty_thousand_words_is_no_trouble(name: str) -> None:
    text = "The teacher bought a cheap book and did not open the door for the dog. " * 3_400
    assert isinstance(create_perturbation(name)(text), Perturbed)
