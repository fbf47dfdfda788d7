"""Writes `docs/content_test.md`: content tests built from the contexts of `examples/`, and a reading of their sets.

Verdicts stand in `papers/content_verdicts.toml`, under the tester, the class and the set's own key, so that they stay
with the set that was read: a set that changes loses its verdict and is shown as unread.
"""

from __future__ import annotations

import html
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from nlgauge.data.columns import Reading
from nlgauge.engine.files import write_text
from nlgauge.perturb.base import draw_for
from nlgauge.report.study_tables import short, show
from nlgauge.studies.base import Result
from nlgauge.studies.testers.base import Context
from nlgauge.studies.testers.build import ContentTestPlan, build_content_test
from nlgauge.studies.testers.contexts import read_responded
from papers.perturbations import VALID, WEAK

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs" / "content_test.md"
VERDICTS = ROOT / "papers" / "content_verdicts.toml"
FOLDER = ROOT / "build" / "content_test"
FILES = tuple(str(ROOT / "examples" / f"system_{name}.jsonl") for name in "ab")
PLANS = {"data": (ContentTestPlan(tester=("data",)), 1), "model": (ContentTestPlan(tester=("model:model=smollm2",)), 2)}
READ, SEED = 20, 2021
TITLES = {
    "data": "The model-free tester",
    "model": "SmolLM2-135M as the tester",
}


def contexts_for(tester: str) -> list[Context]:
    """All contexts of the examples, or every second one for the model, which is slow."""
    return read_responded(FILES, Reading())[:: PLANS[tester][1]]


def built(tester: str) -> tuple[Result, list[dict[str, Any]]]:
    """The content test by a tester, and its sets; what is finished is kept in `build/`."""
    folder = FOLDER / tester
    result = build_content_test(contexts_for(tester), PLANS[tester][0], folder, progress=True)
    return result, [json.loads(line) for line in (folder / f"{tester}.jsonl").read_text(encoding="utf-8").splitlines()]


def read_sets(rows: list[dict[str, Any]], label: int) -> list[dict[str, Any]]:
    """The sets of a class that were read: random ones, in the order of the file."""
    mine = [row for row in rows if row["content_diversity"] == label]
    places = draw_for(SEED, label).sample(range(len(mine)), min(READ, len(mine)))
    return [mine[place] for place in sorted(places)]


def key_of(row: dict[str, Any]) -> str:
    """What a verdict belongs to: the context and the texts themselves."""
    return f"{row['context_id']}-{draw_for(0, *row['responses']).getrandbits(32):08x}"


def main() -> int:
    """Build the tests and write the page."""
    verdicts = tomllib.loads(VERDICTS.read_text(encoding="utf-8")) if VERDICTS.exists() else {}
    results, summary, parts = [], [], list[str]()
    for tester in PLANS:
        result, rows = built(tester)
        results.append((tester, result, len(contexts_for(tester))))
        parts.append(f"## {TITLES[tester]}\n")
        for label, name in ((1, "high"), (0, "low")):
            known = verdicts.get(tester, {}).get(name, {})
            read = [(row, known.get(key_of(row))) for row in read_sets(rows, label)]
            found = [verdict for _, verdict in read if verdict is not None]
            weak = sum(verdict.startswith(WEAK) for verdict in found)
            valid = weak + found.count(VALID)
            summary.append([tester, name, len(read), valid, weak, len(found) - valid, len(read) - len(found)])
            parts += [f"### {name.capitalize()} sets\n"]
            parts += [line for number, (row, verdict) in enumerate(read, 1) for line in shown(number, row, verdict)]
            parts.append("")
    write_text(OUT, page(results, summary, parts))
    print(f"papers: wrote {OUT}", file=sys.stderr)
    return 0


