"""Texts to train on and texts held out: the split depends on what a text says and on nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nlgauge.data.columns import Columns
from nlgauge.data.files import STDIN, decode_utf8, display_name, open_bytes
from nlgauge.data.reading import Source, read_items
from nlgauge.errors import DataError, OptionError

FEWEST_TEXTS, FEWEST_HELD_OUT = 20, 2

_FIELDS = ("text", "story")
_NO_COLUMN = "no such column"


@dataclass(frozen=True)
class Corpus:
    """Texts for training and texts held out, in an order of their own; `digest` is the same for every order of input.

    Texts that differ in white space alone count as one in `distinct`, and are never on both sides.
    """

    training: tuple[str, ...]
    validation: tuple[str, ...]
    digest: str
    found: int
    empty: int
    distinct: int

    @classmethod
    def split(cls, texts: Sequence[str], *, validation: float = 0.1, limit: int = 0, seed: int = 12345) -> Corpus:
        """Hold out about a share `validation` of the texts; `limit` keeps so many of them, chosen by the seed."""
        if not 0 < validation < 1:
            raise OptionError(f"a validation share of {validation:g}; expected more than 0 and less than 1")
        if limit < 0:
            raise OptionError(f"a limit of {limit} texts; expected a positive number, or 0 for all")
        full = sorted(stripped for stripped in (text.strip() for text in texts) if stripped)
        whole = hashlib.sha256()
        for text in full:
            whole.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        chosen = sorted(full, key=lambda text: (_hash("limit", seed, text), text))[: limit or None]
        empty = len(texts) - len(full)
        if len(chosen) < FEWEST_TEXTS:
            found = f"found {len(chosen)} texts to train on and {empty} empty ones"
            raise DataError(f"{found}; expected at least {FEWEST_TEXTS} that are not empty")
        border = int(validation * 2**64)
        sides: tuple[list[str], list[str]] = ([], [])
        for text in chosen:
            sides[_hash("split", seed, text) < border].append(text)
        if len(sides[1]) < FEWEST_HELD_OUT or not sides[0]:
            raise DataError(
                f"{len(sides[1])} of {len(chosen)} texts are held out; expected at least {FEWEST_HELD_OUT}, and one to "
                "train on; give more texts, another validation share or another seed"
            )
        return cls(
            tuple(sides[0]),
            tuple(sides[1]),
            whole.hexdigest(),
            found=len(full),
            empty=empty,
            distinct=len({_words(text) for text in full}),
        )

    def facts(self) -> dict[str, Any]:
        """What the card says about the texts."""
        sides = {"training_texts": len(self.training), "validation_texts": len(self.validation)}
        return {"sha256": self.digest, "texts": self.found, "empty": self.empty, "distinct": self.distinct, **sides}


def read_texts(paths: Sequence[str], *, field: str = "") -> list[str]:
    """The texts of files: plain text with one a line, JSON lines, a JSON list, CSV, TSV or Parquet, also compressed.

    `field` names the column; without it, `text` or `story`. Empty texts are among them.
    """
    if not paths or STDIN in paths:
        raise DataError("standard input or no file to train on; expected files, which can be read again")
    return [text for path in paths for text in (_read_json if _is_json(path) else _read_table)(path, field)]


def _is_json(path: str) -> bool:
    suffixes = [suffix for suffix in Path(path.lower()).suffixes if suffix not in (".gz", ".zst")]
    return bool(suffixes) and suffixes[-1] == ".json"


def _read_table(path: str, field: str) -> list[str]:
    if Source(path=path).format == "text":
        return read_items(path).frame["text"].to_list()
    *guesses, last = (field,) if field else _FIELDS
    for name in guesses:
        try:
            next(Source(path=path, columns=Columns(text=name), extras=()).stream())
        except DataError as error:
            if not error.message.startswith(_NO_COLUMN):
                raise
        else:
            last = name
            break
    try:
        return read_items(path, columns=Columns(text=last), extras=()).frame["text"].to_list()
    except DataError as error:
        if field or not error.message.startswith(_NO_COLUMN):
            raise
        found = error.message.removeprefix(f"{_NO_COLUMN}; found ")
        raise DataError(
            f"found {found}; expected {' or '.join(_FIELDS)}; name another with --field", file=error.file
        ) from error


def _read_json(path: str, field: str) -> list[str]:
    """A JSON list or JSON lines; a record is a text, an object with the field, or a list of a single text."""
    blocks = []
    with open_bytes(path) as stream:
        while block := stream.read():
            blocks.append(block)
    data = b"".join(blocks)
    name = display_name(path)
    decode_utf8(data, file=name, first_line=1)
    try:
        whole: Any = msgspec.json.decode(data)
        records = whole if isinstance(whole, list) else [whole]
    except msgspec.DecodeError:
        records = []
        for number, line in enumerate(data.split(b"\n"), 1):
            if line.strip():
                try:
                    records.append(msgspec.json.decode(line))
                except msgspec.DecodeError as error:
                    raise DataError(
                        f"invalid JSON ({error}); expected a JSON list, or one record a line", file=name, line=number
                    ) from error
    return [_text_of(record, field, name, number) for number, record in enumerate(records, 1)]


def _text_of(record: Any, field: str, file: str, number: int) -> str:
    if isinstance(record, dict):
        wanted = (field,) if field else _FIELDS
        column = next((name for name in wanted if name in record), None)
        if column is None:
            raise DataError(
                f"record {number} has {', '.join(record) or 'nothing'}; expected {' or '.join(wanted)}; name another "
                "with --field",
                file=file,
            )
        record = record[column]
    elif isinstance(record, list) and len(record) == 1:
        record = record[0]
    if not isinstance(record, str):
        found = f"a list of {len(record)}" if isinstance(record, list) else type(record).__name__
        raise DataError(f"record {number} is {found}; expected text", file=file)
    return record


def _words(text: str) -> str:
    return " ".join(text.split())


def _hash(purpose: str, seed: int, text: str) -> int:
    about = f"{purpose} {seed}\n{_words(text)}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(about, digest_size=8).digest())
