"""Writes `docs/papers/tester.md`: a decoding test without data, with SmolLM2 as the tester on the example contexts.

Response sets go to `build/papers/`; a killed run resumes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from nlgauge.engine.files import write_text
from nlgauge.report.study_tables import short, show
from papers.pages import DOCS, Run, study, table

OUT = DOCS / "tester.md"
ROOT = Path(__file__).parent.parent
SETS = "build/papers/sets.jsonl"
METRICS = ("distinct", "cos-sim", "self-bleu", "sent-sim", "vendi")
GENERATE = (
    f"generate examples/system_a.jsonl -o {SETS} --model smollm2 --sweep temperature=0.2:1.2:30 --limit 10 "
    "--responses-per-set 10 --max-new-tokens 25"
)


def main() -> int:
    """Generate, study and write the page."""
    (ROOT / SETS).parent.mkdir(parents=True, exist_ok=True)
    if not (ROOT / SETS).exists():
        print(f"papers: nlgauge {GENERATE}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "nlgauge.cli.main", *GENERATE.split()], cwd=ROOT, check=True)
    metrics = " ".join(f"-m {metric}" for metric in METRICS)
    run = study(f"decoding {SETS} {metrics}", figure="tester.png")
    ranking = study(f"ranking {SETS} {metrics}")
    write_text(OUT, _page(run, ranking))
    print(f"papers: wrote {OUT}", file=sys.stderr)
    return 0


def _page(run: Run, ranking: Run) -> str:
    rows = []
    for metric in METRICS:
        row, pairs = run.row(metric), ranking.row(metric)
        rows.append(
            [
                f"`{metric}`", short(row["spearman"]), show(row["spearman_ci"]), short(row["pearson"]),
                str(row["cluster"]), short(pairs["spearman"]), short(pairs["accuracy"]), show(pairs["accuracy_ci"]),
            ]
        )  # fmt: skip
    header = ["metric", "rho", "interval", "r", "cluster", "ranking rho", "accuracy", "interval"]
    return f"""# A decoding test without data

Ten contexts of the examples, SmolLM2-135M as the tester, 30 temperatures from 0.2 to 1.2, ten responses per set:
{run.rows[0]["n"]} sets. Written by `make papers`, on a CPU.

```
nlgauge {GENERATE}
{run.command}
{ranking.command}
```

Signatures: `{run.document["signature"]}`, `{ranking.document["signature"]}`

{table(header, rows)}

Metrics in one cluster do not differ at p < .05. In the ranking test, two sets answer the same context, as in
Table 5 of Tevet & Berant (2021); {ranking.rows[0]["n"]} pairs. Sets that share a context are not independent:
intervals and tests resample contexts, and ten of them are few.

![Values against temperature](figures/tester.png)
"""


if __name__ == "__main__":
    sys.exit(main())
