"""A sweep of systems: RUQ on every split side by side with scores of their outputs, and how far the rankings agree.

Paper 5, section 8 and Tables 4, 8 and 9. A system is a model, a file of what one wrote, or both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.configured import option, options_of
from nlgauge.data.plain_tables import read_table
from nlgauge.data.reading import Source
from nlgauge.data.roles import names_shown
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.metrics.base import Metric
from nlgauge.metrics.registry import create_metrics
from nlgauge.models.language.base import LanguageModel
from nlgauge.models.shared import language_model_identity
from nlgauge.scoring.scoring import score_data
from nlgauge.stats.correlation import correlation
from nlgauge.stats.inference import Inference, Intervals
from nlgauge.studies.base import Column, Result, Row, Study, StudyData, finite, pair
from nlgauge.studies.ruq.chart import sweep_chart
from nlgauge.studies.ruq.options import MODEL, RuqOptions
from nlgauge.studies.ruq.score import Ruq, row_of
from nlgauge.studies.ruq.token_scores import Model, Prompts, Split, check_split, model_name, read_prompts, write_outputs
from nlgauge.studies.sentences import listed

FEWEST_MODELS = 3
METRICS = ("meteor:over=corpus", "ttr:n=1", "ttr:n=2", "ttr:n=3")
_SHARES = ("ruq_", "ttr")
_TITLES = {"ruq_train": "RUQ-train", "ruq_test": "RUQ-test"}
_RUQ_KEYS = (("ruq", "ruq", ""), ("ruq", "ruq_ci", "_ci"), ("n", "n", ""))


@dataclass(frozen=True, kw_only=True)
class Sweep(Intervals, RuqOptions, Study):
    """Sweep: RUQ of many models side by side with scores of what they write, and how far the rankings agree.

    `outputs` are texts by system, one for every prompt of the split `test` (without one: the last), in its order. A
    name that is no model's is a system without RUQ. With `write`, models without such a file write their own. Outputs
    are scored against the column `references` of the split, or its `text` without one. Options of reading are those of
    the prompts. Rows have `ruq_SPLIT` with `ruq_SPLIT_ci` and `n_SPLIT` for every split, and every other score under
    the metric's name; `agreement` has Kendall's tau-b of each column's ranking of the systems with that by RUQ.
    """

    name: ClassVar[str] = "sweep"
    takes: ClassVar[Literal["files", "file", "none"]] = "none"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge study sweep --model base --model tuned --train train.jsonl --test test.jsonl --write --beam 5",
        "nlgauge study sweep --model tuned --test test.jsonl --outputs tuned=a.txt --outputs other=b.jsonl -m dialog",
    )
    index: ClassVar[str] = "model"
    layout: ClassVar[tuple[Column, ...]] = (Column("model"),)
    tables: ClassVar[Mapping[str, str]] = {"agreement": "Kendall's tau of RUQ with every other column:"}
    aspect: ClassVar[str] = "generic"

    models: Sequence[str | LanguageModel] | Mapping[str, Model] = option(
        (), f"{MODEL} Repeat for each model.", metavar="MODEL", flags=("--model",)
    )
    names: Sequence[str] = option((), "What to call the models.", metavar="NAME,NAME", separator=",", signed=False)
    outputs: Sequence[str] | Mapping[str, Any] = option(
        (),
        "What a system wrote for the test prompts, one text per prompt: plain text or a table. NAME is a model's, or "
        "a system's without one. Repeat for more.",
        metavar="NAME=FILE",
        signed=False,
    )
    write: bool = option(False, "Models without such a file write their own, with the width of the beam.")
    beam: int = option(0, "How models write: width of the beam, 0 or 1: greedy.", metavar="N")
    metrics: Sequence[str | Metric] = option(
        (),
        "What outputs are scored with, 'dialog' too; repeat for more. Default: METEOR and type/token ratios of 1-, 2- "
        "and 3-grams.",
        metavar="NAME[:OPTION=VALUE,...]",
        flags=("--metric", "-m"),
    )
    scores: str | Path | pl.DataFrame | None = option(
        None, "Other scores: a table with a column 'model' and columns of numbers.", metavar="FILE", signed=False
    )
    against: str | None = option(None, "The generic response of the table, or all; default: the first.", metavar="TEXT")
    target: str | None = option(
        None, "The split whose RUQ the other columns are compared with; default: test, or the last.", metavar="SPLIT"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        files, known = self.output_files, self.named
        if not files and not known:
            raise OptionError(f"no system; expected {argument('models')} or {argument('outputs')}", option="models")
        if self.write and not known.keys() - files.keys():
            raise OptionError(f"{argument('write')}, but no model is without an output file; expected one that writes")
        if self.beam and not self.write:
            raise OptionError(
                f"{argument('beam', self.beam)} without {argument('write')}; expected both: it is how models write"
            )
        if self.metrics and not files and not self.write:
            raise OptionError(
                f"{argument('metrics')} without outputs to score; expected {argument('outputs')} or {argument('write')}"
            )

    @property
    def named(self) -> dict[str, Model]:
        """The models by their names."""
        if isinstance(self.models, Mapping) and not self.names:
            return dict(self.models)
        models = tuple(self.models.values()) if isinstance(self.models, Mapping) else tuple(self.models)
        names = tuple(self.names) or tuple(map(model_name, models))
        if len(names) != len(models) or len(set(names)) < len(names):
            expected = f"a different one for each of {len(models)} models"
            raise OptionError(f"{argument('names', ','.join(names))}; expected {expected}")
        return dict(zip(names, models, strict=True))

    @property
    def output_files(self) -> dict[str, Any]:
        """Outputs by the names of their systems, as in `base=base.txt`."""
        if isinstance(self.outputs, Mapping):
            return dict(self.outputs)
        found: dict[str, Any] = {}
        for entry in self.outputs:
            name, equals, file = entry.partition("=")
            if not equals or not name.strip() or not file or name.strip() in found:
                expected = "NAME=FILE, a different name each, as in base=base.txt"
                raise OptionError(f"{argument('outputs', entry)}; expected {expected}")
            found[name.strip()] = file
        return found

    def relevant_options(self) -> Mapping[str, Any]:
        """The models with their hashes."""
        return {**super().relevant_options(), "models": tuple(map(language_model_identity, self.named.values()))}

    def compute(self, data: StudyData) -> Result:
        """RUQ of every model, and scores of every system's outputs. Systems are scored one after the other."""
        splits, named, files = self.splits(data.entries), self.named, self.output_files
        systems = list(dict.fromkeys([*named, *files]))
        answered = "test" if "test" in splits else list(splits)[-1]
        target = self.target or answered
        if target not in splits:
            raise OptionError(f"{argument('target', target)} is no split; expected one of {', '.join(splits)}")
        others = _read_scores(self.scores, systems)
        read = {name: read_prompts(name, one, data.reading) for name, one in splits.items()}
        test = _Outputs.asked(read[answered], self) if files or self.write else None
        if test is not None and (clash := test.empty.keys() & {key for row in others.values() for key in row}):
            message = "the table of other scores has what is computed here; give it another name"
            raise DataError(message, column=min(clash), option="scores")
        notes = [f"{name}: no model, so no RUQ" for name in files if name not in named]
        found: dict[str, Row] = {}
        if test is not None:
            texts = {name: test.read(name, file) for name, file in files.items()}
            found = {name: test.score(name, some, notes) for name, some in texts.items()}
        checked = {name: check_split(one, self) for name, one in read.items()} if named else {}
        ours: dict[str, Row] = {}
        facts = {"target": target, **self.scoring_facts()}
        for name, model in named.items():
            if test is not None and self.write and name not in files:
                written = write_outputs(model, [checked[answered]], self, progress=data.running.progress)
                found[name] = test.score(name, written[answered], notes)
            result = self._ruq(model).measure(list(checked.values()), progress=data.running.progress)
            ours[name], facts["against"] = _ruq_of(result, checked, self.against)
            facts["unit"] = result.facts["unit"]
            notes += [f"{name}: {note}" for note in result.notes]
        none = dict.fromkeys([f"{new}_{split}{end}" for split in splits for new, _, end in _RUQ_KEYS])
        empty = none | ({} if test is None else test.empty)
        rows = [
            {"model": one} | empty | ours.get(one, {}) | found.get(one, {}) | others.get(one, {}) for one in systems
        ]
        agreement = rank_agreement(rows, f"ruq_{target}")
        return Result(
            self,
            rows,
            (*map(_told, agreement.to_dicts()), *dict.fromkeys(notes)),
            facts | ({} if test is None else test.about(written=self.write)),
            {"agreement": agreement},
            layout=tuple(
                Column(key, _TITLES.get(key, ""), digits=3 if key.startswith(_SHARES) else 2)
                for key in rows[0]
                if not key.startswith("n_")
            ),
            extra={"agreement": agreement.to_dicts()},
        )

    def _ruq(self, model: Model) -> Ruq:
        """RUQ of one model with the options of this sweep; the beam is for outputs alone."""
        shared = {one.name for group in (RuqOptions, Intervals) for one in options_of(group)}
        return Ruq(model=model, **{name: getattr(self, name) for name in shared - {"beam", "train", "test"}})

    def sentence(self, result: Result) -> str:
        """Which model has the highest RUQ on the target, and which intervals lie below its own."""
        target = result.facts["target"]
        known = [row for row in result.rows if row[f"ruq_{target}_ci"] is not None]
        if not known:
            return f"{len(result.rows)} systems are compared by scores of their outputs; none of them has RUQ."
        best = max(known, key=lambda row: float(row[f"ruq_{target}"]))
        low, high = best[f"ruq_{target}_ci"]
        told = f"{best['model']} has the highest RUQ on {target} ({best[f'ruq_{target}']:.3f} [{low:.3f}, {high:.3f}])"
        below = [str(row["model"]) for row in known if row[f"ruq_{target}_ci"][1] < low]
        if len(known) == 1:
            return f"{told}; no other system has RUQ."
        if not below:
            return f"{told}; its interval overlaps with those of all other models."
        return f"{told}; its interval lies above {'that' if len(below) == 1 else 'those'} of {listed(below)}."

    def chart(self, result: Result) -> Any:
        """RUQ of every model on every split, with intervals, and every other score against RUQ."""
        return sweep_chart(result)


