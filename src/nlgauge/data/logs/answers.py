"""The answers to one document of a log, as a record like those of every other file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from nlgauge.data.sources.chunks import Chunk
from nlgauge.data.sources.files import file_size
from nlgauge.errors import DataError

Line = tuple[int, dict[str, Any]]
_TEXT_PARTS = ("text", "input_text", "output_text")
_SHOWN = 200


@dataclass(frozen=True)
class Answered:
    """The answers to one document, with its prompt and its references if the log has them."""

    id: str
    responses: tuple[str, ...]
    context: str | None = None
    references: tuple[str, ...] = ()
    system: str | None = None


def lines_of(kind: Callable[[Mapping[str, Any]], bool], lines: Iterable[Line], expected: str) -> Iterator[Line]:
    """The lines, each of which must be a record of one kind."""
    for number, record in lines:
        if not kind(record):
            raise DataError(f"found {', '.join(record) or 'no keys'}; expected {expected}", line=number)
        yield number, record


def answer_chunks(answers: Sequence[Answered], size: int, path: str) -> Iterator[Chunk]:
    """Answers as chunks of JSON lines: response sets if a document has several answers, else single texts.

    Every record has the same columns, with null for missing values. The log has been read to its end by now:
    progress is reported in shares of its bytes.
    """
    bytes_on_disk = file_size(path)
    several = any(len(one.responses) != 1 for one in answers)
    with_context = any(one.context is not None for one in answers)
    with_references = any(one.references for one in answers)
    with_system = any(one.system is not None for one in answers)
    header, lines, held, first = b"", [], 0, 1
    for number, one in enumerate(answers, 1):
        record: dict[str, Any] = {"id": one.id}
        if with_context:
            record["context"] = one.context
        record |= {"responses": one.responses} if several else {"text": one.responses[0]}
        if with_references:
            record["references"] = one.references or None
        if with_system:
            record["system"] = one.system
        try:
            line = msgspec.json.encode(record)
        except UnicodeEncodeError as error:
            raise DataError(
                f"document '{one.id}' has half of a surrogate pair, which is not text; expected both halves"
            ) from error
        header = header or line
        lines.append(line + b"\n")
        held += len(line)
        if held >= size or number == len(answers):
            yield Chunk(b"".join(lines), first, header, consumed=bytes_on_disk * number // len(answers))
            lines, held, first = [], 0, number + 1


def text_of(content: Any) -> str | None:
    """The text of a message: a string, or the parts of it that are text; None if there is none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    parts = [
        part["text"]
        for part in content
        if isinstance(part, dict) and part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str)
    ]
    return "".join(parts) if parts else None


def describe_content(content: Any) -> str:
    """A description of the content of a message without text."""
    if content is None:
        return "null"
    if isinstance(content, list):
        kinds = dict.fromkeys(str(part.get("type")) if isinstance(part, dict) else repr(part)[:20] for part in content)
        return f"parts of type {', '.join(kinds)}" if kinds else "no parts"
    return shown(content)


def context_of(messages: Any) -> str | None:
    """A prompt as text: a string, or the texts of its messages, joined by line breaks; None if it has no text."""
    if isinstance(messages, str):
        return messages
    if not isinstance(messages, list):
        return None
    if all(isinstance(message, str) for message in messages):
        return "\n".join(messages) or None
    texts = (text_of(message.get("content")) for message in messages if isinstance(message, dict))
    return "\n".join(text for text in texts if text) or None


def dig(value: Any, *keys: str) -> Any:
    """The value below these names of nested objects; None where one is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def texts_in(value: Any) -> tuple[str, ...]:
    """References: a text or a list of texts, without empty ones; none for other values."""
    values: Iterable[Any] = value if isinstance(value, list) else [value]
    return tuple(text for text in values if isinstance(text, str) and text)


def shown(value: Any) -> str:
    """The beginning of a value on one line, for a message."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = " ".join(text.split())
    return f"{line[:_SHOWN]}…" if len(line) > _SHOWN else line
