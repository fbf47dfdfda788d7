"""Bad input through the real command: exit code 2, one clear line that says where, and nothing left behind."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest

from nlgauge import zstd
from nlgauge.engine.workers import available_cores
from nlgauge.scoring.scoring import score
from tests.helpers import COMMAND, Outcome, environment, nlgauge

GOOD = '{"id": "a", "responses": ["one two", "two three"]}\n'
LARGE = 40_000
WORDS = "the quick brown fox jumps over the lazy dog "


@dataclass(frozen=True)
class Case:
    """Files, a command about them, and what its one line on standard error must say."""

    name: str
    says: str
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    output: str = "values.csv"

    def run(self, folder: Path) -> tuple[Outcome, set[str], set[str]]:
        """The outcome, and what stood in the folder before and after."""
        work = folder / "work"
        work.mkdir(parents=True)
        for name, content in {"good.jsonl": GOOD, **self.files}.items():
            (work / name).write_bytes(content.encode() if isinstance(content, str) else content)
        before = {str(path) for path in work.rglob("*")}
        command = ("score", *(self.command or self.files), "--per-item", self.output, "--no-progress")
        outcome = nlgauge(*command, cwd=work, cache=folder / "cache")
        return outcome, before, {str(path) for path in [*work.rglob("*"), *(folder / "cache-scratch").iterdir()]}


def option(name: str, says: str, *arguments: str) -> Case:
    """Good data with bad options."""
    return Case(name, says, command=("good.jsonl", *arguments))


def record(name: str, says: str, bad: str) -> Case:
    """A bad record after a good one."""
    return Case(name, f"a.jsonl, {says}", {"a.jsonl": GOOD + bad})


def output(name: str, says: str, place: str) -> Case:
    """Good data and a bad place for the result."""
    return Case(name, says, command=("good.jsonl",), output=place)


def lines(*records: str) -> str:
    return "".join(record + "\n" for record in records)


def good_lines(count: int) -> str:
    return lines(*(json.dumps({"responses": [WORDS + str(i), WORDS * 2]}) for i in range(count)))


TEXT = lines("one", "two", "three").encode()
DAMAGED = bytearray(gzip.compress(TEXT * 100))
DAMAGED[len(DAMAGED) // 2] ^= 0xFF
FAR = good_lines(4000) + '{"responses": ["a", }\n' + good_lines(500)

FILES = [
    Case("missing file", "none.jsonl: no such file", command=("none.jsonl",)),
    Case("missing file of a named format", "none.dat: no such file", command=("none.dat", "--input-format", "jsonl")),
    Case("second file missing", "none.jsonl: no such file", command=("good.jsonl", "none.jsonl")),
    Case("folder", "..: this is a folder; expected a file", command=("..",)),
    Case("empty file", "a.jsonl: the file is empty", {"a.jsonl": ""}),
    Case("empty gzip", "a.jsonl.gz: the file has no records", {"a.jsonl.gz": gzip.compress(b"")}),
    Case("empty standard input", "standard input: is empty; expected data", command=("-",)),
    Case("empty standard input as CSV", "standard input: is empty", command=("-", "--input-format", "csv")),
    Case(
        "metric in the place of a file",
        "self-bleu:n=3: no such file (a metric needs its own -m: -m self-bleu:n=3)",
        command=("good.jsonl", "-m", "distinct", "self-bleu:n=3"),
    ),
    Case(
        "result of nlgauge score",
        "a.json: is a result of nlgauge score, which nlgauge leaderboard reads; expected texts",
        {"a.json": json.dumps({"scores": [{"name": "distinct", "signature": "distinct|n:1"}]}, indent=2)},
    ),
    Case("standard input twice", "duplicate file '-' (standard input)", command=("-", "-")),
    Case("only blank lines of JSON", "a.jsonl: the file has no records", {"a.jsonl": "\n \n\t\r\n\n"}),
    Case("only blank lines of CSV", "a.csv, line 1: no header; expected column names", {"a.csv": "\n\n\n"}),
    Case("header alone", "a.csv: the file has no records", {"a.csv": "resp_0,resp_1\n"}),
    Case("unknown format", "a.xml: cannot tell the format from the name; expected one of .jsonl", {"a.xml": "<a/>"}),
    Case("JSON array by name", "a.json: cannot tell the format", {"a.json": "[]"}),
    Case("JSON array", "a.jsonl, line 1: found a JSON array; expected one JSON object per line", {"a.jsonl": "[{}]"}),
    Case("JSON value", "expected a JSON object such as", {"a.jsonl": GOOD + "5\n"}),
    Case("invalid JSON", "a.jsonl, line 3: invalid JSON", {"a.jsonl": GOOD + "\n{responses: []}\n"}),
    Case("cut JSON", "a.jsonl, line 2: invalid JSON", {"a.jsonl": GOOD + '{"responses": ["a'}),
    Case(
        "invalid JSON far into a file of many chunks",
        "far.jsonl, line 4001: invalid JSON",
        {"far.jsonl": FAR},
        ("far.jsonl", "--chunk-mb", "0.1"),
    ),
    Case(
        "invalid JSON far into a file read by two processes",
        "far.jsonl, line 4001: invalid JSON",
        {"far.jsonl": FAR},
        ("far.jsonl", "--chunk-mb", "0.1", "--workers", "2"),
    ),
    Case("bad UTF-8 in JSON", "a.jsonl, line 2: byte 0xe9 is not UTF-8", {"a.jsonl": GOOD.encode() + b'{"\xe9": 1}'}),
    Case("bad UTF-8 in CSV", "a.csv, line 3: byte 0xff is not UTF-8", {"a.csv": b"resp_0,resp_1\na,b\nc,\xff\n"}),
    Case(
        "bad UTF-8 in text",
        "a.txt, line 4: byte 0xc3 is not UTF-8; expected UTF-8 text (convert the file first)",
        {"a.txt": TEXT + b"\xc3(\n"},
        ("a.txt", "--set-size", "2"),
    ),
    Case("UTF-16", "a.jsonl: looks like UTF-16; expected UTF-8", {"a.jsonl": GOOD.encode("utf-16")}),
    Case(
        "lone surrogate",
        "a.jsonl, line 1: the escape \\ud83d is half of a surrogate pair",
        {"a.jsonl": r'{"responses": ["fine \ud83d\ude00 and \\ud83d", "half \ud83d here"]}'},
    ),
    Case(
        "truncated gzip",
        "a.txt.gz: the gzip data is truncated",
        {"a.txt.gz": gzip.compress(TEXT)[:-9]},
        ("a.txt.gz", "--one-set"),
    ),
    Case(
        "damaged gzip",
        "a.txt.gz: the gzip data is truncated or damaged",
        {"a.txt.gz": bytes(DAMAGED)},
        ("a.txt.gz", "--one-set"),
    ),
    Case(
        "truncated zstandard",
        "a.txt.zst: the zstandard data is truncated",
        {"a.txt.zst": zstd.compress(TEXT)[:-3]},
        ("a.txt.zst", "--one-set"),
    ),
    Case("no Parquet", "a.parquet: is not a readable Parquet file", {"a.parquet": GOOD}),
]

RECORDS = [
    option(
        "missing column",
        "good.jsonl, line 1, column 'answers': no such column; found id, responses",
        "--responses",
        "answers",
    ),
    Case("no usual column", "a.csv: found columns x, y; expected 'responses'", {"a.csv": "x,y\n1,2\n"}),
    Case(
        "numbered columns of another name",
        "columns answer_1 … answer_3 look like responses: --responses answer",
        {"a.csv": "topic_1,answer_1,answer_2,answer_3\nx,a,b,c\n"},
    ),
    Case(
        "numbered columns of two kinds",
        "or 'text'; name another column with --responses COL or --text COL",
        {"a.csv": "q_1,q_2,answer_1,answer_2\nx,y,a,b\n"},
    ),
    Case(
        "semicolons",
        "a.csv, line 1: the header has semicolons and no commas; expected commas: save it so, or replace them",
        {"a.csv": "resp_0;resp_1\na, b;c\n"},
    ),
    option(
        "references of sets",
        "good.jsonl holds response sets ('responses'), and references belong to single texts; expected a column "
        "of texts: name it with --text COL",
        "--references",
        "id",
    ),
    option("missing value column", "good.jsonl, column 'human': no such column", "--column", "human"),
    Case(
        "value that is no number",
        "a.csv, column 'human': set '3' has 'many'; expected a number",
        {"a.csv": "resp_0,human\na,1\nb,many\n"},
        ("a.csv", "--column", "human"),
    ),
    record("empty set", "line 2, column 'responses': the set of responses is empty", '{"id": 2, "responses": []}'),
    record("text for a set", "line 2, column 'responses': 'a b'; expected a list", '{"id": 2, "responses": "a b"}'),
    record(
        "number for a response",
        "line 2, column 'responses': response 1 is int 5; expected text",
        '{"id": 2, "responses": ["a", 5]}',
    ),
    record(
        "null for a response",
        "line 2, column 'responses': response 0 is null; expected text",
        '{"id": 2, "responses": [null]}',
    ),
    record("null for an id", "line 2, column 'id': the id is null", '{"id": null, "responses": ["a"]}'),
    Case(
        "ragged CSV",
        "a.csv, line 3: 2 fields; expected 3 as in the header",
        {"a.csv": "resp_0,resp_1,resp_2\na,b,c\nd,e\n"},
    ),
    Case(
        "ragged JSON",
        "a.jsonl, line 2, column 'resp_1': ragged row: this response is missing; expected 2 (or --empty-cells drop)",
        {"a.jsonl": lines('{"resp_0": "a", "resp_1": "b"}', '{"resp_0": "c"}')},
    ),
    Case(
        "longer JSON row",
        "a.jsonl, line 2, column 'resp_1': the first record has no such column",
        {"a.jsonl": lines('{"resp_0": "a"}', '{"resp_0": "b", "resp_1": "c"}')},
    ),
    Case(
        "empty wide cell",
        "a.csv, line 3, column 'resp_1': the cell is empty",
        {"a.csv": "resp_0,resp_1\na,b\nc,\n"},
    ),
    Case("quote never closed", "a.csv, line 3: bad CSV", {"a.csv": 'resp_0,resp_1\na,b\nc,"d\ne,f\n'}),
    Case(
        "lines left over",
        "a.txt, line 3: ends in the middle of a set",
        {"a.txt": TEXT},
        ("a.txt", "--set-size", "2"),
    ),
    Case(
        "one response for cos-sim",
        "a.jsonl: set '1' has 1 response; cos-sim needs at least 2",
        {"a.jsonl": '{"responses": ["a"]}'},
        ("a.jsonl", "-m", "cos-sim"),
    ),
    Case(
        "one response for self-bleu",
        "a.jsonl: set 'b' has 1 response; self-bleu needs at least 2",
        {"a.jsonl": GOOD + '{"id": "b", "responses": ["a"]}'},
        ("a.jsonl", "-m", "self-bleu"),
    ),
    Case(
        "single texts for a set metric",
        "a.txt: the file holds single texts, and distinct measures sets",
        {"a.txt": TEXT},
        ("a.txt", "-m", "distinct"),
    ),
]

OPTIONS = [
    option("unknown metric", "unknown metric 'distinkt'; did you mean 'distinct'?", "-m", "distinkt"),
    option("unknown metric option", "unknown option of distinct 'caes'; did you mean", "-m", "distinct:caes=lower"),
    option("bad choice", "distinct:over=corpse; expected one of set, corpus", "-m", "distinct:over=corpse"),
    option("bad orders", "n-gram orders '0-5'; expected", "-m", "distinct:n=0-5"),
    option("option without a value", "'n' in 'distinct:n'; expected option=value", "-m", "distinct:n"),
    option("metric twice", "duplicate metric: distinct|", "-m", "distinct", "-m", "distinct:n=1-5"),
    option("sketch of a set", "count=hll-16 requires over=corpus", "-m", "distinct:over=set,count=hll-16"),
    option("sketch without a corpus metric", "--sketch requires a corpus-level count", "-m", "distinct", "--sketch"),
    option("sets and texts", "name one of them", "--responses", "responses", "--text", "text"),
    option("set size for JSON", "good.jsonl is read as jsonl; --set-size requires plain text", "--set-size", "2"),
    option("bad aligned file", "--aligned contexts.txt; expected PART=FILE", "--aligned", "contexts.txt"),
    option("unknown input format", "--input-format xml; expected one of jsonl, csv", "--input-format", "xml"),
    option("unknown output format", "unknown format 'xml'. Known: csv, json, latex", "--format", "xml"),
    option("misspelt output format", "unknown format 'markdwn'; did you mean 'markdown'?", "--format", "markdwn"),
    option("table as PDF", "t.pdf: a table cannot be '.pdf'; expected .txt, .json", "-o", "t.pdf"),
    option("page of scores", "nlgauge report writes PDF and HTML", "-o", "t.HTML"),
    option("two metrics in one", "repeat -m: -m distinct -m self-bleu", "-m", "distinct,self-bleu"),
    option("bad chunk size", "--chunk-mb nan; expected above 0", "--chunk-mb", "nan"),
    option("bad number of workers", "--workers -1; expected 0 (automatic) or more", "--workers", "-1"),
    option("bad level", "--level 95.0; expected at least 0.5", "--confidence", "--level", "95"),
    option("no values of sets", "--per-item requires one that has", "-m", "distinct:over=corpus"),
]

OUTPUTS = [
    output("output folder missing", "none/values.csv: the folder 'none' does not exist; create it", "none/values.csv"),
    output("output under a file", "the folder 'good.jsonl' is not a folder; choose another", "good.jsonl/values.csv"),
    output("output not writable", "/proc/values.csv: the folder '/proc' is not writable", "/proc/values.csv"),
    output("output of unknown format", "--per-item values.xlsx; expected a name ending in .jsonl", "values.xlsx"),
    output("output over the input", "good.jsonl: is one of the input files; choose another name", "./good.jsonl"),
]

CASES = [*FILES, *RECORDS, *OPTIONS, *OUTPUTS]
Runs = dict[str, Future[tuple[Outcome, set[str], set[str]]]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """All cases, on every core: starting the command is most of the time that it takes."""
    with ThreadPoolExecutor(available_cores()) as pool:
        yield {case.name: pool.submit(case.run, tmp_path_factory.mktemp("case")) for case in CASES}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input_is_one_clear_line_and_leaves_nothing(case: Case, runs: Runs) -> None:
    outcome, before, after = runs[case.name].result()
    assert outcome.code == 2, outcome.err
    assert outcome.out == ""
    assert outcome.err.startswith("nlgauge: error: ")
    assert outcome.err.count("\n") == 1
    assert case.says in outcome.err
    assert after == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bogus",), "No such option '--bogus'"),
        (("--resamples", "many"), "Invalid value for '--resamples'"),
        (("--empty-cells", "skip"), "Invalid value for '--empty-cells': expected one of error, keep, drop, drop-set"),
        ((), "Missing argument 'FILE...'"),
    ],
    ids=["unknown option", "bad value", "bad choice", "no file"],
)
def test_bad_usage_says_so_after_a_line_on_usage(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    outcome = nlgauge("score", *arguments, cwd=tmp_path, cache=tmp_path / "cache")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("Usage: ")
    assert message in outcome.err.splitlines()[-1]


def test_an_output_that_is_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_text(GOOD)
    (tmp_path / "values.csv").mkdir()
    outcome = nlgauge("score", "good.jsonl", "--per-item", "values.csv", cwd=tmp_path, cache=tmp_path / "cache")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "nlgauge: error: values.csv: is a folder; expected the name of a file\n"
    assert list((tmp_path / "values.csv").iterdir()) == []


def test_closed_standard_input_is_an_error(tmp_path: Path) -> None:
    command = ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "score", "-"]
    done = subprocess.run(command, env=environment(tmp_path / "cache"), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("nlgauge: error: standard input: is closed")


MEASURED = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[2:])
_, status, usage = os.wait4(child.pid, 0)
open(sys.argv[1], "w").write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("packing", ["", ".zst"])
def test_a_line_of_100_mb_is_refused_in_bounded_memory(tmp_path: Path, packing: str) -> None:
    path = tmp_path / f"long.jsonl{packing}"
    with path.open("wb") as raw:
        packer = zstd.ZstdCompressor()
        for text in (GOOD.encode() + b'{"id": "b", "responses": ["', *[b"word " * 200_000] * 100, b'"]}\n'):
            raw.write(packer.compress(text) if packing else text)
        if packing:
            raw.write(packer.flush())
    peak = tmp_path / "peak"
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(peak), *COMMAND, "score", path.name, "--per-item", "values.csv"],
        cwd=tmp_path,
        env=environment(tmp_path / "cache"),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"{path.name}, line 2: a record is longer than 64 MB; expected one record per line" in done.stderr
    assert not (tmp_path / "values.csv").exists()
    assert int(peak.read_text()) < 1_000_000  # kB


LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[tuple[Path, list[str]]]:
    """A folder of 64 kB, with what to put before a command; a limit on file sizes where mounting is not allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    yield folder, [] if mounted else [sys.executable, "-c", LIMITED]
    if mounted:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path, full_disk: tuple[Path, list[str]]) -> None:
    folder, before_command = full_disk
    rows = ({"id": f"{i * 2654435761 % 2**32:x}", "responses": ["a b", "b c"]} for i in range(20_000))
    (tmp_path / "many.jsonl").write_text(lines(*map(json.dumps, rows)))
    for suffix in ("csv", "parquet"):
        target = folder / f"values.{suffix}"
        done = subprocess.run(
            [
                *before_command,
                *COMMAND,
                "score",
                "many.jsonl",
                "-m",
                "distinct",
                "--no-cache",
                "--per-item",
                str(target),
            ],
            cwd=tmp_path,
            env=environment(tmp_path / "cache"),
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"nlgauge: error: {target}: cannot be written: ")
        assert done.stderr.count("\n") == 1
        assert list(folder.iterdir()) == []


