"""Writes `docs/papers/openmeva.md`: story metrics, their training, and how they agree with people (paper 4)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from nlgauge.engine.files import write_text
from nlgauge.models.training.data import read_texts
from nlgauge.models.training.negatives import NegativeMaker, StoryPool
from nlgauge.report.study_tables import short, show
from papers.pages import DATA, DOCS, Run, data_folder, do, study, table
from papers.printed import printed

OUT = DOCS / "openmeva.md"
ROOT = Path(__file__).parent.parent
WORK = "build/papers/openmeva"
ROC = f"{DATA}/rocstories/union_reference.txt"
WP = f"{DATA}/writingprompts/stories_1000.jsonl"
ANTONYMS = f"--antonyms {DATA}/conceptnet/antonyms.txt"
CONTROL_SEEDS = (1, 2, 3, 4, 5, 6)
CONTROL = f"train union --data {ROC} {ANTONYMS} --limit 1000 --epochs 1 --threads 1 --scramble-labels"
TRAINING = {
    "union": f"train union --data {ROC} {ANTONYMS} --output {WORK}/union --epochs 2 --threads 1",
    "control": f"{CONTROL} --output {WORK}/control",
    **{f"control-{seed}": f"{CONTROL} --output {WORK}/control-{seed} --seed {seed}" for seed in CONTROL_SEEDS},
    "union-wp": f"train union --data {WORK}/wp-train.txt {ANTONYMS} --output {WORK}/union-wp --epochs 2 --threads 1",
    "ruber": f"train ruber --data {ROC} --encoder minilm --output {WORK}/ruber --threads 1",
    "ruber-words": f"train ruber --data {ROC} --vectors glove-50d --pooling minmax --output {WORK}/ruber-words "
    "--threads 1",
    "tuned": f"train lm --data {ROC} --from smollm2 --output {WORK}/tuned --limit 600 --max-steps 40 --batch-size 8 "
    "--evaluate-every 20 --threads 1",
}
CONTROLS = {
    "union, labels scrambled": "control",
    **{f"union, labels scrambled, seed {seed}": f"control-{seed}" for seed in CONTROL_SEEDS},
}
METRICS = {
    "bleu": "bleu:smooth=none",
    "bleu, smoothed": "bleu",
    "rouge-l": "rouge-l",
    "meteor": "meteor",
    "greedy": "greedy:vectors=minilm",
    "embed-average": "embed-average:vectors=minilm",
    "vector-extrema": "vector-extrema:vectors=minilm",
    "bertscore P": "bertscore:part=precision",
    "bertscore R": "bertscore:part=recall",
    "bertscore F1": "bertscore",
    "moverscore": "moverscore",
    "ruber-bert referenced": f"ruber:model={WORK}/ruber,part=referenced",
    "ppl pretrained": "ppl:model=smollm2",
    "ppl fine-tuned": f"ppl:model={WORK}/tuned",
    "ruber-bert unreferenced": f"ruber:model={WORK}/ruber,part=unreferenced",
    "union": f"union:model={WORK}/union",
    **{name: f"union:model={WORK}/{folder}" for name, folder in CONTROLS.items()},
    "ruber (words)": f"ruber:model={WORK}/ruber-words",
    "ruber-bert": f"ruber:model={WORK}/ruber",
}
WP_TRAINING, TESTED_ON = 700, 150
READINGS = (
    "Metrics with the same cluster do not differ significantly (p < .05). BLEU without smoothing and perplexity after "
    "the prompt (`context=given`) were chosen with the printed numbers known: smoothed BLEU is shown, too, and the "
    "other two readings of perplexity (`none`, `scored`) correlate less. A control with scrambled labels has learnt "
    "nothing, yet its scores still depend on the words of a story: each seed is one draw, and together they show how "
    "wide chance is."
)
DRIFT_COLUMNS = (
    "metric", "group", "trained_on", "n", "pearson", "pearson_ci", "spearman", "spearman_ci", "auc", "auc_ci", "spread",
    "same_p", "drop", "drop_ci",
)  # fmt: skip

INTRODUCTION = """# OpenMEVA: metrics of stories, and what people say (Guan et al. 2021)

