"""The tester: a language model writes response sets while a decoding parameter is swept (paper 1, sections 3 and 6)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
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
from nlgauge.engine.workers import finished
from nlgauge.errors import DataError, OptionError, OutputError
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

    def digest(self, contexts: Sequence[tuple[str, str]]) -> str:
        """A hash of the plan, the meaning of decoding and the contexts, so that only the same run is resumed."""
        about = json.dumps([DECODING, asdict(self), list(contexts)], ensure_ascii=False, default=str)
        return hashlib.blake2b(about.encode("utf-8"), digest_size=16).hexdigest()


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
class WriteSets:
    """The work of a worker: sets of some contexts at one value, by a model that stays loaded from call to call."""

    plan: GenerationPlan

    def __call__(self, some: tuple[Sequence[str], float]) -> list[list[str]]:
        """Response sets, in the order of the contexts."""
        contexts, value = some
        return _some_sets(load_shared(self.plan.model), self.plan, contexts, value)


def generate_sets(
    model: LanguageModel | Pool[Any],
    contexts: Sequence[tuple[str, str]],
    plan: GenerationPlan,
    output: Path,
    *,
    progress: bool = False,
) -> pl.DataFrame:
    """Write one response set for every context and value to `output`.

    Sets of one value are written several at a time, since a model is faster at many rows than at few; a pool of
    workers, each with the model, may stand for the model. Finished sets are kept in a journal beside the output, so
    that a killed run goes on where it was and gives the file that an undisturbed run gives.
    """
    check_writable(output)
    journal = _Journal(output.with_name(f".{output.name}.journal"), plan.digest(contexts))
    todo = [(id, context, value) for value in plan.sweep.values for id, context in contexts]
    at_once = max(1, _RESPONSES_A_CALL // plan.responses)
    batches = [
        (contexts[start : start + at_once], value)
        for value in plan.sweep.values
        for start in range(0, len(contexts), at_once)
    ]
    with journal, progress_bar(f"writing {output.name}", len(todo), show=progress) as advance:
        # where a set is missing, its whole batch again, so that a resumed run computes what an undisturbed one does
        missing = [b for b in batches if any(f"{id}@{b[1]:g}" not in journal for id, _ in b[0])]
        done = len(todo) - sum(len(some) for some, _ in missing)
        asked = [([context for _, context in some], value) for some, value in missing]
        if isinstance(model, Pool):
            written: Iterable[tuple[int, list[list[str]]]] = finished(model, WriteSets(plan), asked)
        else:
            written = ((place, _some_sets(model, plan, *one)) for place, one in enumerate(asked))
        for place, sets in written:
            some, value = missing[place]
            for (id, _), responses in zip(some, sets, strict=True):
                if f"{id}@{value:g}" not in journal:
                    journal.add(f"{id}@{value:g}", responses)
            done += len(some)
            advance(done)
        frame = pl.DataFrame(
            [
                {
                    "id": f"{id}@{value:g}" if len(plan.sweep.values) > 1 else id,
                    "context_id": id,
                    "context": context,
                    "responses": journal[f"{id}@{value:g}"],
                    plan.sweep.parameter: value,
                    "system": plan.model,
                }
                for id, context, value in todo
            ]
        )
        write_table(frame, output)
        journal.remove()
    return frame


def _some_sets(model: LanguageModel, plan: GenerationPlan, contexts: Sequence[str], value: float) -> list[list[str]]:
    """The response sets of several contexts at one value."""
    size = plan.responses
    prompts = [plan.prompting.prompt(context) for context in contexts for _ in range(size)]
    seeds = [plan.seed_of(context, value, index) for context in contexts for index in range(size)]
    texts = model.generate(prompts, plan.sweep.apply(plan.sampling, value), seeds)
    return [texts[start : start + size] for start in range(0, len(texts), size)]


class _Journal:
    """Finished sets, one a line, flushed to disk as they come; held by one process at a time."""

    def __init__(self, path: Path, digest: str) -> None:
        self._path, self._digest = path, digest
        self._sets: dict[str, list[str]] = {}

    def __enter__(self) -> _Journal:
        import fcntl

        self._file = self._path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise OutputError(f"{self._path.name}: another run is writing this output; wait for it to end") from error
        lines = list(self._whole_lines())
        if lines and lines[0] != {"run": self._digest}:
            self._file.close()
            raise OutputError(
                f"{self._path}: belongs to a run with other settings or contexts; finish that run, or delete this file"
            )
        if not lines:
            self._write({"run": self._digest})
        self._sets = {line["id"]: line["responses"] for line in lines[1:]}
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __contains__(self, key: str) -> bool:
        return key in self._sets

    def __getitem__(self, key: str) -> list[str]:
        return self._sets[key]

    def add(self, key: str, responses: list[str]) -> None:
        """Keep one set."""
        self._write({"id": key, "responses": responses})
        self._sets[key] = responses

    def remove(self) -> None:
        """Forget everything, once the output stands."""
        self._path.unlink()

    def _write(self, line: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OutputError(f"{self._path}: cannot be written: {error.strerror or error}") from error

    def _whole_lines(self) -> Iterator[dict[str, Any]]:
        """Lines that were written whole; what a kill cut short is dropped from the file."""
        self._file.seek(0)
        whole = 0
        for line in self._file.read().splitlines(keepends=True):
            if not line.endswith("\n"):
                break
            whole += len(line.encode("utf-8"))
            yield json.loads(line)
        self._file.truncate(whole)
        self._file.seek(0, os.SEEK_END)
