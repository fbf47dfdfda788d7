"""Writes `docs/papers/openmeva-suite.md`: suites of test texts, discrimination and invariance (paper 4)."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from scipy.stats import mannwhitneyu

from nlgauge.engine.files import write_text
from nlgauge.models.training.data import read_texts
from nlgauge.models.training.negatives import TECHNIQUES, NegativeMaker, StoryPool, read_antonyms
from nlgauge.perturb.registry import COHERENCE, ROBUSTNESS
from nlgauge.report.study_tables import show
from papers.openmeva import ANTONYMS, WORK, WP_TRAINING
from papers.pages import DATA, DOCS, Run, data_folder, do, study, table
from papers.printed import printed

OUT = DOCS / "openmeva-suite.md"
RESULTS = DOCS / "openmeva-suite.json"
ROOT = Path(__file__).parent.parent
TRAINING = {
    f"{kind}-{corpus}": command.format(data=f"{WORK}/{corpus}-train.txt", out=f"{WORK}/{kind}-{corpus}")
    for corpus in ("roc", "wp")
    for kind, command in {
        "union": f"train union --data {{data}} {ANTONYMS} --output {{out}} --epochs 2 --threads 1",
        "ruber": "train ruber --data {data} --encoder minilm --output {out} --threads 1",
        "tuned": "train lm --data {data} --from smollm2 --output {out} --limit 300 --max-steps 40 --batch-size 4 "
        "--window 200 --evaluate-every 20 --threads 1",
    }.items()
}
CONCEPTS = f"--conceptnet {DATA}/conceptnet/triples_100k.txt"
_ROC, _WP = "--first-sentence", "--text story --context prompt --max-words 200"
SUITES = {
    "roc": f"{WORK}/roc-stories.jsonl {_ROC} {CONCEPTS} -o {WORK}/suite-roc --name roc",
    "wp": f"{WORK}/wp-stories.jsonl {_WP} {CONCEPTS} -o {WORK}/suite-wp --name wp",
    "roc-held": f"{WORK}/roc-held.jsonl {_ROC} {CONCEPTS} -o {WORK}/suite-roc-held --name roc",
    "wp-held": f"{WORK}/wp-held.jsonl {_WP} {CONCEPTS} -o {WORK}/suite-wp-held --name wp",
}
ROC_HELD = 1000
LIMITS = {"roc-held": (200, 100), "wp-held": (60, 40)}
SOURCES = ("human", "incoherent")


def metrics_of(corpus: str) -> dict[str, str]:
    """Metrics by the names of the page; trained ones learnt from the corpus."""
    name = corpus.removesuffix("-held")
    return {
        "ppl pretrained": "ppl:model=smollm2",
        "ppl fine-tuned": f"ppl:model={WORK}/tuned-{name}",
        "ruber unreferenced": f"ruber:model={WORK}/ruber-{name},part=unreferenced",
        "union": f"union:model={WORK}/union-{name}",
        "relatedness": "relatedness",
        "distinct": "distinct",
        "entropy": "entropy",
        "compression": "compression",
        "ead": "ead:over=set",
    }


INTRODUCTION = """# OpenMEVA's tests of coherence and robustness (Guan et al. 2021, sections 3.2, 4.4 and 4.5)

Suites as AutoS is built, from 5,000 ROC stories (the first sentence is the input) and from 1,000 WritingPrompts stories
cut within 200 words. Written by `make papers`. The paper's texts come from its own test splits, its paraphrases from
neural translation, its grammar filter from a classifier trained on CoLA. Ours come from a table of English phrases, so
that few sentences have one (a round trip of apertium through Esperanto gave fewer and worse ones), and from
link-grammar, which must accept every changed sentence.

