"""How to train: options that all recipes share, and the settings that a run works with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from nlgauge.configured import Options, check_that, option

DTYPES = ("float32", "bfloat16")
_MOST_STEPS_BETWEEN_EVALUATIONS = 500
_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("epochs",), (1, math.inf)),
    **dict.fromkeys(
        ("batch_size", "max_steps", "minutes", "weight_decay", "evaluate_every", "patience"), (0, math.inf)
    ),
    **dict.fromkeys(("warmup", "dropout", "label_smoothing"), (0, 1)),
    **dict.fromkeys(("learning_rate", "clip"), (1e-12, math.inf)),
    "seed": (0, 2**63),
}


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Options):
    """How to train; None, and a batch size of 0, stand for what suits the recipe.

    The learning rate rises over the share `warmup` of the steps and falls to nothing along a cosine. `patience` is how
    many evaluations in a row may bring no better validation loss. With `bfloat16` weights stay float32 and only
    computation is in bfloat16.
    """

    epochs: int | None = option(None, "Times over the texts. Default: what suits the model.", metavar="N")
    max_steps: int = option(0, "Most steps; 0: no limit.", metavar="N")
    minutes: float = option(0.0, "Stop after so many minutes and keep the best; 0: no limit.", metavar="X")
    batch_size: int = option(0, "Texts per step; 0: what suits the model.", metavar="N")
    learning_rate: float | None = option(None, "Highest learning rate. Default: what suits the model.", metavar="X")
    warmup: float = option(0.1, "Share of the steps over which the learning rate rises.", metavar="X")
    weight_decay: float = option(0.01, "Weight decay of matrices.", metavar="X")
    clip: float = option(1.0, "Longest gradient.", metavar="X")
    dropout: float | None = option(None, "Dropout. Default: 0.1 from scratch, else the model's own.", metavar="X")
    label_smoothing: float = option(
        0.0, "Share of the probability that the loss spreads over all tokens or labels.", metavar="X"
    )
    evaluate_every: int = option(0, "Steps between evaluations and checkpoints; 0: twice per epoch.", metavar="N")
    patience: int | None = option(
        None,
        "Stop after so many evaluations without a better loss; 0: never. Default: what suits the model.",
        metavar="N",
    )
    seed: int = option(12345, "Seed of every random step.", metavar="N")
    dtype: Literal["float32", "bfloat16"] = option("float32", "What to compute in; weights stay float32.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            expected = f"at least {low:g} and less than {high:g}"
            check_that(value is None or low <= value < high, name, value, expected)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(TrainingOptions):
    """The settings of a run. `dropout` None leaves the model's own."""

    epochs: int = 3
    batch_size: int = 16
    learning_rate: float = 5e-5
    patience: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.batch_size >= 1, "batch_size", self.batch_size, "at least 1")

    def plan(self, rows: int) -> tuple[int, int, int]:
        """Steps per epoch, in all, and between evaluations."""
        epoch = math.ceil(rows / self.batch_size)
        total = min(self.epochs * epoch, self.max_steps or self.epochs * epoch)
        usual = min(math.ceil(epoch / 2), _MOST_STEPS_BETWEEN_EVALUATIONS)
        return epoch, total, min(self.evaluate_every or usual, total)

    def rate(self, step: int, total: int) -> float:
        """The learning rate of a step, counted from 0."""
        rise = round(self.warmup * total)
        if step < rise:
            return self.learning_rate * (step + 1) / rise
        return self.learning_rate * (1 + math.cos(math.pi * (step - rise) / max(1, total - rise))) / 2
