"""What RUQ asks of a model: to score texts under prompts and to write its own, each thing once, then from disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.columns import Reading
from nlgauge.data.frames import frame_table, is_frame
from nlgauge.data.reading import Source
from nlgauge.data.roles import names_shown
from nlgauge.data.tables import Items
from nlgauge.engine.progress import Advance, progress_bar
from nlgauge.errors import DataError, ModelError, OptionError, argument
from nlgauge.models import shared
from nlgauge.models.language.base import DECODING, LanguageModel, TokenLogprobs
from nlgauge.studies.ruq.options import FEWEST_PROMPTS, RuqOptions

_PROMPTS_AT_ONCE = 64
T = TypeVar("T")
Model = str | LanguageModel


@dataclass(frozen=True)
class Prompts:
    """The pairs of a split as they were read; `file` names them in messages."""

    name: str
    table: Items
    file: str


@dataclass(frozen=True)
class Split:
    """Prompts with their references."""

    name: str
    ids: list[str]
    contexts: list[str]
    prompts: list[str]
    references: list[str]

    def __len__(self) -> int:
        return len(self.prompts)


@dataclass(frozen=True)
class Scored:
    """The texts of one kind, one per prompt: their scores, and the log-probabilities of their tokens."""

    texts: Sequence[str]
    scores: Array
    logprobs: list[Array]


Scores = dict[str, Scored]
Texts = Mapping[str, Sequence[str]]


def read_prompts(name: str, data: Any, reading: Reading) -> Prompts:
    """The pairs of a split: of a file, a table or a frame."""
    if not isinstance(name, str) or not name.strip():
        raise OptionError(f"a split is called {name!r}; expected a name, such as train or test")
    if reading.one_set:
        raise OptionError(f"{argument('one_set')} makes one set of all texts; expected one reference per prompt")
    file = name
    if isinstance(data, str | Path):
        data = Source(path=str(data), reading=reading, extras=())
    if isinstance(data, Source):
        file, data = data.name, data.read()
    elif is_frame(data):
        data = frame_table(data, reading, ())
    if not isinstance(data, Items) or "context" not in data.frame.columns:
        found = f"columns {names_shown(data.frame.columns)}" if isinstance(data, Items) else type(data).__name__
        raise DataError(f"found {found}; expected prompts in the column 'context', references in 'text'", file=file)
    return Prompts(name, data, file)


def check_split(given: Prompts, options: RuqOptions) -> Split:
    """The prompts of a split, each with its reference."""
    frame = given.table.frame.head(options.limit) if options.limit else given.table.frame
    if frame.height < FEWEST_PROMPTS:
        raise DataError(f"{frame.height} prompts; expected at least {FEWEST_PROMPTS}", file=given.file)
    ids, texts = frame["id"].cast(pl.String).to_list(), frame["text"].to_list()
    contexts = frame["context"].fill_null("").cast(pl.String).to_list()
    for id, context, text in zip(ids, contexts, texts, strict=True):
        if not text.strip():
            raise DataError(f"item '{id}' has no reference; leave it out", file=given.file, column="text")
        if options.prompting.bare and not context.strip():
            advice = "leave it out, or use a template with words around {context}"
            raise DataError(f"item '{id}' has an empty prompt; {advice}", file=given.file, column="context")
    return Split(given.name, ids, contexts, [options.prompting.prompt(c) for c in contexts], texts)


def write_outputs(
    model: Model, splits: Sequence[Split], options: RuqOptions, *, progress: bool
) -> dict[str, list[str]]:
    """The model's own output for every prompt of some splits, by the name of the split."""
    how = options.sampling
    about = ("output", DECODING, how.beams, how.max_new_tokens, how.stop)
    prompts = [prompt for split in splits for prompt in split.prompts]

    def write(some: Sequence[str]) -> list[str]:
        return shared.loaded_model(model).generate(some, how, [0] * len(some))

    with progress_bar(f"writing with {model_name(model)}", len(prompts), show=progress and bool(prompts)) as advance:
        texts = iter(_remembered(model, about, prompts, write, advance))
    return {split.name: [next(texts) for _ in split.prompts] for split in splits}


