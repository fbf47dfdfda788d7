"""What other tools wrote, told from its content and turned into JSON lines such as people write by hand.

Logs of lm-evaluation-harness and of Inspect, output of OpenAI's batch API, Arrow files and Hugging Face datasets all
become chunks of records with `id`, `context`, `responses` or `text`, `references` and `system`, so that nothing after
this file knows of them. Nothing in a file is ever run or unpickled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from nlgauge.data import arrow_files, inspect_logs, lm_eval_logs, openai_batches
from nlgauge.data.answers import Line, answer_chunks
from nlgauge.data.chunks import BLANK, Chunk, first_record, line_chunks
from nlgauge.data.files import (
    ARROW_MAGIC,
    PARQUET_MAGIC,
    STDIN,
    ZIP_MAGIC,
    check_readable,
    display_name,
    first_bytes,
    is_compressed,
)
from nlgauge.data.json_lines import decode_python, decode_python_line
from nlgauge.data.stores import is_address
from nlgauge.errors import DataError, OptionError

_LARGEST_DOCUMENT = 2 << 30


def is_outputs_folder(path: str) -> bool:
    """Whether a folder is read as a whole: results of lm-evaluation-harness, or a dataset."""
    folder = Path(path)
    return (
        path != STDIN
        and folder.is_dir()
        and (bool(lm_eval_logs.sample_files(folder)) or arrow_files.is_dataset(folder))
    )


def record_chunks(path: str, size: int, asked_in: str = "") -> Iterator[Chunk]:
    """Chunks of JSON lines from a file of them, or from anything that is turned into them.

    `asked_in` names the input of an OpenAI batch, which has the contexts.
    """
    converted = _converted(path, size)
    if converted is None:
        yield from _line_chunks(path, size, asked_in)
        return
    _refuse_companion(path, asked_in)
    yield from converted


def is_plain_lines(path: str) -> bool:
    """Whether a file is uncompressed JSON lines that are records as they stand, so that it can be read from any line.

    The first record tells, as it does when the file is read whole.
    """
    magic = first_bytes(path)
    if is_outputs_folder(path) or is_compressed(path) or magic.startswith((ZIP_MAGIC, PARQUET_MAGIC, *ARROW_MAGIC)):
        return False
    header = first_record(path)
    record = _decoded(header)
    is_log = (
        openai_batches.is_output(record)
        or openai_batches.is_input(record)
        or lm_eval_logs.is_sample(record)
        or inspect_logs.is_log(record)
    )
    return not is_log and header.strip(BLANK) != b"{"


def _converted(path: str, size: int) -> Iterator[Chunk] | None:
    """What a folder or a binary file holds; None for a file of lines."""
    if is_outputs_folder(path):
        return _folder_chunks(Path(path), size)
    check_readable(path)
    magic = first_bytes(path)
    if is_address(path) and magic.startswith((ZIP_MAGIC, *ARROW_MAGIC)):
        raise DataError("is a log or an Arrow file; expected JSON lines or Parquet: copy it to this machine", file=path)
    if magic.startswith(ZIP_MAGIC):
        return answer_chunks(inspect_logs.read_archive(path), size, path)
    if magic.startswith(ARROW_MAGIC):
        return arrow_files.table_chunks([Path(path)], size, Path(path).stat().st_size)
    return None


def _line_chunks(path: str, size: int, asked_in: str) -> Iterator[Chunk]:
    chunks = line_chunks(path, size)
    first = next(chunks, None)
    if first is None:
        return
    name, whole, record = display_name(path), chain([first], chunks), _decoded(first.header)
    if first.payload.startswith((ZIP_MAGIC, PARQUET_MAGIC, *ARROW_MAGIC)):
        raise DataError("holds a binary file; expected JSON lines: give the name of the file", file=name)
    if openai_batches.is_output(record):
        prompts = _prompts(asked_in) if asked_in else None
        yield from answer_chunks(openai_batches.read_output(_lines(whole, name), name, prompts, asked_in), size, name)
        return
    _refuse_companion(path, asked_in)
    if openai_batches.is_input(record):
        raise DataError(
            "is the input of a batch; expected its output, with this file as its companion: --aligned context=FILE",
            file=name,
        )
    if lm_eval_logs.is_sample(record):
        yield from answer_chunks(lm_eval_logs.read_samples(_lines(whole, name), name), size, name)
    elif inspect_logs.is_log(record):
        yield from answer_chunks(inspect_logs.read_document(record, name), size, name)
    elif first.header.strip(BLANK) == b"{":
        yield from _document_chunks(whole, size, name)
    else:
        yield from whole


def _folder_chunks(folder: Path, size: int) -> Iterator[Chunk]:
    name = str(folder)
    if samples := lm_eval_logs.sample_files(folder):
        read = ((path, _samples(path, size)) for path in samples)
        yield from answer_chunks(list(lm_eval_logs.folder_answers(read, name)), size, name)
        return
    yield from arrow_files.table_chunks(arrow_files.dataset_files(folder), size, folder.stat().st_size)


def _samples(path: Path, size: int) -> list[Any]:
    return lm_eval_logs.read_samples(_lines(line_chunks(str(path), size), str(path)), str(path))


def _decoded(header: bytes) -> dict[str, Any]:
    """The object on the first line; an empty one when it is something else, which the reader of JSON lines explains."""
    try:
        value = decode_python(header)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _lines(chunks: Iterable[Chunk], name: str) -> Iterator[Line]:
    for chunk in chunks:
        for number, line in enumerate(chunk.payload.split(b"\n"), chunk.first_line):
            if line.strip(BLANK):
                yield number, decode_python_line(line, number, name)


def _document_chunks(chunks: Iterable[Chunk], size: int, name: str) -> Iterator[Chunk]:
    """A JSON document over many lines is an Inspect log or nothing that can be read."""
    parts, held = [], 0
    for chunk in chunks:
        parts.append(chunk.payload)
        held += len(chunk.payload)
        if held > _LARGEST_DOCUMENT:
            raise DataError(
                f"is a JSON document of more than {_LARGEST_DOCUMENT >> 30} GB; expected a smaller one: write the log "
                "as .eval (inspect log convert --to eval)",
                file=name,
            )
    try:
        document = decode_python(b"".join(parts))
    except ValueError as error:
        raise DataError(
            f"line 1: invalid JSON ({error}); expected one JSON object a line, or a whole Inspect log", file=name
        ) from error
    if not isinstance(document, dict) or not inspect_logs.is_log(document):
        found = f"with {', '.join(list(document)[:8])}" if isinstance(document, dict) else "that is no object"
        raise DataError(
            f"is a JSON document {found}; expected one JSON object a line, or an Inspect log (eval, status, samples)",
            file=name,
        )
    yield from answer_chunks(inspect_logs.read_document(document, name), size, name)


def _prompts(path: str) -> dict[str, str | None]:
    return openai_batches.read_prompts(_lines(line_chunks(path, 1 << 20), path), path)


def _refuse_companion(path: str, asked_in: str) -> None:
    if asked_in:
        raise OptionError(
            f"{display_name(path)} is read as jsonl; set size and aligned files go with plain text (or context=FILE, "
            "the input of an OpenAI batch, with its output)"
        )
