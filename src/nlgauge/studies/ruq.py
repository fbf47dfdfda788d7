"""RUQ: does a model prefer "I don't know." to the reference (paper 5, sections 3 and 7)?

Relative Utterance Quantity is the share of prompts whose reference has a higher length-normalised model score than a
generic response. What the paper leaves open is an option and stands in the signature: normalisation, the end, ties.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, get_args

import msgspec
import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.reading import Source
from nlgauge.data.tables import Items
from nlgauge.engine.progress import Advance, progress_bar
from nlgauge.engine.store import BlobStore
from nlgauge.errors import DataError, ModelError, OptionError
from nlgauge.metrics.score import Interval
from nlgauge.metrics.signature import Signature
from nlgauge.models import shared
from nlgauge.models.language import DECODING, LanguageModel, Sampling, TokenLogprobs
from nlgauge.stats.bootstrap import bootstrap_mean, check_level
from nlgauge.studies.base import Row, Study, finite, pair
from nlgauge.studies.ruq_chart import positions_chart, token_positions

Normalise = Literal["tokens", "tokens+end", "characters", "none"]
Ties = Literal["lose", "win", "half"]
GENERICS = ("I don't know.", "I don't know what to do.")
ALL = "all"
REFERENCE = "reference"
FEWEST_PROMPTS = 2
_KINDS = (REFERENCE, ALL, "beam", "greedy")
_PROMPTS_AT_ONCE = 64
_TIE_WORTH = {"lose": 0.0, "win": 1.0, "half": 0.5}
T = TypeVar("T")


@dataclass(frozen=True)
class Ruq(Study):
    """RUQ of every split against each generic, and against all of them at once (`generic` is "all").

    `positions` has the mean score of the tokens at each position (`split, kind, position, mean, sd, count`), where
    `kind` is "reference", "beam" (or "greedy") or a generic. `items` has a row a prompt: texts, scores and who won.
    """

    name: ClassVar[str] = "ruq"
    index: ClassVar[str] = "generic"
    columns: ClassVar[tuple[str, ...]] = (
        "split", "generic", "n", "ruq", "ruq_ci", "ties", "excluded", "reference_score", "generic_score"
    )  # fmt: skip
    side_by_side: ClassVar[tuple[str, ...]] = ()
    titles: ClassVar[Mapping[str, str]] = {"ruq": "RUQ"}
    digits: ClassVar[Mapping[str, int]] = {"ruq": 3, "ruq_ci": 3}

    positions: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)
    items: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)

    def chart(self) -> Any:
        """Mean token score by position for each kind of text, a panel a split (Figure 1)."""
        return positions_chart(self)

    def row(self, metric: str, task: str | None = None) -> Row:
        """The row of one generic (in one split); for use in programs."""
        found = [row for row in self.rows if row["generic"] == metric and task in (None, row["split"])]
        if len(found) != 1:
            known = [(row["generic"], row["split"]) for row in self.rows]
            raise KeyError(f"{len(found)} rows for {metric!r} in {task!r}; found {known}")
        return found[0]


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """What decides the scores, checked before any work."""

    model: str
    generics: tuple[str, ...]
    find_generics: int
    normalise: Normalise
    end: str | None
    ties: Ties
    beam: int
    max_new_tokens: int
    template: str
    join: str
    limit: int | None

    def __post_init__(self) -> None:
        for name, known in (("normalise", Normalise), ("ties", Ties)):
            if getattr(self, name) not in get_args(known):
                raise OptionError(f"{name} '{getattr(self, name)}'; expected one of {', '.join(get_args(known))}")
        for name, least in (("find_generics", 0), ("beam", 0), ("limit", FEWEST_PROMPTS)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise OptionError(f"{name} is {value!r}; expected a whole number, at least {least}")
        if "{context}" not in self.template:
            raise OptionError(f"template '{self.template}'; expected {{context}} somewhere in it")
        if self.end is not None and (not self.end or self.normalise != "tokens+end"):
            raise OptionError(
                f"end is {self.end!r} and normalise '{self.normalise}'; expected some text, with normalise='tokens+end'"
            )
        if not self.generics and not self.find_generics:
            raise OptionError("no generic response; expected at least one, or find_generics to find the most common")
        for text in self.generics:
            if not isinstance(text, str) or not text.strip() or text in _KINDS:
                raise OptionError(f"the generic response {text!r}; expected text such as {GENERICS[0]!r}")

    @property
    def with_end(self) -> bool:
        """Whether the model's own end token is scored."""
        return self.normalise == "tokens+end" and self.end is None

    @property
    def sampling(self) -> Sampling:
        """How the model's own output is found."""
        stop = ("\n",) if self.end in (None, "\n") else ("\n", self.end)
        return Sampling(temperature=0, beams=max(1, self.beam), max_new_tokens=self.max_new_tokens, stop=stop)

    @property
    def decoding(self) -> str:
        """What the model's own output is called."""
        return "beam" if self.beam > 1 else "greedy"

    def spaced(self, text: str) -> str:
        """A text as it stands after a prompt."""
        return f"{self.join if text else ''}{text}{self.end or ''}"

    def score(self, result: TokenLogprobs, text: str) -> float:
        """The normalised score of a text; not a number where there is nothing to divide by."""
        length = {"characters": len(text), "none": 1}.get(self.normalise, len(result))
        return result.total / length if len(result) else float("nan")