def score_split(model: Model, split: Split, texts: Texts, options: RuqOptions, advance: Advance, before: int) -> Scores:
    """Score all kinds of texts of a split, some prompts at a time, all texts of a prompt in one go."""
    results: list[list[TokenLogprobs]] = []
    for start in range(0, len(split), _PROMPTS_AT_ONCE):
        prompts = split.prompts[start : start + _PROMPTS_AT_ONCE]
        rows = range(start, start + len(prompts))
        asked = [[options.spaced(column[row]) for column in texts.values()] for row in rows]
        try:
            results += shared.score_texts(model, prompts, asked, with_end=options.with_end)
        except ModelError as error:
            if not options.with_end or "end token" not in str(error):
                raise
            ending = argument("end", r"'\n'")
            raise ModelError(
                f"{model_name(model)} has no end token for {argument('normalise', 'tokens+end')}; use "
                f"{argument('normalise', 'tokens')}, or say what ends a response, such as {ending}"
            ) from error
        advance(before + rows.stop)
    found = zip(texts.items(), zip(*results, strict=True), strict=True)
    return {
        kind: Scored(column, np.array(list(map(options.score, own, column))), [one.logprobs for one in own])
        for (kind, column), own in found
    }


def model_name(model: Model) -> str:
    """What to call a model."""
    return model.name if isinstance(model, LanguageModel) else model


def prompts_cut(model: Model, split: Split, scored: Scores) -> int:
    """How many prompts lost their beginning because prompt and longest text are beyond the model's window."""
    longest = np.max([[len(one) for one in kind.logprobs] for kind in scored.values()], axis=0)
    rooms = _remembered(model, ("room",), split.prompts, lambda some: _rooms(model, some))
    return sum(room is not None and length - 1 > room for room, length in zip(rooms, longest, strict=True))


def _rooms(model: Model, prompts: Sequence[str]) -> list[int | None]:
    """Tokens that fit between each prompt and the end of the model's window; None where nothing is known to be cut."""
    from nlgauge.models.language.seq2seq import Seq2SeqModel
    from nlgauge.models.language.transformers_model import TransformersModel

    loaded = shared.loaded_model(model)
    if not isinstance(loaded, TransformersModel) or not loaded.window:
        return [None] * len(prompts)
    if isinstance(loaded, Seq2SeqModel):
        read = loaded.tokenizer(list(prompts), verbose=False)["input_ids"]
        return [-1 if len(ids) > loaded.window else None for ids in read]
    start = len(loaded.encode([loaded.start_context])[0])
    return [loaded.window - start - len(ids) for ids in loaded.encode(prompts)]


def _remembered(
    model: Model,
    about: Sequence[Any],
    prompts: Sequence[str],
    compute: Callable[[Sequence[str]], list[T]],
    advance: Advance = lambda _: None,
) -> list[T]:
    """What a model says about prompts: from disk where it is known, else computed some at a time and kept."""
    memory = shared.Memory("prompts", model)
    keys = [hashlib.blake2b(msgspec.json.encode([*about, prompt]), digest_size=16).digest() for prompt in prompts]
    known = memory.get(keys)
    todo = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in known}
    for start in range(0, len(todo), _PROMPTS_AT_ONCE):
        part = list(todo)[start : start + _PROMPTS_AT_ONCE]
        values = compute([todo[key] for key in part])
        fresh = {key: msgspec.json.encode(value) for key, value in zip(part, values, strict=True)}
        memory.put(fresh)
        known |= fresh
        advance(len(prompts) - len(todo) + start + len(part))
    return [msgspec.json.decode(known[key]) for key in keys]
