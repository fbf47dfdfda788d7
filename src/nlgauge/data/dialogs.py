"""Dialogs of several turns in the layouts of released corpora, and their pairs of context and reply."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from nlgauge.data.columns import Reading
from nlgauge.data.reading import read_items
from nlgauge.data.roles import no_such_column
from nlgauge.data.sources.files import FORMATS, STDIN, decode_utf8, display_name, located, open_bytes, read_bytes
from nlgauge.data.sources.json_lines import BAD_JSON
from nlgauge.data.tables import Items, Origin
from nlgauge.errors import DataError, OptionError

DIALOG_FORMATS = ("dailydialog", "parlai", "chat", "json")
PAIRS = "pairs"
_EOU = "__eou__"
_TURN_KEYS = ("dialog", "dialogue", "turns", "utterances")
_INSTRUCTIONS = ("system", "developer")
_NUMBERED = re.compile(r"(\d+) (.*)", re.DOTALL)
_ESCAPES = re.compile(r"\\'|\\n|(?:\\x[0-9a-f]{2})+")
_TABLE_NAME = re.compile(r"\.(csv|tsv|parquet)(\.gz|\.zst)?$", re.IGNORECASE)
_LAYOUTS = (
    f"turns that end in {_EOU}, one dialog per line (dailydialog); numbered lines with a tab between prompt and reply "
    f"(parlai); JSON with 'messages' (chat) or with one of {', '.join(_TURN_KEYS)} (json)"
)


class Turn(NamedTuple):
    """What one speaker says; `references` are alternative replies."""

    speaker: str
    text: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dialogs:
    """Dialogs in the order of their file; `origin.lines` has the first line of each.

    A dialog without an id gets its number, from 1.
    """

    dialogs: tuple[tuple[Turn, ...], ...]
    ids: tuple[str, ...]
    origin: Origin
    format: str

    def __len__(self) -> int:
        return len(self.dialogs)

    @property
    def turns(self) -> int:
        """Turns of all dialogs together."""
        return sum(map(len, self.dialogs))

    @property
    def skipped(self) -> int:
        """Dialogs of a single turn, which have no pair."""
        return sum(len(turns) < 2 for turns in self.dialogs)


class _Found(NamedTuple):
    line: int
    id: str | None
    turns: tuple[Turn, ...]


def read_dialogs(path: str | Path, *, format: str = "") -> Dialogs:
    """Read dialogs from a file (also .gz and .zst; `-` is standard input); by default the content decides the format.

    - `dailydialog`: one dialog per line, every turn ends in `__eou__`.
    - `parlai`: lines `N prompt<TAB>reply`, or one utterance alone. A number that does not grow starts a dialog, and so
      does a blank line. `\\'` is an apostrophe, `\\n` a line break and `\\xc3\\xb3` bytes of UTF-8. An empty
      side is not a turn. Fields after the reply (reward, candidates) are left out.
    - `chat`: JSON with `messages`, each with `role` and `content`; instructions (`system`, `developer`) are not turns.
    - `json`: JSON with `dialog`, `dialogue`, `turns` or `utterances`: texts, or objects with `text` and, where known,
      `speaker`. `responses` of a turn are the references of the turn that follows, as in the multi-reference test set
      of DailyDialog (Gupta et al. 2019).

    JSON is one object per line, a list of objects or a single object, and may have an `id`. Blank lines do not count.
    """
    if format and format not in DIALOG_FORMATS:
        raise OptionError(f"dialog format '{format}'; expected one of {', '.join(DIALOG_FORMATS)}")
    name = display_name(str(path))
    with located(name):
        data = read_bytes(str(path))
        if not data.strip():
            raise DataError("the file has no records; expected dialogs", line=1)
        form = format or _detect(data, name)
        if form in ("chat", "json"):
            found = list(_json_dialogs(data, form, name))
        else:
            lines = decode_utf8(data, file=name, first_line=1).split("\n")
            found = list(_dailydialog(lines) if form == "dailydialog" else _parlai(lines))
        if not found:
            raise DataError("holds no turns; expected dialogs", line=1)
        ids = _ids(found)
    return Dialogs(tuple(one.turns for one in found), ids, Origin(name, [one.line for one in found]), form)


def turn_pairs(dialogs: Dialogs, *, context_turns: int = 1, separator: str = " ", speaker_marks: bool = False) -> Items:
    """One item for every turn after the first: `text` is the turn, `context` the preceding turns.

    Ids are `dialog:turn`, turns counted from 1. With `speaker_marks` every turn of the context that has a speaker
    begins with `speaker: `. If the dialogs have references, all replies must have them. Dialogs of one turn give no
    pair; a warning counts them.
    """
    if context_turns < 1:
        raise OptionError(f"{context_turns} turns of context; expected 1 or more")
    if dialogs.skipped == len(dialogs):
        raise DataError(
            f"all {len(dialogs)} dialogs have one turn only; expected at least one reply", file=dialogs.origin.file
        )
    if dialogs.skipped:
        warnings.warn(
            f"{dialogs.origin.file or 'dialogs'}: {dialogs.skipped} of {len(dialogs)} dialogs have one turn only and "
            "give no pair",
            stacklevel=2,
        )
    ids, contexts, texts, references, rows = [], [], [], [], []
    for row, (name, turns) in enumerate(zip(dialogs.ids, dialogs.dialogs, strict=True)):
        said = [f"{turn.speaker}: {turn.text}" if speaker_marks and turn.speaker else turn.text for turn in turns]
        for place in range(1, len(turns)):
            ids.append(f"{name}:{place + 1}")
            contexts.append(separator.join(said[max(0, place - context_turns) : place]))
            texts.append(turns[place].text)
            references.append(turns[place].references)
            rows.append(row)
    if any(references) and not all(references):
        bare = references.index(())
        message = "has no references, but others have; expected 'responses' to every turn but the last"
        raise dialogs.origin.error(rows[bare], f"turn {ids[bare]} {message}")
    lines = None if dialogs.origin.lines is None else np.asarray(dialogs.origin.lines)[rows]
    return Items.of(
        texts,
        contexts=contexts,
        references=references if any(references) else None,
        ids=ids,
        origin=Origin(dialogs.origin.file, lines),
    )


def read_pairs(
    path: str | Path,
    *,
    format: str = "",
    context_turns: int = 1,
    separator: str = " ",
    reading: Reading | None = None,
) -> Items:
    """Pairs of `context` and `text`: those of a dialog file, or a table that holds them already.

    `format` is one of dialogs, `pairs` (a table whose name tells its kind) or a kind of table (`jsonl`, `csv`, …). When
    it is not given, the name or the content tells; standard input holds dialogs. `reading` has the columns of a table.
    """
    known = (*DIALOG_FORMATS, PAIRS, *FORMATS)
    if format and format not in known:
        raise OptionError(f"format '{format}' of dialogs or pairs; expected one of {', '.join(known)}")
    if format == PAIRS or format in FORMATS or (not format and _is_table(str(path))):
        how = replace(reading or Reading(), input_format="" if format == PAIRS else format)
        items = read_items(str(path), **vars(how))
        if "context" not in items.frame.columns:
            raise no_such_column(
                "context", items.frame.columns, file=str(path), option="context", advice="expected pairs"
            )
        return items
    if reading is not None and replace(reading, input_format="") != Reading():
        raise OptionError(f"{path} holds dialogs, which have no columns; expected a table of pairs", option="text")
    return turn_pairs(read_dialogs(path, format=format), context_turns=context_turns, separator=separator)


def _is_table(path: str) -> bool:
    """Whether a file is a table of pairs: by its name, or by a first JSON object that holds no dialog."""
    if path == STDIN:
        return False
    if _TABLE_NAME.search(path):
        return True
    try:
        with open_bytes(path) as stream:
            first = stream.read().lstrip().partition(b"\n")[0]
        record = msgspec.json.decode(first)
    except BAD_JSON:
        return False
    return isinstance(record, dict) and "text" in record and not record.keys() & {"messages", *_TURN_KEYS}


def _detect(data: bytes, name: str) -> str:
    skipped = len(data) - len(data.lstrip())
    line = 1 + data.count(b"\n", 0, skipped)
    first = decode_utf8(data[skipped:].partition(b"\n")[0], file=name, first_line=line)
    if not first.startswith("{") and _EOU in first:
        return "dailydialog"
    if _NUMBERED.match(first):
        return "parlai"
    if first.startswith(("{", "[")):
        _, raw = next(_json_records(data, name))
        return "chat" if "messages" in _json_object(raw, name, line) else "json"
    raise DataError(f"'{first[:60]}' matches no format of dialogs; expected {_LAYOUTS}", line=line)


def _ids(found: Sequence[_Found]) -> tuple[str, ...]:
    lines: dict[str, int] = {}
    for number, one in enumerate(found, 1):
        id = str(number) if one.id is None else one.id
        if id in lines:
            raise DataError(
                f"the id '{id[:60]}' is a duplicate of line {lines[id]}; expected a unique id for every dialog",
                line=one.line,
            )
        lines[id] = one.line
    return tuple(lines)


def _dailydialog(lines: Sequence[str]) -> Iterator[_Found]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        with located(line=number):
            if _EOU not in line:
                expected = f"one dialog per line, with {_EOU} after every turn"
                raise DataError(f"'{line[:60]}' has no {_EOU}; expected {expected}")
            parts = line.split(_EOU)
            texts = parts if parts[-1].strip() else parts[:-1]
            turns = tuple(Turn("", _text(text, place)) for place, text in enumerate(texts, 1))
        yield _Found(number, None, turns)


def _parlai(lines: Sequence[str]) -> Iterator[_Found]:
    begin, before = 0, 0
    turns: list[Turn] = []
    for number, line in enumerate(lines, 1):
        with located(line=number):
            count, said = _parlai_line(line) if line.strip() else (0, [])
        starts = not said or (count is not None and count <= before)
        if starts and turns:
            yield _Found(begin, None, tuple(turns))
            turns = []
        begin = begin if turns else number
        before = before if count is None else count
        turns += said
    if turns:
        yield _Found(begin, None, tuple(turns))


def _parlai_line(line: str) -> tuple[int | None, list[Turn]]:
    """The number of a line and its turns; a line that lacks its number and prompt still has a reply."""
    match = _NUMBERED.match(line)
    if match is None and not line.startswith("\t"):
        raise DataError(f"'{line.strip()[:60]}' has no number; expected a line such as: 1 prompt<TAB>reply")
    sides = (match[2] if match else line).split("\t")[:2]
    texts = [text for side in sides if (text := _ESCAPES.sub(_plain, side).strip())]
    if not texts:
        raise DataError("prompt and reply are empty; expected text (delete the line)")
    return (int(match[1]) if match else None), [Turn("", text) for text in texts]


def _plain(escape: re.Match[str]) -> str:
    found = escape[0]
    if not found.startswith("\\x"):
        return "'" if found == "\\'" else "\n"
    try:
        return bytes.fromhex(found.replace("\\x", "")).decode("utf-8")
    except UnicodeDecodeError:
        return found


def _json_records(data: bytes, name: str) -> Iterator[tuple[int, bytes]]:
    """Every record and its line: members of a list, one object on several lines, or one object per line."""
    if data.lstrip().startswith(b"["):
        yield from _members(data, name)
        return
    lines = data.split(b"\n")
    first = next(i for i, line in enumerate(lines) if line.strip())
    if not _is_json(lines[first]) and _is_json(data):
        yield first + 1, data
        return
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, line


def _members(data: bytes, name: str) -> Iterator[tuple[int, bytes]]:
    decode_utf8(data, file=name, first_line=1)
    try:
        members = msgspec.json.decode(data, type=list[msgspec.Raw])
    except BAD_JSON as error:
        raise DataError(f"invalid JSON ({error}); expected a list of objects", line=1) from error
    if not members:
        raise DataError("the list is empty; expected dialogs", line=1)
    place, line = 0, 1
    for member in members:
        raw = bytes(member)
        begin = data.index(raw, place)
        line += data.count(b"\n", place, begin)
        yield line, raw
        line += raw.count(b"\n")
        place = begin + len(raw)


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except BAD_JSON:
        return False
    return True


def _json_object(raw: bytes, name: str, line: int) -> dict[str, Any]:
    decode_utf8(raw, file=name, first_line=line)
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.ValidationError as error:
        raise DataError(f"{error}; expected a JSON object with a dialog", line=line) from error
    except BAD_JSON as error:
        raise DataError(f"invalid JSON ({error}); expected one object per line", line=line) from error


def _json_dialogs(data: bytes, form: str, name: str) -> Iterator[_Found]:
    keys, read = (("messages",), _chat_turns) if form == "chat" else (_TURN_KEYS, _plain_turns)
    for line, raw in _json_records(data, name):
        with located(line=line):
            record = _json_object(raw, name, line)
            there = [key for key in keys if key in record]
            if len(there) != 1:
                found = f"both '{there[0]}' and '{there[1]}'" if there else f"only {', '.join(record) or 'no keys'}"
                raise DataError(f"found {found}; expected one of {', '.join(keys)} with the turns (format {form})")
            turns = record[there[0]]
            with located(column=there[0]):
                if not isinstance(turns, list) or not turns:
                    raise DataError("expected a list of at least one turn")
                said = tuple(read(turns))
            id = _json_id(record) if said else None
        if said:
            yield _Found(line, id, said)


def _json_id(record: Mapping[str, Any]) -> str | None:
    id = record.get("id")
    if id is not None and (isinstance(id, bool) or not isinstance(id, str | int)):
        raise DataError(f"{type(id).__name__} {str(id)[:60]}; expected text or a whole number")
    return None if id is None else str(id)


def _chat_turns(messages: Sequence[Any]) -> Iterator[Turn]:
    for place, message in enumerate(messages, 1):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise DataError(f"message {place} has no role; expected an object with role and content")
        if message["role"] in _INSTRUCTIONS:
            continue
        content = message.get("content")
        if isinstance(content, list):
            content = _text_of_parts(content)
        yield Turn(message["role"], _text(content, place))


def _text_of_parts(parts: Sequence[Any]) -> str | None:
    """The text of a content in parts, or None if a part is not text."""
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    return "".join(map(str, texts)) if all(isinstance(text, str) for text in texts) else None


def _plain_turns(turns: Sequence[Any]) -> Iterator[Turn]:
    references: tuple[str, ...] = ()
    for place, turn in enumerate(turns, 1):
        fields = turn if isinstance(turn, dict) else {"text": turn}
        speaker = fields.get("speaker")
        yield Turn("" if speaker is None else str(speaker), _text(fields.get("text"), place), references)
        responses = fields.get("responses") or []
        if not isinstance(responses, list) or not all(isinstance(one, str) for one in responses):
            raise DataError(f"the responses to turn {place} are not texts; expected a list of texts")
        references = tuple(responses)


def _text(value: Any, place: int) -> str:
    if not isinstance(value, str):
        found = "no text" if value is None else f"{type(value).__name__} {str(value)[:60]}"
        raise DataError(f"turn {place} has {found}; expected text")
    if not value.strip():
        raise DataError(f"turn {place} is empty; expected text (delete the turn)")
    return value.strip()
