"""Logs of Inspect: `.eval` (a zip with one JSON file per sample) and `.json` (all in one document)."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nlgauge.data.logs.answers import Answered, context_of, describe_content, dig, shown, text_of, texts_in
from nlgauge.data.sources.files import ZIP_MAGIC
from nlgauge.data.sources.json_lines import decode_python
from nlgauge.errors import DataError
from nlgauge.zstd import ZstdDecompressor, ZstdError

_LARGEST_ENTRY, _LARGEST_LOG = 256 << 20, 4 << 30
_ZSTANDARD = 93
_LOCAL_HEADER = 30
_HEADER, _STARTED, _SAMPLES = "header.json", "_journal/start.json", "samples/"
_ATTACHMENT = "attachment://"


def is_log(document: Mapping[str, Any]) -> bool:
    """Whether a JSON document is a log."""
    return isinstance(document.get("eval"), dict) and "status" in document


def read_document(document: Mapping[str, Any]) -> list[Answered]:
    """The samples of a `.json` log."""
    samples = document.get("samples")
    _check_finished(document)
    if not isinstance(samples, list) or not all(isinstance(sample, dict) for sample in samples):
        samples = []
    return _answers(samples, document)


def read_archive(path: str) -> list[Answered]:
    """The samples of an `.eval` log; unpacked sizes are limited."""
    try:
        with zipfile.ZipFile(path) as archive:
            header = _header(archive)
            return _answers(_samples(archive), header)
    except (zipfile.BadZipFile, zlib.error, ZstdError, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(
            f"the archive is truncated or damaged ({shown(str(error))}); expected a complete log: copy it again"
        ) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}") from error


def _header(archive: zipfile.ZipFile) -> dict[str, Any]:
    names = set(archive.namelist())
    if _HEADER not in names:
        if _STARTED in names:
            raise _unfinished("its run was interrupted")
        some = ", ".join(sorted(names)[:3]) or "nothing"
        raise DataError(f"is a zip file with {some}; expected an Inspect log with {_HEADER} and samples")
    header = _object(_entry(archive, archive.getinfo(_HEADER)), f"{archive.filename} ({_HEADER})")
    _check_finished(header)
    return header


def _samples(archive: zipfile.ZipFile) -> Iterator[dict[str, Any]]:
    total = 0
    for entry in archive.infolist():
        if not (entry.filename.startswith(_SAMPLES) and entry.filename.endswith(".json")):
            continue
        data = _entry(archive, entry)
        total += len(data)
        if total > _LARGEST_LOG:
            raise DataError(f"unpacks to more than {_LARGEST_LOG >> 30} GB; expected a smaller log")
        yield _object(data, f"{archive.filename} ({entry.filename})")


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """One file of the archive; declared sizes are not trusted."""
    too_large = DataError(f"{entry.filename} unpacks to more than {_LARGEST_ENTRY >> 20} MB; expected a smaller sample")
    if entry.file_size > _LARGEST_ENTRY:
        raise too_large
    if entry.compress_type == _ZSTANDARD:
        data = _unzstd(archive, entry)
    else:
        with archive.open(entry) as file:
            data = file.read(_LARGEST_ENTRY + 1)
    if len(data) > _LARGEST_ENTRY:
        raise too_large
    return data


def _unzstd(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """A file that Python's own `zipfile` cannot unpack before 3.14."""
    with Path(str(archive.filename)).open("rb") as raw:
        raw.seek(entry.header_offset)
        header = raw.read(_LOCAL_HEADER)
        if len(header) < _LOCAL_HEADER or not header.startswith(ZIP_MAGIC):
            raise zipfile.BadZipFile(f"{entry.filename} has no header")
        raw.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
        data = ZstdDecompressor().decompress(raw.read(entry.compress_size), _LARGEST_ENTRY + 1)
    if len(data) <= _LARGEST_ENTRY and zlib.crc32(data) != entry.CRC:
        raise zipfile.BadZipFile(f"{entry.filename} has a wrong checksum")
    return data


