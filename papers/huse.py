"""Writes `docs/papers/huse.md`: HUSE on the authors' summarization data, and a run with no human at hand."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from nlgauge.data.dialogs import read_dialogs, turn_pairs
from nlgauge.data.human.crowd import read_crowd
from nlgauge.engine.files import write_text
from nlgauge.models.fetch import resolve_model
from nlgauge.report.study_tables import short, show
from papers.pages import DATA, DOCS, Run, beside, data_folder, do, study, table
from papers.printed import printed

OUT = DOCS / "huse.md"
ROOT = Path(__file__).parent.parent
WORK = "build/papers/huse"
CLEAN = f"{DATA}/huse/summary_clean.csv"
RAW = f"{DATA}/huse/summarization_raw_outputs.csv"
COLUMNS = "--judgment HumanJudgement --logp ModelProbability --length LengthOfUtterance --is-model Label"
TEMPLATE = "A: {context}\\nB:"
CONTEXTS = 120
LONGEST = 40
TEMPERATURES = (1.0, 0.9, 0.7, 0.5)
CHECKED = 10
JUDGE = "relevance:minilm"
GENERATE = {
    "smollm2": f"generate contexts.jsonl -o smollm2-sets.jsonl --texts smollm2.jsonl --model smollm2 "
    f"--sweep temperature={','.join(map(str, TEMPERATURES))} --responses-per-set 1 --max-new-tokens {LONGEST} "
    f"--template '{TEMPLATE}' --run smollm2-run",
    "bm25": "generate contexts.jsonl -o bm25-sets.jsonl --texts bm25.jsonl --model bm25:train.jsonl "
    "--sweep temperature=0,1 --responses-per-set 1 --run bm25-run",
}
TRADEOFF = "tradeoff texts.jsonl --by system"

INTRODUCTION = """# HUSE: human and statistical evaluation in one score (Hashimoto, Zhang & Liang 2019)