@dataclass(frozen=True)
class _Split:
    """Prompts with their references."""

    name: str
    ids: list[str]
    contexts: list[str]
    prompts: list[str]
    references: list[str]

    def __len__(self) -> int:
        return len(self.prompts)


@dataclass(frozen=True)
class _Scored:
    """The texts of one kind, one a prompt: their scores, and the log-probabilities of their tokens."""

    texts: Sequence[str]
    scores: Array
    logprobs: list[Array]


Scores = dict[str, _Scored]
Texts = Mapping[str, Sequence[str]]


def ruq(
    model: str,
    splits: Mapping[str, Any],
    *,
    generics: Sequence[str] = GENERICS,
    find_generics: int = 0,
    normalise: Normalise = "tokens+end",
    end: str | None = None,
    ties: Ties = "lose",
    beam: int = 0,
    max_new_tokens: int = 40,
    template: str = "{context}",
    join: str | None = None,
    limit: int | None = None,
    interval: Interval | None = None,
    progress: bool = False,
) -> Ruq:
    r"""Compute RUQ of a model on pairs of prompt and reference.

    `splits` names the data, as in `{"train": "train.jsonl", "test": "test.csv"}`: a file with columns `context` and
    `text`, a `Source` or `Items`. The model is named as everywhere: `smollm2`, a folder, `ngram:FOLDER`, an address.

    A score is the mean log-probability of the tokens and the end (`tokens+end`: the score of FAIRSEQ, the paper's
    toolkit), of the tokens alone (`tokens`), the sum of the tokens' by number of characters (`characters`), or that sum
    (`none`); the last three leave the end out. The end is the model's end token, or the text `end`, such as "\n" or a
    chat model's marker; endpoints have no end token. A reference that scores no higher than the generic has lost
    (`ties="lose"`: section 7.2 counts "higher probability"). One that equals the generic but for case and spaces is a
    tie, whatever the scores.

    `find_generics` adds the model's so many most common outputs over the prompts of the first split to `generics`.
    `beam` also scores the model's own output: the width of beam search, 1: greedy, 0: none.

    `join` stands between prompt and text and belongs to the text: a space by default, nothing where the template ends
    in white space. A chat model's template is written out, with its markers, and its turns end with one:

        template="<|im_start|>user\n{context}<|im_end|>\n<|im_start|>assistant\n", end="<|im_end|>"
    """
    if isinstance(generics, str):
        raise OptionError(f"generics is one string, {generics!r}; expected a list of texts")
    between = join if join is not None else "" if template != template.rstrip() else " "
    settings = _Settings(
        model=model, generics=tuple(dict.fromkeys(generics)), find_generics=find_generics, normalise=normalise,
        end=end, ties=ties, beam=beam, max_new_tokens=max_new_tokens, template=template, join=between, limit=limit,
    )  # fmt: skip
    using = interval or Interval()
    check_level(using.confidence, using.resamples)
    if not splits:
        raise DataError("no data; expected at least one split, such as {'test': 'test.jsonl'}")
    read = [_read(name, data, settings) for name, data in splits.items()]
    outputs = _outputs(read, settings, progress)
    found, notes = _find_generics(read[0], outputs.get(read[0].name, []), settings)
    chosen = (*settings.generics, *found)
    rows, positions, items = list[Row](), [], []
    with progress_bar(f"scoring with {model}", sum(map(len, read)), show=progress) as advance:
        done = 0
        for split in read:
            texts = {REFERENCE: split.references} | {text: [text] * len(split) for text in chosen}
            if settings.beam:
                texts[settings.decoding] = outputs[split.name]
            scored = _score(split, texts, settings, advance, done)
            done += len(split)
            rows += _rows(split, scored, chosen, settings, using)
            positions += [token_positions(split.name, kind, one.logprobs) for kind, one in scored.items()]
            items.append(_items(split, scored, chosen, settings))
            notes += _notes(split, scored, chosen, settings)
    return Ruq(
        rows, _signature(settings, using, chosen), notes=tuple(notes), positions=pl.concat(positions),
        items=pl.concat(items),
    )  # fmt: skip


