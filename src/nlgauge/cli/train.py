"""`nlgauge train`: every command is made from its recipe's class."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from nlgauge.cli.commands import CommandGroup, Lazy, command
from nlgauge.cli.output import say
from nlgauge.configured import option, required
from nlgauge.data.columns import Reading
from nlgauge.engine.running import Running
from nlgauge.models.runtime import Machine

if TYPE_CHECKING:
    from nlgauge.models.training.recipe import TrainingRecipe


def _recipes() -> dict[str, Lazy]:
    from nlgauge.models.training.recipe import RECIPES

    return {name: Lazy(RECIPES.summary(name), partial(_command, name)) for name in RECIPES.names()}


app = CommandGroup(
    "train",
    "Train models and metrics on your own texts.",
    _recipes,
    examples=["nlgauge train lm --data stories.txt --from smollm2 -o tuned"],
)


def _command(name: str) -> click.Command:
    from nlgauge.models.training.recipe import RECIPES

    cls = RECIPES.find(name)
    return command(name, _train, about=cls, names={"TrainingRecipe": cls})


def _train(
    recipe: TrainingRecipe,
    reading: Reading,
    machine: Machine,
    running: Running,
    output: Path = required(
        "The model's folder: a new one, or that of this run.", metavar="DIR", flags=("--output", "-o")
    ),
    fresh: bool = option(False, "Delete what an earlier run left in the folder, and start again."),
    format: Literal["text", "json"] = option("text", "How to print the outcome.", flags=("--format", "-f")),
) -> None:
    from nlgauge.report.training import draw_loss, training_lines

    # The batch size is the recipe's: texts per step decide the result, those that an encoder reads at once do not.
    options = {**vars(reading), **vars(replace(machine, batch_size=0)), **vars(running)}
    card = recipe.run(output, fresh=fresh, say=say, **options)
    draw_loss(card, output)
    if format == "json":
        import msgspec

        print(msgspec.json.format(msgspec.json.encode({"model": str(output), "training": card}), indent=2).decode())
    else:
        print("\n".join(training_lines(card, output)))