Metrics read with MiniLM and SmolLM2 in place of BERT and GPT-2, and are tested on texts that nothing was trained on:
UNION, RUBER and the fine-tuned model learn from 4,000 of the ROC stories (700 of WritingPrompts), and suites of the
other 1,000 (300) are scored. Language models are slow on two cores, so a part of these is taken only (`--limit`):
intervals are wide.
"""


def main() -> int:
    """Prepare data, train, build suites, run both studies and write the page."""
    prepare()
    for command in TRAINING.values():
        do(command)
    minutes = {name: build(name, command) for name, command in SUITES.items()}
    parts = [INTRODUCTION, _counts_part(minutes)]
    found: dict[str, tuple[Run, Run]] = {}
    for corpus, (told, kept) in LIMITS.items():
        specs = " ".join(f"-m {spec}" for spec in metrics_of(corpus).values())
        arguments = f"{WORK}/suite-{corpus} {specs}"
        found[corpus] = (
            study(f"discrimination {arguments} --limit {told}", figure=f"openmeva-discrimination-{corpus}.png"),
            study(f"invariance {arguments} --limit {kept}", figure=f"openmeva-invariance-{corpus}.png"),
        )
    results = {
        f"{kind} {corpus}": {
            "command": run.command,
            **run.document,
            "rows": [row for row in run.rows if row["aspect"] == "average"],
        }
        for corpus, runs in found.items()
        for kind, run in zip(("discrimination", "invariance"), runs, strict=True)
    }
    write_text(RESULTS, json.dumps(results, ensure_ascii=False, indent=1) + "\n")
    parts += [_discrimination_part(corpus, run[0]) for corpus, run in found.items()]
    parts += [_invariance_part(corpus, run[1]) for corpus, run in found.items()]
    parts.append(_findings_part(found))
    parts.append(_techniques_part())
    write_text(OUT, "\n".join(parts))
    print(f"papers: wrote {OUT}", file=sys.stderr)
    return 0


def prepare() -> None:
    """Stories of both corpora with ids, as the suites read them."""
    (ROOT / WORK).mkdir(parents=True, exist_ok=True)
    roc = read_texts([str(data_folder() / "rocstories/roc_5000.json")])
    stories = [{"id": f"roc-{number}", "text": text} for number, text in enumerate(roc, 1)]
    _write("roc-stories", stories)
    _write("roc-held", stories[:ROC_HELD])
    write_text(ROOT / WORK / "roc-train.txt", "".join(" ".join(text.split()) + "\n" for text in roc[ROC_HELD:]))
    lines = (data_folder() / "writingprompts/stories_1000.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        row["id"] = f"wp-{row['id']}"
    _write("wp-stories", rows)
    _write("wp-held", rows[WP_TRAINING:])
    train = "".join(" ".join(row["story"].split()) + "\n" for row in rows[:WP_TRAINING])
    write_text(ROOT / WORK / "wp-train.txt", train)


def _write(name: str, rows: list[dict[str, Any]]) -> None:
    write_text(ROOT / WORK / f"{name}.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def build(name: str, command: str) -> str:
    """Build a suite unless it is there; the minutes that it took."""
    folder = ROOT / WORK / f"suite-{name}"
    note = folder.with_suffix(".minutes")
    if not (folder / "manifest.json").exists() or not note.exists():
        started = time.monotonic()
        do(f"perturb build {command}")
        write_text(note, f"{(time.monotonic() - started) / 60:.1f}")
    return note.read_text()


def manifest_of(name: str) -> dict[str, Any]:
    """What a suite says about itself."""
    found: dict[str, Any] = json.loads((ROOT / WORK / f"suite-{name}/manifest.json").read_text(encoding="utf-8"))
    return found


def _counts_part(minutes: dict[str, str]) -> str:
    parts = ["## The suites\n"]
    for name in ("roc", "wp"):
        made = manifest_of(name)
        wanted = printed()["openmeva"]["table6"][name]
        rows = []
        for place, aspect in enumerate(COHERENCE):
            row = made["discrimination"].get(aspect)
            if row is not None:
                rows.append(
                    [aspect, str(row["coherent"]), str(row["made"]), *_dropped(row), str(row["kept"]), _rules(row),
                     f"{wanted['coherent'][place]:,} / {wanted['incoherent'][place]:,}"]
                )  # fmt: skip
        counts = printed()["openmeva"]["table7"][name]["count"]
        for place, aspect in enumerate(ROBUSTNESS):
            for step, source in enumerate(SOURCES):
                row = made["invariance"].get(f"{aspect} {source}")
                if row is not None:
                    rows.append(
                        [f"{aspect}, {source}", "-", str(row["made"]), *_dropped(row), str(row["kept"]), _rules(row),
                         f"{counts[2 * place + step]:,}"]
                    )  # fmt: skip
        every = [*made["discrimination"].values(), *made["invariance"].values()]
        total, dropped = sum(row["made"] for row in every), sum(row["dropped_by_grammar"] for row in every)
        head = ["aspect", "coherent", "made", "dropped", "share", "kept", "techniques (made, dropped)", "printed"]
        words = ", ".join(f"{kind} {one['context']} + {one['text']}" for kind, one in made["words"].items())
        parts.append(
            f"### {name}\n\n```\nnlgauge perturb build {SUITES[name]}\n```\n\n{made['stories']:,} stories, "
            f"{minutes[name]} minutes; the grammar filter dropped {dropped:,} of {total:,} ({dropped / total:.1%}). "
            f"Mean words of inputs + texts: {words}.\n\nSignature: `{made['signature']}`\n\n{table(head, rows)}\n"
        )
    return "\n".join(parts)


def _dropped(row: dict[str, Any]) -> tuple[str, str]:
    share = row["dropped_by_grammar"] / row["made"] if row["made"] else None
    return str(row["dropped_by_grammar"]), show(share)


def _rules(row: dict[str, Any]) -> str:
    return ", ".join(f"{rule} {one['made']}, {one['dropped']}" for rule, one in row["rules"].items()) or "-"


def _discrimination_part(corpus: str, run: Run) -> str:
    task = corpus.removesuffix("-held")
    wanted = printed()["openmeva"]["table6"][task]
    names = list(metrics_of(corpus))
    found = by_metric(run, names)
    aspects = [*COHERENCE, "average"]
    rows = []
    for name in names:
        rows.append([name, *(show(value(found, name, aspect, "pearson")) for aspect in aspects)])
        if name in wanted:
            mean = sum(wanted[name]) / len(wanted[name])
            rows.append([f"{name}, printed", *(show(float(one)) for one in [*wanted[name], mean])])
    accuracy = [[name, *(show(value(found, name, aspect, "paired_accuracy")) for aspect in aspects)] for name in names]
    areas = [[name, *(show(value(found, name, aspect, "auc")) for aspect in aspects)] for name in names]
    return (
        f"## Table 6, {task}: discrimination\n\n{run.shown}\n\nPearson's correlation of score and label:\n\n"
        f"{table(['metric', *aspects], rows)}\n\nShare of incoherent texts that score below their own original:\n\n"
        f"{table(['metric', *aspects], accuracy)}\n\nArea under the ROC curve:\n\n"
        f"{table(['metric', *aspects], areas)}\n\n"
        f"{run.notes}\n\n![Discrimination](figures/openmeva-discrimination-{corpus}.png)\n"
    )


def _invariance_part(corpus: str, run: Run) -> str:
    task = corpus.removesuffix("-held")
    wanted = printed()["openmeva"]["table7"][task]
    names = list(metrics_of(corpus))
    places = [(aspect, source) for aspect in ROBUSTNESS for source in SOURCES]
    found = by_metric(run, names)
    rows, changes = [], []
    for name in names:
        rows.append([name, *(show(value(found, name, place, "pearson")) for place in places)])
        if name in wanted:
            rows.append([f"{name}, printed", *(show(float(one)) for one in wanted[name])])
        changes.append([name, *(show(value(found, name, place, "mean_change")) for place in places)])
    head = ["metric", *(f"{aspect}, {source}" for aspect, source in places)]
    return (
        f"## Table 7, {task}: invariance\n\n{run.shown}\n\nPearson's correlation of score and label (near 0 is robust):"
        f"\n\n{table(head, rows)}\n\nMean absolute change in standard deviations of the originals:\n\n"
        f"{table(head, changes)}\n\n{run.notes}\n\n![Invariance](figures/openmeva-invariance-{corpus}.png)\n"
    )


Found = dict[tuple[str, Any], dict[str, Any]]


def by_metric(run: Run, names: list[str]) -> Found:
    """Rows by the page's metric names and aspect (with the source, where rows have one)."""
    labels = list(dict.fromkeys(row["metric"] for row in run.rows))
    title = dict(zip(labels, names, strict=True))
    return {
        (title[row["metric"]], (row["aspect"], row["source"]) if "source" in row else row["aspect"]): row
        for row in run.rows
    }