def _signature(settings: _Settings, using: Interval, generics: Sequence[str]) -> Signature:
    options = {
        "generics": "; ".join(generics), "normalise": settings.normalise,
        "end": "model" if settings.with_end else settings.end or "none", "ties": settings.ties,
        "template": settings.template, "join": {" ": "space", "": "none"}.get(settings.join, settings.join),
        "model": shared.language_model_identity(settings.model),
        "limit": "none" if settings.limit is None else str(settings.limit),
    }  # fmt: skip
    if settings.find_generics or settings.beam:
        width = f"-{settings.beam}" if settings.beam > 1 else ""
        options["outputs"] = f"{settings.decoding}{width}-of-{settings.max_new_tokens}-tokens"
        options["found"] = str(settings.find_generics)
    options |= {"ci": f"{using.confidence:g}", "by": f"bootstrap-{using.resamples}", "seed": str(using.seed)}
    return Signature("ruq", options)


def _read(name: str, data: Any, settings: _Settings) -> _Split:
    """The pairs of a split, each checked."""
    if not isinstance(name, str) or not name.strip():
        raise OptionError(f"a split is called {name!r}; expected a name, such as train or test")
    source = Source(path=str(data), extras=()) if isinstance(data, str | Path) else data
    file = source.name if isinstance(source, Source) else name
    table = source.read() if isinstance(source, Source) else source
    if not isinstance(table, Items) or "context" not in table.frame.columns:
        found = f"columns {', '.join(table.frame.columns)}" if isinstance(table, Items) else type(table).__name__
        raise DataError(f"found {found}; expected prompts in the column 'context', references in 'text'", file=file)
    frame = table.frame if settings.limit is None else table.frame.head(settings.limit)
    if frame.height < FEWEST_PROMPTS:
        raise DataError(f"{frame.height} prompts; expected at least {FEWEST_PROMPTS}", file=file)
    ids, texts = frame["id"].cast(pl.String).to_list(), frame["text"].to_list()
    contexts = frame["context"].fill_null("").cast(pl.String).to_list()
    bare = not settings.template.replace("{context}", "").strip()
    for id, context, text in zip(ids, contexts, texts, strict=True):
        if not text.strip():
            raise DataError(f"item '{id}' has no reference; leave it out", file=file, column="text")
        if bare and not context.strip():
            advice = "leave it out, or use a template with words around {context}"
            raise DataError(f"item '{id}' has an empty prompt; {advice}", file=file, column="context")
    return _Split(name, ids, contexts, [settings.template.replace("{context}", c) for c in contexts], texts)


def _outputs(splits: Sequence[_Split], settings: _Settings, progress: bool) -> dict[str, list[str]]:
    """The model's own output for every prompt of the splits that need it."""
    wanted = splits if settings.beam else splits[: 1 if settings.find_generics else 0]
    how = settings.sampling
    about = ("output", DECODING, how.beams, how.max_new_tokens, how.stop)
    prompts = [prompt for split in wanted for prompt in split.prompts]

    def write(some: Sequence[str]) -> list[str]:
        return _loaded(settings.model).generate(some, how, [0] * len(some))

    with progress_bar(f"writing with {settings.model}", len(prompts), show=progress and bool(prompts)) as advance:
        texts = iter(_remembered(settings.model, about, prompts, write, advance))
    return {split.name: [next(texts) for _ in split.prompts] for split in wanted}


def _find_generics(split: _Split, outputs: Sequence[str], settings: _Settings) -> tuple[tuple[str, ...], list[str]]:
    """The most common outputs that are not among the generics already, and what to say about them."""
    if not settings.find_generics:
        return (), []
    forms: dict[str, Counter[str]] = {}
    for text in outputs:
        if text and text not in _KINDS:
            forms.setdefault(_plain(text), Counter())[text] += 1
    ranked = sorted(forms, key=lambda plain: (-forms[plain].total(), plain))[: settings.find_generics]
    best = {plain: min(forms[plain], key=lambda text: (-forms[plain][text], text)) for plain in ranked}
    told = ", ".join(f"{text!r} ({forms[plain].total()})" for plain, text in best.items())
    if not told:
        raise DataError(f"all {len(outputs)} outputs of {settings.model} are empty; name the generics instead")
    given = {_plain(text) for text in settings.generics}
    found = tuple(text for plain, text in best.items() if plain not in given)
    return found, [f"the most common of {len(outputs)} {settings.decoding} outputs for {split.name}: {told}"]


