"""ConceptNet: triples such as (Antonym, hot, cold), from a user's file or a small table of everyday things.

Three layouts are read, plain or compressed: the dump of ConceptNet 5.7, whose lines have five fields with tabs between;
`relation TAB head TAB tail`; and antonyms as UNION's authors released them, `word|||/r/Antonym|||others`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from itertools import chain
from typing import NamedTuple

from nlgauge.data.sources.files import decode_utf8, display_name, open_bytes
from nlgauge.engine.cache import split_hash
from nlgauge.errors import DataError
from nlgauge.models.training.negatives import read_antonyms

_ENGLISH = "/c/en/"


class Triple(NamedTuple):
    """Head and tail, which may have several words, and their relation."""

    relation: str
    head: str
    tail: str


class Neighbour(NamedTuple):
    """A related word; `forward` if the first word is the head."""

    relation: str
    forward: bool
    word: str


@dataclass(frozen=True)
class ConceptNet:
    """Single words and their neighbours, sorted."""

    neighbours: dict[str, tuple[Neighbour, ...]]

    @classmethod
    def of(cls, triples: Iterable[Triple]) -> ConceptNet:
        """The graph of triples; those with an entity of several words are left out."""
        found: dict[str, set[Neighbour]] = {}
        for relation, head, tail in triples:
            if head.isalpha() and tail.isalpha() and head != tail:
                found.setdefault(head, set()).add(Neighbour(relation, True, tail))
                found.setdefault(tail, set()).add(Neighbour(relation, False, head))
        return cls({word: tuple(sorted(found[word])) for word in sorted(found)})

    def has_triple_among(self, words: frozenset[str]) -> bool:
        """Whether the head and the tail of a triple are both among some words."""
        return any(near.word in words for word in words for near in self.neighbours.get(word, ()))


@lru_cache(maxsize=2)
def load_conceptnet(spec: str | None = None) -> ConceptNet:
    """The graph of a file, which may be named with its hash, or of the table that comes with NLGauge."""
    if spec is not None:
        return ConceptNet.of(read_triples(split_hash(spec)[0]))
    with resources.as_file(resources.files("nlgauge.perturb.resources") / "tables" / "concepts.tsv") as file:
        return ConceptNet.of(read_triples(str(file)))


def read_triples(path: str) -> Iterator[Triple]:
    """The English triples of a file, one by one; its first line decides the layout."""
    name = display_name(path)
    lines = ((number, line) for number, line in _lines(path, name) if line.strip())
    first = next(lines, None)
    if first is None:
        raise DataError("the file has no triples; expected ConceptNet's dump, or relation TAB head TAB tail", file=name)
    if "|||" in first[1]:
        for word, others in read_antonyms(path).items():
            yield from (Triple("Antonym", word, other) for other in others)
        return
    dump = first[1].startswith("/a/")
    count = 0
    for number, line in chain([first], lines):
        found = _of_dump(line, name, number) if dump else _of_table(line, name, number)
        if found is not None:
            count += 1
            yield found
    if not count:
        raise DataError(f"no English triples in {number} lines; expected /c/en/ entities", file=name)


def _of_dump(line: str, name: str, number: int) -> Triple | None:
    """`/a/[...] TAB /r/Antonym TAB /c/en/hot/a TAB /c/en/cold TAB {...}`; None for other languages and links."""
    fields = line.split("\t")
    if len(fields) != 5 or not fields[1].startswith("/r/") or not fields[2].startswith("/c/"):
        expected = "five fields with tabs between: /a/..., /r/relation, /c/head, /c/tail, {...}"
        raise DataError(f"'{line[:60]}'; expected {expected}", file=name, line=number)
    if not (fields[2].startswith(_ENGLISH) and fields[3].startswith(_ENGLISH)):
        return None
    head, tail = (part.removeprefix(_ENGLISH).split("/")[0].replace("_", " ") for part in fields[2:4])
    return Triple(fields[1].removeprefix("/r/"), head, tail)


def _of_table(line: str, name: str, number: int) -> Triple:
    fields = [part.strip() for part in line.split("\t")]
    if len(fields) != 3 or not all(fields):
        raise DataError(f"'{line[:60]}'; expected relation TAB head TAB tail", file=name, line=number)
    return Triple(fields[0].removeprefix("/r/"), fields[1].lower(), fields[2].lower())


def _lines(path: str, name: str) -> Iterator[tuple[int, str]]:
    """Numbered lines, read in blocks."""
    number, rest = 1, b""
    with open_bytes(path) as stream:
        for block in iter(stream.read, b""):
            *whole, rest = (rest + block).split(b"\n")
            text = decode_utf8(b"\n".join(whole), file=name, first_line=number)
            for line in text.split("\n") if whole else ():
                yield number, line.rstrip("\r")
                number += 1
    if rest:
        yield number, decode_utf8(rest, file=name, first_line=number).rstrip("\r")