How to redo what the released data allows, what comes out, and how it compares with the print. Written by `make papers`.
The data is that of summarization at temperature 1 (Table 1, first column): 100 references and 100 summaries of the
model, judged by 20 crowd workers each. A number in **bold** differs from the printed one, which stands beside it.
"""


def main() -> int:
    """Run every study and write the page."""
    clean = study(f"huse {CLEAN} {COLUMNS} --tasks summarization --ties computed", figure="huse.png")
    raw = study(f"huse {RAW} --tasks summarization --ties computed")
    raters = study(f"huse {RAW} --tasks summarization --ties computed --resample-raters")
    total = study(f"huse {CLEAN} {COLUMNS} --tasks summarization --ties computed --total")
    exact = study(f"huse {CLEAN} {COLUMNS} --tasks summarization")
    stability = study(
        f"huse-stability {RAW} --tasks summarization --ties computed --items 20,40,60,80,100,120,140,160,180,200 "
        "--raters 2,4,6,8,10,12,14,16,18,20",
        figure="huse-stability.png",
    )
    prepare()
    tradeoff = study(f"{TRADEOFF} --judge {JUDGE}", figure="tradeoff.png", work=ROOT / WORK)
    parts = [
        INTRODUCTION,
        _scores_part(clean, raw, raters, total, exact),
        _stability_part(stability),
        _run_part(tradeoff, largest_difference()),
    ]
    write_text(OUT, "\n".join(parts))
    print(f"papers: wrote {OUT}", file=sys.stderr)
    return 0


def prepare() -> None:
    """Contexts and references of DailyDialog's test split, pairs of its training split, and texts of six systems.

    What exists is kept: sets that a killed run left are continued.
    """
    folder = ROOT / WORK
    folder.mkdir(parents=True, exist_ok=True)
    test = [pair for pair in _pairs("dialogues_test.txt", first_only=True) if 2 <= len(pair[1].split()) <= 20]
    once = list({a: (a, b) for a, b in reversed(test)}.values())[::-1]
    contexts = [{"id": f"d{i}", "context": a, "text": b} for i, (a, b) in enumerate(once[:CONTEXTS])]
    train = [{"context": a, "text": b} for a, b in _pairs("dialogues_train.txt", first_only=False)]
    for name, rows in (("contexts", contexts), ("train", train)):
        write_text(folder / f"{name}.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    for name, command in GENERATE.items():
        if not (folder / f"{name}.jsonl").exists():
            do(command, work=folder)
    both = "".join((folder / f"{name}.jsonl").read_text(encoding="utf-8") for name in GENERATE)
    write_text(folder / "texts.jsonl", both)


def largest_difference() -> tuple[float, int]:
    """The largest difference per token between log p of the table and that of transformers, one text at a time.

    Of the first contexts, all references, and all responses whose tokens are those that the tokeniser makes of them.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = resolve_model("smollm2")
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    shown = [tokenizer.decode([token]) for token in range(len(tokenizer))]
    ends = [token for token, text in enumerate(shown) if "\n" in text and not text.strip()]
    ends += tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_end|>"])
    prompts = TEMPLATE.replace("\\n", "\n")
    largest, count = 0.0, 0
    lines = (ROOT / WORK / "smollm2.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines):
        ids = tokenizer(f" {row['text']}", add_special_tokens=False)["input_ids"]
        number = int(row["id"].removesuffix(":reference").partition("@")[0][1:])
        cut = len(ids) == LONGEST
        if number >= CHECKED or len(ids) > LONGEST or row["tokens"] != len(ids) + (not cut):
            continue
        before = tokenizer("<|endoftext|>" + prompts.replace("{context}", row["context"]))["input_ids"]
        with torch.inference_mode():
            logits = model(torch.tensor([before + ids])).logits[0, len(before) - 1 :].double()
        logs = (logits / row["temperature"]).log_softmax(1)
        total = sum(float(logs[place, token]) for place, token in enumerate(ids))
        total += 0.0 if cut else float(logs[len(ids), ends].logsumexp(0))
        largest = max(largest, abs(total - row["logp"]) / row["tokens"])
        count += 1
    return largest, count


def _pairs(file: str, *, first_only: bool) -> list[tuple[str, str]]:
    """Pairs of turns that follow each other: all, or the first of each dialog."""
    frame = turn_pairs(read_dialogs(data_folder() / "dailydialog" / file)).frame
    if first_only:
        frame = frame.filter(frame["id"].str.ends_with(":2"))
    return list(zip(frame["context"].to_list(), frame["text"].to_list(), strict=True))


def _scores_part(clean: Run, raw: Run, raters: Run, total: Run, exact: Run) -> str:
    wanted: dict[str, Any] = printed()["huse"]["table1"]["summarization"]
    rows = []
    for title, run in (
        ("clean table", clean),
        ("raw crowd export", raw),
        ("raw, raters resampled, too", raters),
        ("log p not divided by length", total),
        ("clean table, equal distances equal (the default)", exact),
    ):
        row = run.rows[0]
        cells = [title]
        for key in SCORES:
            value = short(row[key])
            found = value if run is total else beside(short(wanted[key]), value)
            cells.append(f"{found} {show(row[f'{key}_ci'])}")
        rows.append(cells)
    items, answers = read_crowd(data_folder() / "huse" / "summarization_raw_outputs.csv")
    commands = "\n".join(run.command for run in (clean, raw, raters, total, exact))
    return f"""## Table 1: summarization, t = 1.0

```
{commands}
```

Signature: `{clean.document["signature"]}`

{table(["data", "HUSE", "HUSE-Q", "HUSE-D"], rows)}

The raw export has {len(items)} texts and {len(answers):,} ratings. The printed HUSE-Q requires `--ties computed`,
distances as double precision gives them: mean ratings are multiples of .05, so that many distances are equal, and
rounding decides which of them count as level with the 16th. Adding 1 to every rating then changes the score. By
default, equal distances are equal, and it does not: the last line.

![The two features](figures/huse.png)

Figure 4, first panel, with the classifier that makes the score. How intervals are made, and how often they cover, is
the subject of [huse_coverage.md](huse_coverage.md).
"""


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


def _run_part(run: Run, checked: tuple[float, int]) -> str:
    rows = []
    for row in run.rows:
        scores = [f"{short(row[s])} {show(row[s + '_ci'])}" for s in SCORES]
        rows.append([str(row["system"]), str(row["n_model"]), *scores, ", ".join(row["dominated_by"])])
    commands = "\n".join(f"nlgauge {command}" for command in GENERATE.values())
    largest, count = checked
    pairs = [
        [row["first"], row["second"], row["score"].upper().replace("_", "-"), *_difference(row)]
        for row in run.document["pairs"]
    ]
    return f"""## Retrieval and annealing, with no human at hand

First turns of DailyDialog's test split as contexts, second turns as references ({CONTEXTS} of them), responses by
SmolLM2-135M at four temperatures and by BM25 retrieval from the training split, the best hit (temperature 0, as in the
paper) and a hit drawn by the softmax of the scores (temperature 1). log p is that of the system which wrote the text,
as `generate` writes it: under the temperature, with the end; a text that is retrieved for sure has p = 1, one that
cannot be has the log p of the floor. **The judgments are not people's** but the cosine of the MiniLM embeddings of
context and response (`{JUDGE}`). HUSE-Q is therefore what that scorer can tell, no more.

```
python -m papers.huse
{commands}
cat smollm2.jsonl bm25.jsonl > texts.jsonl
{run.command}
```

{table(["system", "texts", "HUSE", "HUSE-Q", "HUSE-D", "dominated by"], rows)}

![Trade-off plane](figures/tradeoff.png)

{_order(run)}

{run.notes}

Paired tests (halves of the contexts, max-T over all of them):

{table(["first", "second", "score", "difference", "interval", "p"], pairs)}

log p of {count} texts of the first {CHECKED} contexts, references and responses, against transformers with one text at
a time: the largest difference is {largest:.1g} nats per token.
"""


def _order(run: Run) -> str:
    """Whether retrieval is below the language model, and whether annealing lowers HUSE-D, in words."""
    scores = {row["system"]: row for row in run.rows}
    annealed = [scores[f"smollm2 @{value:g}"] for value in TEMPERATURES]
    falls = all(one["huse_d"] > other["huse_d"] for one, other in pairwise(annealed))
    said = ", ".join(short(row["huse_d"]) for row in annealed)
    first = (
        f"HUSE-D at t = {', '.join(f'{value:g}' for value in TEMPERATURES)} is {said}, so annealing "
        f"{'lowers it at every step' if falls else 'does not lower it at every step'}."
    )
    below = []
    for name, row in scores.items():
        if name.startswith("bm25"):
            parts = []
            for score, title in (("huse", "HUSE"), ("huse_d", "HUSE-D")):
                lower = [f"{t:g}" for t, one in zip(TEMPERATURES, annealed, strict=True) if row[score] < one[score]]
                parts.append(f"in {title} at t = {', '.join(lower)}" if lower else f"in {title} at no t")
            below.append(f"{name} is below SmolLM2 {' and '.join(parts)}.")
    told = [
        f"{row['first'].partition('@')[2]} and {row['second'].partition('@')[2]}"
        for row in run.document["pairs"]
        if row["score"] == "huse_d" and row["p"] < 0.05 and {row["first"], row["second"]} <= _annealed()
    ]
    tested = f"By the paired tests, HUSE-D differs between t = {', '.join(told) or 'no two of them'}."
    return " ".join([first, tested, *below])


def _annealed() -> set[str]:
    return {f"smollm2 @{value:g}" for value in TEMPERATURES}


def _difference(row: dict[str, Any]) -> list[str]:
    return [short(row["difference"]), show(row["difference_ci"]), short(row["p"], 3)]


if __name__ == "__main__":
    sys.exit(main())