def value(found: Found, name: str, place: Any, key: str) -> float | None:
    """A number of the page, or None where a suite has no such texts."""
    number: float | None = found.get((name, place), {}).get(key)
    return number


def _findings_part(found: dict[str, tuple[Run, Run]]) -> str:
    """The paper's findings one by one, with the numbers that speak for or against them here."""
    lines = ["## The paper's findings, one by one\n"]
    for corpus, (first, second) in found.items():
        names = list(metrics_of(corpus))
        told, kept = by_metric(first, names), by_metric(second, names)
        paper = names[:4]
        lines.append(f"### {corpus.removesuffix('-held')}\n")
        repeated = {n: value(told, n, "lexical-repetition", "pearson") for n in paper}
        lines.append(_finding(
            "perplexity misses repetition; pretrained, it even prefers it",
            _below(repeated["ppl pretrained"], 0.0), "lexical repetition", repeated,
        ))  # fmt: skip
        averages = {n: value(told, n, "average", "pearson") for n in paper}
        best = sorted(paper, key=lambda n: -(averages[n] or 0.0))
        lines.append(_finding(
            "fine-tuned perplexity and UNION have the best averages, RU-BERT the worst",
            set(best[:2]) == {"ppl fine-tuned", "union"} and best[-1] == "ruber unreferenced", "averages", averages,
        ))  # fmt: skip
        easy, hard = ("character-behaviour", "common-sense"), ("consistency", "causal", "temporal")
        means = {
            f"{n}, {kind}": _mean([value(told, n, aspect, "pearson") for aspect in aspects])
            for n in ("ppl pretrained", "ppl fine-tuned", "union")
            for kind, aspects in (("character and common sense", easy), ("consistency, causal, temporal", hard))
        }
        pairs = list(means.values())
        holds = all((a or 0.0) > (b or 0.0) for a, b in zip(pairs[::2], pairs[1::2], strict=True))
        lines.append(_finding(
            "metrics see wrong characters and broken common sense better than inconsistency, causes and times",
            holds, "mean correlations", means,
        ))  # fmt: skip
        robust = {
            n: _mean(
                [abs(v) for a in ROBUSTNESS for s in SOURCES if (v := value(kept, n, (a, s), "pearson")) is not None]
            )
            for n in paper
        }
        lines.append(_finding(
            "RU-BERT is the most robust (it hardly reacts to anything)",
            min(robust, key=lambda n: robust[n] or 0.0) == "ruber unreferenced", "mean absolute correlations", robust,
        ))  # fmt: skip
        for n in ("ppl pretrained", "ppl fine-tuned", "union"):
            by_aspect = {a: abs(value(kept, n, (a, "human"), "pearson") or 0.0) for a in ROBUSTNESS}
            order = sorted(by_aspect, key=lambda a: by_aspect[a])
            lines.append(_finding(
                f"{n} is most sensitive to typos, least to contractions (human stories)",
                order[-1] == "typos" and order[0] == "contractions", "absolute correlations", dict(by_aspect),
            ))  # fmt: skip
        lines.append("")
    return "\n".join(lines)


