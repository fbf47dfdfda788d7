"""The contract of a training recipe: what is read, what is learnt, and one way from files to a folder with a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from nlgauge.configured import Configured, check_that, option, options_of, required, spread
from nlgauge.data.columns import Reading
from nlgauge.engine.running import LOCAL, Running
from nlgauge.errors import OptionError, argument
from nlgauge.models.runtime import Machine, import_torch
from nlgauge.models.training.data import TrainingCorpus
from nlgauge.models.training.run import TrainingCard, TrainingFolder
from nlgauge.models.training.settings import TrainingOptions, TrainingSettings
from nlgauge.models.training.steps import Objective, Say, train
from nlgauge.registry import Registry

SHORTEST_WINDOW = 16


@dataclass(frozen=True, kw_only=True)
class TrainingRecipe(TrainingOptions, Configured, ABC):
    """A model to train, configured. The first line of the docstring is its help; `examples` follow."""

    examples: ClassVar[tuple[str, ...]] = ()

    data: Sequence[str] = required(
        "Texts (one per line in .txt, JSON lines, a JSON list, CSV or Parquet, also .gz or .zst) or pairs: tables with "
        "context and text, or dialogs; repeat for more.",
        metavar="FILE",
    )
    limit: int = option(0, "Use only so many texts, chosen by the seed; 0: all.", metavar="N")
    validation: float = option(0.1, "Share of the texts that is held out.", metavar="X")
    held_out: Sequence[str] = option(
        (), "Hold out the examples of this file instead of a share; repeat for more.", metavar="FILE"
    )
    window: int = option(128, "Most tokens of a text that the model reads; longer texts are cut.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.window >= SHORTEST_WINDOW, "window", self.window, f"at least {SHORTEST_WINDOW} tokens")

    @property
    def settings(self) -> TrainingSettings:
        """The settings of a run: what was chosen, else what suits the recipe."""
        given = {one.name: getattr(self, one.name) for one in options_of(TrainingOptions)}
        chosen = {name: value for name, value in given.items() if value is not None}
        if not self.batch_size:
            del chosen["batch_size"]
        return TrainingSettings(**{**self.usual(), **chosen})

    @abstractmethod
    def usual(self) -> Mapping[str, Any]:
        """Settings that suit this recipe where nothing was chosen."""

    @property
    @abstractmethod
    def origin(self) -> str:
        """What training starts from, as the card names it."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """All that decides the result beside data and settings: a folder is resumed for the same record only."""

    @abstractmethod
    def read(self, paths: Sequence[str], reading: Reading) -> tuple[list[Any], dict[str, Any]]:
        """The examples of files, and what the record says about their kind."""

    @abstractmethod
    def objective(self, corpus: TrainingCorpus[Any], folder: TrainingFolder, device: str, say: Say) -> Objective[Any]:
        """What is learnt from the examples."""

    def run(self, out: Path, *, fresh: bool = False, say: Say = lambda _line: None, **options: Any) -> TrainingCard:
        """Train into a folder, which becomes a model like any other; `fresh` deletes what an earlier run left there.

        A killed run resumes from its last checkpoint when it is called again with the same arguments; a finished one is
        left as it is. Further options are those of `Reading`, `Machine` and `Running`.
        """
        reading, machine, running = spread(options, Reading, Machine, Running)
        if running.engine != LOCAL or running.run is not None:
            name = "engine" if running.engine != LOCAL else "run"
            raise OptionError(f"{argument(name)} has no part in training: it runs here, and its folder is the output")
        with machine.used() as used:
            record, settings = self.record(), self.settings
            examples, kind = self.read(self.data, reading)
            corpus: TrainingCorpus[Any] = TrainingCorpus.split(
                examples,
                validation=self.validation,
                limit=self.limit,
                seed=self.seed,
                held_out=self.read(self.held_out, reading)[0] if self.held_out else None,
            )
            choices = {"validation": "given" if self.held_out else self.validation}
            choices |= {"limit": self.limit, "window": self.window}
            whole = {"task": self.name, **record, **kind, "data": corpus.digest, **choices, **asdict(settings)}
            with TrainingFolder.open(out, whole, fresh=fresh) as folder:
                if folder.card is not None:
                    say(f"{out} is finished already; nothing was done (a fresh run starts again)")
                    return folder.card
                import_torch("training", used.threads)
                objective = self.objective(corpus, folder, used.device, say)
                files = {"files": list(self.data), **({"held_out": list(self.held_out)} if self.held_out else {})}
                data = {**files, **corpus.facts()}
                return train(
                    objective, settings, folder, data=data, start=self.origin, say=say, progress=running.progress
                )


RECIPES: Registry[TrainingRecipe] = Registry(
    "training recipe",
    "",
    {
        "lm": "nlgauge.models.training.language_model:LanguageModelRecipe",
        "seq2seq": "nlgauge.models.training.language_model:Seq2SeqRecipe",
        "union": "nlgauge.models.training.union:UnionRecipe",
        "ruber": "nlgauge.models.training.ruber:RuberRecipe",
    },
    "union:data=stories.jsonl",
    "See `nlgauge train --help`.",
)
