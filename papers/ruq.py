"""Writes `docs/papers/ruq.md`: small chat models, RUQ, references and ratings, and the entropy filter."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path
from typing import Any

import polars as pl

from nlgauge.data.dialogs import read_pairs
from nlgauge.data.writing import write_table
from nlgauge.engine.files import write_text
from nlgauge.report.study_tables import short, show
from papers.pages import DATA, DOCS, Run, command, data_folder, do, study, table
from papers.printed import printed

OUT = DOCS / "ruq.md"
ROOT = Path(__file__).parent.parent
WORK = "build/papers/ruq"
TRAINED_ON, HELD_OUT, TESTED_ON = 3000, 300, 1500
LONGEST = 20
LEVERS = [(smoothing, dropout) for dropout in (0.0, 0.4) for smoothing in (0.0, 0.2, 0.4)]
SHAPE = "--layers 2 --width 128 --vocabulary 2048 --window 64 --batch-size 32 --epochs 10 --evaluate-every 94"
_SPACED = [
    (re.compile(r"\s*[’']\s*(t|s|m|re|ve|ll|d)\b", re.IGNORECASE), r"'\1"),
    (re.compile(r"\b(\w+) (n't)\b", re.IGNORECASE), r"\1\2"),
    (re.compile(r"\s+([.,!?;:%)])"), r"\1"),
    (re.compile(r"([($])\s+"), r"\1"),
    (re.compile(r"\s+"), " "),
]


def written(text: str) -> str:
    """A text of the corpus as people write: no spaces before marks, straight apostrophes."""
    for pattern, form in _SPACED:
        text = pattern.sub(form, text)
    return text.strip()


def prepare() -> None:
    """Pairs to train on, to hold out and to test on, spread evenly over the corpus."""
    (ROOT / WORK).mkdir(parents=True, exist_ok=True)
    files = {
        "train": ("dailydialog/dialogues_train.txt", TRAINED_ON),
        "valid": ("dailydialog/dialogues_validation.txt", HELD_OUT),
        "test": ("dailydialog_multiref/multireftest.json", TESTED_ON),
    }
    for name, (file, count) in files.items():
        frame = read_pairs(str(data_folder() / file)).frame
        spelt = frame.with_columns(
            pl.col("context", "text").map_elements(written, return_dtype=pl.String),
            *(
                pl.col(column).list.eval(pl.element().map_elements(written, return_dtype=pl.String))
                for column in ("references",)
                if column in frame.columns
            ),
        )
        words = pl.col("text").str.split(" ").list.len()
        short = spelt.filter((words <= LONGEST) & (pl.col("context").str.split(" ").list.len() <= 2 * LONGEST))
        rows = [place * short.height // count for place in range(count)]
        write_table(short[rows], ROOT / WORK / f"{name}.jsonl")


def folder(smoothing: float, dropout: float) -> str:
    """Where a model lives; it is called so, too."""
    return f"smoothing-{smoothing:g}-dropout-{dropout:g}"


def train() -> str:
    """The models, each in a folder of its own; those that are finished stay as they are. The first command."""
    commands = [
        f"train seq2seq --data {WORK}/train.jsonl --held-out {WORK}/valid.jsonl --output {WORK}/{folder(*levers)} "
        f"{SHAPE} --label-smoothing {levers[0]:g} --dropout {levers[1]:g}"
        for levers in LEVERS
    ]
    for words in commands:
        do(words)
    return commands[0]


INTRODUCTION = """# RUQ: do models prefer "I don't know."? (Khayrallah & Sedoc 2021)

