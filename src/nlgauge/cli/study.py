"""`nlgauge study NAME` and `nlgauge filter NAME`: every command is made from its study's class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nlgauge.cli.commands import Command, CommandGroup, Lazy, argument, command
from nlgauge.cli.output import PAGE, TABLES, ChartOutput, Output, Plugins, check_file, say, show_result
from nlgauge.configured import named_files, option, option_of
from nlgauge.data.columns import Reading
from nlgauge.errors import OptionError
from nlgauge.errors import argument as named
from nlgauge.models.runtime import Machine

if TYPE_CHECKING:
    from nlgauge.engine.running import Progress
    from nlgauge.studies.base import Study


def _studies() -> dict[str, Lazy]:
    """All studies, also those of plugins, each imported when it is called."""
    from nlgauge.studies.registry import STUDIES, study_names

    return {name: Lazy(STUDIES.summary(name), partial(_command_of, name)) for name in study_names()}


def _command_of(name: str) -> Command:
    from nlgauge.studies.registry import STUDIES

    return study_command(STUDIES.find(name))


def _entropy() -> Command:
    from nlgauge.studies.ruq.entropy_filter import EntropyFilter

    return study_command(EntropyFilter, "entropy")


app = CommandGroup(
    "study",
    "Gauge the gauges: studies of metrics and of raters.",
    _studies,
    examples=["nlgauge study content examples/content_sets.jsonl -m distinct -m cos-sim --chart content.html"],
    heading="Studies",
)
filters = CommandGroup(
    "filter",
    "Filter training data.",
    {"entropy": Lazy("Leave out pairs whose context or reply has high entropy: the usual and the vague.", _entropy)},
    examples=["nlgauge filter entropy dialogues_train.txt --side target --kept kept.jsonl"],
)


def study_command(cls: type[Study], name: str = "") -> Command:
    """The command of a study: its own options, and the groups that every command has. `name`: where it has another."""
    also = [
        option_of(table, Path | None, option(None, f"{help} .jsonl, .csv or .parquet.", metavar="OUT"))
        for table, help in cls.tables.items()
    ]
    if cls.name == "huse":
        page = option(None, "A page with errors and their texts.", metavar="OUT.html")
        also.append(option_of("report", Path | None, page))
    if cls.takes == "file":
        also.append(option_of("files", str, argument("FILE", cls.files)))
    elif cls.takes != "none":
        absent = () if cls.takes == "any" else MISSING
        also.append(option_of("files", Sequence[str], argument("FILE...", cls.files, absent)))
    names: dict[str, type] = {"Study": cls, "Progress": cls.running_options()}
    if cls.has_chart():
        names["Output"] = ChartOutput
    return command(name or cls.name, _run, about=cls, names=names, also=also)


def _run(
    study: Study,
    reading: Reading,
    machine: Machine,
    running: Progress,
    plugins: Plugins,
    output: Output,
    **given: Any,
) -> None:
    files = given.pop("files", ())
    names = [files] if isinstance(files, str) else list(files)
    read = [*names, *named_files(study)]
    form = output.check(read)
    paths: dict[str, Path] = {table: path for table, path in given.items() if path is not None}
    for table, path in paths.items():
        check_file(table, path, read, PAGE if table == "report" else TABLES)
    if len({path.resolve() for path in paths.values()}) < len(paths):
        raise OptionError(f"{' and '.join(map(named, paths))} name the same file; expected two names")
    plugins.use()
    from nlgauge.metrics.registry import refuse_metrics

    refuse_metrics(names)
    machine.use()
    result = study.run(names or None, **vars(reading), **vars(running))
    for table, path in paths.items():
        if table == "report":
            from nlgauge.engine.files import write_text
            from nlgauge.report.huse_page import render_huse

            write_text(path, render_huse(result))
        else:
            from nlgauge.data.writing import write_table

            write_table(result.tables[table], path)
            say(f"wrote {path}: {len(result.tables[table]):,} rows")
    show_result(result, form, output)