@dataclass(frozen=True)
class _Outputs:
    """The prompts that outputs answer, with their references, and what outputs are scored with."""

    prompts: Items
    file: str
    metrics: tuple[Metric, ...]
    study: Sweep

    @classmethod
    def asked(cls, prompts: Prompts, study: Sweep) -> _Outputs:
        """The metrics are made here, so that a missing part of the machine is named before any model runs."""
        made = tuple(create_metrics(study.metrics or METRICS))
        for metric in made:
            metric.prepare()
        return cls(prompts.table, prompts.file, made, study)

    @property
    def empty(self) -> Row:
        """The row of a system without outputs."""
        return dict.fromkeys(key for metric in self.metrics for key in (metric.label, f"{metric.label}_ci"))

    def about(self, *, written: bool) -> dict[str, str]:
        """What decides the scores, for the signature."""
        references = "column" if "references" in self.prompts.frame.columns else "text"
        how = {"written": self.study.outputs_made} if written else {}
        return {"metrics": "; ".join(metric.label for metric in self.metrics), "references": references, **how}

    def read(self, name: str, data: Any) -> list[str]:
        """The texts of a file of outputs, one per prompt."""
        source = Source(path=str(data), extras=()) if isinstance(data, str | Path) else data
        file = source.name if isinstance(source, Source) else name
        table = source.read() if isinstance(source, Source) else source
        if not isinstance(table, Items) and not (isinstance(table, ResponseSets) and (table.sizes == 1).all()):
            raise DataError(f"found {type(table).__name__}; expected one text per prompt of {self.file}", file=file)
        if len(table) != len(self.prompts):
            raise DataError(
                f"{len(table)} outputs for {len(self.prompts)} prompts of {self.file}; expected one per prompt, in the "
                "same order",
                file=file,
            )
        if "context" in table.frame.columns:
            self._check_order(table.frame["context"], file)
        return table.texts.to_list()

    def _check_order(self, contexts: pl.Series, file: str) -> None:
        """Outputs that say what they answer must say the same as the prompts."""
        pairs = zip(contexts.fill_null(""), self.prompts.frame["context"].fill_null(""), strict=True)
        for place, (mine, asked) in enumerate(pairs, 1):
            if mine.split() != asked.split():
                raise DataError(
                    f"output {place} answers '{mine[:60]}', but prompt {place} of {self.file} is '{asked[:60]}'; "
                    "expected the same order, or no such column",
                    file=file,
                    column="context",
                )

    def score(self, system: str, texts: Sequence[str], notes: list[str]) -> Row:
        """Scores of a system's outputs by metric, with intervals; how they were made is added to `notes`."""
        frame = self.prompts.frame.head(self.study.limit) if self.study.limit else self.prompts.frame
        references = "references" if "references" in frame.columns else pl.concat_list("text").alias("references")
        own = pl.Series("text", texts[: frame.height], dtype=pl.String)
        table = replace(self.prompts, frame=frame.select("id", "context", references, own))
        row: Row = {}
        interval = Inference(level=self.study.level, resamples=self.study.resamples, seed=self.study.seed)
        for one in score_data(table, self.metrics, inference=interval):
            row |= {one.label: finite(one.value), f"{one.label}_ci": None if one.ci is None else pair(one.ci)}
            notes.append(f"{one.label}: {one.signature}")
            if one.excluded:
                notes.append(f"{system}: {one.label} has no value on {one.excluded} of {one.excluded + one.n} outputs")
        return row


