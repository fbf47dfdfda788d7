"""Where results go: one group of options for every command that prints, and what they do."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nlgauge.cli.commands import current_plan
from nlgauge.configured import Options, check_that, option
from nlgauge.errors import OptionError, UnknownName, argument

if TYPE_CHECKING:
    from nlgauge.report.tables import Sheet
    from nlgauge.studies.base import Result

_ALIASES = {"md": "markdown", "tex": "latex"}
TABLES, PAGE = (".jsonl", ".csv", ".tsv", ".parquet"), (".html",)
SPREADSHEET = "CSV for a spreadsheet: an apostrophe before text that it would run as a formula."
FORMATS = ("text", "json", "csv", "markdown", "latex", "parquet")


@dataclass(frozen=True, kw_only=True)
class Output(Options):
    """The format of a result, and the file that it is written to."""

    heading: ClassVar[str] = "Output"

    format: str = option(
        "",
        "text, json, csv, markdown, latex or parquet. Default: as the output's name says, else text.",
        metavar="FORMAT",
        flags=("--format", "-f"),
    )
    output: Path | None = option(
        None, "Write the result here instead of printing it.", metavar="OUT", flags=("--output", "-o")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        name = _ALIASES.get(self.format, self.format)
        if name and name not in FORMATS:
            raise UnknownName.among("format", self.format, FORMATS)
        object.__setattr__(self, "format", name)

    def check(self, files: Iterable[str]) -> str:
        """The format; fails before any work when the result could not be written."""
        from nlgauge.report.tables import choose_format

        if self.output is not None and not self.format and self.output.suffix.lower() in (".pdf", ".html", ".htm"):
            raise OptionError(
                f"{self.output}: a table cannot be '{self.output.suffix}'; expected .txt, .json, .csv, .md, .tex or "
                ".parquet; nlgauge report writes PDF and HTML",
                option="output",
            )
        if self.output is not None:
            check_output(self.output, files)
        return choose_format(self.format, self.output)

    def write(self, sheet: Sheet, form: str, *, spreadsheet: bool = False) -> None:
        """Print the result or write it; a JSON file carries the plan that makes it again."""
        from nlgauge.report.tables import render, write_sheet

        if self.output is None:
            print(render(sheet, form, spreadsheet=spreadsheet))
            return
        plan = current_plan()
        document = {**sheet.document, "plan": plan} if plan else sheet.document
        write_sheet(replace(sheet, document=document), form, self.output, spreadsheet=spreadsheet)
        say(f"wrote {self.output}")


@dataclass(frozen=True, kw_only=True)
class ChartOutput(Output):
    """Output of a command that draws a figure, too."""

    chart: Path | None = option(None, "Draw the figure: .html, .png, .svg or .pdf.", metavar="OUT")

    def check(self, files: Iterable[str]) -> str:
        """As `Output`, and the chart can be drawn."""
        if self.chart is not None:
            from nlgauge.drawing import check_chart_path

            check_chart_path(self.chart)
            check_output(self.chart, files)
        return super().check(files)


@dataclass(frozen=True, kw_only=True)
class Plugins(Options):
    """A user's own files."""

    heading: ClassVar[str] = "Metrics"

    plugins: Sequence[str] = option(
        (),
        "Your own file that registers metrics, studies, perturbations or rules; it is run. Repeat for more.",
        metavar="FILE.py",
        flags=("--plugin",),
    )

    def use(self) -> None:
        """Have the files run, here and in worker processes, beside those that the environment names already."""
        from nlgauge.registry import add_plugins

        add_plugins(self.plugins)


def check_output(output: Path, files: Iterable[str]) -> None:
    """Fail before any work when the output cannot be written, or would overwrite an input."""
    from nlgauge.engine.files import check_writable

    check_writable(output)
    if output.exists() and any(Path(file).exists() and output.samefile(file) for file in files):
        raise OptionError(f"{output}: is one of the input files; choose another name for the output")


def check_file(name: str, output: Path, files: Iterable[str], endings: Sequence[str] = TABLES) -> None:
    """Fail before any work when a table, or what these endings stand for, could not be written there."""
    if output.suffix not in endings:
        raise OptionError(f"{argument(name, output)}; expected a name ending in {', '.join(endings)}")
    check_output(output, files)


def show_result(result: Result, form: str, output: Output) -> None:
    """Print or write a study's result, and draw its figure."""
    from nlgauge.report.study_tables import study_sheet

    if isinstance(output, ChartOutput) and output.chart is not None:
        from nlgauge.drawing import save_chart

        save_chart(result.chart(), output.chart, title=f"NLGauge: {result.name}")
        say(f"drew {output.chart}")
    if form in ("json", "csv", "parquet"):
        for note in result.notes:
            say(f"note: {note}")
    output.write(study_sheet(result), form)


def show_list(kind: str, rows: Sequence[Mapping[str, Any]], text: str, output: Output) -> None:
    """Print or write a list: `text` as it is, JSON under the name `kind`, and tables of the rows."""
    form = output.check(())
    from nlgauge.report.tables import list_sheet

    output.write(list_sheet(kind, rows, text), form)


def show_document(kind: str, found: Any, text: str, output: Output) -> None:
    """Print or write a dataclass as JSON, or `text`."""
    import msgspec
    import polars as pl

    from nlgauge.report.tables import Sheet
    from nlgauge.schema import stamped

    form = output.check(())
    check_that(form in ("text", "json"), "format", form, "text or json")
    output.write(Sheet([], [], [], pl.DataFrame(), stamped(kind, msgspec.to_builtins(found)), text=text), form)


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text, each cell but the last as wide as its column."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)), row[-1]]) for row in rows
    )


def say(message: str) -> None:
    """A message on standard error."""
    print(f"nlgauge: {message}", file=sys.stderr)
