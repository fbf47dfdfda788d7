"""The tester: a language model writes response sets while a decoding parameter is swept (paper 1, sections 3 and 6)."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import polars as pl

from nlgauge.configured import Configured, check_that, option
from nlgauge.data.columns import Reading, wide_columns
from nlgauge.data.reading import Source
from nlgauge.data.roles import find_column
from nlgauge.data.sources.files import STDIN
from nlgauge.data.tables import Items
from nlgauge.data.writing import write_table
from nlgauge.engine.files import check_writable
from nlgauge.engine.opening import open_pool
from nlgauge.engine.pool import Pool
from nlgauge.engine.progress import progress_bar
from nlgauge.engine.run_folder import RunFolder
from nlgauge.engine.running import LOCAL, Running
from nlgauge.engine.workers import finished
from nlgauge.errors import DataError, ModelError, OptionError, argument
from nlgauge.models.language.base import DECODING, LanguageModel, Sampling, load_language_model
from nlgauge.models.language.prompting import Prompting
from nlgauge.models.runtime import Machine
from nlgauge.models.shared import load_shared

Parameter = Literal["temperature", "top_p", "top_k"]
Design = Literal["crossed", "one-value-per-context"]
_RESPONSES_PER_CALL = 128
LOG_OF_ZERO = -sys.float_info.max
"""What stands for the logarithm of 0 in a file: the lowest number, since JSON has no infinity."""


@dataclass(frozen=True)
class ParameterSweep:
    """Values of one decoding parameter, as in `temperature=0.2:1.2:20` or `top_p=0.5,0.9`.

    The first are 20 values from 0.2 to 1.2, in logarithmic steps for top_k: whole numbers, as many as asked for, where
    equal ones make way for their neighbours.
    """

    described: ClassVar[str] = "PARAMETER=LOW:HIGH:COUNT or PARAMETER=VALUE,VALUE"

    text: str = field(compare=False)
    parameter: Parameter = field(init=False)
    values: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        name, equals, rest = self.text.replace("-", "_").partition("=")
        found = argument("sweep", self.text)
        known = next((one for one in get_args(Parameter) if one == name), None)
        if not equals or known is None:
            raise OptionError(f"{found}; expected temperature=, top_p= or top_k=, as in temperature=0.2:1.2:20")
        try:
            if ":" in rest:
                low, high, count = rest.split(":")
                values = _spaced(known, float(low), float(high), int(count))
            else:
                values = [float(v) for v in rest.split(",")]
                values = [float(round(v)) if name == "top_k" else round(v, 6) for v in values]
        except ValueError as error:
            raise OptionError(f"{found}; expected LOW:HIGH:COUNT or a list such as 0.5,0.9 ({error})") from None
        object.__setattr__(self, "parameter", known)
        object.__setattr__(self, "values", tuple(dict.fromkeys(values)))

    def __str__(self) -> str:
        return self.text

    def apply(self, sampling: Sampling, value: float) -> Sampling:
        """The decoding settings at one value."""
        changed: dict[str, Any] = {self.parameter: int(value) if self.parameter == "top_k" else value}
        return replace(sampling, **changed)


def _spaced(parameter: Parameter, low: float, high: float, count: int) -> list[float]:
    """So many different values from one end to the other; whole numbers in logarithmic steps for top_k."""
    if parameter != "top_k":
        values = np.round(np.linspace(low, high, count), 6).tolist()
    else:
        first, last = sorted((round(low), round(high)))
        if last - first + 1 < count:
            raise ValueError(f"there are {last - first + 1} whole numbers from {first} to {last}, fewer than {count}")
        places = np.arange(count)
        steps = np.rint(np.geomspace(first, last, count)) if count else places
        raised = np.maximum.accumulate(steps - places) + places
        values = np.minimum(raised, last - places[::-1]).tolist()
        values = values if low <= high else values[::-1]
    if count < 1 or len(set(values)) < count:
        raise ValueError(f"these are {len(set(values))} different values; at least 1, and {count}, are asked for")
    return [float(value) for value in values]


@dataclass(frozen=True, kw_only=True)
class GenerationPlan(Configured):
    """Everything that decides what is written.

    The design is `crossed` (every context at every value) or, as in paper 1, `one-value-per-context`: values are
    distributed over the contexts at random, each to as many as any other, or to one more.
    """

    name: ClassVar[str] = "generate"

    model: str = option(
        "smollm2", "Catalogue name, folder, hub name, ngram:FOLDER, bm25:FILE (retrieval) or http://host/v1#name."
    )
    sweep: ParameterSweep = option(
        ParameterSweep("temperature=0.2:1.2:100"),
        "Parameter and values: LOW:HIGH:COUNT or a list; temperature, top_p or top_k (logarithmic steps).",
        metavar="PARAMETER=VALUES",
    )
    design: Design = option(
        "crossed", "Which contexts have which values: each has all of them, or one that is drawn (paper 1)."
    )
    responses_per_set: int = option(10, "Responses per set.", metavar="N")
    temperature: float = option(1.0, "Temperature when another parameter is swept.", metavar="X")
    max_new_tokens: int = option(40, "Longest response, in tokens.", metavar="N")
    template: str = option(
        "{context}", r"The prompt; {context} is replaced, and \n is a line break.", metavar="TEXT", escapes=True
    )
    seed: int = option(12345, "Seed of every random step.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.responses_per_set >= 1, "responses_per_set", self.responses_per_set, "at least 1")
        check_that(self.seed >= 0, "seed", self.seed, "0 or more")
        for value in self.sweep.values:
            self.sweep.apply(self.sampling, value)
        Prompting(self.template)

    @property
    def sampling(self) -> Sampling:
        """How the model decodes, but for the parameter that is swept."""
        return Sampling(temperature=self.temperature, max_new_tokens=self.max_new_tokens)

    def seed_of(self, context: str, value: float, index: int, copy: int = 0) -> int:
        """A seed for one response that depends on nothing but what it answers.

        `copy` tells contexts of equal text apart: how many came before.
        """
        what = [self.seed, self.sweep.parameter, context, value, index, *([copy] if copy else [])]
        about = json.dumps(what, ensure_ascii=False)
        return int.from_bytes(hashlib.blake2b(about.encode("utf-8"), digest_size=7).digest())

    def contexts_of(self, count: int) -> dict[float, list[int]]:
        """The numbers of the contexts, of so many, that are answered at each value."""
        values = self.sweep.values
        if self.design == "crossed":
            return {value: list(range(count)) for value in values}
        if count < len(values):
            raise OptionError(
                f"{argument('design', self.design)}: {count} contexts for {len(values)} values; expected at least one "
                f"context per value: lower the number of values ({argument('sweep')})"
            )
        order = np.random.default_rng(self.seed).permutation(count)
        return {value: sorted(order[place :: len(values)].tolist()) for place, value in enumerate(values)}

    @property
    def sets_per_batch(self) -> int:
        """How many sets of one value are written at a time, since a model is faster at many rows than at few."""
        return max(1, _RESPONSES_PER_CALL // self.responses_per_set)

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
            "design": self.design,
            "responses": self.responses_per_set,
            "seed": self.seed,
            "template": self.template,
            "sets per batch": self.sets_per_batch,
        }


def read_contexts(path: str, reading: Reading | None = None) -> list[tuple[str, str]]:
    """Contexts of a file with their ids; lines of plain text are contexts. One that repeats its id counts once."""
    return read_with_references(path, reading)[0]


def read_with_references(
    path: str, reading: Reading | None = None
) -> tuple[list[tuple[str, str]], dict[str, list[str]]]:
    """Contexts of a file with their ids, and the references of each id: its references, or else its text."""
    table = _source_of_contexts(path, reading or Reading()).read()
    frame, found = table.frame, None
    if isinstance(table, Items) and "context" not in frame.columns:
        frame = frame.rename({"text": "context"})
    elif isinstance(table, Items):
        found = "references" if "references" in frame.columns else "text"
    if "context" not in frame.columns or frame["context"].null_count():
        raise DataError("contexts are missing; expected a column 'context', or plain text with one per line", file=path)
    unique = frame.unique(("id", "context"), keep="first", maintain_order=True)
    if len(twice := unique["id"].is_duplicated().arg_true()):
        id = unique["id"][int(twice[0])]
        raise DataError(f"the id '{id}' has several contexts; expected one for each id", file=path, column="id")
    references: dict[str, list[str]] = {}
    if found is not None:
        for id, texts in frame.select("id", found).iter_rows():
            new = [texts] if isinstance(texts, str) else texts or []
            references[id] = [*references.get(id, []), *(text for text in new if text.strip())]
    return list(zip(unique["id"].to_list(), unique["context"].to_list(), strict=True)), references


def _source_of_contexts(path: str, reading: Reading) -> Source:
    """The file as it is read; where its records have contexts and no texts, the contexts are its texts."""
    source = Source(path=path, reading=reading, extras=())
    if path == STDIN or reading.text or reading.responses:
        return source
    names = source.first_columns
    column = reading.context or find_column(names, "context")
    has_texts = find_column(names, "responses") or find_column(names, "text") or wide_columns(names, "resp", path)
    if column is None or has_texts:
        return source
    return source.with_reading(text=column, context="")


@dataclass(frozen=True)
class GenerationBatch:
    """Some contexts with their ids at one value: what is written at a time, under the name of its results.

    `copies` tell contexts of equal text apart: how many came before.
    """

    name: str
    contexts: Sequence[tuple[str, str]]
    value: float
    copies: Sequence[int] = ()


@dataclass(frozen=True)
class WriteSets:
    """The work of a worker: the sets of a batch, by a model that stays loaded from call to call."""

    run: RunFolder
    plan: GenerationPlan
    weights: str

    def __call__(self, batch: GenerationBatch) -> int:
        """As `write`, by the model of this worker."""
        model = load_shared(self.plan.model)
        if model.fingerprint != self.weights:
            raise ModelError(
                f"the model '{self.plan.model}' on {platform.node()} has the hash {model.fingerprint}; expected "
                f"{self.weights}, as where the run began: put the same model on all nodes"
            )
        return self.write(model, batch)

    def write(self, model: LanguageModel, batch: GenerationBatch) -> int:
        """Write the sets of a batch, as rows of the output, and keep them; returns their number."""
        plan, value = self.plan, batch.value
        size = plan.responses_per_set
        ids = [id for id, _ in batch.contexts]
        contexts = [context for _, context in batch.contexts]
        prompts = [Prompting(plan.template).prompt(context) for context in contexts for _ in range(size)]
        which = list(zip(contexts, batch.copies or [0] * len(ids), strict=True))
        seeds = [plan.seed_of(context, value, index, copy) for context, copy in which for index in range(size)]
        written = model.sample(prompts, plan.sweep.apply(plan.sampling, value), seeds)
        sets = [written[start : start + size] for start in range(0, len(written), size)]
        crossed = plan.design == "crossed" and len(plan.sweep.values) > 1
        columns = {
            "id": [f"{id}@{value:g}" for id in ids] if crossed else ids,
            "context_id": ids,
            "context": contexts,
            "responses": [[one.text for one in some] for some in sets],
            "logprobs": pl.Series([[known(one.logprob) for one in some] for some in sets], dtype=pl.List(pl.Float64)),
            "tokens": [[one.tokens for one in some] for some in sets],
            "truncated": [[one.truncated for one in some] for some in sets],
            plan.sweep.parameter: [value] * len(ids),
            "system": [plan.model] * len(ids),
        }
        self.run.save(batch.name, pl.DataFrame(columns))
        return len(ids)


def known(logprob: float) -> float | None:
    """A log-probability for a file, which has no place for infinity: nothing where it is unknown."""
    if math.isnan(logprob):
        return None
    return max(logprob, LOG_OF_ZERO)


def _folder_of_run(output: Path, folder: Path | None) -> RunFolder:
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
    """Write one response set for every context and value (or one of its values) to `output`.

    Beside each response stand its log-probability under the distribution that it was drawn from, its number of tokens
    and whether it was cut at `max_new_tokens`.

    A pool of workers, each with the model, may stand for the model. Finished sets stay in the folder of the run, as
    Parquet that can be scored as it is, so that a killed run resumes, with any number of workers, and gives the file
    that an undisturbed run gives. Without `folder` it is one beside the output, removed as soon as the output stands.
    """
    if not contexts:
        raise DataError("found no contexts; expected at least one to respond to")
    check_writable(output)
    run = _folder_of_run(output, folder)
    with run.held():
        if isinstance(model, Pool):  # this process need not have the model
            ((_, weights),) = finished(model, _fingerprint, [plan.model])
        else:
            weights = model.fingerprint
        run.begin(plan.settings(contexts, weights))
        batches = _batches(contexts, plan)
        missing = [batch for batch in batches if not run.is_done(batch.name)]
        total = sum(len(batch.contexts) for batch in batches)
        done = total - sum(len(batch.contexts) for batch in missing)
        work = WriteSets(run, plan, weights)
        if isinstance(model, Pool):
            written: Iterable[int] = (sets for _, sets in finished(model, work, missing))
        else:
            written = (work.write(model, batch) for batch in missing)
        with progress_bar(f"writing {output.name}", total, show=progress) as advance:
            advance(done)
            for sets in written:
                done += sets
                advance(done)
        frame: pl.DataFrame = pl.concat([run.load(batch.name) for batch in batches])
        write_table(frame, output)
        if folder is None:
            run.remove()
    return frame


def generate_with_workers(
    contexts: Sequence[tuple[str, str]], plan: GenerationPlan, output: Path, running: Running
) -> pl.DataFrame:
    """As `generate_sets`, with one model in this process, or one per worker."""
    if running.engine == LOCAL and running.workers <= 1:
        model = load_language_model(plan.model, **Machine.from_environment().options)
        return generate_sets(model, contexts, plan, output, folder=running.run, progress=running.progress)
    space = _folder_of_run(output, running.run).scratch()
    with open_pool(running.engine, running.workers, space, isolated=True) as pool:
        return generate_sets(pool, contexts, plan, output, folder=running.run, progress=running.progress)


def _fingerprint(model: str) -> str:
    return load_shared(model).fingerprint


def _batches(contexts: Sequence[tuple[str, str]], plan: GenerationPlan) -> list[GenerationBatch]:
    """All that is to be written, in the order of the output."""
    size = plan.sets_per_batch
    batches: list[GenerationBatch] = []
    copies: list[int] = []
    before: Counter[str] = Counter()
    for _, context in contexts:
        copies.append(before[context])
        before[context] += 1
    for value, places in plan.contexts_of(len(contexts)).items():
        for start in range(0, len(places), size):
            some = places[start : start + size]
            name = f"{len(batches):06}"
            batches.append(GenerationBatch(name, [contexts[i] for i in some], value, [copies[i] for i in some]))
    return batches