Small chat models that differ in the paper's levers, SmolLM2, metrics against references and people's ratings, and the
entropy filter. Written by `make papers`. The paper's models and outputs were not released; they have five layers of
512 dimensions per side and learnt from all of DailyDialog, ours two of 128. Only the pattern is comparable.
"""


def main() -> int:
    """Train, run every study and write the page."""
    prepare()
    trained = train()
    models = " ".join(f"--model {WORK}/{folder(*levers)}" for levers in LEVERS)
    names = ",".join(folder(*levers) for levers in LEVERS)
    files = f"--train {WORK}/train.jsonl --test {WORK}/test.jsonl"
    sweep = study(f"sweep {models} --names {names} {files} --write --beam 5", figure="ruq-sweep.png")
    ranked = sorted(sweep.rows, key=lambda row: float(row["ruq_train"]))
    plots = {
        name: study(f"ruq --model {WORK}/{row['model']} {files} --beam 5", figure=f"ruq-{name}.png")
        for name, row in (("worst", ranked[0]), ("best", ranked[-1]))
    }
    parts = [
        INTRODUCTION, _levers_part(sweep, trained), _plots_part(plots), _smollm2_part(), _references_part(),
        _ratings_part(), _filter_part(),
    ]  # fmt: skip
    write_text(OUT, "\n".join(parts))
    print(f"papers: wrote {OUT}", file=sys.stderr)
    return 0


def _levers_part(sweep: Run, trained: str) -> str:
    others = [key for key in sweep.rows[0] if not key.startswith(("ruq_", "n_")) and not key.endswith("_ci")]
    others = [key for key in others if key not in ("model", "signature") and isinstance(sweep.rows[0][key], float)]
    rows = []
    for row in sweep.rows:
        cells = [f"{short(row[key], 3)} {show(row[f'{key}_ci'], 3)}" for key in ("ruq_train", "ruq_test")]
        rows.append(
            [str(row["model"]), *cells, *(f"{row[key]:.{4 if key.startswith('ttr') else 2}f}" for key in others)]
        )
    told: dict[str, Any] = printed()["ruq"]["models"]
    paper = [
        [
            name, f"{one['smoothing']:g}", f"{one['dropout']:g}", f"{one['ruq_train']:.1f}", f"{one['ruq_test']:.1f}",
            f"{one['meteor']:.1f}", " / ".join(f"{value:.1f}" for value in one["ttr"]),
        ]
        for name, one in told.items()
    ]  # fmt: skip
    return (
        f"## Label smoothing and dropout\n\n{TRAINED_ON:,} pairs of DailyDialog to train on, {HELD_OUT} to stop by, "
        f"{TESTED_ON:,} with several references to test on, none with a response of more than {LONGEST} words; spaces "
        f"before marks are removed. Six models with encoder and decoder, one after the other:\n\n```\nnlgauge {trained}"
        f"\n```\n\n{sweep.shown}\n\n"
        + table(["model", "RUQ-train", "RUQ-test", *others], rows)
        + f"\n\n{_told(sweep)}\n\n![RUQ of the models](figures/ruq-sweep.png)\n\nThe paper's two models on "
        "DailyDialog, in percent (Tables 1, 2, 8 and 9):\n\n"
        + table(["model", "smoothing", "dropout", "RUQ-train", "RUQ-test", "METEOR", "type/token 1 / 2 / 3"], paper)
        + f"\n\n{_pattern(sweep)}\n"
    )


def _told(sweep: Run) -> str:
    """The study's notes, those about a single model aside."""
    names = tuple(str(row["model"]) for row in sweep.rows)
    return "\n".join(line for line in sweep.notes.splitlines() if not line.removeprefix("- ").startswith(names))


def _pattern(sweep: Run) -> str:
    """What the rows say about the two levers, in words."""
    by = {(row["model"]): float(row["ruq_train"]) for row in sweep.rows}
    smoothing, dropout = zip(*LEVERS, strict=True)
    steps = sorted(set(smoothing))
    rising = [by[folder(b, d)] > by[folder(a, d)] for d in sorted(set(dropout)) for a, b in itertools.pairwise(steps)]
    lower = [by[folder(s, max(dropout))] < by[folder(s, min(dropout))] for s in steps]
    return (
        "In the paper the model with more smoothing and no dropout has by far the higher RUQ. Here more smoothing "
        f"goes with a higher RUQ-train in {sum(rising)} of {len(rising)} steps, and dropout with a lower one in "
        f"{sum(lower)} of {len(lower)} pairs."
    )


def _plots_part(plots: dict[str, Run]) -> str:
    parts = ["## RUQ plots of the best and the worst\n"]
    for name, run in plots.items():
        rows = [
            [str(row["split"]), str(row["generic"]), short(row["ruq"], 3), show(row["ruq_ci"], 3)] for row in run.rows
        ]
        parts.append(
            f"The {name} by RUQ-train:\n\n{run.shown}\n\n"
            + table(["split", "generic", "RUQ", "95 %"], rows)
            + f"\n\n![Mean score of tokens by position](figures/ruq-{name}.png)\n"
        )
    return "\n".join(parts)


