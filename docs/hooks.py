"""Pages of the site that are made from the code: commands, the Python interface, metrics and notebooks.

MkDocs calls `on_files` once a build. Nothing is written to the repository, so nothing there can grow old.
"""

from __future__ import annotations

import html
import inspect
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_EXAMPLES = re.compile(r"\s*\bExamples?:\s+(?=nlgauge )(.*)", re.S)
_DOCTEST = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.M | re.S)
_PUBLIC = ("nlgauge", "nlgauge.perturb")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that no file in `docs/` has."""
    pages = {
        "reference/commands.md": commands_page(),
        "reference/python.md": python_page(),
        "reference/metrics.md": metrics_page(),
    }
    for notebook in sorted(Path(config.docs_dir).glob("notebooks/*.ipynb")):
        pages[f"notebooks/{notebook.stem}.md"] = notebook_page(notebook)
    for place, text in pages.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """A link to a notebook, which GitHub shows as it is, leads to its page here; that page has the file itself."""
    return markdown if page.file.generated_by else markdown.replace(".ipynb)", ".md)")


def commands_page() -> str:
    """Every command with its purpose, examples, arguments and options."""
    from nlgauge.cli.main import app

    parts = ["# Commands", "What `nlgauge COMMAND --help` prints, command by command. Made from the code."]
    for path, command, context in _commands(app, "nlgauge", None):
        purpose, examples = _help(command)
        usage = " ".join([path, *command.collect_usage_pieces(context)])
        parts += [f"{'##' if len(path.split()) < 3 else '###'} {path}", f"```text\n{usage}\n```", purpose]
        if examples:
            parts += ["```shell\n" + "\n".join(examples) + "\n```"]
        parts += [_parameters(command, context)]
    return "\n\n".join(filter(None, parts))


def _commands(command: Any, path: str, parent: Any) -> Iterator[tuple[str, Any, Any]]:
    context = click.Context(command, info_name=path.split()[-1], parent=parent)
    yield path, command, context
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _commands(command.get_command(context, name), f"{path} {name}", context)


def _help(command: Any) -> tuple[str, list[str]]:
    """The purpose of a command and its examples; a group has them in its help and its epilog."""
    if hasattr(command, "examples"):
        return command.text, list(command.examples)
    return _split_help("\n\n".join(filter(None, (command.help, command.epilog))))


def _split_help(text: str) -> tuple[str, list[str]]:
    """The purpose of a command, and its examples, one command line each."""
    found = _EXAMPLES.search(text)
    if found is None:
        return text, []
    lines = re.split(r"\n\s*\n|\s+\*\s+(?=nlgauge)", found[1].strip())
    return text[: found.start()].strip(), [" ".join(line.split()) for line in lines]


def _parameters(command: Any, context: Any) -> str:
    records = [
        (one.make_metavar(context), one.purpose) if hasattr(one, "purpose") else one.get_help_record(context)
        for one in command.get_params(context)
    ]
    rows = [f"<tr><td><code>{html.escape(name)}</code></td><td>{_inline(text)}</td></tr>"
            for name, text in filter(None, records)]  # fmt: skip
    return "\n".join(["<table><tbody>", *rows, "</tbody></table>"]) if rows else ""


def _inline(text: str) -> str:
    """Plain text as HTML, so that no sign in it is taken for markup; only backquotes mean something."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def python_page() -> str:
    """Every public name with its signature and what its docstring says."""
    parts = ["# Python", "Names that `import nlgauge` offers, and those of `nlgauge.perturb`. Made from the code."]
    for place in _PUBLIC:
        module = import_module(place)
        parts += [f"## {place}", _prose(module)]
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, str):
                parts += [f"### `{name}`", "The version, as text."]
                continue
            parts += [f"### `{name}`", f"```python\n{_signature(name, thing)}\n```", _prose(thing)]
            if members := _members(thing):
                parts += ["\n".join(members)]
    return "\n\n".join(parts)


def _prose(thing: Any) -> str:
    """The docstring as Markdown; examples become blocks of code."""
    return _DOCTEST.sub(lambda found: f"```python\n{found[0]}\n```", inspect.getdoc(thing) or "")


class _Written(str):
    """An annotation that shows as it was written, without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _signature(name: str, thing: Any) -> str:
    found = inspect.signature(thing)
    parameters = [
        one.replace(annotation=_Written(one.annotation)) if isinstance(one.annotation, str) else one
        for one in found.parameters.values()
    ]
    result = _Written(found.return_annotation) if isinstance(found.return_annotation, str) else found.return_annotation
    line = name + str(found.replace(parameters=parameters, return_annotation=result))
    if len(line) <= 100 or not parameters:
        return line
    shown = [str(one) for one in parameters]
    keywords = [place for place, one in enumerate(parameters) if one.kind is inspect.Parameter.KEYWORD_ONLY]
    if keywords:
        shown.insert(keywords[0], "*")
    end = f" -> {result}" if result not in (inspect.Signature.empty, "None") else ""
    return f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + f"){end}"


def _members(thing: Any) -> list[str]:
    """What a class offers: a line each, with the first paragraph of its docstring."""
    if not inspect.isclass(thing):
        return []
    lines = []
    for name, member in inspect.getmembers(thing):
        shown = inspect.isroutine(member) or isinstance(member, property)
        if shown and not name.startswith("_") and (text := inspect.getdoc(member)):
            call = "" if isinstance(member, property) else "()"
            lines.append(f"- `{name}{call}`: {' '.join(text.split(chr(10) * 2)[0].split())}")
    return lines


def metrics_page() -> str:
    """Every metric with its definition, its paper and its options."""
    from nlgauge.configured import options_of, show
    from nlgauge.metrics.registry import metric_class, metric_names

    parts = ["# Metrics", "What `nlgauge metrics show NAME` prints, metric by metric. Made from the code."]
    for name in metric_names():
        kind = metric_class(name)
        made = kind()
        facts = f"Higher is {made.direction.words}. Level: {made.level}. Aspect: {made.aspect}. Paper: {kind.paper}."
        parts += [f"## {name}", _prose(kind), facts]
        options = [
            f"| `{one.name}` | {f'`{show(one.default)}`' if one.default != '' else ''} | {_cell(one.describe())} "
            f"| {_cell(one.about.help)} |"
            for one in options_of(kind)
        ]
        if options:
            parts += ["\n".join(["| option | default | values | |", "|---|---|---|---|", *options])]
    return "\n\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: its text, its code, and what the code printed."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [f"```text\n{printed.rstrip()}\n```" for output in cell["outputs"] if (printed := _printed(output))]
    return "\n\n".join([*parts, f"[The notebook itself]({path.name})"])


def _printed(output: dict[str, Any]) -> str:
    return "".join(output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"])
