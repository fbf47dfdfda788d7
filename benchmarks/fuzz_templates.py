"""What the fuzzer starts from: small good files of every kind, and the commands that read them."""

from __future__ import annotations

import io
import json
import random
import sqlite3
import tempfile
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nlgauge.cli.main import app

ROOT = Path(__file__).parent.parent
_WORDS = (
    *("the", "a", "cat", "dog", "key", "snow", "she", "found", "lost", "it", "in", "was", "very", "not", "and", "."),
    *(",", "!", "don't", "naïve", "犬", "e\u0301", "=1", "-x", "@y"),
)


@dataclass(frozen=True)
class Command:
    """Words of a command line, in which `{NAME}` is a mutated template; `weight` says how often it is drawn."""

    words: str
    weight: int = 1


SETS = ("sets.jsonl", "sets.csv", "sets.tsv", "sets.parquet", "sets.arrow", "stream.arrow", "wide.jsonl")
TEXTS = ("texts.jsonl", "texts.csv", "texts.parquet", "lines.txt")
LOGS = ("batch_output.jsonl", "inspect.json", "inspect.eval", "samples_task.jsonl")
INTACT = frozenset({"site.db"})
"""What is no input, and stays as it is."""
CHECKED = ("sets.jsonl", "sets.csv", "sets.tsv")
"""Files whose score a slow reader checks."""
CHECK = "score {%s} -m distinct:n=1 --format json --empty-cells keep --size own"
_METRICS = "-m distinct -m cos-sim"
COMMANDS = (
    *(Command(CHECK % name, 6) for name in CHECKED),
    *(Command(f"score {{{name}}} {_METRICS} -m distinct:over=corpus", 4) for name in (*SETS, *LOGS)),
    *(Command(f"score {{{name}}} -m distinct:over=corpus -m compression:over=corpus", 2) for name in TEXTS),
    *(Command(f"score {{{name}}} --one-set -m self-bleu -f csv --no-compare") for name in (*SETS, *TEXTS)),
    Command("score {texts.jsonl} -m bleu -m rouge-l --confidence", 2),
    Command("score {texts.csv} -m bleu --references references --per-item per.csv"),
    Command("score {lines.txt} --set-size 2 -m distinct"),
    Command("score {sets.jsonl} {sets.csv} -m distinct --resamples 100 -f markdown", 2),
    Command("compare {sets.jsonl} {sets.parquet} -m distinct --resamples 100", 2),
    Command("compare {sets.csv} -m distinct --resamples 100 -f json"),
    Command("score {sets.jsonl} -m distinct --column human --fail-if 'distinct < 0.1' -o out.json"),
    Command("plan {sets.jsonl} -m distinct"),
    Command("leaderboard {results.json} again={more.json} -f json", 2),
    Command("leaderboard {results.json} -f markdown", 3),
    Command("report {sets.jsonl} -m distinct -o card.md --study {study.json}", 1),
    Command("study content {sets.jsonl} -m distinct --resamples 100", 2),
    Command("study content {sets.csv} -m distinct --resamples 100 -f markdown"),
    Command("study decoding {sets.jsonl} -m distinct --parameter temperature --resamples 100", 2),
    Command("study ranking {sets.jsonl} -m distinct --parameter temperature"),
    Command("study stability {sets.csv} --ratings {ratings.csv}"),
    Command("study correlation {sets.csv} -m distinct --truth human --resamples 100", 2),
    Command("study correlation {sets.jsonl} -m distinct --truth score --ratings {ratings.csv} --resamples 100"),
    Command("study agreement {ratings.csv} --resamples 100", 3),
    Command("study agreement {ratings.jsonl} --resamples 100 --scores scores.csv", 2),
    Command("study agreement {wide_ratings.csv} --value 'rating_*' --resamples 100"),
    Command("study discrimination {suite.jsonl} -m ead:over=set --resamples 100"),
    Command("study discrimination {suite.jsonl} --column score --resamples 100"),
    Command("study invariance {changes.jsonl} --column score --resamples 100"),
    Command("study improvement {sets.csv} -m distinct --truth human --window 4 --stride 2"),
    Command("study huse {huse.csv} --resamples 100"),
    Command("study typicality {huse.csv} --corpus {lines.txt}"),
    Command("study length {sets.jsonl} -m distinct"),
    Command("study nuggets {sets.jsonl} -m distinct -o nuggets.json"),
    Command("perturb apply {texts.jsonl} -a typos -n 2 -o pairs.csv", 2),
    Command("perturb show {pairs.jsonl}", 2),
    Command("perturb show {pairs.csv} --html pairs.html"),
    Command("data pairs {dialogs.txt} -o out.csv", 2),
    Command("data pairs {chat.jsonl} -o out.jsonl", 2),
    Command("data judgments {mans.json} -o items.csv --ratings ratings.csv", 2),
    Command("data judgments {judged.csv} -o items.jsonl"),
    Command("run {plan.toml}", 2),
    Command("run {plan.json}"),
    Command("annotate new pilot --form {form.toml} --data {sets.jsonl} --database site.db", 2),
    Command("annotate new pilot --form abs-hds --data {sets.csv} --database site.db"),
    Command("annotate import pilot {crowd_results.csv} --from mturk --database {site.db}", 2),
    Command("annotate export pilot -o ratings.csv --database {site.db}"),
)