What the released half of MANS (ROC: 200 inputs, five generators, five ratings per story) allows. Written by
`make papers`. The paper's metrics read texts with BERT and GPT-2 and learn from whole training sets; ours read with
MiniLM and SmolLM2, and learn from 4,909 ROC stories with masked names, in the spelling of MANS. Numbers that depend on
a model differ for that reason. Error types are not in the data, so the four sets of Table 3 cannot be made.
"""


def main() -> int:
    """Prepare data, train, run every study and write the page."""
    prepare()
    for command in TRAINING.values():
        do(command)
    parts = [
        INTRODUCTION, _agreement_part(), _training_part(), _correlation_part(), _annotated_part(), _improvement_part(),
        _drift_part(),
    ]  # fmt: skip
    write_text(OUT, "\n".join(parts))
    print(f"papers: wrote {OUT}", file=sys.stderr)
    return 0


def prepare() -> None:
    """Items and ratings of MANS, UNION's annotated stories, and stories real and made worse of both corpora."""
    (ROOT / WORK).mkdir(parents=True, exist_ok=True)
    do(f"data judgments {DATA}/openmeva/mans_roc.json -o {WORK}/mans.jsonl --ratings {WORK}/mans-ratings.csv")
    annotated = []
    for line in (data_folder() / "rocstories/union_annotated.txt").read_text(encoding="utf-8").splitlines():
        number, story, votes = (part.strip() for part in line.split("|||"))
        ratings = [int(vote) for vote in votes.split()]
        annotated.append({"id": number, "text": story, "human": sum(ratings) / len(ratings)})
    _write("annotated", annotated)
    prompts = [
        json.loads(line) for line in (data_folder() / "writingprompts/stories_1000.jsonl").open(encoding="utf-8")
    ]
    stories = [" ".join(row["story"].split()) for row in prompts]
    write_text(ROOT / WORK / "wp-train.txt", "".join(f"{story}\n" for story in stories[:WP_TRAINING]))
    roc = read_texts([str(data_folder() / "rocstories/roc_5000.json")])
    _write("roc-test", _labelled(roc[:TESTED_ON]))
    _write("wp-test", _labelled([" ".join(story.split()[:120]) for story in stories[WP_TRAINING:][:TESTED_ON]]))


def _labelled(stories: list[str]) -> list[dict[str, Any]]:
    """Every story and its negative, with label 1 and 0."""
    maker = NegativeMaker(StoryPool.of(stories), seed=7)
    made = [(story, maker.make(story)) for story in stories]
    pairs = [(story, negative.text) for story, negative in made if negative is not None]
    return [
        {"id": f"{number} {name}", "text": text, "label": label}
        for number, pair in enumerate(pairs)
        for text, (name, label) in zip(pair, (("real", 1), ("worse", 0)), strict=True)
    ]


