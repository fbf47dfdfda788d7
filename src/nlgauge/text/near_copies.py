"""Near-copies of texts, and the language that texts are written in: small rules without a model."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from nlgauge.text.words import FUNCTION_WORDS, word_set

ENOUGH_WORDS = 8
"""Fewer words say too little about their language."""

_COMMON: Mapping[str, frozenset[str]] = {
    "en": FUNCTION_WORDS | word_set("please yes well go get like good time"),
    "de": word_set(
        "der die das und ist ich nicht ein eine einen dem den zu mit sie er wir es auf für aber auch als wie noch nur "
        "war hat haben sind sich von im zum zur dass wenn doch mir mich uns kein keine schon sehr vom oder"
    ),
    "fr": word_set(
        "le la les de des du un une et est je ne pas que qui il elle nous vous on ce se sur pour avec mais dans au aux "
        "mon ma mes ton son sa ses était suis très plus à où ça ai"
    ),
    "es": word_set(
        "el la los las de del un una y es no que en por con para pero se lo le su mi muy más como está estoy era yo tú "
        "nos sin porque cuando también al ya hay"
    ),
    "it": word_set(
        "il lo la i gli le di del della un una e è non che per con ma si mi ti ci sono ho ha era molto più come anche "
        "al alla nel nella io tu noi perché quando sul"
    ),
    "nl": word_set(
        "de het een en is ik niet van dat die te zijn met op voor maar ook als er we wij hij zij je mijn naar nog was "
        "heb heeft geen wel dan om bij aan uit zo"
    ),
    "pt": word_set(
        "o a os as de do da dos das um uma e é não que em no na por com para mas se eu ele ela nós muito mais como "
        "está era foi também ao já meu minha quando"
    ),
}
LANGUAGES = tuple(_COMMON)


def normalised(text: str) -> str:
    """A text without what does not make it another text: case, width and accents' encoding, punctuation, spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = (sign if unicodedata.category(sign)[0] in "LNM" else " " for sign in folded)
    return " ".join("".join(kept).split())


def likeness(one: str, other: str) -> float:
    """The share of two texts' characters that they have in common, in the same order; case and punctuation aside.

    Twice the length of the longest common subsequence over the sum of lengths: 1 for equal texts, some .5 for
    unrelated English sentences. Symmetric, and quick for long texts (bit-parallel, Hyyrö 2004).
    """
    first, second = normalised(one), normalised(other)
    if not first or not second:
        return 1.0 if first == second else 0.0
    places: dict[str, int] = {}
    for number, letter in enumerate(first):
        places[letter] = places.get(letter, 0) | 1 << number
    ends = whole = (1 << len(first)) - 1
    for letter in second:
        met = ends & places.get(letter, 0)
        ends = (ends + met | ends - met) & whole
    return 2 * (len(first) - ends.bit_count()) / (len(first) + len(second))


def nearest_pair(texts: Sequence[str]) -> tuple[float, str, str]:
    """The likeness of the two texts that are most alike, and the two; of fewer than two texts, 0 and nothing."""
    pairs = [(likeness(one, other), one, other) for one, other in combinations(texts, 2)]
    return max(pairs, key=lambda pair: pair[0], default=(0.0, "", ""))


def words_in(text: str) -> list[str]:
    """Words in lower case; each character of a script without spaces is one."""
    found: list[str] = []
    for word in normalised(text).split():
        found += list(word) if any(_is_wide(letter) for letter in word) else [word]
    return found


def language_of(texts: Iterable[str]) -> str:
    """The language that most of the texts' common words belong to, of those in `LANGUAGES`.

    A script other than Latin is named by its Unicode name ("cyrillic"). Nothing is said ("") of few words, and of words
    of which none is common in any of the languages.
    """
    all_texts = list(texts)
    scripts = Counter(_script(letter) for text in all_texts for letter in text if letter.isalpha())
    words = [word for text in all_texts for word in words_in(text)]
    if len(words) < ENOUGH_WORDS:
        return ""
    if scripts and (most := scripts.most_common(1)[0][0]) != "latin":
        return most
    counts = {name: sum(word in common for word in words) for name, common in _COMMON.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else ""


def _script(letter: str) -> str:
    return unicodedata.name(letter, "unknown").partition(" ")[0].lower()


def _is_wide(letter: str) -> bool:
    return unicodedata.east_asian_width(letter) in "WF"