def _ruq_of(result: Result, splits: Mapping[str, Split], against: str | None) -> tuple[Row, str]:
    """RUQ of one model on every split against one generic response, and that response."""
    known = list(dict.fromkeys(str(row["generic"]) for row in result.rows))
    generic = against or known[0]
    if generic not in known:
        raise OptionError(f"{argument('against', generic)}; expected one of {', '.join(known)}")
    found = {split: row_of(result, generic, split) for split in splits}
    return {f"{new}_{split}{end}": found[split][old] for split in splits for new, old, end in _RUQ_KEYS}, generic


def rank_agreement(rows: Sequence[Row], target: str) -> pl.DataFrame:
    """Kendall's tau-b between the rankings of systems by `target` and by every other column of numbers.

    None where fewer than three systems have both values, or where one of them is constant.
    """
    columns = [key for key in rows[0] if key not in ("model", target) and not key.startswith("n_")]
    columns = [key for key in columns if not key.endswith("_ci")]
    found = []
    for column in columns:
        both = [(row[target], row[column]) for row in rows if row[target] is not None and row[column] is not None]
        x, y = np.array(both, dtype=float).reshape(-1, 2).T
        tau = finite(correlation(x, y, "kendall")) if len(both) >= FEWEST_MODELS else None
        found.append({"target": target, "column": column, "models": len(both), "kendall": tau})
    schema = {"target": pl.String, "column": pl.String, "models": pl.Int64, "kendall": pl.Float64}
    return pl.DataFrame(found, schema=schema)