def templates() -> dict[str, bytes]:
    """Every template by its name."""
    draw = random.Random(7)

    def text() -> str:
        return " ".join(draw.choices(_WORDS, k=draw.randint(3, 7)))

    sets: list[dict[str, Any]] = [
        {
            "id": f"s{place}",
            "context": f"c{place // 2}",
            "system": "ab"[place % 2],
            "responses": [text() for _ in range(3)],
            "temperature": 0.5 + place % 2 / 4,
            "human": float(place % 5),
            "label": place % 2,
        }
        for place in range(16)
    ]
    wide = [{f"resp_{i}": one for i, one in enumerate(row.pop("responses"))} | row for row in map(dict, sets)]
    texts = [
        {"id": f"t{place}", "context": text(), "text": text(), "references": [text(), text()], "score": place / 2}
        for place in range(6)
    ]
    ratings = [
        {"item": f"s{item}", "rater": f"r{rater}", "question": "score", "value": draw.randint(1, 5)}
        for item in range(16)
        for rater in range(3)
    ]
    rating_columns = [
        {"item": f"i{item}", **{f"rating_{r}": draw.randint(1, 5) for r in range(3)}} for item in range(6)
    ]
    story = "She found the key. It was lost in the snow."
    suite = [
        {
            "id": f"{place}",
            "story": f"{place // 2}",
            "text": text(),
            "label": place % 2,
            "aspect": "typos",
            "score": place / 3,
        }
        for place in range(16)
    ]
    changes = [{**row, "source": "x", "pair": f"{place // 2}"} for place, row in enumerate(suite)]
    pairs: list[dict[str, Any]] = [
        {
            "id": f"p{place}",
            "aspect": "typos",
            "kind": "robustness",
            "name": "typos",
            "rule": "swap",
            "original": story,
            "perturbed": story.replace("key", "kye"),
            "changes": [{"start": 14, "end": 17, "old": "key", "new": "kye", "new_start": 14, "new_end": 17}],
            "context": None,
            "seed": 1,
            "version": 1,
            "score": 1.5,
        }
        for place in range(3)
    ]
    known = [text() for _ in range(6)]
    huse = [
        {"text": known[i % 6], "is_model": i % 2, "judgment": i % 5, "logp": -float(i), "length": 5} for i in range(40)
    ]
    judged = [dict(one, text="a text") for one in ratings]
    entries = {name: {"text": text(), "score": [3, 4, 5]} for name in ("big", "small")}
    mans = {str(i): {"prompt": text(), "gold_response": text(), "gen": entries} for i in range(3)}
    scores = {
        "name": "distinct",
        "label": "distinct",
        "value": 0.5,
        "ci": [0.4, 0.6],
        "n": 4,
        "excluded": 0,
        "parts": {"n=1": 0.5},
        "higher_is": "more diverse",
        "level": "set",
        "aspect": "form",
        "signature": "distinct|n:1-5|over:set|tok:space-nodot|case:keep|absent:zero|v:0.1.0|#|ci:0.95|by:hall-t",
        "sizes": {"3": 4},
    }
    keys = {"id": ["a", "b", "c", "d"], "context": ["1f", "2f", "3f", "4f"], "run": None}
    results = {
        "schema": "nlgauge.scores/1",
        "scores": [{**scores, "system": name, "values": [0.1, 0.5, 0.6, 0.8]} for name in ("x", "y")],
        "sets": {"x": keys, "y": keys},
    }
    study = {
        "schema": "nlgauge.study/1",
        "study": "content",
        "aspect": "content",
        "sentence": "It sees content.",
        "index": "metric",
        "columns": [{"key": "spearman", "title": "Spearman"}],
        "rows": [{"metric": "distinct", "spearman": 0.5}],
        "signature": scores["signature"],
        "notes": ["a note"],
    }
    plan = {
        "schema": "nlgauge.plan/1",
        "steps": [{"command": "score", "files": ["plain.jsonl"], "metrics": ["distinct"], "format": "json"}],
    }
    chat = [{"id": i, "messages": [{"role": r, "content": text()} for r in ("user", "assistant")]} for i in range(4)]
    logs = ROOT / "tests" / "data" / "logs"
    sample = next((logs / "lm_eval").rglob("samples_*.jsonl"))
    form = ROOT / "src" / "nlgauge" / "data" / "human" / "forms" / "abs-hds.toml"
    return {
        "site.db": _site(),
        "sets.jsonl": _lines(sets),
        "wide.jsonl": _lines(wide),
        "sets.csv": _csv(wide),
        "sets.tsv": _csv(wide, "\t"),
        "sets.parquet": _binary(sets, "write_parquet"),
        "sets.arrow": _binary(sets, "write_ipc"),
        "stream.arrow": _binary(sets, "write_ipc_stream"),
        "texts.jsonl": _lines(texts),
        "texts.csv": _csv([{**row, "references": text()} for row in texts]),
        "texts.parquet": _binary(texts, "write_parquet"),
        "lines.txt": "".join(f"{line}\n" for line in known).encode(),
        "batch_output.jsonl": (logs / "batch_output.jsonl").read_bytes(),
        "inspect.json": (logs / "inspect.json").read_bytes(),
        "inspect.eval": (logs / "inspect.eval").read_bytes(),
        "samples_task.jsonl": sample.read_bytes(),
        "ratings.csv": _csv(ratings),
        "ratings.jsonl": _lines(ratings),
        "wide_ratings.csv": _csv(rating_columns),
        "suite.jsonl": _lines(suite),
        "changes.jsonl": _lines(changes),
        "pairs.jsonl": _lines(pairs),
        "pairs.csv": _csv([{**pair, "changes": json.dumps(pair["changes"])} for pair in pairs]),
        "huse.csv": _csv(huse),
        "judged.csv": _csv(judged),
        "mans.json": json.dumps(mans).encode(),
        "dialogs.txt": (ROOT / "examples" / "dialogs.txt").read_bytes(),
        "chat.jsonl": _lines(chat),
        "results.json": json.dumps(results).encode(),
        "more.json": json.dumps(results).encode(),
        "study.json": json.dumps(study).encode(),
        "plan.json": json.dumps(plan).encode(),
        "plan.toml": b'schema = "nlgauge.plan/1"\n[[steps]]\ncommand = "score"\nfiles = ["plain.jsonl"]\n',
        "form.toml": form.read_bytes(),
        "crowd_results.csv": (ROOT / "examples" / "crowd_results.csv").read_bytes(),
    }


def _site() -> bytes:
    """A database with the study whose crowd results are among the examples."""
    with tempfile.TemporaryDirectory() as folder:
        database, data = Path(folder) / "site.db", ROOT / "examples" / "content_sets.jsonl"
        words = ["annotate", "new", "pilot", "--form", "abs-hds", "--data", str(data), "--raters", "3"]
        with redirect_stdout(io.StringIO()):
            app([*words, "--rule", "min-time:seconds=20", "--database", str(database)], standalone_mode=False)
            crowd = ["annotate", "import", "pilot", str(ROOT / "examples" / "crowd_results.csv"), "--from", "mturk"]
            app([*crowd, "--database", str(database)], standalone_mode=False)
        with closing(sqlite3.connect(database)) as store:
            store.execute("PRAGMA journal_mode = DELETE")
        return database.read_bytes()


def _lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _csv(rows: list[dict[str, Any]], separator: str = ",") -> bytes:
    return pl.DataFrame(rows).write_csv(separator=separator).encode()


def _binary(rows: list[dict[str, Any]], writer: str) -> bytes:
    file = io.BytesIO()
    getattr(pl.DataFrame(rows), writer)(file)
    return file.getvalue()
