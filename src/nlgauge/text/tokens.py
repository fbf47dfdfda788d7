"""Tokenise once: texts become integer ids with offsets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.engine.cache import file_digest
from nlgauge.errors import MissingExtra, ModelError, UnknownName

# Runs of letters, marks, digits and underscores with inner apostrophes ("don't"), or one other visible character.
_WORD = r"[\w\p{M}]+(?:['’][\w\p{M}]+)*|[^\w\s]"
_ENTITIES_13A = {"<skipped>": "", "-\n": "", "\n": " ", "&quot;": '"', "&amp;": "&", "&lt;": "<", "&gt;": ">"}
_SPACES_13A = {
    r"([\x20-\x26\x28-\x2b\x2f\x3a-\x40\x5b-\x60\x7b-\x7e])": " ${1} ",
    r"([^0-9])([.,])": "${1} ${2} ",
    r"([.,])([^0-9])": " ${1} ${2}",
    r"([0-9])(-)": "${1} ${2} ",
}


@dataclass(frozen=True)
class TokenTable:
    """Tokens of many texts: text i has `ids[offsets[i]:offsets[i+1]]`; equal ids mean equal tokens within the table."""

    ids: Array
    offsets: Array
    _data: Array
    _starts: Array
    _ends: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def vocabulary_size(self) -> int:
        """Distinct tokens."""
        return len(self._starts)

    @property
    def lengths(self) -> Array:
        """Tokens in each text."""
        return np.diff(self.offsets)

    def token(self, number: int) -> str:
        """The text of one id."""
        return self._data[self._starts[number] : self._ends[number]].tobytes().decode("utf-8")

    def tokens(self, text: int) -> list[str]:
        """The tokens of one text."""
        return [self.token(i) for i in self.ids[self.offsets[text] : self.offsets[text + 1]]]

    @cached_property
    def lanes(self) -> Array:
        """Two 64-bit hashes per distinct token, comparable between tables."""
        from nlgauge.text.split_kernels import token_lanes

        return token_lanes(self._data, self._starts, self._ends)


def fingerprints(tokens: TokenTable, highest: int) -> Iterator[tuple[int, Array, Array]]:
    """For n = 1..highest, n and two hashes of the n-gram at every token; the next n overwrites the arrays."""
    from nlgauge.text.corpus_kernels import extend

    keys, lanes_b = np.empty(len(tokens.ids), np.uint64), np.empty(len(tokens.ids), np.uint64)
    for n in range(1, highest + 1):
        extend(keys, lanes_b, tokens.ids, tokens.offsets, tokens.lanes, n)
        yield n, keys, lanes_b


@dataclass(frozen=True)
class Tokenizer:
    """A named way to cut text into tokens, with or without lower-casing first.

    `space`: any white space · `space-nodot`: every "." is deleted, then split on spaces (paper 1's released code) ·
    `word`: Unicode words and single punctuation marks · `13a`: sacrebleu's default · `char`: code points ·
    `hf:FILE`: a `tokenizer.json` of the Hugging Face `tokenizers` library · `wordpiece:FILE`: WordPiece, as BERT's,
    with the vocabulary of a `vocab.txt` or `tokenizer.json`.
    """

    name: str
    lower: bool = False

    def __call__(self, texts: pl.Series) -> TokenTable:
        """Tokenise texts."""
        if self.lower:
            texts = texts.str.to_lowercase()
        return _CUTTERS[self.name](texts) if self.name in _CUTTERS else _from_token_lists(_encode(self.name, texts))

    @property
    def vocabulary_size(self) -> int | None:
        """How many tokens it can make; None where there is no list of them."""
        return None if self.name in _CUTTERS else int(_loaded(self.name).get_vocab_size(with_added_tokens=False))


def canonical_tokenizer(name: str) -> str:
    """Check a tokeniser's name; a file gets the start of its hash appended, which is verified if already there.

    For WordPiece it is the hash of the vocabulary and of how words are made, which is the same for either kind of file.
    """
    if name in _CUTTERS:
        return name
    kind, _, rest = name.partition(":")
    if kind not in _OF_FILES or not rest:
        raise UnknownName.among("tokeniser", name, [*_CUTTERS, *(f"{one}:FILE" for one in _OF_FILES)])
    path, _, claimed = rest.partition("@")
    digest = (file_digest(path) if kind == "hf" else wordpiece_digest(path))[:12]
    if claimed and claimed != digest:
        raise ModelError(f"{path}: has hash {digest}; expected {claimed}: this is a different tokeniser")
    return f"{kind}:{path}@{digest}"


def offsets_of(lengths: Array | Sequence[int]) -> Array:
    """Where parts that follow each other begin, and where the last one ends."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def text_bytes(texts: pl.Series) -> tuple[Array, Array]:
    """The texts' UTF-8 bytes end to end, and their offsets."""
    joined = texts.str.join("").item() if len(texts) else ""
    return np.frombuffer((joined or "").encode("utf-8"), np.uint8), offsets_of(texts.str.len_bytes().to_numpy())


def _space(texts: pl.Series, any_space: bool = True) -> TokenTable:
    from nlgauge.text.split_kernels import split_on_spaces

    data, text_offsets = text_bytes(texts)
    return _number(data, *split_on_spaces(data, text_offsets, any_space))


def _char(texts: pl.Series) -> TokenTable:
    from nlgauge.text.split_kernels import split_characters

    data, text_offsets = text_bytes(texts)
    return _number(data, *split_characters(data, text_offsets))


def _mteval_13a(texts: pl.Series) -> TokenTable:
    """As the program mteval-v13a and sacrebleu cut texts."""
    for found, becomes in _ENTITIES_13A.items():
        texts = texts.str.replace_all(found, becomes, literal=True)
    texts = " " + texts + " "
    for pattern, becomes in _SPACES_13A.items():
        texts = texts.str.replace_all(pattern, becomes)
    return _space(texts)


_CUTTERS: dict[str, Callable[[pl.Series], TokenTable]] = {
    "space": _space,
    "space-nodot": lambda texts: _space(texts.str.replace_all(".", "", literal=True), any_space=False),
    "word": lambda texts: _from_token_lists(texts.str.extract_all(_WORD)),
    "13a": _mteval_13a,
    "char": _char,
}


def _encode(name: str, texts: pl.Series) -> pl.Series:
    encodings = _loaded(name).encode_batch(texts.to_list(), add_special_tokens=False)
    return pl.Series([encoding.tokens for encoding in encodings], dtype=pl.List(pl.String))


def _loaded(name: str) -> Any:
    """The tokeniser of a file, which reads whole texts and adds nothing to them."""
    kind, _, rest = name.partition(":")
    path = rest.partition("@")[0]
    return _OF_FILES[kind](path, file_digest(path))


@lru_cache(maxsize=4)
def _load_hf(path: str, _digest: str) -> Any:
    try:
        from tokenizers import Tokenizer as HuggingFaceTokenizer
    except ImportError as error:
        raise MissingExtra.needs("a tokenizer file", "tokenizers") from error
    try:
        loaded = HuggingFaceTokenizer.from_file(path)
    except Exception as error:  # the library raises nothing narrower for a bad file
        raise ModelError(f"{path}: not a tokenizer file ({error}); expected a tokenizer.json") from error
    loaded.no_truncation()
    loaded.no_padding()
    return loaded


@lru_cache(maxsize=4)
def _load_wordpiece(path: str, digest: str) -> Any:
    """WordPiece alone: the special tokens of a `tokenizer.json` are words like others, since texts may hold them."""
    try:
        from tokenizers import Tokenizer as HuggingFaceTokenizer
        from tokenizers.models import WordPiece
        from tokenizers.normalizers import BertNormalizer
        from tokenizers.pre_tokenizers import BertPreTokenizer
    except ImportError as error:
        raise MissingExtra.needs("WordPiece", "tokenizers") from error
    if path.endswith(".json"):
        found = _load_hf(path, digest)
        if not isinstance(found.model, WordPiece):
            raise ModelError(f"{path}: holds {type(found.model).__name__}; expected WordPiece (hf:FILE takes any)")
        made = HuggingFaceTokenizer(found.model)
        made.normalizer, made.pre_tokenizer = found.normalizer, found.pre_tokenizer
        return made
    try:
        tokens = Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: is not UTF-8; expected a vocab.txt, one token per line") from error
    if _UNKNOWN not in tokens or len(set(tokens)) < len(tokens):
        raise ModelError(
            f"{path}: no vocabulary of WordPiece; expected different tokens, one per line, with {_UNKNOWN}"
        )
    cased = any(token != token.lower() for token in tokens if not token.startswith("["))
    made = HuggingFaceTokenizer(WordPiece({token: i for i, token in enumerate(tokens)}, unk_token=_UNKNOWN))
    made.normalizer, made.pre_tokenizer = BertNormalizer(lowercase=not cased), BertPreTokenizer()
    return made


def wordpiece_digest(path: str) -> str:
    """A hash of the vocabulary and of how texts become words."""
    whole = json.loads(_load_wordpiece(path, file_digest(path)).to_str())
    parts = [whole["normalizer"], whole["pre_tokenizer"], whole["model"]]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


_OF_FILES: dict[str, Callable[[str, str], Any]] = {"hf": _load_hf, "wordpiece": _load_wordpiece}
_UNKNOWN = "[UNK]"


def _from_token_lists(lists: pl.Series) -> TokenTable:
    tokens = lists.filter(lists.list.len() > 0).explode() if len(lists) else pl.Series([], dtype=pl.String)
    data, edges = text_bytes(tokens)
    return _number(data, edges[:-1], edges[1:], offsets_of(lists.list.len().to_numpy()))


def _number(data: Array, starts: Array, ends: Array, offsets: Array) -> TokenTable:
    from nlgauge.text.split_kernels import number_tokens

    ids, first = number_tokens(data, starts, ends)
    return TokenTable(ids, offsets, data, starts[first], ends[first])