def _object(data: bytes, file: str) -> dict[str, Any]:
    try:
        value = decode_python(data)
    except ValueError as error:
        raise DataError(
            f"invalid JSON ({error}); expected a part of an Inspect log: copy it again", file=file
        ) from error
    if not isinstance(value, dict):
        raise DataError(f"found {shown(value)}; expected a JSON object", file=file)
    return value


def _check_finished(header: Mapping[str, Any]) -> None:
    status = header.get("status")
    if status != "success":
        failed = header.get("error")
        reason = f" ({shown(failed.get('message', failed))})" if isinstance(failed, dict) else ""
        raise _unfinished(f"its status is '{status}'{reason}")


def _unfinished(found: str) -> DataError:
    return DataError(f"{found}; expected a finished log: run `inspect eval-retry` on it")


def _answers(samples: Iterable[Mapping[str, Any]], header: Mapping[str, Any]) -> list[Answered]:
    """Epochs of one sample, and choices of one epoch, are the responses of one set, in that order.

    Samples are in the order of their dataset, not of completion.
    """
    epochs: dict[str, dict[int, tuple[str, ...]]] = {}
    about: dict[str, tuple[str | None, tuple[str, ...]]] = {}
    for sample in samples:
        name, epoch = str(sample.get("id")), sample.get("epoch", 1)
        if sample.get("id") is None or not isinstance(epoch, int):
            raise DataError(
                f"a sample has id {shown(sample.get('id'))} and epoch {shown(epoch)}; expected a name and a number: "
                "copy the log again"
            )
        if epoch in epochs.setdefault(name, {}):
            raise DataError(f"sample '{name}' is a duplicate in epoch {epoch}; expected unique sample ids")
        attachments = sample.get("attachments")
        held = attachments if isinstance(attachments, dict) else {}
        epochs[name][epoch] = _responses(sample, f"sample '{name}', epoch {epoch}", held)
        about.setdefault(name, (context_of(_resolved(sample.get("input"), held)), texts_in(sample.get("target"))))
    if not epochs:
        raise DataError("the log has no samples; expected a log with them (inspect eval without --no-log-samples)")
    model, ids = dig(header, "eval", "model"), dig(header, "eval", "dataset", "sample_ids")
    system = model if isinstance(model, str) else None
    places = {str(one): place for place, one in enumerate(ids if isinstance(ids, list) else [])}
    return [
        Answered(name, tuple(text for _, texts in sorted(epochs[name].items()) for text in texts), *about[name], system)
        for name in sorted(epochs, key=lambda name: places.get(name, len(places)))
    ]


def _responses(sample: Mapping[str, Any], place: str, attachments: Mapping[str, Any]) -> tuple[str, ...]:
    failed = sample.get("error")
    if failed:
        reason = failed.get("message", failed) if isinstance(failed, dict) else failed
        raise DataError(
            f"{place} has an error ({shown(reason)}); expected an answer: run `inspect eval-retry` on the log"
        )
    choices = dig(sample, "output", "choices")
    if not isinstance(choices, list) or not choices:
        raise DataError(
            f"{place} has no output; expected at least one choice: does a solver of the task call generate()?"
        )
    texts = []
    for choice in choices:
        content = dig(choice, "message", "content")
        text = text_of(_resolved(content, attachments))
        if text is None:
            raise DataError(
                f"{place} has no text (found {describe_content(content)}); expected text: leave the sample out with "
                "`inspect eval --sample-id`"
            )
        texts.append(text)
    return tuple(texts)


def _resolved(value: Any, attachments: Mapping[str, Any]) -> Any:
    """A value with references to attachments replaced by their texts."""
    if isinstance(value, list):
        return [_resolved(part, attachments) for part in value]
    if isinstance(value, dict):
        return {name: _resolved(part, attachments) for name, part in value.items()}
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    return value
