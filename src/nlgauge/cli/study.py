"""`nlgauge study NAME` and `nlgauge filter NAME`: every command is made from its study's class."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nlgauge.cli.commands import Command, CommandGroup, Group, Lazy, command, files_argument, split_doc
from nlgauge.cli.output import ChartOutput, Output, Plugins, check_output, check_table, say, show_result
from nlgauge.configured import Option, option, option_of, options_of
from nlgauge.errors import OptionError, argument

if TYPE_CHECKING:
    from nlgauge.data.columns import Reading
    from nlgauge.engine.running import Progress
    from nlgauge.models.runtime import Machine
    from nlgauge.studies.base import Study

_PAGES = {"huse": "nlgauge.report.huse_page:render_huse"}


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
    from nlgauge.data.columns import Reading
    from nlgauge.models.runtime import Machine

    extra: dict[str, Option] = {
        table: option_of(table, Path | None, option(None, f"{help} .jsonl, .csv or .parquet.", metavar="OUT"))
        for table, help in cls.tables.items()
    }
    if cls.name in _PAGES:
        extra["report"] = option_of(
            "report", Path | None, option(None, "A page with errors and their texts.", metavar="OUT.html")
        )

    def run(
        study: Study,
        reading: Reading,
        machine: Machine,
        running: Progress,
        plugins: Plugins,
        output: Output,
        files: tuple[str, ...] | str = (),
        **wanted: Path | None,
    ) -> None:
        names = [files] if isinstance(files, str) else list(files)
        read = [*names, *_named_files(study)]
        form = output.check(read)
        paths = {table: path for table, path in wanted.items() if path is not None}
        for table, path in paths.items():
            if table == "report":
                if path.suffix != ".html":
                    raise OptionError(f"{argument('report', path)}; expected a name ending in .html")
                check_output(path, read)
            else:
                check_table(table, path, read)
        if len({path.resolve() for path in paths.values()}) < len(paths):
            raise OptionError(f"{' and '.join(map(argument, paths))} name the same file; expected two names")
        plugins.use()
        from nlgauge.metrics.registry import refuse_metrics

        refuse_metrics(names)
        machine.use()
        result = study.run(names or None, **vars(reading), **vars(running))
        for table, path in paths.items():
            if table == "report":
                _write_page(result, path)
            else:
                from nlgauge.data.writing import write_table

                write_table(result.tables[table], path)
                say(f"wrote {path}: {len(result.tables[table]):,} rows")
        show_result(result, form, output)

    arguments = []
    if cls.takes != "none":
        metavar = "FILE" if cls.takes == "file" else "FILE..."
        arguments = [files_argument(metavar, cls.files, required=cls.takes != "any")]
    text, _ = split_doc(cls)
    groups: list[Option | Group] = [
        Group("study", cls),
        *extra.values(),
        Group("reading", Reading),
        Group("machine", Machine),
        Group("running", cls.running_options()),
        Group("plugins", Plugins),
        Group("output", ChartOutput if cls.has_chart() else Output),
    ]
    return command(name or cls.name, run, text=text, examples=cls.examples, parameters=groups, arguments=arguments)


def _named_files(study: Study) -> list[str]:
    """The files that options of the study name, so that no output overwrites them."""
    found: list[str] = []
    for one in options_of(type(study)):
        if one.about.metavar.endswith("FILE"):
            value = getattr(study, one.name)
            given = [value] if isinstance(value, str | Path) else value if isinstance(value, tuple) else ()
            found += [str(entry).partition("=")[2] if "=" in one.about.metavar else str(entry) for entry in given]
    return found


def _write_page(result: Any, path: Path) -> None:
    import importlib

    from nlgauge.engine.files import write_text

    module, _, function = _PAGES[result.name].partition(":")
    write_text(path, getattr(importlib.import_module(module), function)(result))
