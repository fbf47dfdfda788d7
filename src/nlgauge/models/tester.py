"""The tester: a language model writes response sets while a decoding parameter is swept (paper 1, sections 3 and 6)."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from nlgauge.data.columns import Columns, wide_columns
from nlgauge.data.files import STDIN
from nlgauge.data.reading import Source
from nlgauge.data.tables import Items
from nlgauge.data.writing import write_table
from nlgauge.engine.files import check_writable
from nlgauge.engine.pool import Pool
from nlgauge.engine.progress import progress_bar
from nlgauge.engine.run_folder import RunFolder
from nlgauge.engine.workers import finished
from nlgauge.errors import DataError, ModelError, OptionError
from nlgauge.models.language import DECODING, LanguageModel, Sampling
from nlgauge.models.prompting import Prompting
from nlgauge.models.shared import load_shared

Parameter = Literal["temperature", "top_p", "top_k"]
_RESPONSES_A_CALL = 128


@dataclass(frozen=True)
class Sweep:
    """Values of one decoding parameter."""

    parameter: Parameter
    values: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Sweep:
        """Read `temperature=0.2:1.2:20`, 20 values from 0.2 to 1.2 (top_k: in log steps), or `top_p=0.5,0.9`."""
        name, equals, rest = text.replace("-", "_").partition("=")
        if not equals or name not in get_args(Parameter):
            raise OptionError(f"sweep '{text}'; expected temperature=, top_p= or top_k=, as in temperature=0.2:1.2:20")
        try:
            if ":" in rest:
                low, high, count = rest.split(":")
                space = np.geomspace if name == "top_k" else np.linspace
                values = [float(v) for v in space(float(low), float(high), int(count))]
            else:
                values = [float(v) for v in rest.split(",")]
        except ValueError as error:
            raise OptionError(f"sweep '{text}': {error}; expected LOW:HIGH:COUNT or a list such as 0.5,0.9") from None
        rounded = [float(round(v)) if name == "top_k" else round(v, 6) for v in values]
        return cls(name, tuple(dict.fromkeys(rounded)))  # type: ignore[arg-type]

    def apply(self, sampling: Sampling, value: float) -> Sampling:
        """The decoding settings at one value."""
        changed: dict[str, Any] = {self.parameter: int(value) if self.parameter == "top_k" else value}
        return replace(sampling, **changed)


@dataclass(frozen=True, kw_only=True)
class GenerationPlan:
    """Everything that decides what is written."""

    model: str
    sweep: Sweep
    sampling: Sampling
    responses: int
    seed: int
    template: str = "{context}"

    def __post_init__(self) -> None:
        if self.responses < 1:
            raise OptionError(f"{self.responses} responses a set; expected at least 1")
        for value in self.sweep.values:
            self.sweep.apply(self.sampling, value)
        Prompting(self.template)

    @property
    def prompting(self) -> Prompting:
        """How a context becomes a prompt."""
        return Prompting(self.template)

    def seed_of(self, context: str, value: float, index: int) -> int:
        """A seed for one response that depends on nothing but what it answers."""
        about = json.dumps([self.seed, self.sweep.parameter, context, value, index], ensure_ascii=False)
        return int.from_bytes(hashlib.blake2b(about.encode("utf-8"), digest_size=7).digest())

    @property
    def sets_of_a_piece(self) -> int:
        """How many sets of one value are written at a time, since a model is faster at many rows than at few."""
        return max(1, _RESPONSES_A_CALL // self.responses)

    def settings(self, contexts: Sequence[tuple[str, str]], weights: str) -> dict[str, Any]:
        """All that the sets depend on, for people to read, so that only the same run is resumed."""
        about = json.dumps(list(contexts), ensure_ascii=False).encode("utf-8")
        return {
            "decoding": DECODING,
            "model": self.model,
            "weights": weights,
            "contexts": len(contexts),
            "digest of contexts": hashlib.blake2b(about, digest_size=16).hexdigest(),
            **asdict(self.sampling),
            self.sweep.parameter: self.sweep.values,
            "responses": self.responses,
            "seed": self.seed,
            "template": self.template,
            "sets of a piece": self.sets_of_a_piece,
        }


def read_contexts(path: str) -> list[tuple[str, str]]:
    """Contexts of a file with their ids, each context once; lines of plain text are contexts."""
    table = _source_of_contexts(path).read()
    frame = table.frame
    if isinstance(table, Items) and "context" not in frame.columns:
        frame = frame.rename({"text": "context"})
    if "context" not in frame.columns or frame["context"].null_count():
        raise DataError("contexts are missing; expected a column 'context', or plain text with one a line", file=path)
    unique = frame.unique("context", keep="first", maintain_order=True)
    return list(zip(unique["id"].to_list(), unique["context"].to_list(), strict=True))


def _source_of_contexts(path: str) -> Source:
    """The file as it is read; where its records have contexts and no texts, the contexts are its texts."""
    source = Source(path=path, extras=())
    if path == STDIN:
        return source
    first = next((found for chunk in source.chunks() if (found := source.columns_in(chunk)) is not None), None)
    names = [] if first is None else list(first[0])
    column = next((name for name in ("context", "prompt") if name in names), None)
    if column is None or {"responses", "text", "response"} & set(names) or wide_columns(names, "resp", path):
        return source
    return replace(source, columns=Columns(text=column))


@dataclass(frozen=True)
class Piece:
    """Some contexts with their ids at one value: what is written at a time, under the name of its results."""

    name: str
    contexts: Sequence[tuple[str, str]]
    value: float


@dataclass(frozen=True)
class WriteSets:
    """The work of a worker: the sets of a piece, by a model that stays loaded from call to call."""

    run: RunFolder
    plan: GenerationPlan
    weights: str

    def __call__(self, piece: Piece) -> int:
        """Write and keep; returns the number of sets."""
        model = load_shared(self.plan.model)
        if model.fingerprint != self.weights:
            raise ModelError(
                f"the model '{self.plan.model}' on {platform.node()} has weights {model.fingerprint}; expected "
                f"{self.weights}, as where the run began: put the same model on all nodes"
            )
        return _write(self.run, self.plan, model, piece)


def folder_of_run(output: Path, folder: Path | None) -> RunFolder:
    """Where finished sets are kept: the folder that was asked for, or a hidden one beside the output."""
    return RunFolder(folder or output.with_name(f".{output.name}.run"))


def generate_sets(
    model: LanguageModel | Pool[Any],
    contexts: Sequence[tuple[str, str]],
    plan: GenerationPlan,
    output: Path,
    *,
    folder: Path | None = None,
    progress: bool = False,
) -> pl.DataFrame:
    """Write one response set for every context and value to `output`.

    A pool of workers, each with the model, may stand for the model. Whoever writes sets keeps them in the folder of the
    run, as Parquet that can be scored as it is, so that a killed run goes on where it was, with any number of
    workers, and gives the file that an undisturbed run gives. Without `folder` it is one beside the output,
    removed as soon as the output stands.
    """
    if not contexts:
        raise DataError("found no contexts; expected at least one to respond to")
    check_writable(output)
    run = folder_of_run(output, folder)
    with run.held():
        weights = _weights_of_workers(model, plan.model) if isinstance(model, Pool) else model.fingerprint
        run.begin(plan.settings(contexts, weights))
        pieces = _pieces(contexts, plan)
        missing = [piece for piece in pieces if not run.is_done(piece.name)]
        total = len(contexts) * len(plan.sweep.values)
        done = total - sum(len(piece.contexts) for piece in missing)
        if isinstance(model, Pool):
            written: Iterable[int] = (sets for _, sets in finished(model, WriteSets(run, plan, weights), missing))
        else:
            written = (_write(run, plan, model, piece) for piece in missing)
        with progress_bar(f"writing {output.name}", total, show=progress) as advance:
            advance(done)
            for sets in written:
                done += sets
                advance(done)
        frame: pl.DataFrame = pl.concat([run.load(piece.name) for piece in pieces])
        write_table(frame, output)
        if folder is None:
            run.remove()
    return frame


def _weights_of_workers(pool: Pool[Any], model: str) -> str:
    """The hash of the weights as a worker sees them, since this process need not have the model."""
    ((_, weights),) = finished(pool, _fingerprint, [model])
    return weights


def _fingerprint(model: str) -> str:
    return load_shared(model).fingerprint


def _pieces(contexts: Sequence[tuple[str, str]], plan: GenerationPlan) -> list[Piece]:
    """All that is to be written, in the order of the output."""
    size = plan.sets_of_a_piece
    parts = [
        (contexts[start : start + size], value)
        for value in plan.sweep.values
        for start in range(0, len(contexts), size)
    ]
    return [Piece(f"{number:06}", some, value) for number, (some, value) in enumerate(parts)]


def _write(run: RunFolder, plan: GenerationPlan, model: LanguageModel, piece: Piece) -> int:
    """Write the sets of a piece, as rows of the output, and keep them; returns their number."""
    size, value = plan.responses, piece.value
    contexts = [context for _, context in piece.contexts]
    prompts = [plan.prompting.prompt(context) for context in contexts for _ in range(size)]
    seeds = [plan.seed_of(context, value, index) for context in contexts for index in range(size)]
    texts = model.generate(prompts, plan.sweep.apply(plan.sampling, value), seeds)
    ids = [id for id, _ in piece.contexts]
    columns = {
        "id": [f"{id}@{value:g}" for id in ids] if len(plan.sweep.values) > 1 else ids,
        "context_id": ids,
        "context": contexts,
        "responses": [texts[start : start + size] for start in range(0, len(texts), size)],
        plan.sweep.parameter: [value] * len(ids),
        "system": [plan.model] * len(ids),
    }
    run.save(piece.name, pl.DataFrame(columns))
    return len(ids)
