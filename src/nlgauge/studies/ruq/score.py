"""RUQ: does a model prefer "I don't know." to the reference (paper 5, sections 3 and 7)?

Relative Utterance Quantity is the share of prompts whose reference has a higher length-normalised model score than a
generic response. What the paper leaves open is an option: normalisation, the end, ties.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import required
from nlgauge.engine.progress import progress_bar
from nlgauge.errors import DataError
from nlgauge.models.language.base import LanguageModel
from nlgauge.models.shared import language_model_identity
from nlgauge.stats.inference import Intervals
from nlgauge.stats.means import mean_interval
from nlgauge.stats.units import Units, numbered
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, facts_of, finite, pair, with_interval
from nlgauge.studies.ruq.chart import positions_chart, token_positions
from nlgauge.studies.ruq.options import ALL, KINDS, MODEL, REFERENCE, RuqOptions
from nlgauge.studies.ruq.token_scores import (
    Scores,
    Split,
    check_split,
    model_name,
    prompts_cut,
    read_prompts,
    score_split,
    write_outputs,
)

_TIE_WORTH = {"lose": 0.0, "win": 1.0, "half": 0.5}


@dataclass(frozen=True, kw_only=True)
class Ruq(Intervals, RuqOptions, Study):
    """RUQ: how often does a model prefer the reference to "I don't know."?

    Every split is scored against each generic response, and against all of them at once (`generic` is "all"). In
    Python, the data are `train` and `test`, or splits of any name: `Ruq(model="smollm2").run({"valid": "v.jsonl"})`.
    """

    name: ClassVar[str] = "ruq"
    takes: ClassVar[Literal["files", "file", "none"]] = "none"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study ruq --model smollm2 --train train.jsonl --test test.jsonl --beam 5 --chart ruq.html",
        r"nlgauge study ruq --model smollm2 --test test.csv --template 'A: {context}\nB:' --end '\n' --items items.csv",
    )
    index: ClassVar[str] = "generic"
    layout: ClassVar[tuple[Column, ...]] = (
        *map(Column, ("split", "generic", "n")),
        *with_interval("ruq", "RUQ", digits=3),
        *map(Column, ("ties", "excluded", "reference_score", "generic_score")),
    )
    tables: ClassVar[Mapping[str, str]] = {"items": "Every prompt with texts, scores and winner:"}
    aspect: ClassVar[str] = "generic"

    model: str | LanguageModel = required(MODEL)

    def relevant_options(self) -> Mapping[str, Any]:
        """The model with its hash."""
        return {**super().relevant_options(), "model": language_model_identity(self.model)}

    def compute(self, data: StudyData) -> Result:
        """RUQ of the model on every split."""
        named = self.splits(data.entries)
        read = [check_split(read_prompts(name, one, data.reading), self) for name, one in named.items()]
        return self.measure(read, progress=data.running.progress)

    def measure(self, splits: Sequence[Split], *, progress: bool) -> Result:
        """RUQ of the model on splits that are read already."""
        first, name = splits[0], model_name(self.model)
        wanted = splits if self.beam else splits[: 1 if self.find_generics else 0]
        outputs = write_outputs(self.model, wanted, self, progress=progress)
        found, notes = _find_generics(first, outputs.get(first.name, []), self, name)
        chosen = (*self.texts, *found)
        rows, positions, items = list[Row](), [], []
        with progress_bar(f"scoring with {name}", sum(map(len, splits)), show=progress) as advance:
            done = 0
            for split in splits:
                texts = {REFERENCE: split.references} | {text: [text] * len(split) for text in chosen}
                if self.beam:
                    texts[self.decoding] = outputs[split.name]
                scored = score_split(self.model, split, texts, self, advance, done)
                done += len(split)
                rows += self._rows(split, scored, chosen)
                positions += [token_positions(split.name, kind, one.logprobs) for kind, one in scored.items()]
                items.append(_items(split, scored, chosen, self.decoding))
                notes += self._notes(split, scored, chosen)
        facts = self.scoring_facts() | facts_of(unit={"context" if _repeats(split) else "item" for split in splits})
        if self.find_generics or self.beam:
            facts["outputs"] = self.outputs_made
        if self.find_generics:
            facts["found"] = "; ".join(found)
        return Result(self, rows, tuple(notes), facts, {"items": pl.concat(items), "positions": pl.concat(positions)})

    def _rows(self, split: Split, scored: Scores, generics: Sequence[str]) -> list[Row]:
        reference = scored[REFERENCE].scores
        rows: list[Row] = []
        for generic, rival in _rivals(scored, generics).items():
            known = ~(np.isnan(reference) | np.isnan(rival))
            tied = (reference == rival)[known]
            won = np.where(tied, _TIE_WORTH[self.ties], (reference > rival)[known].astype(float))
            row: Row = {
                "split": split.name,
                "generic": generic,
                "ruq": None,
                "ruq_ci": None,
                "n": len(won),
                "ties": int(tied.sum()),
                "excluded": int((~known).sum()),
                "model": model_name(self.model),
                "reference_score": None,
                "generic_score": None,
            }
            if len(won):
                units = Units(numbered(np.array(split.prompts)[known]), name="context") if _repeats(split) else Units()
                ci = mean_interval(won, self.level, units, (0.0, 1.0))
                row |= {"ruq": float(won.mean()), "ruq_ci": pair(ci)}
                row["reference_score"] = finite(reference[known].mean())
                row["generic_score"] = finite(rival[known].mean())
            rows.append(row)
        return rows

    def _notes(self, split: Split, scored: Scores, generics: Sequence[str]) -> list[str]:
        notes = []
        plain = Counter(_plain(text) for text in split.references)
        worth = {"lose": "lost", "win": "won", "half": "half won"}[self.ties]
        for text in generics:
            if same := plain[_plain(text)]:
                counted = f"are {text!r}: ties, counted as {worth}"
                notes.append(f"{same} of {len(split)} references of {split.name} {counted}")
        if lost := int(np.isnan(scored[REFERENCE].scores).sum()):
            name = model_name(self.model)
            notes.append(f"{lost} references of {split.name} have no tokens for {name} and are left out")
        if cut := prompts_cut(self.model, split, scored):
            beyond = "are beyond the model's window: cut from the left"
            notes.append(f"{cut} of {len(split)} prompts of {split.name} {beyond}")
        return notes

    def sentence(self, result: Result) -> str:
        """Whether the interval of RUQ lies above or below one half, split by split."""
        last = {row["split"]: row for row in result.rows}
        return " ".join(_preference(row, len(result.rows) // len(last)) for row in last.values())

    def chart(self, result: Result) -> Any:
        """Mean token score by position for each kind of text, one panel per split (Figure 1)."""
        return positions_chart(result)


def row_of(result: Result, generic: str, split: str) -> Row:
    """The row of one generic response in one split; for use in programs."""
    found = [row for row in result.rows if (row["generic"], row["split"]) == (generic, split)]
    if len(found) != 1:
        known = [(row["generic"], row["split"]) for row in result.rows]
        raise KeyError(f"{len(found)} rows for {generic!r} in {split!r}; found {known}")
    return found[0]


def _preference(row: Row, rows: int) -> str:
    """What an interval says about one split, from its last row: all generics where there are several."""
    what = f"each of {rows - 1} generic responses" if row["generic"] == ALL else repr(row["generic"])
    if row["ruq"] is None:
        return f"On {row['split']}, {row['model']} has no RUQ: no reference has tokens."
    if row["ruq_ci"] is None:
        return f"On {row['split']}, RUQ of {row['model']} is {row['ruq']:.3f}; one prompt gives no interval."
    low, high = row["ruq_ci"]
    told = f"RUQ {row['ruq']:.3f} [{low:.3f}, {high:.3f}]"
    claim = f"{row['model']} scores the reference above {what} on"
    if low <= 0.5 <= high:
        return f"On {row['split']}, it is open whether {claim} more than half of the prompts: {told} includes 0.5."
    return f"On {row['split']}, {claim} {'more' if low > 0.5 else 'fewer'} than half of the prompts: {told}."


def _find_generics(
    split: Split, outputs: Sequence[str], options: RuqOptions, model: str
) -> tuple[tuple[str, ...], list[str]]:
    """The most common outputs that are not among the generics already, and what to say about them."""
    if not options.find_generics:
        return (), []
    forms: dict[str, Counter[str]] = {}
    for text in outputs:
        if text and text not in KINDS:
            forms.setdefault(_plain(text), Counter())[text] += 1
    ranked = sorted(forms, key=lambda plain: (-forms[plain].total(), plain))[: options.find_generics]
    best = {plain: min(forms[plain], key=lambda text: (-forms[plain][text], text)) for plain in ranked}
    told = ", ".join(f"{text!r} ({forms[plain].total()})" for plain, text in best.items())
    if not told:
        raise DataError(f"all {len(outputs)} outputs of {model} are empty; name the generics instead")
    given = {_plain(text) for text in options.texts}
    found = tuple(text for plain, text in best.items() if plain not in given)
    return found, [f"the most common of {len(outputs)} {options.decoding} outputs for {split.name}: {told}"]


def _rivals(scored: Scores, generics: Sequence[str]) -> dict[str, Array]:
    """The score that the reference must beat, by generic and for all: its own where the texts are the same."""
    reference = scored[REFERENCE]
    plain = [_plain(text) for text in reference.texts]
    rivals = {
        text: np.where([_plain(text) == one for one in plain], reference.scores, scored[text].scores)
        for text in generics
    }
    return rivals | ({ALL: np.max(list(rivals.values()), axis=0)} if len(rivals) > 1 else {})


def _items(split: Split, scored: Scores, generics: Sequence[str], decoding: str) -> pl.DataFrame:
    reference = scored[REFERENCE].scores
    rivals = _rivals(scored, generics)
    rival = rivals.get(ALL, rivals[generics[0]])
    best = np.argmax([rivals[text] for text in generics], axis=0)
    unknown = np.isnan(reference) | np.isnan(rival)
    winner = np.select([unknown, reference > rival, reference == rival], ["", REFERENCE, "tie"], default="generic")
    output = scored.get(decoding)
    columns = {
        "split": [split.name] * len(split),
        "id": split.ids,
        "context": split.contexts,
        "reference": split.references,
        "winner": winner.tolist(),
        "best_generic": [generics[i] for i in best],
        "reference_score": reference,
        "best_generic_score": rival,
        **{f"score of {text}": scored[text].scores for text in generics},
        **({} if output is None else {"output": list(output.texts), "output_score": output.scores}),
    }
    shown = pl.when(pl.col("winner") != "").then("winner")
    return pl.DataFrame(columns).with_columns(pl.col(pl.Float64).fill_nan(None), winner=shown)


def _repeats(split: Split) -> bool:
    """Whether some prompts recur, whose items are then one unit."""
    return len(set(split.prompts)) < len(split)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