def _write(name: str, rows: list[dict[str, Any]]) -> None:
    write_text(ROOT / WORK / f"{name}.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _specs(names: list[str]) -> str:
    return " ".join(f"-m {METRICS[name]}" for name in names)


def _agreement_part() -> str:
    run = study(
        f"agreement {WORK}/mans-ratings.csv --measures alpha,kappa,icc --by system", figure="openmeva-agreement.png"
    )
    row = run.rows[0]
    wanted = float(printed()["openmeva"]["agreement"]["alpha"])
    return (
        f"## Agreement of raters\n\n{run.shown}\n\nKrippendorff's alpha (interval) is {short(row['alpha'], 3)} "
        f"{show(row['alpha_ci'], 3)}; the paper prints {short(wanted)} (appendix A.3).\n\n{run.notes}\n\n"
        "![Ratings by generator](figures/openmeva-agreement.png)\n"
    )


def _training_part() -> str:
    rows = []
    for name in TRAINING:
        card = json.loads((ROOT / WORK / name / "training.json").read_text(encoding="utf-8"))
        measures = card.get("measures") or {}
        shown = (
            f"accuracy {measures['accuracy']:.3f}" if "accuracy" in measures
            else f"perplexity {card['perplexity_before']:.1f} → {card['perplexity_after']:.1f}"
        )  # fmt: skip
        area = f", AUC {measures['auc']:.3f}" if measures.get("auc") is not None else ""
        texts = card["data"]["training_texts"], card["data"]["validation_texts"]
        rows.append([name, f"{texts[0]:,}", f"{texts[1]:,}", str(card["steps"]), f"{card['seconds'] / 60:.1f}",
                     shown + area])  # fmt: skip
    commands = "\n".join(f"nlgauge {command}" for command in TRAINING.values())
    return (
        f"## What was trained\n\n```\n{commands}\n```\n\n"
        + table(["model", "stories", "held out", "steps", "minutes", "on the held-out stories"], rows)
        + "\n\nThe controls learn from labels that a coin has swapped.\n"
    )


def _correlation_part() -> str:
    run = study(
        f"correlation {WORK}/mans.jsonl --truth human {_specs(list(METRICS))} --within context --systems system"
    )
    wanted = printed()["openmeva"]["table11"]
    overall = [row for row in run.rows if row["level"] == "items"]
    controls = [row["pearson"] for name, row in zip(METRICS, overall, strict=True) if name in CONTROLS]
    chance = sum(controls) / len(controls)
    width = (sum((one - chance) ** 2 for one in controls) / (len(controls) - 1)) ** 0.5
    rows = []
    for name, row in zip(METRICS, overall, strict=True):
        paper = short(wanted[name][0], 3) if name in wanted else "-"
        rows.append(
            [
                name, f"{show(row['pearson'], 3)} {show(row['pearson_ci'])}", paper,
                f"{show(row['spearman'], 3)} {show(row['spearman_ci'])}", show(row["kendall"], 3), str(row["n"]),
                str(row["cluster"]),
            ]
        )  # fmt: skip
    return (
        f"## Table 11, ROC: correlation with people\n\n{run.shown}\n\n"
        + table(["metric", "Pearson", "printed", "Spearman", "Kendall", "stories", "cluster"], rows)
        + f"\n\n{READINGS} The {len(controls)} controls have a mean of {show(chance, 3)} and a standard deviation of "
        f"{show(width, 3)}.\n\n{run.notes}\n"
    )


def _annotated_part() -> str:
    names = ["union", *CONTROLS, "ppl pretrained", "ppl fine-tuned"]
    run = study(f"correlation {WORK}/annotated.jsonl --truth human " + _specs(names))
    rows = [
        [name, f"{show(row['pearson'], 3)} {show(row['pearson_ci'])}", show(row["spearman"], 3), str(row["n"])]
        for name, row in zip(names, run.rows, strict=True)
    ]
    return (
        f"## UNION's annotated stories\n\n{run.shown}\n\n400 generated stories with seven votes each.\n\n"
        + table(["metric", "Pearson", "Spearman", "stories"], rows)
        + "\n"
    )


def _improvement_part() -> str:
    names = ["bertscore F1", "ruber-bert", "ppl fine-tuned", "union"]
    run = study(f"improvement {WORK}/mans.jsonl --truth human {_specs(names)}", figure="openmeva-improvement.png")
    rows = [[name, show(row["r2"], 2), str(row["windows"]), str(row["pairs"])] for name, row in
            zip(names, run.rows, strict=True)]  # fmt: skip
    return (
        f"## Figure 2: improvement\n\n{run.shown}\n\n" + table(["metric", "R2", "windows", "pairs"], rows)
        + f"\n\n{run.notes}\n\n![Differences of windows](figures/openmeva-improvement.png)\n"
    )  # fmt: skip


def _drift_part() -> str:
    names = ["ppl fine-tuned", "ruber-bert unreferenced", "union"]
    model = study(f"drift {WORK}/mans.jsonl --truth human --generator system {_specs(names)}")
    tests = f"{WORK}/roc-test.jsonl {WORK}/wp-test.jsonl --tasks roc,wp --truth label"
    data = study(
        f"drift {tests} -m union-roc=union:model={WORK}/union -m union-wp=union:model={WORK}/union-wp "
        f"-m tuned-roc=ppl:model={WORK}/tuned"
    )
    return (
        f"## Table 4: drift\n\nOf generators:\n\n{model.shown}\n\n{_rows(model)}\n\n{model.notes}\n\nOf corpora: real "
        f"stories against their negatives, {TESTED_ON} of each corpus; those of WritingPrompts are cut to 120 words, "
        "those of ROC keep capitals and names, which UNION's training text does not have.\n\n"
        f"{data.shown}\n\n{_rows(data)}\n\n{data.notes}\n"
    )


def _rows(run: Run) -> str:
    """The columns of a study that a reader of this page wants."""
    keys = [key for key in DRIFT_COLUMNS if key in run.rows[0]]
    return table(keys, [[_cell(row[key]) for key in keys] for row in run.rows])


def _cell(value: Any) -> str:
    return show(value, 3) if isinstance(value, float | list) or value is None else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
