"""Output of other tools, recognised by its content and converted to JSON lines.

Logs of lm-evaluation-harness and of Inspect, output of OpenAI's batch API, Arrow files and Hugging Face datasets all
become chunks of records with `id`, `context`, `responses` or `text`, `references` and `system`, so that later
stages need not know them. Nothing in a file is ever executed or unpickled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from nlgauge.data.columns import refuse_width
from nlgauge.data.logs import arrow, inspect_ai, lm_eval, openai_batch
from nlgauge.data.logs.answers import Answered, Line, answer_chunks
from nlgauge.data.sources import files
from nlgauge.data.sources.chunks import BLANK, Chunk, first_record, line_chunks
from nlgauge.data.sources.json_lines import decode_python, decode_python_line
from nlgauge.data.sources.object_stores import is_address
from nlgauge.errors import DataError, OptionError, argument

_BINARY = (files.ZIP_MAGIC, files.PARQUET_MAGIC, *files.ARROW_MAGIC)
_LARGEST_DOCUMENT = 2 << 30
_LONGEST_CHARACTER = 4
_LM_EVAL_RESULTS = frozenset({"results", "versions", "config"})
_PART_OF_A_WORD = re.compile(r"[-+.\\\w]{0,9}")


def is_outputs_folder(path: str) -> bool:
    """Whether a folder is read as a whole: results of lm-evaluation-harness, or a dataset."""
    folder = Path(path)
    return path != files.STDIN and folder.is_dir() and (bool(lm_eval.sample_files(folder)) or arrow.is_dataset(folder))


def record_chunks(path: str, size: int, asked_in: str = "") -> Iterator[Chunk]:
    """Chunks of JSON lines from a file of them, or from a file that is converted to them.

    `asked_in` names the input of an OpenAI batch, which has the contexts.
    """
    with files.located(files.display_name(path)):
        converted = _converted(path, size)
        if converted is None:
            yield from _line_chunks(path, size, asked_in)
            return
        _refuse_companion(path, asked_in)
        yield from converted


def is_plain_lines(path: str) -> bool:
    """Whether a file is uncompressed JSON lines of records, so that it can be read from any line.

    The first record decides, as when the whole file is read.
    """
    magic = files.first_bytes(path)
    if is_outputs_folder(path) or files.is_compressed(path) or magic.startswith(_BINARY):
        return False
    header = first_record(path)
    record = _decoded(header)
    kinds = (openai_batch.is_output, openai_batch.is_input, lm_eval.is_sample, inspect_ai.is_log)
    return not any(kind(record) for kind in kinds) and header.strip(BLANK) != b"{"


def _converted(path: str, size: int) -> Iterator[Chunk] | None:
    """The chunks of a folder or a binary file; None for a file of lines."""
    if is_outputs_folder(path):
        return _folder_chunks(Path(path), size)
    files.check_readable(path)
    magic = files.first_bytes(path)
    if is_address(path) and magic.startswith((files.ZIP_MAGIC, *files.ARROW_MAGIC)):
        raise DataError("is a log or an Arrow file; expected JSON lines or Parquet: copy it to this machine")
    if magic.startswith(files.ZIP_MAGIC):
        return answer_chunks(inspect_ai.read_archive(path), size, path)
    if magic.startswith(files.ARROW_MAGIC):
        return arrow.table_chunks([Path(path)], size, Path(path).stat().st_size)
    return None


def _line_chunks(path: str, size: int, asked_in: str) -> Iterator[Chunk]:
    chunks = line_chunks(path, size)
    first = next(chunks, None)
    if first is None:
        return
    name, whole, record = files.display_name(path), chain([first], chunks), _decoded(first.header)
    if first.payload.startswith(_BINARY):
        raise DataError("holds a binary file; expected JSON lines: give the name of the file")
    if openai_batch.is_output(record):
        prompts = None
        if asked_in:
            with files.located(asked_in):
                prompts = openai_batch.read_prompts(_lines(line_chunks(asked_in, size), asked_in))
        yield from answer_chunks(openai_batch.read_output(_lines(whole, name), prompts, asked_in), size, path)
        return
    _refuse_companion(path, asked_in)
    if openai_batch.is_input(record):
        raise DataError(
            "is the input of a batch; expected its output, with this file as its companion: "
            f"{argument('aligned', 'context=FILE')}"
        )
    if lm_eval.is_sample(record):
        answers = lm_eval.read_samples(_lines(whole, name))
        yield from answer_chunks(lm_eval.with_model(answers, path), size, path)
    elif _is_summary(record):
        raise _no_records(record)
    elif inspect_ai.is_log(record):
        yield from answer_chunks(inspect_ai.read_document(record), size, path)
    elif first.header.strip(BLANK) == b"{":
        yield from answer_chunks(inspect_ai.read_document(_document(whole)), size, path)
    else:
        yield from whole


def _folder_chunks(folder: Path, size: int) -> Iterator[Chunk]:
    if samples := lm_eval.sample_files(folder):
        read = ((path, _samples(str(path), size)) for path in samples)
        return answer_chunks(list(lm_eval.folder_answers(read)), size, str(folder))
    return arrow.table_chunks(arrow.dataset_files(folder), size, folder.stat().st_size)


def _samples(path: str, size: int) -> list[Answered]:
    with files.located(path):
        return lm_eval.read_samples(_lines(line_chunks(path, size), path))


def _decoded(header: bytes) -> dict[str, Any]:
    """The object on the first line; an empty one when it is something else, which the reader of JSON lines explains."""
    try:
        value = decode_python(header)
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    refuse_width(len(value))
    return value


def _lines(chunks: Iterable[Chunk], name: str) -> Iterator[Line]:
    for chunk in chunks:
        for number, line in enumerate(chunk.payload.split(b"\n"), chunk.first_line):
            if line.strip(BLANK):
                yield number, decode_python_line(line, number, name)


def _document(chunks: Iterable[Chunk]) -> dict[str, Any]:
    """A JSON document over many lines, which must be an Inspect log."""
    parts, held = [], 0
    for chunk in chunks:
        parts.append(chunk.payload)
        held += len(chunk.payload)
        if held > _LARGEST_DOCUMENT:
            raise DataError(
                f"is a JSON document of more than {_LARGEST_DOCUMENT >> 30} GB; expected a smaller one: write the log "
                "as .eval (inspect log convert --to eval)"
            )
    data = b"".join(parts)
    try:
        document = decode_python(data)
    except ValueError as error:
        raise _bad_document(data, error) from error
    if not isinstance(document, dict) or not inspect_ai.is_log(document):
        raise _no_records(document)
    return document


def _bad_document(data: bytes, error: ValueError) -> DataError:
    """The error of a JSON document over many lines: it is truncated, or invalid on some line."""
    if _ends_early(data, error):
        return DataError(
            "ends in the middle of a JSON document; expected one JSON object per line, or a complete Inspect log: copy "
            "it again, or wait until its run is done"
        )
    line = error.lineno if isinstance(error, json.JSONDecodeError) else None
    reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
    return DataError(
        f"invalid JSON ({reason}); expected one JSON object per line, or a complete Inspect log", line=line
    )


def _ends_early(data: bytes, error: ValueError) -> bool:
    """Whether JSON is truncated: its end is missing, or inside a string or a word."""
    if isinstance(error, UnicodeDecodeError):
        return error.start >= len(data.rstrip()) - _LONGEST_CHARACTER
    if not isinstance(error, json.JSONDecodeError):
        return False
    rest = error.doc[error.pos :].rstrip()
    return error.msg.startswith("Unterminated string") or bool(_PART_OF_A_WORD.fullmatch(rest))


def _is_summary(document: Mapping[str, Any]) -> bool:
    """Whether a document has the results of a run, of NLGauge or lm-evaluation-harness, and no texts."""
    scores = document.get("scores")
    ours = isinstance(scores, list) and bool(scores) and all(isinstance(s, dict) and "signature" in s for s in scores)
    return ours or (document.keys() >= _LM_EVAL_RESULTS and isinstance(document["results"], dict))


def _no_records(document: Any) -> DataError:
    """The error of a JSON document without texts, with advice where they are."""
    if isinstance(document, dict) and _is_summary(document):
        if "scores" in document:
            return DataError("is a result of nlgauge score, which nlgauge leaderboard reads; expected texts")
        return DataError(
            "has the results of lm-evaluation-harness, without texts; expected the samples_*.jsonl beside it (of "
            "lm_eval --log_samples), or their folder"
        )
    found = f"with {', '.join(list(document)[:8])}" if isinstance(document, dict) else "that is not an object"
    return DataError(
        f"is a JSON document {found}; expected one JSON object per line, or an Inspect log (eval, status, samples)"
    )


def _refuse_companion(path: str, asked_in: str) -> None:
    if asked_in:
        raise OptionError(
            f"{files.display_name(path)} is read as jsonl; {argument('aligned', f'context={asked_in}')} requires plain "
            "text, or the output of an OpenAI batch, whose input it names"
        )