def shown(number: int, row: dict[str, Any], verdict: str | None) -> list[str]:
    """A set with its verdict."""
    if verdict is None:
        said = "**unread**"
    elif verdict == VALID:
        said = "valid"
    elif verdict.startswith(WEAK):
        said = f"*weak:* {verdict.removeprefix(WEAK)}"
    else:
        said = f"**not valid:** {verdict}"
    texts = " · ".join(html.escape(" ".join(text.split()), quote=False) for text in row["responses"])
    return [f"{number}. **{html.escape(row['context'], quote=False)}** {texts} ({said})"]


def page(results: list[tuple[str, Result, int]], summary: list[list[Any]], parts: list[str]) -> str:
    """The whole page."""
    numbers, notes = [], list[str]()
    for tester, result, _ in results:
        for row in result.rows:
            cells = [row["task"], f"`{row['metric']}`", str(row["n"]), short(row["spearman"]), show(row["spearman_ci"])]
            numbers.append([*cells, short(row["oca"]), short(row["oca_corrected"]), show(row["oca_corrected_ci"])])
        notes += [f"- {note}" for note in result.notes if note.startswith(f"{tester}:")]
        notes.append(f"- {result.sentence}")
    head = ["sets", "metric", "n", "rho", "interval", "OCA", "OCA on new data", "interval"]
    read = ["tester", "class", "read", "valid", "of them weak", "not valid", "unread"]
    return f"""{INTRODUCTION}
{table(read, summary)}

{READING}
## Numbers

{table(head, numbers)}

{chr(10).join(notes)}

A rho of .87 is about the largest that two classes of equal size allow. Sets whose classes differ in form show nothing
about content, and a label that is wrong by reading shows nothing at all: these numbers say what the testers do, not
what the metrics see. On sets that were written with care, as those of
[examples/content_sets.jsonl](questions/which-metric.md), `distinct` does not follow the label.

{chr(10).join(parts)}"""


def table(head: list[str], rows: list[list[Any]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


INTRODUCTION = f"""# Content tests from nothing, read set by set

Paper 1 tests metrics on sets of high and low content diversity that people wrote. `nlgauge content-test` builds such
sets on contexts of your own, with your own responses and the perturbation library (`--tester data`) or with a language
model (`--tester model:model=NAME`). This page says what comes of that: {READ} sets of each class by each of two
testers, made from the contexts and responses of `examples/` alone. Written by `python -m papers.content_test`; verdicts
were given by reading, and stand in `papers/content_verdicts.toml`.

```
nlgauge content-test examples/system_a.jsonl examples/system_b.jsonl --folder test --tester data
nlgauge content-test contexts.jsonl --folder test --tester model:model=smollm2
```

(`contexts.jsonl` here: every second context of the examples.) A high set is *valid* if its five texts say five
different things; it is *weak* if two of them say nearly the same, or if texts do not fit the context. A low set is
*valid* if all five say the same thing; it is *weak* if a nuance or the grammar of one suffers.
"""
READING = """What the verdicts say:

- **The model-free tester keeps the content, and nearly all of the form.** Its low sets say one thing five times; two
  have a word that sits badly. But a few words change in each version, so these sets are not what paper 1 asks for: the
  same content in *different* form.
- **Its high sets are as good as the data.** Near-copies are left out, but “Okay, I'll try to finish it by noon.” and
  “Okay, I'll try to have it finished by noon.” share a little less than 85% of their characters. One of the two systems
  is repetitive on purpose and gives two or three of the five. Responses by five people would be better. Half of the
  contexts have no sets, since no response to them can be said in five ways by word tables.
- **SmolLM2-135M says different things, but few that fit.** Nearly all of its high sets are weak: it replies to a story
  where an ending is due, and to opening words where the sentence should go on. Three cannot be understood.
- **SmolLM2-135M cannot rephrase.** It adds, denies, or turns around who does what: one low set of 20 keeps its content,
  roughly. The label of its low sets is wrong by reading. Take a model that follows instructions (an endpoint is asked
  in a chat and shown what it has written), and read 20 sets of each class before you trust a number.
- **People are the best testers**: [two forms](annotate.md#people-who-write) ask them.
"""

if __name__ == "__main__":
    raise SystemExit(main())
