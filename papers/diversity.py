"""Writes `docs/papers/diversity.md`: the tables and figures of Tevet & Berant (2021) that the released data allows."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from nlgauge.engine.files import write_text
from nlgauge.report.study_tables import short, show
from papers.pages import DATA, DOCS, Run, beside, study, table
from papers.printed import CONTENT, DECODING, DECODING_HUMAN, printed

OUT = DOCS / "diversity.md"
RESULTS = DOCS / "diversity.json"
PRINTED: dict[str, Any] = printed()["diversity"]
COLUMNS: dict[str, str] = PRINTED["metrics"]
FROM_TEXT = {"distinct-n": "distinct", "cos-sim": "cos-sim:variant=reference"}
OURS = (
    "distinct", "ead:over=set", "cos-sim", "self-bleu", "entropy", "compression", "vendi", "sent-sim", "content",
    "kmeans-inertia", "volume", "bertscore-div",
)  # fmt: skip
TITLES = {
    "table4": "Table 4: content test",
    "table8": "Table 8: content test on McDiv",
    "table9": "Table 9: content test on McDiv nuggets",
    "table10": "Table 10: content test on 200 nuggets with human scores",
}

INTRODUCTION = """# Evaluating the evaluation of diversity (Tevet & Berant 2021)

How to redo each table and figure that the released data allows, what comes out, and how it compares with the print.
`NLGAUGE_DATA` names the folder of the data (`nlgauge data list` says where it comes from, `nlgauge data verify
con-test dec-test mcdiv mcdiv-nuggets` whether it is the same). A number in **bold** differs from the printed one,
which stands in brackets beside it. Written by `make papers`.

"Columns" are the metric values that the authors released; "from text" is computed here from the responses: `distinct`
as it is by default (`absent=zero`), `cos-sim` with `variant=reference`, both rounded to three decimals before
correlating, as the released code does (`--decimals 3`).
The tasks storyGen and respGen are `story` and `resp`; the data of promptGen, of top-p and top-k sweeps (other columns
of Tables 2 to 10), of aspHDS, simHDS and of the ranking experiment (Table 5) was not at hand.
"""

CLOSING = """## What differs, and why

- Table 4, respGen: the released file has 220 sets, and they give distinct-n .35/.68 (print: .34/.67) and BERT-STS OCA
  .71 (print: .72); rho of distinct-n from text, unrounded, is .345.
- Table 9: distinct-n has OCA .51 (print: .49). An OCA below one half cannot be the best of all thresholds on balanced
  classes, since "always low" is right on half of the sets; perhaps the printed search left out the outermost
  thresholds.
- Table 10: cos-sim has OCA .55 (.545; print: .54): 109 of 200 sets.
- Tables 2, 6, 7: rho over all sets agrees in every digit. Means and standard deviations of 100 random subsets are
  random themselves: a mean has a standard error of a tenth of the printed deviation, a deviation one of about 7 %.
  Bold ones are within three such errors of the print (a test checks this). "2 random sets per temperature" (section
  6.3) is what `--draw even` does, which is the default for a sweep, and gives all five printed deviations of respGen;
  200 of the sets at random (`--draw simple`) have larger deviations (up to .015 where .01 is printed). Temperatures
  were rounded by the authors: 101 and 102 different ones, 9 or 10 sets each.
- distinct-n of a set without an n-gram of some order (all responses are too short) counts that order as 0
  (`absent=zero`): section 6.2 averages over n = 1 to 5, so that every order weighs a fifth, and the released columns
  agree with nothing else on such sets. The files here have few of them, sets of completions of a few words have many:
  there `absent=omit` is another metric.
- OCA is one-directional, as defined; `--directions both` is what the released code does.
- The values in the columns were rounded to three decimals, which moves rho by at most .001 and OCA by one or two
  sets.
