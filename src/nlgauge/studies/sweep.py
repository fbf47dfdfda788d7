"""A sweep of systems: RUQ on every split side by side with scores of their outputs, and how far the rankings agree.

Paper 5, section 8 and Tables 4, 8 and 9. A system is a model, a file of what one wrote, or both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.data.plain_tables import read_table
from nlgauge.data.reading import Source
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.base import Metric
from nlgauge.metrics.registry import create_metrics
from nlgauge.metrics.score import Interval
from nlgauge.metrics.scoring import score
from nlgauge.metrics.signature import Signature
from nlgauge.stats.correlation import correlation
from nlgauge.studies.base import Row, Study, finite, pair
from nlgauge.studies.ruq import Ruq, Settings, ruq
from nlgauge.studies.ruq_chart import sweep_chart
from nlgauge.studies.ruq_scores import read_prompts, read_split, write_outputs

FEWEST_MODELS = 3
METRICS = ("meteor:over=corpus", "ttr:n=1", "ttr:n=2", "ttr:n=3")
_SHARES = ("ruq_", "ttr")
_DIGITS = 3
_RUQ_KEYS = (("ruq", "ruq", ""), ("ruq", "ruq_ci", "_ci"), ("n", "n", ""))


@dataclass(frozen=True)
class Sweep(Study):
    """A row a system: `ruq_SPLIT` with `ruq_SPLIT_ci` and `n_SPLIT` for every split, and every other score.

    Scores of outputs are called as the metric is on the command line, with an interval beside each (`ttr`, `ttr_ci`).
    `agreement` has a row a column: Kendall's tau-b of its ranking of the systems with that by RUQ on `target`.
    """

    name: ClassVar[str] = "sweep"
    index: ClassVar[str] = "model"
    side_by_side: ClassVar[tuple[str, ...]] = ()
    titles: ClassVar[Mapping[str, str]] = {"ruq_train": "RUQ-train", "ruq_test": "RUQ-test"}

    agreement: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, kw_only=True)

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]  # as many as the splits and scores that there are
        """All keys but the numbers of prompts."""
        return tuple(key for key in self.rows[0] if not key.startswith("n_"))

    @property
    def digits(self) -> Mapping[str, int]:  # type: ignore[override]
        """Three of what lies between 0 and 1: RUQ, as the paper prints it, and type/token ratios."""
        return {key: _DIGITS for key in self.columns if key.startswith(_SHARES)}

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**super().to_dict(), "agreement": self.agreement.to_dicts()}

    def chart(self) -> Any:
        """RUQ of every model on every split, with intervals, and every other score against RUQ."""
        return sweep_chart(self)


def sweep(
    models: Sequence[str] | Mapping[str, str],
    splits: Mapping[str, Any],
    *,
    outputs: Mapping[str, Any] | None = None,
    write: bool = False,
    beam: int = 0,
    metrics: Sequence[str | Metric] = (),
    scores: str | Path | pl.DataFrame | None = None,
    generic: str | None = None,
    target: str | None = None,
    interval: Interval | None = None,
    progress: bool = False,
    **options: Any,
) -> Sweep:
    """RUQ of many models, beside scores of what they write.

    `models` are names of models, or what to call each one and its name. `outputs` are texts by system: a file (plain
    text or a table), a `Source` or `Items`, with one text for every prompt of the split `test` (without one: the last),
    in its order. A name that is no model's is a system without RUQ. With `write`, models without such a file write
    their own, as `ruq` does with `beam` (0 or 1: greedy). Outputs are scored with `metrics` (default: METEOR and
    type/token ratios of 1-, 2- and 3-grams) against the column `references` of the split, or its `text` without one.

    `scores` is a table with a column `model` and a column of numbers for each other score. `generic` says against what
    RUQ is shown (default: the first generic; "all": all of them); `target` is the split whose RUQ is compared with
    every other column (default: test, or the last). `options` are those of `ruq`. Systems are scored one after the
    other; what is known comes from disk.
    """
    named = dict(models) if isinstance(models, Mapping) else {name: name for name in models}
    files = dict(outputs or {})
    systems = list(dict.fromkeys([*named, *files]))
    if isinstance(models, str) or not systems or len(named) < len(models):
        raise OptionError(f"models are {models!r}; expected a list of different names, names with models, or outputs")
    answered = "test" if "test" in splits else list(splits)[-1] if splits else ""
    chosen = target or answered
    if chosen not in splits:
        raise OptionError(f"the target '{chosen}' is no split; expected one of {', '.join(splits) or '(no split)'}")
    settings, using = Settings(model="", beam=beam, **options), interval or Interval()
    others = _read_scores(scores, systems)
    _refuse_idle(named, files, write, beam, metrics)
    test = _Outputs.asked(answered, splits[answered], metrics, using, settings) if files or write else None
    if test is not None and (clash := test.empty.keys() & {key for row in others.values() for key in row}):
        raise DataError("the table of other scores has what is computed here; give it another name", column=min(clash))
    found: dict[str, Row] = {}
    notes = [f"{name}: no model, so no RUQ" for name in files if name not in named]
    if test is not None:
        texts = {name: test.read(name, file) for name, file in files.items()}
        found = {name: test.score(name, some, notes) for name, some in texts.items()}
    ours: dict[str, Row] = {}
    about: dict[str, str] = {}
    for name, model in named.items():
        if test is not None and write and name not in files:
            mine = replace(settings, model=model)
            prompts = read_split(answered, splits[answered], mine)
            found[name] = test.score(name, write_outputs([prompts], mine, progress=progress)[answered], notes)
        study = ruq(model, splits, interval=using, progress=progress, **options)
        ours[name], about = _ruq_of(study, splits, generic)
        notes += [f"{name}: {note}" for note in study.notes]
    none = dict.fromkeys([f"{new}_{split}{end}" for split in splits for new, _, end in _RUQ_KEYS])
    empty = none | ({} if test is None else test.empty)
    rows = [{"model": one} | empty | ours.get(one, {}) | found.get(one, {}) | others.get(one, {}) for one in systems]
    agreement = rank_agreement(rows, f"ruq_{chosen}")
    signature = Signature("sweep", {"target": chosen} | about | ({} if test is None else test.about(written=write)))
    told = [*map(_told, agreement.to_dicts()), *dict.fromkeys(notes)]
    return Sweep(rows, signature, notes=tuple(told), agreement=agreement)


@dataclass(frozen=True)
class _Outputs:
    """The prompts that outputs answer, with their references, and what outputs are scored with."""

    prompts: Items
    file: str
    metrics: tuple[Metric, ...]
    interval: Interval
    settings: Settings

    @classmethod
    def asked(
        cls, name: str, data: Any, metrics: Sequence[str | Metric], interval: Interval, settings: Settings
    ) -> _Outputs:
        """Read the prompts, and say what the machine lacks before any model runs."""
        prompts, file = read_prompts(name, data)
        made = tuple(create_metrics(metrics or METRICS))
        for metric in made:
            metric.prepare()
        return cls(prompts, file, made, interval, settings)

    @property
    def empty(self) -> Row:
        """The row of a system without outputs."""
        return dict.fromkeys(key for metric in self.metrics for key in (metric.label, f"{metric.label}_ci"))

    def about(self, *, written: bool) -> dict[str, str]:
        """What decides the scores, for the signature."""
        references = "column" if "references" in self.prompts.frame.columns else "text"
        how = {"written": self.settings.outputs} if written else {}
        return {"metrics": "; ".join(metric.label for metric in self.metrics), "references": references, **how}

    def read(self, name: str, data: Any) -> list[str]:
        """The texts of a file of outputs, one a prompt."""
        source = Source(path=str(data), extras=()) if isinstance(data, str | Path) else data
        file = source.name if isinstance(source, Source) else name
        table = source.read() if isinstance(source, Source) else source
        if not isinstance(table, Items) and not (isinstance(table, ResponseSets) and (table.sizes == 1).all()):
            raise DataError(f"found {type(table).__name__}; expected one text a prompt of {self.file}", file=file)
        if len(table) != len(self.prompts):
            raise DataError(
                f"{len(table)} outputs for {len(self.prompts)} prompts of {self.file}; expected one a prompt, in the "
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
        frame = self.prompts.frame if self.settings.limit is None else self.prompts.frame.head(self.settings.limit)
        references = "references" if "references" in frame.columns else pl.concat_list("text").alias("references")
        own = pl.Series("text", texts[: frame.height], dtype=pl.String)
        table = replace(self.prompts, frame=frame.select("id", "context", references, own))
        row: Row = {}
        for one in score(table, self.metrics, interval=self.interval):
            row |= {one.label: finite(one.value), f"{one.label}_ci": None if one.ci is None else pair(one.ci)}
            notes.append(f"{one.label}: {one.signature}")
            if one.excluded:
                notes.append(f"{system}: {one.label} has no value on {one.excluded} of {one.excluded + one.n} outputs")
        return row


def _refuse_idle(
    models: Mapping[str, str], files: Mapping[str, Any], write: bool, beam: int, metrics: Sequence[str | Metric]
) -> None:
    """Refuse options that nothing would come of."""
    if write and not models.keys() - files.keys():
        raise OptionError("write, but no model is without an output file; expected a model that is to write")
    if beam and not write:
        raise OptionError(f"beam is {beam} and write is not asked for; expected both: the beam says how models write")
    if metrics and not files and not write:
        raise OptionError(f"{len(metrics)} metrics and no outputs to score; expected outputs, or write")


def _ruq_of(study: Ruq, splits: Mapping[str, Any], generic: str | None) -> tuple[Row, dict[str, str]]:
    """RUQ of one model on every split against one generic, and how it was made, the model aside."""
    known = list(dict.fromkeys(str(row["generic"]) for row in study.rows))
    against = generic or known[0]
    if against not in known:
        raise OptionError(f"generic '{against}'; expected one of {', '.join(known)}")
    found = {split: study.row(against, split) for split in splits}
    row = {f"{new}_{split}{end}": found[split][old] for split in splits for new, old, end in _RUQ_KEYS}
    shared = {key: value for key, value in study.signature.options.items() if key != "model"}
    return row, {"generic": against, **shared}


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
        raise DataError(f"found columns {', '.join(frame.columns)}; expected 'model' and numbers", file=file)
    if clash := [key for key in columns if key.startswith(("ruq_", "n_"))]:
        raise DataError("clashes with the columns of RUQ; give it another name", file=file, column=clash[0])
    known = frame["model"].cast(pl.String).to_list()
    if len(set(known)) < len(known) or not set(known) & set(names):
        raise DataError(f"models {', '.join(map(str, known))}; expected {', '.join(names)}, once each", file=file)
    table = {row["model"]: row for row in frame.select(pl.col("model").cast(pl.String), *columns).to_dicts()}
    return {name: {key: table.get(name, {}).get(key) for key in columns} for name in names}
