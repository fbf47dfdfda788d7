"""Writes `docs/papers/ead.md`: expectation-adjusted distinct, agreement with people, length bias (Liu et al. 2022)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

from nlgauge.engine.files import write_text
from nlgauge.report.study_tables import mark, short, show
from nlgauge.stats.dependent import williams
from papers.pages import DOCS, Run, beside, data_folder, study, table
from papers.printed import EAD_TABLE, printed
from papers.utterances import utterances

OUT = DOCS / "ead.md"
KINDS = ("pearson", "spearman", "kendall")
CORPORA = {"DailyDialog": "dailydialog/dialogues_train.txt", "OpenSubtitles": "opensubtitles/test.txt"}
CHANGES = {
    "as above": "",
    "V = 10,000": "--vocabulary 10000",
    "V = 100,000": "--vocabulary 100000",
    "sets of 1,000": "--texts-per-set 1000",
    "sets of 500": "--texts-per-set 500",
    "lower case": "--case lower",
    "word tokens, lower case": "--tok word --case lower",
    "WordPiece (BERT's tokens, to which V belongs)": "--tok wordpiece",
    "another seed": "--seed 1",
}

INTRODUCTION = """# Rethinking and refining the distinct metric (Liu et al. 2022)

How to redo Table 2 and Figures 1 and 2 as far as the data allows, what comes out, and how it compares with the print.
A number in **bold** differs from the printed one, which stands in brackets beside it. Written by `make papers`.
"""

UTTERANCES = """## Length bias: Figures 1 and 2

Sets of 2,000 texts of one length, 10 sets per length, from two corpora and from the designated distribution of section
2; the score of each set, its mean for each length, and a straight line through the means. Rows "(cut)" have the same
2,000 texts at every length, cut after so many words: nothing but length differs. The corpora are utterances, one per
line:

```
python -m papers.utterances $NLGAUGE_DATA/dailydialog/dialogues_train.txt > dailydialog.txt
python -m papers.utterances $NLGAUGE_DATA/opensubtitles/test.txt > opensubtitles.txt
```
"""

CLOSING = """## How to read this

- Distinct falls with length in sets of texts of one length, also where every text comes from one distribution: it
  punishes longer texts. Where the same texts are cut, it falls on DailyDialog; on OpenSubtitles, whose texts are cut to
  2-5 words, that is not shown.
- On the designated distribution, which is nearly uniform as EAD assumes, EAD is flat. On the corpora its slope is
  closer to zero than that of distinct at the paper's settings, but it is not zero: it rises on DailyDialog.
- The second table changes one setting at a time. EAD's slope depends on V, on the size of the sets and on the
  tokeniser, and even its sign does. With V = 10,000 EAD changes more with length than distinct does. Appendix D says
  that V hardly matters beyond 30,000; between 30,522 and 100,000 the slope on DailyDialog changes sign. V belongs to
  BERT's tokens (`--tok wordpiece`), while words at spaces are another vocabulary.
- So "where the two disagree, trust EAD" holds with some data and settings and is wrong with others. Compare EAD between
  systems only at equal settings, and look at both slopes on your own data first: `nlgauge study length-bias` and
  `nlgauge report` cut the texts at hand to common lengths, and say which score changes less only where the intervals of
  the slopes tell.
- Intervals of sets of one length treat lengths as independent points around a straight line; the curves are not quite
  straight. Those of cut texts are jackknives over texts.
- The paper shows six more corpora (appendix A), which are not at hand, and its OpenSubtitles is another extract.
"""


def main() -> int:
    """Run every study and write the page."""
    people = study(
        "correlation papers/ead_table2.csv --truth human --column distinct --column ead --by dataset", figure="ead.png"
    )
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name, path in CORPORA.items():
            lines = "".join(f"{text}\n" for text in utterances(data_folder() / path))
            (work / f"{name.lower()}.txt").write_text(lines, encoding="utf-8")
        files = "dailydialog.txt opensubtitles.txt --tasks DailyDialog,OpenSubtitles"
        bias = study(f"length-bias {files}", figure="length-bias.png", work=work)
        changed = {
            title: study(f"length-bias {files} --no-designated --no-cut {options}".rstrip(), work=work)
            for title, options in CHANGES.items()
        }
    parts = [INTRODUCTION, _people_part(people), UTTERANCES, _bias_part(bias), _changes_part(changed), CLOSING]
    write_text(OUT, "\n".join(parts))
    print(f"papers: wrote {OUT}", file=sys.stderr)
    return 0


def _people_part(run: Run) -> str:
    rows = []
    prints: dict[str, Any] = printed()["ead"]["table2"]
    for dataset, metrics in prints.items():
        for metric, kinds in metrics.items():
            row = run.row(metric, dataset)
            cells = [dataset, metric]
            for kind in KINDS:
                value, sign = kinds[kind]
                found = short(row[kind]) + mark(row[f"{kind}_p"])
                cells += [beside(short(value) + sign, found), short(row[f"{kind}_p"], 3)]
            rows.append(cells)
    header = ["dataset", "metric", *(word for kind in KINDS for word in (kind, "p"))]
    unmarked = run.row("distinct", "DailyDialog")["spearman_p"]
    differences = ", ".join(f"p = {short(_williams(dataset))} on {dataset}" for dataset in prints)
    return (
        f"## Table 2: agreement with people\n\nThe columns of Table 2 (ten methods, two datasets) are in "
        f"`papers/ead_table2.csv`.\n\n{run.shown}\n\n{table(header, rows)}\n\n"
        "† p < .1, ‡ p < .05, two-sided, n = 10. All twelve correlations come out as printed. One mark does not: "
        f"Spearman's rho of distinct on DailyDialog is printed with †, and has p = {short(unmarked)} with ten methods. "
        f"Ten methods do not tell whether EAD agrees better than distinct: Williams' test of the two Pearson "
        f"correlations has {differences}.\n\n"
        "![Scores of methods against people](figures/ead.png)\n"
    )


def _williams(dataset: str) -> float:
    """Is Pearson's correlation of EAD with people higher than that of distinct?"""
    rows = pl.read_csv(EAD_TABLE).filter(pl.col("dataset") == dataset)
    ead, distinct, human = (rows[name].to_numpy() for name in ("ead", "distinct", "human"))
    return float(williams(ead, distinct, human).p or 0.0)


def _bias_part(run: Run) -> str:
    rows = [
        [
            str(row["task"]), str(row["metric"]), f"{row['shortest']}-{row['longest']}", show(row["slope"], 5),
            show(row["slope_ci"], 5), show(row["relative_slope"], 4), show(row["relative_slope_ci"], 4),
        ]
        for row in run.rows
    ]  # fmt: skip
    header = ["corpus", "score", "lengths", "slope a token", "interval", "relative slope", "interval"]
    return (
        f"{run.shown}\n\n{table(header, rows)}\n\nA relative slope of -.02: a token more costs 2 % of the score.\n\n"
        f"![Scores against length](figures/length-bias.png)\n\n{run.notes}\n"
    )


def _changes_part(runs: dict[str, Run]) -> str:
    rows = []
    for title, run in runs.items():
        cells = [title]
        for task in CORPORA:
            for score in ("distinct", "ead"):
                row = run.row(f"{score} (corpus)", task)
                cells.append(f"{show(row['relative_slope'], 4)} {show(row['relative_slope_ci'], 4)}")
        rows.append(cells)
    header = ["setting", *(f"{task} {score}" for task in CORPORA for score in ("distinct", "EAD"))]
    return f"### How much the settings matter: relative slopes\n\n{table(header, rows)}\n"


if __name__ == "__main__":
    sys.exit(main())
