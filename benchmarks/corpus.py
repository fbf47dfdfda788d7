"""The text that everything is measured on: made here, seeded, the same on every machine.

Words follow Zipf's law. More often than not a word is followed by one of its few habitual successors, so that phrases
recur as they do in real text and long n-grams are neither all different nor all alike.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count, islice, pairwise
from pathlib import Path
from typing import Any, TextIO

import numpy as np

Array = np.ndarray[Any, Any]

RECIPE = "zipf-1"  # part of every file name: change it when the text changes
SEED = 20240607
VOCABULARY = 100_000
EXPONENT = 1.0
TOKENS_PER_TEXT = 15
TEXTS_PER_SET = 10
_SUCCESSORS = 6
_HABIT = 0.6
_BLOCK = 50_000
_LONGEST_LINE = 10_000
_LENGTHS = {2: 0.01, 3: 0.04, 4: 0.1, 5: 0.15, 6: 0.2, 7: 0.2, 8: 0.18, 9: 0.12}


def texts_file(folder: Path, texts: int) -> Path:
    """A file of plain text, one text per line."""

    def write(out: TextIO) -> None:
        out.writelines(f"{text}\n" for text in islice(_texts(), texts))

    return _made(folder / f"{RECIPE}-{texts}.txt", write)


def sets_file(folder: Path, texts: int) -> Path:
    """The same texts as JSON lines of response sets."""

    def write(out: TextIO) -> None:
        out.writelines(islice(_set_lines(), texts // TEXTS_PER_SET))

    return _made(folder / f"{RECIPE}-{texts}.jsonl", write)


def repeated_sets_file(folder: Path, texts: int, repeated: float) -> Path:
    """Response sets of everyday words; the given share of the texts are repeats of others, anywhere in the file."""

    def write(out: TextIO) -> None:
        rng = np.random.default_rng(SEED)
        words = sorted({word for row in _examples() for text in row["responses"] for word in text.split()})
        distinct = texts - round(texts * repeated)
        made = {" ".join(rng.choice(words, rng.integers(6, 19))): None for _ in range(distinct)}
        pool = list(made)
        order = rng.permutation([*range(len(pool)), *rng.integers(len(pool), size=texts - len(pool)).tolist()])
        for start in range(0, texts, TEXTS_PER_SET):
            responses = [pool[i] for i in order[start : start + TEXTS_PER_SET]]
            out.write(json.dumps({"id": str(start), "responses": responses}) + "\n")

    return _made(folder / f"{RECIPE}-repeated-{repeated:g}-{texts}.jsonl", write)


def prompts_file(folder: Path, prompts: int, responses: int) -> Path:
    """Contexts of the example files after two that are answered already, each with responses of both systems."""

    def write(out: TextIO) -> None:
        answers: dict[str, dict[str, None]] = {}
        for row in _examples():
            answers.setdefault(row["context"], {}).update(dict.fromkeys(row["responses"]))
        shown = [f"{context} {next(iter(texts))}\n" for context, texts in answers.items()]
        for i, (context, texts) in enumerate(list(answers.items())[-prompts:], start=len(answers) - prompts):
            prompt = shown[i - 1] + shown[i - 2] + context
            out.write(json.dumps({"prompt": prompt, "responses": [f" {text}" for text in texts][:responses]}) + "\n")

    return _made(folder / f"prompts-{prompts}-{responses}.jsonl", write)


def pairs_file(folder: Path, pairs: int) -> Path:
    """Prompts of a dialog with their replies: DailyDialog's where `NLGAUGE_DATA` has it, else made of the examples."""
    place = os.environ.get("NLGAUGE_DATA")
    found = _dailydialog(Path(place) / "dailydialog" / "dialogues_test.txt") if place else _example_pairs()

    def write(out: TextIO) -> None:
        out.writelines(json.dumps({"context": a, "text": b}) + "\n" for a, b in islice(found, pairs))

    return _made(folder / f"pairs-{'dailydialog' if place else 'examples'}-{pairs}.jsonl", write)


def _dailydialog(file: Path) -> Iterator[tuple[str, str]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        yield from pairwise(turn.strip() for turn in line.split("__eou__") if turn.strip())


def _example_pairs() -> Iterator[tuple[str, str]]:
    """Every context after every other one that is answered already."""
    rows = list({row["context"]: row for row in _examples()}.values())
    for step in range(1, len(rows)):
        for i, row in enumerate(rows):
            before, replies = rows[(i + step) % len(rows)], row["responses"]
            yield f"{before['context']} {before['responses'][0]}\n{row['context']}", replies[step % len(replies)]


def _examples() -> list[dict[str, Any]]:
    files = [Path(__file__).parent.parent / "examples" / f"system_{name}.jsonl" for name in "ab"]
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def large_sets_file(folder: Path, size: int) -> Path:
    """JSON lines of response sets, ended with the line that reaches `size` bytes."""

    def write(out: TextIO) -> None:
        written = 0
        for line in _set_lines():
            written += out.write(line)
            if written >= size:
                return

    path = folder / f"{RECIPE}-{size}-bytes.jsonl"
    if path.exists() and not size <= path.stat().st_size < size + _LONGEST_LINE:
        path.unlink()
    return _made(path, write)


def _made(path: Path, write: Callable[[TextIO], None]) -> Path:
    """The file, written if it is not there; under another name until it is whole."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.unfinished")
        with unfinished.open("w", encoding="ascii", newline="\n") as out:
            write(out)
        unfinished.rename(path)
    return path


def _set_lines() -> Iterator[str]:
    texts = _texts()
    for number in count():
        yield json.dumps({"id": f"set-{number}", "responses": list(islice(texts, TEXTS_PER_SET))}) + "\n"


def _texts() -> Iterator[str]:
    """Endless; a longer file starts with the texts of a shorter one."""
    words, cumulative, successors = _language()
    for block in count():
        rng = np.random.default_rng([SEED, 1, block])
        ids = np.searchsorted(cumulative, rng.random((_BLOCK, TOKENS_PER_TEXT)))
        follows = rng.random(ids.shape) < _HABIT
        which = rng.integers(_SUCCESSORS, size=ids.shape)
        for i in range(1, TOKENS_PER_TEXT):
            ids[:, i] = np.where(follows[:, i], successors[ids[:, i - 1], which[:, i]], ids[:, i])
        yield from map(" ".join, words[ids].tolist())


@cache
def _language() -> tuple[Array, Array, Array]:
    """The words from frequent to rare, their cumulative probabilities, and the habitual successors of each."""
    rng = np.random.default_rng([SEED, 0])
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        letters = rng.choice(list("etaoinshrdlucmfwypvbgkqjxz"), size=(VOCABULARY, max(_LENGTHS)))
        lengths = rng.choice(list(_LENGTHS), size=VOCABULARY, p=list(_LENGTHS.values()))
        words.update(dict.fromkeys("".join(row[:k]) for row, k in zip(letters.tolist(), lengths, strict=True)))
    chosen = list(words)[:VOCABULARY]
    effort = np.array([len(word) for word in chosen]) + rng.normal(0, 1.5, VOCABULARY)
    ranked = np.array(chosen, dtype=object)[np.argsort(effort)]
    weights = np.arange(1, VOCABULARY + 1) ** -EXPONENT
    cumulative = np.cumsum(weights / weights.sum())
    cumulative[-1] = 1.0
    successors = np.searchsorted(cumulative, rng.random((VOCABULARY, _SUCCESSORS)))
    itself = successors == np.arange(VOCABULARY)[:, None]
    successors[itself] = (successors[itself] + 1) % VOCABULARY
    return ranked, cumulative, successors
