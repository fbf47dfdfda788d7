"""Texts or pairs to train on, and others held out: the split depends on what an example says and on nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from nlgauge.data.columns import Reading
from nlgauge.data.dialogs import read_pairs
from nlgauge.data.reading import Source, read_items
from nlgauge.data.roles import required_column
from nlgauge.data.sources.files import STDIN, decode_utf8, display_name, open_bytes
from nlgauge.errors import DataError, OptionError, argument

FEWEST_TEXTS, FEWEST_HELD_OUT = 20, 2

_FIELDS = ("text", "story")


class PromptPair(NamedTuple):
    """A prompt and the response to learn."""

    context: str
    text: str


Example = TypeVar("Example", str, PromptPair)


@dataclass(frozen=True)
class TrainingCorpus(Generic[Example]):
    """Examples for training and examples held out, in an order of their own; `digest` does not depend on the input's.

    Texts that differ in white space alone count as one in `distinct`, and are never on both sides; nor are pairs with
    the same context, unless the examples to hold out were given.
    """

    training: tuple[Example, ...]
    validation: tuple[Example, ...]
    digest: str
    found: int
    empty: int
    distinct: int

    @classmethod
    def split(
        cls,
        texts: Sequence[Example],
        *,
        validation: float = 0.1,
        limit: int = 0,
        seed: int = 12345,
        held_out: Sequence[Example] | None = None,
    ) -> TrainingCorpus[Example]:
        """Hold out about a share `validation` of the examples; `limit` keeps so many of them, chosen by the seed.

        `held_out` are examples to hold out instead; those that are trained on, too, are left out of them.
        """
        if not 0 < validation < 1:
            raise OptionError(f"{argument('validation', validation)}; expected more than 0 and less than 1")
        if limit < 0:
            raise OptionError(f"{argument('limit', limit)}; expected a positive number of texts, or 0 for all")
        full: list[Example] = _full(texts)
        drawn = sorted(full, key=lambda example: (hashed(f"limit {seed}\n{_words(_whole(example))}"), example))
        chosen = drawn[: limit or None]
        empty = len(texts) - len(full)
        if len(chosen) < FEWEST_TEXTS:
            found = f"found {len(chosen)} texts to train on and {empty} empty ones"
            raise DataError(f"{found}; expected at least {FEWEST_TEXTS} that are not empty")
        if held_out is None:
            border = int(validation * 2**64)
            sides: tuple[list[Example], list[Example]] = ([], [])
            for example in chosen:
                sides[hashed(f"split {seed}\n{_words(_side(example))}") < border].append(example)
        else:
            trained = {_words(_whole(example)) for example in chosen}
            sides = (chosen, [example for example in _full(held_out) if _words(_whole(example)) not in trained])
        if len(sides[1]) < FEWEST_HELD_OUT or not sides[0]:
            raise DataError(
                f"{len(sides[1])} of {len(chosen)} texts are held out; expected at least {FEWEST_HELD_OUT}, and one to "
                "train on; give more texts, another validation share or another seed"
                if held_out is None
                else f"{len(sides[1])} of {len(held_out)} texts to hold out are neither empty nor trained on; expected "
                f"at least {FEWEST_HELD_OUT}"
            )
        digest = hashlib.sha256()
        for text in map(_whole, full if held_out is None else full + sides[1]):
            digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        return cls(
            tuple(sides[0]),
            tuple(sides[1]),
            digest.hexdigest(),
            found=len(full),
            empty=empty,
            distinct=len({_words(_whole(example)) for example in full}),
        )

    def facts(self) -> dict[str, Any]:
        """What the card says about the texts."""
        sides = {"training_texts": len(self.training), "validation_texts": len(self.validation)}
        return {"sha256": self.digest, "texts": self.found, "empty": self.empty, "distinct": self.distinct, **sides}


def read_training_pairs(
    paths: Sequence[str], reading: Reading | None = None, *, context_turns: int = 1
) -> list[PromptPair]:
    """Prompts and responses of files: tables with `context` and `text`, or dialogs, where every turn is a response."""
    how = reading or Reading()
    _check(paths, how)
    found: list[PromptPair] = []
    for path in paths:
        items = read_pairs(path, format=how.input_format, context_turns=context_turns, reading=how)
        contexts = items.frame["context"].fill_null("").cast(str).to_list()
        found += map(PromptPair, contexts, items.frame["text"].to_list())
    return found


def read_texts(paths: Sequence[str], reading: Reading | None = None) -> list[str]:
    """The texts of files: plain text with one per line, JSON lines, a JSON list, CSV, TSV or Parquet, also compressed.

    Without a column of texts in `reading`, it is `text` or `story`. Empty texts are among them.
    """
    how = reading or Reading()
    _check(paths, how)
    return [
        text
        for path in paths
        for text in (_read_json(path, how.text or "") if _is_json(path) else _read_table(path, how))
    ]


def _check(paths: Sequence[str], reading: Reading) -> None:
    if not paths or STDIN in paths:
        raise DataError("standard input or no file to train on; expected files, which can be read again")
    for name in ("responses", "set_size", "one_set", "aligned"):
        if getattr(reading, name):
            raise OptionError(f"{argument(name)} makes sets of responses; expected single texts or pairs to train on")


def _is_json(path: str) -> bool:
    suffixes = [suffix for suffix in Path(path.lower()).suffixes if suffix not in (".gz", ".zst")]
    return bool(suffixes) and suffixes[-1] == ".json"


def _read_table(path: str, reading: Reading) -> list[str]:
    source = Source(path=path, reading=reading)
    if source.format == "text":
        return read_items(path, input_format=reading.input_format).frame["text"].to_list()
    names = source.first_columns
    column = required_column(names, "text", reading.text, usual=_FIELDS, file=source.name)
    texts: list[str] = replace(source, reading=replace(reading, text=column), extras=()).read().frame["text"].to_list()
    return texts


def _read_json(path: str, field: str) -> list[str]:
    """A JSON list or JSON lines; a record is a text, an object with the field, or a list of a single text."""
    with open_bytes(path) as stream:
        data = b"".join(iter(stream.read, b""))
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
                        f"invalid JSON ({error}); expected a JSON list, or one record per line", file=name, line=number
                    ) from error
    return [_text_of(record, field, name, number) for number, record in enumerate(records, 1)]


def _text_of(record: Any, field: str, file: str, number: int) -> str:
    if isinstance(record, dict):
        wanted = (field,) if field else _FIELDS
        column = next((name for name in wanted if name in record), None)
        if column is None:
            raise DataError(
                f"record {number} has {', '.join(record) or 'nothing'}; expected {' or '.join(wanted)}; name another "
                f"with {argument('text')}",
                file=file,
            )
        record = record[column]
    elif isinstance(record, list) and len(record) == 1:
        record = record[0]
    if not isinstance(record, str):
        found = f"a list of {len(record)}" if isinstance(record, list) else type(record).__name__
        raise DataError(f"record {number} is {found}; expected text", file=file)
    return record


def _full(examples: Sequence[Example]) -> list[Example]:
    """Examples that are not empty, without outer white space, in an order of their own."""
    found: list[Example] = []
    for example in examples:
        stripped = example.strip() if isinstance(example, str) else PromptPair(*(part.strip() for part in example))
        if stripped if isinstance(stripped, str) else stripped.text:
            found.append(stripped)
    return sorted(found)


def _whole(example: str | PromptPair) -> str:
    """All that an example says."""
    return example if isinstance(example, str) else "\0".join(example)


def _side(example: str | PromptPair) -> str:
    """What decides whether an example is held out: the text, or a pair's context."""
    return example if isinstance(example, str) else example.context


def _words(text: str) -> str:
    return " ".join(text.split())


def hashed(text: str, size: int = 8) -> int:
    """A number of so many bytes that depends on a text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest())