def _smollm2_part() -> str:
    chat = "'<|im_start|>user\\n{context}<|im_end|>\\n<|im_start|>assistant\\n' --end '<|im_end|>'"
    ways = {
        "end-of-text counted": "",
        "tokens alone": "--normalise tokens",
        "a line break ends": "--end '\\n'",
        "chat template": f"--template {chat}",
    }
    rows, runs = [], []
    for title, options in ways.items():
        run = study(f"ruq --model smollm2 --test {WORK}/test.jsonl --limit 200 {options}".rstrip())
        runs.append(run.command)
        for row in run.rows[:2]:
            rows.append([title, str(row["generic"]), short(row["ruq"], 3), show(row["ruq_ci"], 3), str(row["n"])])
    return (
        "## SmolLM2\n\n```\n" + "\n".join(runs) + "\n```\n\n"
        + table(["score", "generic", "RUQ", "95 %", "prompts"], rows)
        + "\n\nRUQ depends strongly on whether the end of a text counts, and on which end that is.\n"
    )  # fmt: skip


def _references_part() -> str:
    pairs = read_pairs(str(data_folder() / "dailydialog_multiref/multireftest.json")).frame
    texts = (data_folder() / "dailydialog_multiref/hredf.txt").read_text(encoding="utf-8").splitlines()
    marked = (data_folder() / "dailydialog_multiref/test.tgt").read_text(encoding="utf-8").splitlines()
    single = [line.removeprefix("_go ").removesuffix(" _eos") for line in marked]
    several = pairs.select("id", "context", pl.Series("text", texts), "references")
    write_table(several, ROOT / WORK / "hredf-multiple.jsonl")
    one = several.with_columns(references=pl.Series([[text] for text in single]))
    write_table(one, ROOT / WORK / "hredf-single.jsonl")
    runs = {kind: command(f"score {WORK}/hredf-{kind}.jsonl -m dialog --confidence") for kind in ("single", "multiple")}
    scores = {kind: run.document["scores"] for kind, run in runs.items()}
    rows = []
    for pair in zip(scores["single"], scores["multiple"], strict=True):
        digits = 4 if pair[0]["name"].startswith("ttr") else 2
        rows.append([f"`{pair[0]['label']}`", *(f"{x['value']:.{digits}f} {show(x['ci'], digits)}" for x in pair)])
    signatures = "\n".join(score["signature"] for score in scores["multiple"])
    return (
        f"## hredf against one and against several references\n\n```\n{runs['single'].command}\n"
        f"{runs['multiple'].command}\n```\n\n{len(texts):,} outputs of one system, 95 % intervals. Type/token ratios "
        "need no references.\n\n" + table(["metric", "single", "multiple"], rows) + f"\n\n```\n{signatures}\n```\n"
    )


def _ratings_part() -> str:
    file = f"{DATA}/dailydialog_multiref/mturk_ratings.csv"
    start = f"correlation {file} --truth human_average_rating --text response -m dialog -m meteor --context context"
    runs = {
        "single": study(f"{start} --references prevgt"),
        "multiple": study(f"{start} --references all_references --references-separator '\\t'"),
    }
    rows = [
        [str(a["metric"]), *(f"{short(one['spearman'])} {show(one['spearman_ci'])}" for one in (a, b)), str(a["n"])]
        for a, b in zip(runs["single"].rows, runs["multiple"].rows, strict=True)
    ]
    return (
        f"## Agreement with people\n\n```\n{runs['single'].command}\n{runs['multiple'].command}\n```\n\n"
        "Spearman's correlation with the mean rating, 95 % intervals:\n\n"
        + table(["metric", "single reference", "multiple references", "items"], rows)
        + f"\n\n{runs['multiple'].notes}\n"
    )


def _filter_part() -> str:
    file = f"{DATA}/dailydialog/dialogues_train.txt"
    runs = {side: command(f"filter entropy {file} --side {side} --top 1000") for side in ("source", "target", "both")}
    counts = [[side, f"{run.document['kept']:,}", f"{run.document['dropped']:,}"] for side, run in runs.items()]
    top = [row for row in runs["target"].rows if row["side"] == "target"]
    shown = [
        [str(place), str(row["utterance"]), str(row["pairs"]), f"{row['entropy']:.2f}"]
        for place, row in enumerate(top, 1)
        if place <= 20 or re.search(r"\bi (don't|don ’ t|do not) know\b", row["utterance"])
    ]
    return (
        "## Entropy filter\n\n```\n" + "\n".join(run.command for run in runs.values()) + "\n```\n\n"
        + table(["side", "kept", "dropped"], counts)
        + "\n\nThe 20 targets of the highest entropy, and those further down that say they do not know:\n\n"
        + table(["rank", "utterance", "pairs", "bits"], shown)
        + "\n"
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