def test_a_result_that_cannot_be_printed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_text(GOOD)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "score", "good.jsonl", "-m", "distinct"],
            cwd=tmp_path,
            env=environment(tmp_path / "cache"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr == "nlgauge: error: reading or writing failed: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("processes", ["1", "2"])
def test_ctrl_c_leaves_no_output_and_keeps_finished_work(tmp_path: Path, processes: str) -> None:
    work, cache = tmp_path / "work", tmp_path / "cache"
    work.mkdir()
    (work / "large.jsonl").write_text(good_lines(LARGE))
    command = (
        "score", "large.jsonl", "-m", "self-bleu", "--per-item", "values.csv", "--format", "json", "--chunk-mb", "0.3",
        "--no-progress",
    )  # fmt: skip
    run = subprocess.Popen(
        [*COMMAND, *command, "--workers", processes],
        cwd=work,
        env=environment(cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while len(list(cache.rglob("*.entry"))) < 4:
        with pytest.raises(subprocess.TimeoutExpired):
            run.wait(timeout=0.02)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to the workers too
    out, err = run.communicate()
    assert run.returncode == 130
    assert out == ""
    assert err == "nlgauge: error: interrupted; no output was completed; the same command resumes from finished work\n"
    assert [path.name for path in work.iterdir()] == ["large.jsonl"]
    assert list((tmp_path / "cache-scratch").iterdir()) == []
    kept = {path for path in cache.rglob("*") if path.is_file()}
    assert kept
    # A worker that is killed while it writes leaves a file that nobody reads.
    assert all(path.suffix == ".entry" or path.name.startswith("tmp") for path in kept)

    again = nlgauge(*command, cwd=work, cache=cache)
    assert (again.code, again.err) == (0, "")
    assert kept < {path for path in cache.rglob("*") if path.is_file()}
    assert pl.read_csv(work / "values.csv").height == LARGE
    expected = score(str(work / "large.jsonl"), ["self-bleu"], cache=False)
    assert json.loads(again.out)["scores"] == [entry.to_dict() for entry in expected]


def test_unusual_but_valid_text_is_scored_as_it_is(tmp_path: Path) -> None:
    sets = {
        "NUL": ["a\0b c", "a\0b d"],
        "right to left": ["שלום עולם", "שלום לך"],
        "emoji": ["👩‍🚀 🏳️‍🌈 👍🏽", "👩‍🚀 👍🏽"],
        "combining": ["e\u0301 x", "é x"],
        "line separator": ["a\u2028b c", "a b"],
    }
    rows = [{"id": id, "responses": texts} for id, texts in sets.items()]
    escaped = "".join(json.dumps(row) + "\n" for row in rows)
    assert "\\ud83d\\udc69" in escaped
    assert "\\u0000" in escaped
    (tmp_path / "escaped.jsonl").write_text(escaped)
    plain = "\ufeff" + "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (tmp_path / "plain.jsonl").write_text(plain, encoding="utf-8")
    outcome = nlgauge(
        "score", "escaped.jsonl", "plain.jsonl", "-m", "distinct:n=1", "--per-item", "values.jsonl",
        cwd=tmp_path, cache=tmp_path / "cache",
    )  # fmt: skip
    assert (outcome.code, outcome.err) == (0, "")
    values = pl.read_ndjson(tmp_path / "values.jsonl")
    expected = {"NUL": 3 / 4, "right to left": 3 / 4, "emoji": 3 / 5, "combining": 3 / 4, "line separator": 1.0}
    for system in ("escaped", "plain"):
        mine = values.filter(pl.col("system") == system)
        assert dict(zip(mine["id"], mine["distinct"], strict=True)) == pytest.approx(expected)
