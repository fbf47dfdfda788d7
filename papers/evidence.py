"""Writes `src/nlgauge/report/evidence.json`: what tests of metrics found, for the report card.

Rows come from results that `make papers` left beside its pages (`DOCUMENTS`) and from studies that run here within
minutes (`computed`). A result is a command with the JSON that it printed; its study decides which numbers are kept
(`KEPT`). To add the results of another script, let it write such documents, and name the file in `DOCUMENTS`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlgauge._version import __version__
from nlgauge.engine.files import write_text
from nlgauge.metrics.diversity.ngram import Distinct, ExpectationAdjustedDistinct
from nlgauge.metrics.orders import Orders
from papers.pages import DATA, DOCS, Run, data_folder, study
from papers.printed import CONTENT
from papers.utterances import utterances

OUT = Path(__file__).parent.parent / "src" / "nlgauge" / "report" / "evidence.json"
DOCUMENTS = {
    "diversity.json": {"story": "{test} story", "resp": "{test} resp"},
    "openmeva-suite.json": {"roc": "ROC stories", "wp": "WritingPrompts stories"},
}
TEST_DATA = {"content": "conTest", "decoding": "decTest"}
KEPT = {
    "content": {"rho": "spearman", "OCA": "oca"},
    "decoding": {"rho": "spearman_all"},
    "length-bias": {"relative slope": "relative_slope"},
    "correlation": {"rho": "spearman", "r": "pearson"},
    "discrimination": {"AUC": "auc", "paired accuracy": "paired_accuracy", "r": "pearson"},
    "invariance": {"change": "mean_change", "r": "abs_pearson"},
}
UNITS = {
    "content": "sets", "decoding": "sets", "length-bias": "lengths", "correlation": "methods",
    "discrimination": "texts", "invariance": "pairs",
}  # fmt: skip
# OCA is chosen on the sets that it classifies: an interval around it would not hold what it says.
INTERVALS = {"spearman_all": "spearman_ci", "oca": ""}
AVERAGE = "average"
FORM = ("distinct", "ead:over=set", "cos-sim", "self-bleu", "entropy", "compression")
MODELS = ("sent-sim", "content", "vendi", "kmeans-inertia", "volume")
DIGITS = 6


@dataclass(frozen=True)
class Part:
    """A result of a study: its key in the table, what it printed, and what its tasks are called.

    `metrics` gives the metric behind a row's name, as on the command line, and its signature, where the study's rows
    have none.
    """

    key: str
    run: Run
    data: Mapping[str, str]
    metrics: Mapping[str, tuple[str, str]]

    @property
    def test(self) -> str:
        """The study's name."""
        return str(self.run.document["study"])

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the table; of the studies of aspects, the mean over aspects."""
        for row in self.run.rows:
            if row.get("aspect", AVERAGE) != AVERAGE or row.get("rule") is not None:
                continue
            metric, signature = self.metrics.get(row["metric"], (row["metric"], row.get("signature", "")))
            found = {
                measure: {
                    "value": round(row[key], DIGITS),
                    "interval": _rounded(row.get(INTERVALS.get(key, f"{key}_ci"))),
                }
                for measure, key in KEPT[self.test].items()
                if row.get(key) is not None
            }
            if found and (not self.metrics or row["metric"] in self.metrics):
                task = str(row.get("task", ""))
                source = f" ({row['source']})" if row.get("aspect") and row.get("source") else ""
                number = next(row[key] for key in ("n", "pairs", "lengths") if row.get(key) is not None)
                yield {
                    "study": self.key, "metric": metric, "signature": signature,
                    "data": self.data.get(task, task) + source, "n": number,
                    "of": UNITS[self.test], "found": found,
                }  # fmt: skip


def _rounded(interval: list[float] | None) -> list[float] | None:
    return None if interval is None else [round(end, DIGITS) for end in interval]


def from_documents() -> Iterator[Part]:
    """Results that scripts of `make papers` wrote."""
    for name, titles in DOCUMENTS.items():
        for key, document in json.loads((DOCS / name).read_text(encoding="utf-8")).items():
            rest = {part: value for part, value in document.items() if part != "command"}
            test = TEST_DATA.get(document["study"], document["study"])
            data = {task: title.format(test=test) for task, title in titles.items()}
            yield Part(f"{name.removesuffix('.json')}/{key}", Run(document["command"], rest), data, {})


def cheap() -> Iterator[Part]:
    """Studies that take seconds; a test makes them again and compares with the table."""
    yield _nuggets("nuggets", FORM)
    people = study("correlation papers/ead_table2.csv --truth human --column distinct --column ead --by dataset")
    yield Part("people", people, {}, {"distinct": ("distinct", ""), "ead": ("ead", "")})
    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(f"{text}\n" for text in utterances(data_folder() / "dailydialog/dialogues_train.txt"))
        (Path(folder) / "dailydialog.txt").write_text(lines, encoding="utf-8")
        bias = study("length-bias dailydialog.txt --no-designated --vocabulary bert", work=Path(folder))
    corpus = Distinct(n=Orders(1), over="corpus", tok="space")
    ead = ExpectationAdjustedDistinct()
    metrics = {f"{one.name} (corpus)": (one.label, str(one.signature)) for one in (corpus, ead)}
    yield Part("length", bias, {"": "DailyDialog", "dailydialog": "DailyDialog"}, metrics)


def computed() -> Iterator[Part]:
    """Studies that no script of `make papers` writes down, those that take a model included."""
    yield from cheap()
    yield _nuggets("nuggets-models", MODELS)


def _nuggets(key: str, metrics: tuple[str, ...]) -> Part:
    """The content test on sets whose wording tells nothing about their content (paper 1, Table 9)."""
    chosen = " ".join(f"-m {metric}" for metric in metrics)
    run = study(f"content {DATA}/diversity_eval/{CONTENT['table9']['story']} --tasks story {chosen}")
    return Part(key, run, {"story": "McDiv nuggets story, wording held fixed"}, {})


def table_of(parts: list[Part]) -> dict[str, Any]:
    """The table as it is shipped."""
    return {
        "made_by": "python -m papers.evidence",
        "version": __version__,
        "studies": {
            part.key: {
                "test": part.test, "command": part.run.command, "signature": part.run.document["signature"],
            }
            for part in parts
        },
        "rows": [row for part in parts for row in part.rows()],
    }  # fmt: skip


def main() -> int:
    """Write the table."""
    document = table_of([*from_documents(), *computed()])
    write_text(OUT, json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    print(f"papers: wrote {OUT}: {len(document['rows'])} rows", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
