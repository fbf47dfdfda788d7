"""Dialogs in every layout, and the pairs in them."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgauge.data.dialogs import Dialogs, Turn, read_dialogs, read_pairs, turn_pairs
from nlgauge.data.tables import Origin
from nlgauge.errors import DataError, OptionError
from tests.errors import raises

DAILY = "Hi . __eou__ Hello , you . __eou__ Bye . __eou__\n\nWho is it ? __eou__ Me . __eou__\n"
PARLAI = (
    "1 Hi .\t It\\' s me .\n3 So ?\tTwo\\nlines .\n1 S\\xc3\\xb3 ?\tNo .\t\ta|b\n2 Alone .\n\n7 New film .\tYes .\n"
    "2 Next .\tOh .\n"
)
CHAT = [
    {"messages": [{"role": "system", "content": "Be kind ."}, {"role": "user", "content": "Hi ."},
                  {"role": "agent", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo ."}]}]},
]  # fmt: skip
PLAIN: list[dict[str, Any]] = [
    {"id": "x", "dialog": ["Hi .", "Hello ."]},
    {"id": 7, "dialog": [{"speaker": "A", "text": "Hi ."}, {"speaker": "B", "text": "Bye ."}, {"text": "Oh ."}]},
]
REFERENCED = {"dialogue": [{"text": "Hi .", "responses": ["hey", "hello"]}, {"text": "Hello .", "responses": []}]}


def write(folder: Path, text: str | bytes, name: str = "dialogs.txt") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def lines(records: list[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def texts(dialogs: Dialogs) -> list[list[str]]:
    return [[turn.text for turn in turns] for turns in dialogs.dialogs]


def test_dailydialog_has_a_dialog_a_line(tmp_path: Path) -> None:
    found = read_dialogs(write(tmp_path, DAILY))
    assert found.format == "dailydialog"
    assert texts(found) == [["Hi .", "Hello , you .", "Bye ."], ["Who is it ?", "Me ."]]
    assert found.ids == ("1", "2")
    assert found.origin.lines == [1, 3]
    assert (len(found), found.turns, found.skipped) == (2, 5, 0)


def test_parlai_starts_a_dialog_where_numbers_do_not_grow(tmp_path: Path) -> None:
    found = read_dialogs(write(tmp_path, PARLAI))
    assert found.format == "parlai"
    assert texts(found) == [
        ["Hi .", "It' s me .", "So ?", "Two\nlines ."], ["Só ?", "No .", "Alone ."], ["New film .", "Yes ."],
        ["Next .", "Oh ."],
    ]  # fmt: skip
    assert found.origin.lines == [1, 3, 6, 7]


def test_parlai_without_a_prompt_has_a_reply(tmp_path: Path) -> None:
    found = read_dialogs(write(tmp_path, "1 Hi .\tHo .\n\n\t Where ?\n2 Here .\t\n"))
    assert texts(found) == [["Hi .", "Ho ."], ["Where ?", "Here ."]]


def test_chat_has_roles_and_no_instructions(tmp_path: Path) -> None:
    found = read_dialogs(write(tmp_path, lines(CHAT)))
    assert found.format == "chat"
    assert found.dialogs == ((Turn("user", "Hi ."), Turn("agent", "Hello .")),)


@pytest.mark.parametrize("key", ["dialog", "dialogue", "turns", "utterances"])
def test_json_has_texts_or_speakers(tmp_path: Path, key: str) -> None:
    records = [{"id": record["id"], key: record["dialog"]} for record in PLAIN]
    of_lines = read_dialogs(write(tmp_path, lines(records)))
    assert of_lines.format == "json"
    assert of_lines.ids == ("x", "7")
    assert of_lines.dialogs[1] == (Turn("A", "Hi ."), Turn("B", "Bye ."), Turn("", "Oh ."))
    of_list = read_dialogs(write(tmp_path, json.dumps(records, indent=1)))
    assert (of_list.dialogs, of_list.ids) == (of_lines.dialogs, of_lines.ids)
    assert of_list.origin.lines == [2, 9]
    of_one = read_dialogs(write(tmp_path, json.dumps(records[0], indent=1)))
    assert of_one.dialogs == of_lines.dialogs[:1]


def test_responses_are_references_of_the_turn_that_follows(tmp_path: Path) -> None:
    pairs = turn_pairs(read_dialogs(write(tmp_path, lines([REFERENCED]))))
    assert pairs.frame.to_dicts() == [
        {"id": "1:2", "context": "Hi .", "text": "Hello .", "references": ["hey", "hello"]}
    ]


def test_pairs_have_as_many_turns_of_context_as_asked(tmp_path: Path) -> None:
    dialogs = read_dialogs(write(tmp_path, DAILY))
    assert turn_pairs(dialogs).frame.rows() == [
        ("1:2", "Hi .", "Hello , you ."), ("1:3", "Hello , you .", "Bye ."), ("2:2", "Who is it ?", "Me ."),
    ]  # fmt: skip
    two = turn_pairs(dialogs, context_turns=2, separator=" | ").frame["context"].to_list()
    assert two == ["Hi .", "Hi . | Hello , you .", "Who is it ?"]


def test_speakers_are_marked_in_the_context_only(tmp_path: Path) -> None:
    dialogs = read_dialogs(write(tmp_path, lines(PLAIN)))
    frame = turn_pairs(dialogs, context_turns=2, speaker_marks=True).frame
    assert frame["context"].to_list() == ["Hi .", "A: Hi .", "A: Hi . B: Bye ."]
    assert frame["text"].to_list() == ["Hello .", "Bye .", "Oh ."]


@given(
    st.lists(st.lists(st.text("ab ?", min_size=1).filter(str.strip), min_size=1, max_size=5), min_size=1, max_size=5)
)
def test_every_turn_but_the_first_is_the_text_of_one_pair(said: list[list[str]]) -> None:
    turns = tuple(tuple(Turn("", text) for text in one) for one in [*said, ["x", "y"]])
    dialogs = Dialogs(turns, tuple(map(str, range(len(turns)))), Origin(), "json")
    if dialogs.skipped:
        with pytest.warns(UserWarning, match=f"{dialogs.skipped} of {len(turns)} dialogs have one turn only"):
            pairs = turn_pairs(dialogs)
    else:
        pairs = turn_pairs(dialogs)
    assert pairs.texts.to_list() == [turn.text for one in turns for turn in one[1:]]
    assert len(pairs) == dialogs.turns - len(dialogs)


def test_dialogs_of_one_turn_alone_are_an_error(tmp_path: Path) -> None:
    with raises(DataError, file="dialogs.txt"):
        turn_pairs(read_dialogs(write(tmp_path, "Hi . __eou__\n")))


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"Hi . __eou__ Ho . __eou__\nHi \xff __eou__\n", 2, "byte 0xff is not UTF-8"),
        (b'{"dialog": ["a", "b"]}\n{"dialog": ["a", "\xff"]}\n', 2, "byte 0xff is not UTF-8"),
        (b"\n \n", 1, "no records"),
        (b"Hi . __eou__ __eou__ Ho . __eou__\n", 1, "turn 2 is empty"),
        (b"Hi . __eou__ Ho . __eou__\nplain\n", 2, "has no __eou__"),
        (b"1 Hi .\tHo .\n2 \t \n", 2, "prompt and reply are empty"),
        (b"1 Hi .\tHo .\nplain\n", 2, "has no number"),
        (b"\nplain text\n", 2, "matches no format of dialogs"),
        (b'{"dialog": ["a", "b"]}\n{"dialog": ["a", " "]}\n', 2, "turn 2 is empty"),
        (b'{"dialog": ["a", 3]}\n', 1, "turn 2 has int 3; expected text"),
        (b'{"dialog": []}\n', 1, "at least one turn"),
        (b'{"dialog": ["a"], "turns": ["b"]}\n', 1, "both 'dialog' and 'turns'"),
        (b'{"dialog": ["a", "b"]}\n{"other": 1}\n', 2, "found only other"),
        (b'{"dialog": ["a", "b"]}\n{"dialog": \n', 2, "invalid JSON"),
        (b'{"dialog": ["a", "b"]}\n[1]\n', 2, "expected a JSON object"),
        (b'{"dialog": [{"text": "a", "responses": [1]}, "b"]}\n', 1, "responses to turn 1 are not texts"),
        (b'{"id": 1, "dialog": ["a", "b"]}\n{"id": "1", "dialog": ["a", "b"]}\n', 2, "is a duplicate of line 1"),
        (b'{"id": [1], "dialog": ["a", "b"]}\n', 1, "expected text or a whole number"),
        (b'{"messages": [{"role": "user", "content": "a"}, {"role": "agent", "content": null}]}\n', 1, "has no text"),
        (b'{"messages": [{"content": "a"}]}\n', 1, "message 1 has no role"),
        (b"[]\n", 1, "the list is empty"),
        (b'[{"dialog": ["a"]},\n', 1, "invalid JSON"),
    ],
)  # fmt: skip
def test_bad_input_is_named_with_its_line(tmp_path: Path, content: bytes, line: int, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_dialogs(write(tmp_path, content))
    assert caught.value.line == line


def test_empty_files_unknown_formats_and_no_context_are_refused(tmp_path: Path) -> None:
    with raises(DataError, file="dialogs.txt"):
        read_dialogs(write(tmp_path, ""))
    path = write(tmp_path, DAILY)
    with pytest.raises(OptionError, match="expected one of dailydialog, parlai, chat, json"):
        read_dialogs(path, format="xml")
    with pytest.raises(OptionError, match="0 turns of context"):
        turn_pairs(read_dialogs(path), context_turns=0)
    with pytest.raises(OptionError, match="format 'xml' of dialogs or pairs"):
        read_pairs(path, format="xml")


def test_references_must_be_there_for_all_or_none(tmp_path: Path) -> None:
    path = write(tmp_path, lines([REFERENCED, {"dialogue": ["a", "b"]}]))
    with raises(DataError, file="dialogs.txt", line=2) as caught:
        turn_pairs(read_dialogs(path))
    assert caught.value.line == 2


def test_pairs_come_from_dialogs_or_from_a_table(tmp_path: Path) -> None:
    expected = read_pairs(write(tmp_path, gzip.compress(DAILY.encode()), "dialogs.txt.gz")).frame
    assert expected.height == 3
    for name in ("pairs.jsonl", "pairs.csv", "pairs.parquet"):
        path = tmp_path / name
        assert command("data", "pairs", str(write(tmp_path, DAILY)), "-o", str(path)).returncode == 0
        assert read_pairs(path).frame.select(expected.columns).equals(expected)
        assert read_pairs(path, format="pairs").frame.height == 3
    with raises(DataError, file="texts.jsonl", column="context"):
        read_pairs(write(tmp_path, '{"text": "a"}\n', "texts.jsonl"))


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nlgauge.cli.main", *arguments], capture_output=True, text=True, check=False
    )


def test_the_command_writes_pairs(tmp_path: Path) -> None:
    path, output = write(tmp_path, DAILY + "Alone . __eou__\n"), tmp_path / "pairs.jsonl"
    done = command(
        "data", "pairs", str(path), "-o", str(output), "--context-turns", "2", "--separator", "\\n", "--limit", "2"
    )
    assert done.returncode == 0, done.stderr
    assert "2 of 3 pairs from 3 dialogs (dailydialog)" in done.stderr
    assert "1 of 3 dialogs have one turn only" in done.stderr
    assert pl.read_ndjson(output)["context"].to_list() == ["Hi .", "Hi .\nHello , you ."]
    assert command("data", "pairs", str(path), "-o", str(path)).returncode == 2
    assert command("data", "pairs", str(path), "-o", str(output), "--limit", "-1").returncode == 2


def test_research_corpora_are_read_whole(research_data: Path) -> None:
    train = read_dialogs(research_data / "dailydialog" / "dialogues_train.txt")
    assert (train.format, len(train), train.turns, train.skipped) == ("dailydialog", 11118, 87170, 0)
    films = read_dialogs(research_data / "opensubtitles" / "test.txt")
    assert (films.format, films.turns) == ("parlai", 168464)
    assert not any("\\'" in turn.text or "\\xc3" in turn.text for turns in films.dialogs for turn in turns)
    multi = turn_pairs(read_dialogs(research_data / "dailydialog_multiref" / "multireftest.json"))
    assert len(multi) == 6740
    assert (multi.frame["references"].list.len() == 5).all()