def _score(split: _Split, texts: Texts, settings: _Settings, advance: Advance, before: int) -> Scores:
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
    return {kind: _Scored(column, np.array(scores[kind]), logprobs[kind]) for kind, column in texts.items()}


def _rivals(scored: Scores, generics: Sequence[str]) -> dict[str, Array]:
    """The score that the reference must beat, by generic and for all: its own where the texts are the same."""
    reference = scored[REFERENCE]
    plain = [_plain(text) for text in reference.texts]
    rivals = {
        text: np.where([_plain(text) == one for one in plain], reference.scores, scored[text].scores)
        for text in generics
    }
    return rivals | ({ALL: np.max(list(rivals.values()), axis=0)} if len(rivals) > 1 else {})


def _rows(split: _Split, scored: Scores, generics: Sequence[str], settings: _Settings, using: Interval) -> list[Row]:
    reference = scored[REFERENCE].scores
    repeated = len(set(split.prompts)) < len(split)
    rows: list[Row] = []
    for generic, rival in _rivals(scored, generics).items():
        known = ~(np.isnan(reference) | np.isnan(rival))
        tied = (reference == rival)[known]
        won = np.where(tied, _TIE_WORTH[settings.ties], (reference > rival)[known].astype(float))
        row: Row = {
            "split": split.name, "generic": generic, "ruq": None, "ruq_ci": None, "n": len(won),
            "ties": int(tied.sum()), "excluded": int((~known).sum()), "model": settings.model,
            "reference_score": None, "generic_score": None,
        }  # fmt: skip
        if len(won):
            groups = np.array(split.prompts)[known] if repeated else None
            ci = bootstrap_mean(won, using.confidence, using.resamples, using.seed, groups=groups)
            row |= {"ruq": float(won.mean()), "ruq_ci": pair(ci)}
            row |= {"reference_score": finite(reference[known].mean()), "generic_score": finite(rival[known].mean())}
        rows.append(row)
    return rows


def _items(split: _Split, scored: Scores, generics: Sequence[str], settings: _Settings) -> pl.DataFrame:
    reference = scored[REFERENCE].scores
    rivals = _rivals(scored, generics)
    rival = rivals.get(ALL, rivals[generics[0]])
    best = np.argmax([rivals[text] for text in generics], axis=0)
    unknown = np.isnan(reference) | np.isnan(rival)
    winner = np.select([unknown, reference > rival, reference == rival], ["", REFERENCE, "tie"], default="generic")
    output = scored.get(settings.decoding)
    frame = pl.DataFrame(
        {
            "split": [split.name] * len(split), "id": split.ids, "context": split.contexts,
            "reference": split.references, "winner": winner.tolist(), "best_generic": [generics[i] for i in best],
            "reference_score": reference, "best_generic_score": rival,
            **{f"score of {text}": scored[text].scores for text in generics},
            **({} if output is None else {"output": list(output.texts), "output_score": output.scores}),
        }
    )  # fmt: skip
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None), winner=pl.when(pl.col("winner") != "").then("winner"))


def _notes(split: _Split, scored: Scores, generics: Sequence[str], settings: _Settings) -> list[str]:
    notes = []
    plain = Counter(_plain(text) for text in split.references)
    worth = {"lose": "lost", "win": "won", "half": "half won"}[settings.ties]
    for text in generics:
        if same := plain[_plain(text)]:
            notes.append(f"{same} of {len(split)} references of {split.name} are {text!r}: ties, counted as {worth}")
    if lost := int(np.isnan(scored[REFERENCE].scores).sum()):
        notes.append(f"{lost} references of {split.name} have no tokens for {settings.model} and are left out")
    longest = np.max([[len(one) for one in kind.logprobs] for kind in scored.values()], axis=0)
    rooms = _remembered(settings.model, ("room",), split.prompts, lambda some: _rooms(settings.model, some))
    cut = sum(room is not None and length - 1 > room for room, length in zip(rooms, longest, strict=True))
    if cut:
        notes.append(f"{cut} of {len(split)} prompts of {split.name} are beyond the model's window: cut from the left")
    return notes


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


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
