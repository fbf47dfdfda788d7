"""What RUQ asks of a model: to score texts under prompts and to write its own, each thing once, then from disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.reading import Source
from nlgauge.data.tables import Items
from nlgauge.engine.progress import Advance, progress_bar
from nlgauge.engine.store import BlobStore
from nlgauge.errors import DataError, ModelError, OptionError
from nlgauge.models import shared
from nlgauge.models.language import DECODING, LanguageModel

if TYPE_CHECKING:
    from nlgauge.studies.ruq import Settings

FEWEST_PROMPTS = 2
_PROMPTS_AT_ONCE = 64
T = TypeVar("T")


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
    """The texts of one kind, one a prompt: their scores, and the log-probabilities of their tokens."""

    texts: Sequence[str]
    scores: Array
    logprobs: list[Array]


Scores = dict[str, Scored]
Texts = Mapping[str, Sequence[str]]


def read_prompts(name: str, data: Any) -> tuple[Items, str]:
    """The pairs of a split from whatever names them, and what to call them in messages."""
    if not isinstance(name, str) or not name.strip():
        raise OptionError(f"a split is called {name!r}; expected a name, such as train or test")
    source = Source(path=str(data), extras=()) if isinstance(data, str | Path) else data
    file = source.name if isinstance(source, Source) else name
    table = source.read() if isinstance(source, Source) else source
    if not isinstance(table, Items) or "context" not in table.frame.columns:
        found = f"columns {', '.join(table.frame.columns)}" if isinstance(table, Items) else type(table).__name__
        raise DataError(f"found {found}; expected prompts in the column 'context', references in 'text'", file=file)
    return table, file


def read_split(name: str, data: Any, settings: Settings) -> Split:
    """The pairs of a split, each checked."""
    table, file = read_prompts(name, data)
    frame = table.frame if settings.limit is None else table.frame.head(settings.limit)
    if frame.height < FEWEST_PROMPTS:
        raise DataError(f"{frame.height} prompts; expected at least {FEWEST_PROMPTS}", file=file)
    ids, texts = frame["id"].cast(pl.String).to_list(), frame["text"].to_list()
    contexts = frame["context"].fill_null("").cast(pl.String).to_list()
    for id, context, text in zip(ids, contexts, texts, strict=True):
        if not text.strip():
            raise DataError(f"item '{id}' has no reference; leave it out", file=file, column="text")
        if settings.prompting.bare and not context.strip():
            advice = "leave it out, or use a template with words around {context}"
            raise DataError(f"item '{id}' has an empty prompt; {advice}", file=file, column="context")
    return Split(name, ids, contexts, [settings.prompting.prompt(c) for c in contexts], texts)


def write_outputs(splits: Sequence[Split], settings: Settings, *, progress: bool) -> dict[str, list[str]]:
    """The model's own output for every prompt of some splits, by the name of the split."""
    how = settings.sampling
    about = ("output", DECODING, how.beams, how.max_new_tokens, how.stop)
    prompts = [prompt for split in splits for prompt in split.prompts]

    def write(some: Sequence[str]) -> list[str]:
        return _loaded(settings.model).generate(some, how, [0] * len(some))

    with progress_bar(f"writing with {settings.model}", len(prompts), show=progress and bool(prompts)) as advance:
        texts = iter(_remembered(settings.model, about, prompts, write, advance))
    return {split.name: [next(texts) for _ in split.prompts] for split in splits}


def score_split(split: Split, texts: Texts, settings: Settings, advance: Advance, before: int) -> Scores:
    """Score all kinds of texts of a split, some prompts at a time, all texts of a prompt in one go."""
    scores: dict[str, list[float]] = {kind: [] for kind in texts}
    logprobs: dict[str, list[Array]] = {kind: [] for kind in texts}
    for start in range(0, len(split), _PROMPTS_AT_ONCE):
        prompts = split.prompts[start : start + _PROMPTS_AT_ONCE]
        rows = range(start, start + len(prompts))
        asked = [[settings.spaced(column[row]) for column in texts.values()] for row in rows]
        try:
            results = shared.score_texts(settings.model, prompts, asked, with_end=settings.with_end)
        except ModelError as error:
            if not settings.with_end or "end token" not in str(error):
                raise
            advice = r"use normalise='tokens', or say what ends a response, such as end='\n'"
            raise ModelError(f"{settings.model} has no end token for normalise='tokens+end'; {advice}") from error
        for row, found in zip(rows, results, strict=True):
            for (kind, column), result in zip(texts.items(), found, strict=True):
                scores[kind].append(settings.score(result, column[row]))
                logprobs[kind].append(result.logprobs)
        advance(before + rows.stop)
    return {kind: Scored(column, np.array(scores[kind]), logprobs[kind]) for kind, column in texts.items()}


def prompts_cut(model: str, split: Split, scored: Scores) -> int:
    """How many prompts lost their beginning because prompt and longest text are beyond the model's window."""
    longest = np.max([[len(one) for one in kind.logprobs] for kind in scored.values()], axis=0)
    rooms = _remembered(model, ("room",), split.prompts, lambda some: _rooms(model, some))
    return sum(room is not None and length - 1 > room for room, length in zip(rooms, longest, strict=True))


def _rooms(model: str, prompts: Sequence[str]) -> list[int | None]:
    """Tokens that fit between each prompt and the end of the model's window; None where nothing is known to be cut."""
    from nlgauge.models.seq2seq import Seq2SeqModel
    from nlgauge.models.transformers_model import TransformersModel

    loaded = _loaded(model)
    if not isinstance(loaded, TransformersModel) or not loaded.window:
        return [None] * len(prompts)
    if isinstance(loaded, Seq2SeqModel):
        read = loaded.tokenizer(list(prompts), verbose=False)["input_ids"]
        return [-1 if len(ids) > loaded.window else None for ids in read]
    start = len(loaded.encode([loaded.start_context])[0])
    return [loaded.window - start - len(ids) for ids in loaded.encode(prompts)]


def _remembered(
    model: str,
    about: Sequence[Any],
    prompts: Sequence[str],
    compute: Callable[[Sequence[str]], list[T]],
    advance: Advance = lambda _: None,
) -> list[T]:
    """What a model says about prompts: from disk where it is known, else computed some at a time and kept."""
    digest = hashlib.blake2b(shared.language_model_identity(model).encode(), digest_size=8).hexdigest()
    store = BlobStore(f"prompts-{digest}")
    keys = [hashlib.blake2b(msgspec.json.encode([*about, prompt]), digest_size=16).digest() for prompt in prompts]
    known = store.get_many(list(dict.fromkeys(keys)))
    todo = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in known}
    for start in range(0, len(todo), _PROMPTS_AT_ONCE):
        part = list(todo)[start : start + _PROMPTS_AT_ONCE]
        values = compute([todo[key] for key in part])
        fresh = {key: msgspec.json.encode(value) for key, value in zip(part, values, strict=True)}
        store.put_many(fresh.items())
        known |= fresh
        advance(len(prompts) - len(todo) + start + len(part))
    return [msgspec.json.decode(known[key]) for key in keys]


def _loaded(model: str) -> LanguageModel:
    """The loaded model that scoring uses, too."""
    return shared.load_shared(model if model.startswith(("http://", "https://")) else model.partition("@")[0])