def _techniques_part() -> str:
    """How well UNION tells held-out stories from negatives that one of its own techniques alone made."""
    from nlgauge.models.encoders.story_classifier import load_story_classifier

    rows = []
    for corpus, column in (("roc", "text"), ("wp", "story")):
        lines = (ROOT / WORK / f"{corpus}-held.jsonl").read_text(encoding="utf-8").splitlines()
        stories = [json.loads(line)[column] for line in lines]
        maker = NegativeMaker(
            StoryPool.of(stories), antonyms=read_antonyms(str(data_folder() / "conceptnet/antonyms.txt"))
        )
        made = [one for story in stories if (one := maker.make(story)) is not None]
        classifier = load_story_classifier(str(ROOT / WORK / f"union-{corpus}"))
        real = classifier.probabilities(stories)
        for technique in TECHNIQUES:
            texts = [one.text for one in made if all(name.startswith(technique) for name in one.techniques)]
            worse = classifier.probabilities(texts)
            area = float(mannwhitneyu(real, worse).statistic) / (len(real) * len(worse))
            rows.append([corpus, technique, str(len(texts)), show(area)])
    return (
        "## What UNION learnt of its own techniques\n\nArea under the ROC curve, held-out stories against those that "
        "one technique alone made worse. An area near .5 means that the technique was not learnt; the published "
        "mixture draws repetition with weight .1, mostly beside other techniques, so that few training stories show it "
        f"alone.\n\n{table(['corpus', 'technique', 'negatives', 'area'], rows)}\n"
    )


def _finding(claim: str, holds: bool, what: str, numbers: dict[str, float | None]) -> str:
    shown = ", ".join(f"{name} {show(number)}" for name, number in numbers.items())
    return f"- {claim}: **{'found here too' if holds else 'not found here'}** ({what}: {shown})"


def _below(number: float | None, bound: float) -> bool:
    return number is not None and number < bound


def _mean(numbers: list[float | None]) -> float | None:
    known = [one for one in numbers if one is not None]
    return sum(known) / len(known) if known else None


if __name__ == "__main__":
    raise SystemExit(main())
