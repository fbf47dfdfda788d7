"""Options that the studies share, and what every study's command does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nlgauge.cli import inputs
from nlgauge.errors import OptionError

if TYPE_CHECKING:
    from nlgauge.studies.base import Study

Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE...", help="JSONL, CSV, TSV or Parquet; several files are several tasks."),
]
Format = Annotated[
    str, typer.Option("--format", "-f", callback=inputs.format_name, help="text, json, csv, markdown or latex.")
]
Chart = Annotated[Path | None, typer.Option(metavar="OUT", help="Draw the study's figure: .html, .png, .svg or .pdf.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column", metavar="COL", help="A column as one more metric; wildcards too ('metric_*').", show_default=False
    ),
]
RatingsFile = Annotated[
    str | None,
    typer.Option("--ratings", metavar="FILE", help="Ratings (item, rater, question, value): a metric a question."),
]
By = Annotated[str | None, typer.Option(metavar="COL", help="A task for each value of this column.")]
Tasks = Annotated[str | None, typer.Option("--tasks", metavar="NAME,NAME", help="What to call the files in the table.")]
Permutations = Annotated[int, typer.Option(help="Permutations of each test between two metrics.")]
Significance = Annotated[
    bool, typer.Option("--significance/--no-significance", help="Which metrics are tied: clusters at p < .05.")
]
Label = Annotated[str | None, typer.Option(metavar="COL", help="Column of the two classes.")]
High = Annotated[str | None, typer.Option(metavar="VALUE", help="The label of the diverse class; default: the larger.")]
Parameter = Annotated[str | None, typer.Option(metavar="COL", help="Column of the diversity parameter.")]
Scale = Annotated[str, typer.Option(metavar="auto|linear|log10", help="Scale of the parameter; auto: log10 of top_k.")]
Over = Annotated[
    str,
    typer.Option(
        metavar="auto|contexts|sets", help="What intervals and tests resample; auto: contexts where sets share them."
    ),
]
Decimals = Annotated[
    int | None, typer.Option(help="Round computed values; paper 1's released code rounds to 3 before it correlates.")
]


def check(format: str, chart: Path | None, files: list[str]) -> None:
    """Fail before any work when the result could not be printed or drawn."""
    from nlgauge.report.tables import FORMATS

    if format not in FORMATS:
        raise OptionError(f"--format {format}; expected one of {', '.join(FORMATS)}")
    if chart is not None:
        from nlgauge.drawing import check_chart_path

        check_chart_path(chart)
        inputs.check_output(chart, files)


def show(study: Study, format: str, chart: Path | None) -> None:
    """Print a study and draw its figure."""
    from nlgauge.report.study_tables import render_study

    if format in ("json", "csv"):
        for note in study.notes:
            print(f"nlgauge: note: {note}", file=sys.stderr)
    if chart is not None:
        from nlgauge.drawing import save_chart

        save_chart(study.chart(), chart, title=f"NLGauge: {study.name}")
        print(f"nlgauge: drew {chart}", file=sys.stderr)
    print(render_study(study, format))


def sources(
    files: list[str],
    input_format: str,
    responses: str | None,
    id: str | None,
    context: str | None,
    empty_cells: str,
    *,
    text: str | None = None,
    references: str | None = None,
    references_separator: str = "",
) -> list[Any]:
    """Sources from command-line options."""
    columns = {
        "responses": responses, "text": text, "id": id, "context": context, "references": references,
        "references_separator": inputs.unescaped(references_separator), "empty_cells": empty_cells,
    }  # fmt: skip
    return list(
        inputs.make_sources(
            files, input_format=input_format, columns=columns, set_size=0, aligned=None, extras="all"
        )
    )  # fmt: skip


def interval(level: float, resamples: int, seed: int) -> Any:
    """How to make intervals, checked before any work."""
    from nlgauge.metrics.score import Interval
    from nlgauge.stats.bootstrap import check_level

    check_level(level, resamples)
    return Interval(level, resamples, seed)


def names(tasks: str | None) -> tuple[str, ...]:
    """Names of tasks, as in `story,resp`."""
    return tuple(name.strip() for name in tasks.split(",")) if tasks else ()


def whole(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers, as in `50,100`."""
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise OptionError(f"{option} {text}; expected whole numbers, as in 50,100,200") from None


def ends(text: str, option: str) -> tuple[float, float] | None:
    """Two numbers, as in `1:5`, or None."""
    if not text:
        return None
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise OptionError(f"{option} {text}; expected LOW:HIGH, as in 1:5") from None
    return low, high
