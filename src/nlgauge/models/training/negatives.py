"""Stories made worse for UNION to tell from real ones (Guan & Huang 2020, section 3.2; paper 4, section 4.1).

Four techniques are chained: repetition (of words or of a sentence), substitution (of keywords or of a sentence),
reordering of sentences, and negation put in or taken away. How many are applied, and which, is drawn with the
probabilities that UNION's authors published. All draws come from a generator of the story's own, so that a negative
depends on the seed, the story and the pool alone.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nlgauge.data.sources.files import decode_utf8, display_name, open_bytes
from nlgauge.errors import DataError
from nlgauge.models.training.data import hashed
from nlgauge.text.negation import alterations
from nlgauge.text.words import keywords, one_line, sentences

TECHNIQUES = {"repetition": 0.1, "substitution": 0.3, "reordering": 0.4, "negation": 0.2}
HOW_MANY = {1: 0.5, 2: 0.2, 3: 0.2, 4: 0.1}
KEYWORD_SHARE = 0.15
_LONGEST_REPEAT = 4
_TRIES = 20
_RELATION = "/r/Antonym"

_Changed = tuple[list[str], str] | None


@dataclass(frozen=True)
class Negative:
    """A story made worse, and what was done to it, in order, as in `substitution:sentence`."""

    text: str
    techniques: tuple[str, ...]


@dataclass(frozen=True)
class StoryPool:
    """What stories lend to each other: sentences, and keywords by rough class, as often as they occur."""

    sentences: tuple[str, ...]
    keywords: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, stories: Sequence[str]) -> StoryPool:
        """The pool of a corpus, whatever its order."""
        lines = [line for story in stories for line in sentences(story)]
        words: dict[str, list[str]] = {}
        for line in lines:
            for word in keywords(line):
                words.setdefault(word.kind, []).append(line[word.start : word.end])
        return cls(tuple(sorted(set(lines))), {kind: tuple(sorted(found)) for kind, found in words.items()})


@dataclass(frozen=True)
class NegativeMaker:
    """Makes one negative per story. Keywords become antonyms where the table has some, else others of their class."""

    pool: StoryPool
    seed: int = 12345
    antonyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def make(self, story: str) -> Negative | None:
        """A negative that differs from the story; None where no technique applies.

        A technique that does not apply, such as reordering a single sentence, makes room for the next one drawn.
        """
        story = one_line(story)
        draw = random.Random(hashed(f"{self.seed}\n{story}"))
        wanted = draw.choices(list(HOW_MANY), list(HOW_MANY.values()))[0]
        left = dict(TECHNIQUES)
        lines, done = sentences(story), list[str]()
        while left and (len(done) < wanted or " ".join(lines) == story):
            name = draw.choices(list(left), list(left.values()))[0]
            del left[name]
            changed = self._apply(name, lines, draw)
            if changed is not None:
                lines = changed[0]
                done.append(f"{name}:{changed[1]}" if changed[1] else name)
        text = " ".join(lines)
        return Negative(text, tuple(done)) if done and text != story else None

    def _apply(self, name: str, lines: list[str], draw: random.Random) -> _Changed:
        if name == "reordering":
            return _reordered(lines, draw)
        if name == "negation":
            return _negated(lines, draw)
        repeated, replaced = [_words_repeated, _line_repeated], [self._words_replaced, self._line_replaced]
        ways = repeated if name == "repetition" else replaced
        draw.shuffle(ways)
        return ways[0](lines, draw) or ways[1](lines, draw)

    def _words_replaced(self, lines: list[str], draw: random.Random) -> _Changed:
        """Antonyms of some keywords, or other keywords of their class, drawn as often as they occur in the pool."""
        places = [(row, word) for row, line in enumerate(lines) for word in keywords(line)]
        count = min(len(places), max(1, round(KEYWORD_SHARE * len(places))))
        made = list(lines)
        for row, word in sorted(draw.sample(places, count), reverse=True):
            old = made[row][word.start : word.end]
            choices = self.antonyms.get(old.lower()) or self.pool.keywords.get(word.kind, ())
            drawn = draw.choices(choices, k=_TRIES) if choices else []
            new = next((one for one in drawn if one.lower() != old.lower()), old)
            new = new[0].upper() + new[1:] if old[0].isupper() else new if word.kind == "name" else new.lower()
            made[row] = made[row][: word.start] + new + made[row][word.end :]
        return (made, "keywords") if made != lines else None

    def _line_replaced(self, lines: list[str], draw: random.Random) -> _Changed:
        """A sentence of another story in place of one."""
        if not lines or not self.pool.sentences:
            return None
        new = next((line for line in draw.choices(self.pool.sentences, k=_TRIES) if line not in lines), None)
        if new is None:
            return None
        place = draw.randrange(len(lines))
        return [*lines[:place], new, *lines[place + 1 :]], "sentence"


def _words_repeated(lines: list[str], draw: random.Random) -> _Changed:
    """One to four words of a sentence said twice; its last word, with the full stop, is not among them."""
    rows = [row for row, line in enumerate(lines) if line.count(" ")]
    if not rows:
        return None
    row = draw.choice(rows)
    words = lines[row].split(" ")
    size = draw.randint(1, min(_LONGEST_REPEAT, len(words) - 1))
    start = draw.randint(0, len(words) - 1 - size)
    said = [*words[: start + size], *words[start:]]
    return [*lines[:row], " ".join(said), *lines[row + 1 :]], "words"


def _line_repeated(lines: list[str], draw: random.Random) -> _Changed:
    """A sentence said again in place of the one after it, so that there are as many as before."""
    rows = [row for row in range(len(lines) - 1) if lines[row] != lines[row + 1]]
    if not rows:
        return None
    row = draw.choice(rows)
    return [*lines[: row + 1], lines[row], *lines[row + 2 :]], "sentence"


def _reordered(lines: list[str], draw: random.Random) -> _Changed:
    """All sentences in another order."""
    if len(set(lines)) < 2:
        return None
    made = list(lines)
    while made == lines:
        draw.shuffle(made)
    return made, ""


def _negated(lines: list[str], draw: random.Random) -> _Changed:
    """One negation more or less in one sentence."""
    ways = {row: found for row, line in enumerate(lines) if (found := alterations(line))}
    if not ways:
        return None
    row = draw.choice(list(ways))
    chosen = draw.choice(ways[row])
    return [*lines[:row], chosen.sentence, *lines[row + 1 :]], chosen.kind


def read_antonyms(path: str) -> dict[str, tuple[str, ...]]:
    """Antonyms from lines such as `hot|||/r/Antonym|||cold cool`; lines of other relations are skipped."""
    name = display_name(path)
    with open_bytes(path) as stream:
        data = b"".join(iter(stream.read, b""))
    found: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(decode_utf8(data, file=name, first_line=1).splitlines(), 1):
        fields = [part.strip() for part in line.split("|||")]
        if line.strip() and len(fields) != 3:
            raise DataError(f"'{line[:40]}'; expected word|||{_RELATION}|||antonyms", file=name, line=number)
        if line.strip() and fields[1] == _RELATION:
            words = tuple(word for word in dict.fromkeys(fields[2].lower().split()) if word.isalpha())
            if words:
                found[fields[0].lower()] = words
    if not found:
        raise DataError(f"no antonyms; expected lines of word|||{_RELATION}|||antonyms", file=name)
    return found
