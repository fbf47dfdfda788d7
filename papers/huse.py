"""Writes `docs/papers/huse.md`: HUSE on the authors' summarization data, and a run with no human at hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from nlgauge.data.dialogs import read_dialogs, turn_pairs
from nlgauge.data.human.crowd import read_crowd
from nlgauge.engine.files import write_text
from nlgauge.report.study_tables import short, show
from papers.pages import DATA, DOCS, Run, beside, data_folder, study, table
from papers.printed import printed

OUT = DOCS / "huse.md"
ROOT = Path(__file__).parent.parent
WORK = "build/papers/huse"
CLEAN = f"{DATA}/huse/summary_clean.csv"
RAW = f"{DATA}/huse/summarization_raw_outputs.csv"
COLUMNS = "--judgment HumanJudgement --logp ModelProbability --length LengthOfUtterance --is-model Label"
TEMPLATE = "A: {context}\\nB:"
CONTEXTS = 200
GENERATE = {
    "smollm2": f"generate {WORK}/contexts.jsonl -o {WORK}/smollm2.jsonl --model smollm2 --sweep temperature=0.7,1.0 "
    f"--responses-per-set 1 --max-new-tokens 30 --template '{TEMPLATE}'",
    "bm25": f"generate {WORK}/contexts.jsonl -o {WORK}/bm25.jsonl --model bm25:{WORK}/train.jsonl "
    "--sweep temperature=0.7,1.0 --responses-per-set 1",
}

INTRODUCTION = """# HUSE: human and statistical evaluation in one score (Hashimoto, Zhang & Liang 2019)

