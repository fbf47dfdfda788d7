"""The steps of training, whatever is learnt.

A step's random numbers come from a seed of their own, made from the run's seed and the step's number, and so does the
order of an epoch. A run that was killed therefore needs only weights and the optimiser's state to go on, and ends with
the weights that an undisturbed run with as many threads ends with, bit for bit.
"""

from __future__ import annotations

import math
import platform
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from nlgauge._version import __version__
from nlgauge.engine.progress import progress_bar
from nlgauge.errors import ModelError
from nlgauge.models.runtime import import_torch, out_of_memory
from nlgauge.models.training.data import hashed
from nlgauge.models.training.run import Evaluation, TrainingCard, TrainingFolder, TrainingState
from nlgauge.models.training.settings import DTYPES, TrainingSettings

_POOL = 64  # batches among which rows of like length are brought together
_LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")

Example = TypeVar("Example")
R = TypeVar("R")
Say = Callable[[str], None]


class HeldOutLoss(NamedTuple):
    """The loss summed over the units of some held-out rows, and how many labels were right, where there are labels."""

    loss: float
    right: int | None = None


class Objective(ABC, Generic[Example]):
    """What is learnt: a torch module, rows to learn from, rows held out, and the loss on rows."""

    model: Any
    training: Sequence[Example]
    validation: Sequence[Example]

    @abstractmethod
    def units(self, row: Example) -> int:
        """How many predictions a row asks for; losses are means over them."""

    @abstractmethod
    def loss(self, rows: Sequence[Example], label_smoothing: float) -> Any:
        """The loss summed over the units of some rows, as a tensor."""

    def length(self, row: Example) -> int:
        """How much a row costs; rows of like length are brought together."""
        return self.units(row)

    def measure(self, rows: Sequence[Example]) -> HeldOutLoss:
        """What held-out rows show about the present weights."""
        return HeldOutLoss(float(self.loss(rows, 0.0)))

    def measures(self) -> dict[str, Any] | msgspec.UnsetType:
        """What the card says about the final weights, beside losses."""
        return msgspec.UNSET

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model with its present weights into an empty folder."""


def train(
    objective: Objective[Any],
    settings: TrainingSettings,
    folder: TrainingFolder,
    *,
    data: Mapping[str, Any],
    start: str,
    say: Say = lambda _line: None,
    progress: bool = False,
) -> TrainingCard:
    """Train to the end, from the last checkpoint if there is one; `say` gets a line now and then."""
    loop = _Loop(objective, settings, folder, say)
    stopped = loop.run(show=progress)
    done = loop.progress
    folder.load_best(objective.model, done.best.step)
    objective.model.eval()
    card = TrainingCard(
        run=folder.run,
        data={
            **data,
            "training_units": _sum(objective, objective.training),
            "validation_units": _sum(objective, objective.validation),
        },
        model={"start": start, "parameters": sum(p.numel() for p in objective.model.parameters())},
        threads=loop.torch.get_num_threads(),
        versions={"nlgauge": __version__, "python": platform.python_version(), **{n: version(n) for n in _LIBRARIES}},
        stopped=stopped,
        steps=done.step,
        best_step=done.best.step,
        seconds=round(done.seconds, 1),
        perplexity_before=done.evaluations[0].perplexity,
        perplexity_after=done.best.perplexity,
        train_loss=done.train_loss,
        evaluations=done.evaluations,
        measures=objective.measures(),
    )
    return folder.finish(objective.save, card)


class _Loop(Generic[Example]):
    """Steps and evaluations of one run."""

    def __init__(
        self, objective: Objective[Example], settings: TrainingSettings, folder: TrainingFolder, say: Say
    ) -> None:
        self.torch = torch = import_torch("training")
        self.objective, self.settings, self.folder, self.say = objective, settings, folder, say
        self.steps_per_epoch, self.total, self.every = settings.plan(len(objective.training))
        sides = [[p for p in objective.model.parameters() if (p.dim() > 1) is large] for large in (True, False)]
        decays = zip(sides, (settings.weight_decay, 0.0), strict=True)
        self.optimiser = torch.optim.AdamW([{"params": side, "weight_decay": decay} for side, decay in decays if side])
        self._order: tuple[int, list[list[int]]] = (-1, [])
        self.held_out = sorted(objective.validation, key=objective.length, reverse=True)
        kept = folder.load(objective.model, self.optimiser)
        self.progress = kept or TrainingState(0, 0.0, settings.batch_size, [], [])
        self.started = time.monotonic() - self.progress.seconds
        if kept:
            say(f"resuming from step {kept.step} of {self.total}")

    def run(self, *, show: bool) -> str:
        """Go to the end; why it ended."""
        first = self.progress.step
        bar = progress_bar(f"training {self.folder.out.name}", self.total - first, show=show)
        with self.torch.random.fork_rng(devices=[]), bar as advance:
            if not self.progress.evaluations:
                self._evaluate()
            while not (reason := self._over()):
                self._step()
                step = self.progress.step
                if step % self.every == 0 or step == self.total or self._out_of_time():
                    self._evaluate()
                advance(step - first)
        return reason

    def _over(self) -> str:
        if self.progress.step >= self.total:
            return "all steps done"
        if self._out_of_time():
            return f"{self.settings.minutes:g} minutes are over"
        if self.settings.patience and self.progress.in_vain >= self.settings.patience:
            return f"no better validation loss in {self.progress.in_vain} evaluations"
        return ""

    def _out_of_time(self) -> bool:
        self.progress.seconds = time.monotonic() - self.started
        return 0 < self.settings.minutes * 60 <= self.progress.seconds

    def _step(self) -> None:
        step = self.progress.step
        epoch, place = divmod(step, self.steps_per_epoch)
        rows = [self.objective.training[i] for i in self._batches(epoch)[place]]
        units = _sum(self.objective, rows)
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.rate(step, self.total)

        def learn(piece: Sequence[Example]) -> float:
            with self._precision():
                loss = self.objective.loss(piece, self.settings.label_smoothing) / units
            loss.backward()
            return float(loss.detach())

        self.objective.model.train()
        loss = math.fsum(self._in_pieces(rows, learn))
        norm = float(self.torch.nn.utils.clip_grad_norm_(self.objective.model.parameters(), self.settings.clip))
        self._check("loss", loss)
        self._check("gradient", norm)
        self.optimiser.step()
        self.progress.step += 1
        self.progress.train_loss.append(loss)

    def _evaluate(self) -> None:
        self.objective.model.eval()

        def measure(piece: Sequence[Example]) -> HeldOutLoss:
            with self.torch.no_grad(), self._precision():
                return self.objective.measure(piece)

        size = self.settings.batch_size
        batches = [self.held_out[i : i + size] for i in range(0, len(self.held_out), size)]
        measured = [found for batch in batches for found in self._in_pieces(batch, measure)]
        loss = math.fsum(found.loss for found in measured) / _sum(self.objective, self.held_out)
        right = [found.right for found in measured if found.right is not None]
        accuracy = sum(right) / len(self.held_out) if right else msgspec.UNSET
        self._check("validation loss", loss)
        self.progress.seconds = time.monotonic() - self.started
        now = Evaluation(self.progress.step, loss, round(self.progress.seconds, 1), accuracy)
        self.progress.evaluations.append(now)
        shown = f"accuracy {accuracy:.3f}" if isinstance(accuracy, float) else f"perplexity {now.perplexity:.2f}"
        self.say(f"step {now.step} of {self.total}: validation loss {loss:.4f}, {shown}")
        self.folder.keep(self.objective.model, self.optimiser, self.progress)

    def _check(self, what: str, value: float) -> None:
        if not math.isfinite(value):
            raise ModelError(
                f"the {what} is {value:g} after {self.progress.step} steps; expected a number; start again with a "
                f"learning rate below {self.settings.learning_rate:g}"
            )

    def _precision(self) -> Any:
        device = next(self.objective.model.parameters()).device.type
        return self.torch.autocast(device, dtype=self.torch.bfloat16, enabled=self.settings.dtype != DTYPES[0])

    def _in_pieces(self, rows: Sequence[Example], run: Callable[[Sequence[Example]], R]) -> list[R]:
        """Run a batch; when memory runs out, begin it again in pieces of half the size, and say so."""
        while True:
            size = self.progress.rows_at_once
            self.torch.manual_seed(hashed(f"step {self.settings.seed} {self.progress.step}", size=7))
            self.optimiser.zero_grad(set_to_none=True)
            try:
                return [run(rows[i : i + size]) for i in range(0, len(rows), size)]
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                found = f"out of memory with {min(size, len(rows))} texts at once"
                if min(size, len(rows)) == 1:
                    raise ModelError(f"{found}; expected room for one; use a smaller model or window") from error
                self.progress.rows_at_once = min(size, len(rows)) // 2
                warnings.warn(f"{found}; the same batches go on in pieces of half the size", stacklevel=2)

    def _batches(self, epoch: int) -> list[list[int]]:
        """The rows of each step of an epoch: shuffled, then brought together by length within pools."""
        if self._order[0] != epoch:
            rows, size = self.objective.training, self.settings.batch_size
            draw = np.random.Generator(np.random.PCG64(hashed(f"epoch {self.settings.seed} {epoch}", size=7)))
            order = draw.permutation(len(rows)).tolist()
            pools = [order[i : i + _POOL * size] for i in range(0, len(order), _POOL * size)]
            alike = [i for pool in pools for i in sorted(pool, key=lambda i: self.objective.length(rows[i]))]
            batches = [alike[i : i + size] for i in range(0, len(alike), size)]
            self._order = (epoch, [batches[i] for i in draw.permutation(len(batches)).tolist()])
        return self._order[1]


def _sum(objective: Objective[Example], rows: Sequence[Example]) -> int:
    return sum(map(objective.units, rows))
