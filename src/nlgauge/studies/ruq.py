"""RUQ: does a model prefer "I don't know." to the reference (paper 5, sections 3 and 7)?

Relative Utterance Quantity is the share of prompts whose reference has a higher length-normalised model score than a
generic response. What the paper leaves open is an option and stands in the signature: normalisation, the end, ties.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.engine.progress import progress_bar
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.score import Interval
from nlgauge.metrics.signature import Signature
from nlgauge.models import shared
from nlgauge.models.language import Sampling, TokenLogprobs
from nlgauge.models.prompting import Prompting
from nlgauge.stats.bootstrap import bootstrap_mean, check_level
from nlgauge.studies.base import Row, Study, finite, pair
from nlgauge.studies.ruq_chart import positions_chart, token_positions
from nlgauge.studies.ruq_scores import (
    FEWEST_PROMPTS,
    Scores,
    Split,
    prompts_cut,
    read_split,
    score_split,
    write_outputs,
)

Normalise = Literal["tokens", "tokens+end", "characters", "none"]
Ties = Literal["lose", "win", "half"]
GENERICS = ("I don't know.", "I don't know what to do.")
ALL = "all"
REFERENCE = "reference"
_KINDS = (REFERENCE, ALL, "beam", "greedy")
_TIE_WORTH = {"lose": 0.0, "win": 1.0, "half": 0.5}


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
class Settings:
    """What decides the scores, checked before any work; `ruq` says what each one means."""

    model: str
    generics: Sequence[str] = GENERICS
    find_generics: int = 0
    normalise: Normalise = "tokens+end"
    end: str | None = None
    ties: Ties = "lose"
    beam: int = 0
    max_new_tokens: int = 40
    template: str = "{context}"
    join: str | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.generics, str):
            raise OptionError(f"generics is one string, {self.generics!r}; expected a list of texts")
        object.__setattr__(self, "generics", tuple(dict.fromkeys(self.generics)))
        Prompting(self.template, self.join)
        for name, known in (("normalise", Normalise), ("ties", Ties)):
            if getattr(self, name) not in get_args(known):
                raise OptionError(f"{name} '{getattr(self, name)}'; expected one of {', '.join(get_args(known))}")
        for name, least in (("find_generics", 0), ("beam", 0), ("limit", FEWEST_PROMPTS)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise OptionError(f"{name} is {value!r}; expected a whole number, at least {least}")
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
    def prompting(self) -> Prompting:
        """How a context becomes a prompt, and what stands before a text."""
        return Prompting(self.template, self.join)

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

    @property
    def outputs(self) -> str:
        """How the model's own output is found, for the signature."""
        width = f"-{self.beam}" if self.beam > 1 else ""
        return f"{self.decoding}{width}-of-{self.max_new_tokens}-tokens"

    def spaced(self, text: str) -> str:
        """A text as it stands after a prompt."""
        return f"{self.prompting.text(text)}{self.end or ''}"

    def score(self, result: TokenLogprobs, text: str) -> float:
        """The normalised score of a text; not a number where there is nothing to divide by."""
        length = {"characters": len(text), "none": 1}.get(self.normalise, len(result))
        return result.total / length if len(result) else float("nan")


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
    settings = Settings(
        model=model, generics=generics, find_generics=find_generics, normalise=normalise, end=end, ties=ties, beam=beam,
        max_new_tokens=max_new_tokens, template=template, join=join, limit=limit,
    )  # fmt: skip
    using = interval or Interval()
    check_level(using.confidence, using.resamples)
    if not splits:
        raise DataError("no data; expected at least one split, such as {'test': 'test.jsonl'}")
    read = [read_split(name, data, settings) for name, data in splits.items()]
    wanted = read if settings.beam else read[: 1 if settings.find_generics else 0]
    outputs = write_outputs(wanted, settings, progress=progress)
    found, notes = _find_generics(read[0], outputs.get(read[0].name, []), settings)
    chosen = (*settings.generics, *found)
    rows, positions, items = list[Row](), [], []
    with progress_bar(f"scoring with {model}", sum(map(len, read)), show=progress) as advance:
        done = 0
        for split in read:
            texts = {REFERENCE: split.references} | {text: [text] * len(split) for text in chosen}
            if settings.beam:
                texts[settings.decoding] = outputs[split.name]
            scored = score_split(split, texts, settings, advance, done)
            done += len(split)
            rows += _rows(split, scored, chosen, settings, using)
            positions += [token_positions(split.name, kind, one.logprobs) for kind, one in scored.items()]
            items.append(_items(split, scored, chosen, settings))
            notes += _notes(split, scored, chosen, settings)
    return Ruq(
        rows, _signature(settings, using, chosen), notes=tuple(notes), positions=pl.concat(positions),
        items=pl.concat(items),
    )  # fmt: skip


def _signature(settings: Settings, using: Interval, generics: Sequence[str]) -> Signature:
    between = settings.prompting.between
    options = {
        "generics": "; ".join(generics), "normalise": settings.normalise,
        "end": "model" if settings.with_end else settings.end or "none", "ties": settings.ties,
        "template": settings.template, "join": {" ": "space", "": "none"}.get(between, between),
        "model": shared.language_model_identity(settings.model),
        "limit": "none" if settings.limit is None else str(settings.limit),
    }  # fmt: skip
    if settings.find_generics or settings.beam:
        options["outputs"] = settings.outputs
        options["found"] = str(settings.find_generics)
    options |= {"ci": f"{using.confidence:g}", "by": f"bootstrap-{using.resamples}", "seed": str(using.seed)}
    return Signature("ruq", options)


def _find_generics(split: Split, outputs: Sequence[str], settings: Settings) -> tuple[tuple[str, ...], list[str]]:
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


def _rivals(scored: Scores, generics: Sequence[str]) -> dict[str, Array]:
    """The score that the reference must beat, by generic and for all: its own where the texts are the same."""
    reference = scored[REFERENCE]
    plain = [_plain(text) for text in reference.texts]
    rivals = {
        text: np.where([_plain(text) == one for one in plain], reference.scores, scored[text].scores)
        for text in generics
    }
    return rivals | ({ALL: np.max(list(rivals.values()), axis=0)} if len(rivals) > 1 else {})


def _rows(split: Split, scored: Scores, generics: Sequence[str], settings: Settings, using: Interval) -> list[Row]:
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


def _items(split: Split, scored: Scores, generics: Sequence[str], settings: Settings) -> pl.DataFrame:
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


def _notes(split: Split, scored: Scores, generics: Sequence[str], settings: Settings) -> list[str]:
    notes = []
    plain = Counter(_plain(text) for text in split.references)
    worth = {"lose": "lost", "win": "won", "half": "half won"}[settings.ties]
    for text in generics:
        if same := plain[_plain(text)]:
            notes.append(f"{same} of {len(split)} references of {split.name} are {text!r}: ties, counted as {worth}")
    if lost := int(np.isnan(scored[REFERENCE].scores).sum()):
        notes.append(f"{lost} references of {split.name} have no tokens for {settings.model} and are left out")
    if cut := prompts_cut(settings.model, split, scored):
        notes.append(f"{cut} of {len(split)} prompts of {split.name} are beyond the model's window: cut from the left")
    return notes


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