How to redo what the released data allows, what comes out, and how it compares with the print. Written by `make papers`.
The data is that of summarization at temperature 1 (Table 1, first column): 100 references and 100 summaries of the
model, judged by 20 crowd workers each. A number in **bold** differs from the printed one, which stands beside it.
"""


def main() -> int:
    """Run every study and write the page."""
    clean = study(f"huse {CLEAN} {COLUMNS} --tasks summarization", figure="huse.png")
    raw = study(f"huse {RAW} --tasks summarization")
    raters = study(f"huse {RAW} --tasks summarization --resample-raters")
    total = study(f"huse {CLEAN} {COLUMNS} --tasks summarization --total")
    stability = study(
        f"huse-stability {RAW} --tasks summarization --items 20,40,60,80,100,120,140,160,180,200 "
        "--raters 2,4,6,8,10,12,14,16,18,20",
        figure="huse-stability.png",
    )
    prepare()
    tradeoff = study(
        f"tradeoff {WORK}/items.jsonl --by system --is-model source --model smollm2 --template '{TEMPLATE}' "
        "--judge relevance:minilm",
        figure="tradeoff.png",
    )
    asked = study(
        f"tradeoff {WORK}/items.jsonl --by system --is-model source --model smollm2 --template '{TEMPLATE}' "
        "--judge llm:smollm2"
    )
    parts = [
        INTRODUCTION, _scores_part(clean, raw, raters, total), _stability_part(stability), _run_part(tradeoff, asked)
    ]  # fmt: skip
    write_text(OUT, "\n".join(parts))
    print(f"papers: wrote {OUT}", file=sys.stderr)
    return 0


def prepare() -> None:
    """Contexts and references of DailyDialog's test split, pairs of its training split, and responses of four "
    "systems."""
    folder = ROOT / WORK
    folder.mkdir(parents=True, exist_ok=True)
    test = [pair for pair in _pairs("dialogues_test.txt", first_only=True) if 2 <= len(pair[1].split()) <= 25]
    once = list({a: (a, b) for a, b in reversed(test)}.values())[::-1]
    contexts = [{"id": f"d{i}", "context": a, "text": b} for i, (a, b) in enumerate(once[:CONTEXTS])]
    train = [{"context": a, "text": b} for a, b in _pairs("dialogues_train.txt", first_only=False)]
    for name, rows in (("contexts", contexts), ("train", train)):
        write_text(folder / f"{name}.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    items = [{**row, "id": f"reference {row['id']}", "source": "reference", "system": "reference"} for row in contexts]
    for name, command in GENERATE.items():
        if not (folder / f"{name}.jsonl").exists():
            print(f"papers: nlgauge {command}", file=sys.stderr, flush=True)
            words = command.replace(f"'{TEMPLATE}'", "TEMPLATE").split()
            words = [TEMPLATE if word == "TEMPLATE" else word for word in words]
            subprocess.run([sys.executable, "-m", "nlgauge.cli.main", *words], cwd=ROOT, check=True)
        for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if text := row["responses"][0].strip():
                system = f"{name} @{row['temperature']:g}"
                items.append(
                    {
                        "id": f"{system} {row['context_id']}", "context": row["context"], "text": text,
                        "source": "model", "system": system,
                    }
                )  # fmt: skip
    write_text(folder / "items.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in items))


def _pairs(file: str, *, first_only: bool) -> list[tuple[str, str]]:
    """Pairs of turns that follow each other: all, or the first of each dialog."""
    frame = turn_pairs(read_dialogs(data_folder() / "dailydialog" / file)).frame
    if first_only:
        frame = frame.filter(frame["id"].str.ends_with(":2"))
    return list(zip(frame["context"].to_list(), frame["text"].to_list(), strict=True))


def _scores_part(clean: Run, raw: Run, raters: Run, total: Run) -> str:
    wanted: dict[str, Any] = printed()["huse"]["table1"]["summarization"]
    rows = []
    for title, run in (
        ("clean table", clean), ("raw crowd export", raw), ("raw, raters resampled, too", raters),
        ("log p not divided by length", total),
    ):  # fmt: skip
        row = run.rows[0]
        cells = [title]
        for key in ("huse", "huse_q", "huse_d"):
            value = short(row[key])
            cells.append(f"{value if run is total else beside(short(wanted[key]), value)} {show(row[f'{key}_ci'])}")
        rows.append(cells)
    items, answers = read_crowd(data_folder() / "huse" / "summarization_raw_outputs.csv")
    return (
        "## Table 1: summarization, t = "
        f"1.0\n\n```\n{clean.command}\n{raw.command}\n{raters.command}\n{total.command}\n"
        f"```\n\nSignature: `{clean.document['signature']}`\n\n"
        + table(["data", "HUSE", "HUSE-Q", "HUSE-D"], rows)
        + f"\n\nThe raw export has {len(items)} texts and {len(answers):,} ratings. "
        "The "
        "printed HUSE-Q of .58 needs distances as double precision gives them: mean ratings are multiples of "
        ".05, so that "
        "many distances are equal, and rounding decides which of them count as level with the 16th. It is .60 "
        "when equal "
        "distances are equal.\n\n![The two features](figures/huse.png)\n\nFigure 4, first panel, with the "
        "classifier that "
        "makes the score. How intervals are made, and how often they cover, is the subject of "
        "[huse_coverage.md](huse_coverage.md).\n"
    )


def _stability_part(run: Run) -> str:
    lines = []
    for varied in ("items", "raters"):
        for row in run.rows:
            if row["varied"] == varied:
                lines.append(
                    [varied, str(row[varied]), *(f"{short(row[s])} ± {short(row[s + '_sd'])}" for s in SCORES)]
                )
    return (
        f"## Figure 5: stability\n\n```\n{run.command}\n```\n\n"
        + table(["varied", "number", "HUSE", "HUSE-Q", "HUSE-D"], lines)
        + "\n\n![Scores against the number of texts and of raters](figures/huse-stability.png)\n\nMeans over 50 "
        "draws "
        "without replacement, and their standard deviations. With fewer raters, judgments are noisier and "
        "scores higher: "
        "a model looks better. With 20 texts and k = 16 the classifier has next to nothing to go by.\n"
    )


SCORES = ("huse", "huse_q", "huse_d")


def _run_part(run: Run, asked: Run) -> str:
    rows = []
    for name, one in (("relevance:minilm", run), ("llm:smollm2", asked)):
        for row in one.rows:
            cells = [name, str(row["system"]), str(row["n_model"])]
            rows.append([*cells, *(f"{short(row[s])} {show(row[s + '_ci'])}" for s in SCORES)])
    commands = "\n".join(f"nlgauge {command}" for command in GENERATE.values())
    return (
        "## A run with no human at hand\n\nFirst turns of DailyDialog's test split as contexts, second turns as "
        f"references ({CONTEXTS} of them), responses by SmolLM2-135M and by BM25 retrieval from the training "
        "split, each at "
        "temperatures 0.7 and 1.0, log p from SmolLM2. **The judgments are not people's**: the cosine of the MiniLM "
        "embeddings of context and response in one run, SmolLM2's own yes or no in another. HUSE-Q is therefore "
        "what that "
        "scorer can tell, no more.\n\n```\npython -m "
        f"papers.huse\n{commands}\n{run.command}\n{asked.command}\n```\n\n"
        + table(["judge", "system", "texts", "HUSE", "HUSE-Q", "HUSE-D"], rows)
        + "\n\n![Trade-off plane](figures/tradeoff.png)\n\n"
        "SmolLM2 loses HUSE-D at the lower temperature: its texts are more probable than references are, which gives "
        "them away, while this judge sees nothing wrong with them. Retrieved texts were written by people; SmolLM2's "
        "probability hardly tells them from references, and a judge does only as far as they miss the point; "
        "HUSE-D of a retrieval system needs the "
        "probability of that system, which it does not have. log p is that of the model at temperature 1 "
        "throughout.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