def _told(row: Row) -> str:
    about = f"Kendall's tau of {row['target']} with {row['column']} over {row['models']} models"
    if row["kendall"] is not None:
        return f"{about}: {row['kendall']:.2f}"
    return f"{about}: none; expected at least {FEWEST_MODELS} models whose values differ"


def _read_scores(scores: str | Path | pl.DataFrame | None, names: Sequence[str]) -> dict[str, Row]:
    """Other scores by model; None where a model has none."""
    if scores is None:
        return {}
    frame = scores if isinstance(scores, pl.DataFrame) else read_table(scores)
    file = None if isinstance(scores, pl.DataFrame) else str(scores)
    columns = [key for key, kind in frame.schema.items() if key != "model" and kind.is_numeric()]
    if "model" not in frame.columns or not columns:
        raise DataError(f"found columns {names_shown(frame.columns)}; expected 'model' and numbers", file=file)
    if clash := [key for key in columns if key.startswith(("ruq_", "n_"))]:
        raise DataError("clashes with the columns of RUQ; give it another name", file=file, column=clash[0])
    known = frame["model"].cast(pl.String).to_list()
    if len(set(known)) < len(known) or not set(known) & set(names):
        raise DataError(f"models {', '.join(map(str, known))}; expected {', '.join(names)}, once each", file=file)
    table = {row["model"]: row for row in frame.select(pl.col("model").cast(pl.String), *columns).to_dicts()}
    return {name: {key: table.get(name, {}).get(key) for key in columns} for name in names}
