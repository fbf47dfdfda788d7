"""Pages of `docs/papers/`: run the commands that they show, and put the numbers beside the print."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs" / "papers"
FIGURES = DOCS / "figures"
DATA = "$NLGAUGE_DATA"


@dataclass(frozen=True)
class Run:
    """A command as the page shows it, and what it printed as JSON."""

    command: str
    document: dict[str, Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The study's rows."""
        rows: list[dict[str, Any]] = self.document["rows"]
        return rows

    def row(self, metric: str, task: str | None = None) -> dict[str, Any]:
        """The row of a metric on a task."""
        return next(r for r in self.rows if r["metric"] == metric and (task is None or r["task"] == task))

    @property
    def shown(self) -> str:
        """The command and the signature, in Markdown."""
        return f"```\n{self.command}\n```\n\nSignature: `{self.document['signature']}`"

    @property
    def notes(self) -> str:
        """The study's notes, a list in Markdown."""
        return "\n".join(f"- {note}" for note in self.document.get("notes", []))


def data_folder() -> Path:
    """The folder of the research data."""
    place = os.environ.get("NLGAUGE_DATA")
    if not place:
        raise SystemExit("papers: NLGAUGE_DATA is not set; name the folder of the research data")
    return Path(place)


def study(arguments: str, *, figure: str = "", work: Path | None = None) -> Run:
    """Run `nlgauge study ARGUMENTS`; `figure` draws the chart into `docs/papers/figures/`. `work`: where it runs."""
    return command(f"study {arguments}", figure=figure, work=work)


def command(arguments: str, *, figure: str = "", work: Path | None = None) -> Run:
    """Run `nlgauge ARGUMENTS`, a command that prints a document."""
    print(f"papers: nlgauge {arguments[:100]}", file=sys.stderr, flush=True)
    words = shlex.split(arguments.replace(DATA, str(data_folder())))
    program = [sys.executable, "-m", "nlgauge.cli.main", *words, "--format", "json"]
    if figure:
        FIGURES.mkdir(parents=True, exist_ok=True)
        program += ["--chart", str(FIGURES / figure)]
    done = subprocess.run(program, cwd=work or Path(__file__).parent.parent, stdout=subprocess.PIPE, check=True)
    drawn = f" --chart {figure}" if figure else ""
    return Run(f"nlgauge {arguments}{drawn}", json.loads(done.stdout))


def do(arguments: str, *, work: Path | None = None) -> None:
    """Run `nlgauge ARGUMENTS`, a command that makes a file or a folder. `work`: where it runs."""
    print(f"papers: nlgauge {arguments}", file=sys.stderr, flush=True)
    words = shlex.split(arguments.replace(DATA, str(data_folder())))
    where = work or Path(__file__).parent.parent
    subprocess.run([sys.executable, "-m", "nlgauge.cli.main", *words], cwd=where, stdout=sys.stderr, check=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def beside(printed: str, ours: str) -> str:
    """A number of ours, with the print beside it where it differs."""
    return ours if printed == ours else f"**{ours}** ({printed})"