"""


def main() -> int:
    """Run every study and write the page."""
    runs: dict[str, Run] = {}
    parts = [INTRODUCTION]
    for name, title in TITLES.items():
        runs[name] = _content(name)
        parts.append(f"## {title}\n\n{runs[name].shown}\n\n{_content_table(name, runs[name])}\n")
        if name == "table4":
            parts.append(_ties(runs[name]))
            drawn = _figure("content", CONTENT["table4"].values(), "averaged_distinct_ngrams bert_score abs_hds_mean")
            parts.append(
                f"```\n{drawn.command}\n```\n\n![Histograms of the two classes](figures/content.png)\n\n"
                "Figures 1 and 4, for storyGen and respGen: the two classes under three metrics, and the threshold.\n"
            )
    runs["table2"], runs["table2-human"] = _decoding()
    parts.append(_decoding_part(runs["table2"], runs["table2-human"]))
    runs["nuggets"] = study(
        f"nuggets {DATA}/diversity_eval/{CONTENT['table8']['story']} --tasks story", figure="nuggets.png"
    )
    parts.append(_nuggets_part(runs["nuggets"]))
    runs["stability"] = study(
        f"stability {DATA}/diversity_eval/{CONTENT['table4']['story']} --tasks story --column metric_abs_hds_mean "
        "--ratings-per-set 10 --sets 20,50,100,150,200,250 --per-set 1,2,3,5,10",
        figure="stability.png",
    )
    parts.append(_stability_part(runs["stability"]))
    runs["ranking"] = study(
        "ranking " + " ".join(f"{DATA}/diversity_eval/{file}" for file in DECODING.values())
        + " --tasks story,resp --column 'metric_*'"
    )  # fmt: skip
    parts.append(_ranking_part(runs["ranking"]))
    runs["ours-content"], runs["ours-decoding"] = _ours()
    parts.append(_ours_part(runs["ours-content"], runs["ours-decoding"]))
    write_text(OUT, "\n".join([*parts, CLOSING]))
    rows = {name: {"command": run.command, **run.document} for name, run in runs.items() if name.startswith("ours")}
    write_text(RESULTS, json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
    print(f"papers: wrote {OUT}", file=sys.stderr)
    return 0


def _content(name: str) -> Run:
    files = " ".join(f"{DATA}/diversity_eval/{file}" for file in CONTENT[name].values())
    metrics = " ".join(f"-m {spec}" for spec in FROM_TEXT.values())
    return study(f"content {files} --tasks {','.join(CONTENT[name])} --column 'metric_*' {metrics} --decimals 3")


def _figure(name: str, files: Iterable[str], columns: str) -> Run:
    """The figure of a study on story and resp, for three columns: of form, of a neural metric and of people."""
    paths = " ".join(f"{DATA}/diversity_eval/{file}" for file in files)
    chosen = " ".join(f"--column metric_{column}" for column in columns.split())
    return study(f"{name} {paths} --tasks story,resp {chosen}", figure=f"{name}.png")


def _content_table(name: str, run: Run) -> str:
    rows = []
    tasks = list(CONTENT[name])
    for metric, column in COLUMNS.items():
        if metric not in PRINTED[name][tasks[0]]:
            continue
        for source, spec in (("columns", column), ("from text", FROM_TEXT.get(metric))):
            if spec is None:
                continue
            cells = [metric, source]
            for task in tasks:
                found = run.row(spec, task)
                rho, oca = PRINTED[name][task][metric]
                digits = 3 if abs(rho) < 0.01 else 2
                cells += [beside(short(rho, digits), short(found["spearman"], digits)), show(found["spearman_ci"])]
                cells += [beside(short(oca), short(found["oca"])), show(found["threshold"], 3)]
            rows.append(cells)
    header = ["metric", "values"]
    header += [f"{task} {word}" for task in tasks for word in ("rho", "interval", "OCA", "threshold")]
    return table(header, rows)


def _ties(run: Run) -> str:
    rows = []
    for task in CONTENT["table4"]:
        mine = [run.row(column, task) for column in COLUMNS.values()]
        clusters: dict[int, list[str]] = {}
        for name, row in sorted(zip(COLUMNS, mine, strict=True), key=lambda pair: -pair[1]["spearman"]):
            clusters.setdefault(row["cluster"], []).append(name)
        rows.append([task, "; ".join(", ".join(names) for _, names in sorted(clusters.items()))])
    return (
        "Which metrics are tied? Clusters at p < .05, best first (paired permutation test on the same sets; metrics "
        "from text are left out of this list):\n\n" + table(["task", "clusters"], rows) + "\n"
    )


def _decoding() -> tuple[Run, Run]:
    metrics = " ".join(f"-m {spec}" for spec in FROM_TEXT.values())
    files = " ".join(f"{DATA}/diversity_eval/{file}" for file in DECODING.values())
    human = " ".join(f"{DATA}/diversity_eval/{file}" for file in DECODING_HUMAN.values())
    return (
        study(f"decoding {files} --tasks story,resp --column 'metric_*' {metrics} --decimals 3"),
        study(f"decoding {human} --tasks story,resp --column 'metric_*'"),
    )


def _decoding_part(run: Run, human: Run) -> str:
    rows = []
    for metric, column in COLUMNS.items():
        specs = [("columns", column)] + ([("from text", FROM_TEXT[metric])] if metric in FROM_TEXT else [])
        for source, spec in specs:
            cells = [metric, source]
            for task in DECODING:
                if metric == "absHDS":
                    found = human.row(column, task)["spearman"]
                    cells += [beside(short(PRINTED["table2"][task][metric][0]), short(found)), "-", "-"]
                    continue
                row, (rho, sd) = run.row(spec, task), PRINTED["table2"][task][metric]
                cells += [beside(short(rho), short(row["spearman_all"])), beside(short(rho), short(row["spearman"]))]
                cells.append(beside(short(sd), short(row["spearman_sd"])))
            rows.append(cells)
    header = ["metric", "values", *(f"{t} {word}" for t in DECODING for word in ("rho, all sets", "mean", "sd"))]
    pearson = [
        [task, *(short(human.row(COLUMNS[m], task)["pearson"]) for m in ("cos-sim", "BERT-STS", "absHDS"))]
        for task in DECODING
    ]
    drawn = _figure("decoding", DECODING_HUMAN.values(), "averaged_cosine_similarity bert_sts abs_hds_mean")
    return (
        f"## Table 2, and the temperature columns of Tables 6 and 7: decoding test\n\n{run.shown}\n\n"
        f"{human.shown}\n\n{table(header, rows)}\n\n"
        f"```\n{drawn.command}\n```\n\n![Values against temperature](figures/decoding.png)\n\n"
        "Figures 3 and 6: every set with human scores, raters' standard deviations as bars, medians as a line.\n\n"
        "Section 6.3 gives Pearson's r for respGen as .6, .75 and .77:\n\n"
        + table(["task", "cos-sim", "BERT-STS", "absHDS"], pearson)
        + "\n"
    )


def _nuggets_part(run: Run) -> str:
    row = run.rows[0]
    return (
        f"## Appendix C.2: building nuggets\n\n{run.shown}\n\n{row['kept']:,} of {row['n']:,} sets are kept "
        f"({row['share']:.0%}; the authors kept 1,012 of the 2,000), {row['low']} of either class. Rho of distinct-n "
        f"goes from {short(row['spearman_before'])} to {short(row['spearman'], 3)}.\n\n"
        "![Classes over distinct-n before and after](figures/nuggets.png)\n"
    )


def _stability_part(run: Run) -> str:
    sizes = sorted({row["sets"] for row in run.rows})
    counts = sorted({row["ratings"] for row in run.rows})
    found = {(row["sets"], row["ratings"]): row for row in run.rows}

    def plan(row: dict[str, Any]) -> str:
        return f"{short(row['spearman'])} ± {short(row['spearman_sd'])}, ${row['cost']:.0f}"

    rows = [[str(size), *(plan(found[size, count]) for count in counts)] for size in sizes]
    return (
        f"## Figure 5: stability of absHDS on conTest story\n\n{run.shown}\n\n"
        + table(["sets", *(f"{c} ratings" for c in counts)], rows)
        + "\n\nRho of absHDS with the label, its standard deviation over draws, and the cost at $0.18 per rating "
        "(appendix A; 200 sets with 10 ratings cost $360). The released data has means and standard deviations of "
        "ratings, not single ones: fewer ratings are simulated. simHDS asks about 10 pairs per set at $0.056, $1,120 "
        "for the same plan (`--price 0.056` with a ratings file that has pairs). "
        "The paper chose 200 sets and 10 ratings by eye. What is enough depends on how small a difference matters: "
        "`--tolerance` is .05 here.\n\n"
        f"{run.notes}\n\n![Rho against the number of sets](figures/stability.png)\n"
    )


def _ranking_part(run: Run) -> str:
    rows = []
    for metric, column in COLUMNS.items():
        if metric == "absHDS":
            continue
        found = [run.row(column, task) for task in DECODING]
        rows.append([metric, *(short(row[key]) for row in found for key in ("spearman", "accuracy"))])
    header = ["metric", *(f"{task} {word}" for task in DECODING for word in ("rho", "acc"))]
    return (
        f"## Ranking test (the kind of Table 5, on other pairs)\n\n{run.shown}\n\n{table(header, rows)}\n\n"
        f"The pairs of Table 5 were not released: two sets for one context. Here sets of different contexts are "
        f"paired, so the context adds noise and numbers are lower than the printed ones. Every pair enters in both "
        f"orders: the paper does not say which set is subtracted from which, and with one order per pair rho depends "
        f"on it.\n\n{run.notes}\n"
    )


def _ours() -> tuple[Run, Run]:
    metrics = " ".join(f"-m {spec}" for spec in OURS)
    con = " ".join(f"{DATA}/diversity_eval/{file}" for file in CONTENT["table4"].values())
    dec = " ".join(f"{DATA}/diversity_eval/{file}" for file in DECODING.values())
    return (
        study(f"content {con} --tasks story,resp {metrics}"),
        study(f"decoding {dec} --tasks story,resp {metrics}"),
    )


def _ours_part(con: Run, dec: Run) -> str:
    rows = []
    for spec in OURS:
        cells = [f"`{spec}`"]
        for task in ("story", "resp"):
            row = con.row(spec, task)
            cells += [short(row["spearman"]), short(row["oca"]), str(row["cluster"])]
        for task in ("story", "resp"):
            cells.append(short(dec.row(spec, task)["spearman_all"]))
        rows.append(cells)
    header = ["metric"]
    header += [f"conTest {task} {word}" for task in ("story", "resp") for word in ("rho", "OCA", "cluster")]
    header += [f"decTest {task} rho" for task in ("story", "resp")]
    return (
        f"## The same tests for NLGauge's own metrics\n\n{con.shown}\n\n{dec.shown}\n\n{table(header, rows)}\n\n"
        "Models: MiniLM for the embedding metrics. Metrics in one cluster do not differ significantly (p < .05). "
        "All rows, with intervals and signatures, are in `diversity.json`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
