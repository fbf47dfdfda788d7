"""A sweep of models: RUQ on every split side by side with other scores, and how far the rankings agree (paper 5, 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from nlgauge.data.plain_tables import read_table
from nlgauge.drawing import colours, inline
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.signature import Signature
from nlgauge.stats.correlation import correlation
from nlgauge.studies.base import Row, Study, finite
from nlgauge.studies.ruq import ruq

FEWEST_MODELS = 3
_DIGITS = 3


@dataclass(frozen=True)
class Sweep(Study):
    """A row a model: `ruq_SPLIT` with `ruq_SPLIT_ci` and `n_SPLIT` for every split, and every other score.

    `agreement` has a row a column: Kendall's tau-b of its ranking of the models with that by RUQ on `target`.
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
        """Three of RUQ and its intervals, as the paper prints them."""
        return {key: _DIGITS for key in self.columns if key.startswith("ruq_")}

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**super().to_dict(), "agreement": self.agreement.to_dicts()}

    def chart(self) -> Any:
        """RUQ of every model on every split, with intervals."""
        import altair as alt

        splits = [key.removeprefix("n_") for key in self.rows[0] if key.startswith("n_")]
        points = [
            {"model": row["model"], "split": split, "ruq": row[f"ruq_{split}"], "low": ci[0], "high": ci[1]}
            for row in self.rows
            for split in splits
            if (ci := row[f"ruq_{split}_ci"]) is not None
        ]
        scale = alt.Scale(domain=splits, range=colours(len(splits)))
        base = alt.Chart(inline(points), width=420, height=alt.Step(28)).encode(
            y=alt.Y("model:N", sort=None, title=None),
            yOffset=alt.YOffset("split:N", sort=splits),
            color=alt.Color("split:N", scale=scale, title=None),
            tooltip=["model:N", "split:N", *(alt.Tooltip(f"{key}:Q", format=".3f") for key in ("ruq", "low", "high"))],
        )
        rule = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="RUQ"), x2="high:Q")
        return alt.layer(rule, base.mark_point(filled=True, size=70).encode(x="ruq:Q"))


def sweep(
    models: Sequence[str] | Mapping[str, str],
    splits: Mapping[str, Any],
    *,
    scores: str | Path | pl.DataFrame | None = None,
    generic: str | None = None,
    target: str | None = None,
    **options: Any,
) -> Sweep:
    """RUQ of many models, beside other scores of theirs.

    `models` are names of models, or what to call each one and its name. `scores` is a table with a column `model` and
    a column of numbers for each other score, such as METEOR. `generic` says against what (default: the first generic;
    "all": all of them); `target` is the split whose RUQ is compared with every other column (default: test, or the
    last). `options` are those of `ruq`. Models are scored one after the other; what is known comes from disk.
    """
    named = dict(models) if isinstance(models, Mapping) else {name: name for name in models}
    if isinstance(models, str) or not named or len(named) < len(models):
        raise OptionError(f"models are {models!r}; expected a list of different names, or names with their models")
    chosen = target or ("test" if "test" in splits else list(splits)[-1] if splits else "")
    if chosen not in splits:
        raise OptionError(f"the target '{chosen}' is no split; expected one of {', '.join(splits) or '(no split)'}")
    others = _read_scores(scores, list(named))
    rows: list[Row] = []
    notes: list[str] = []
    for name, model in named.items():
        study = ruq(model, splits, **options)
        known = list(dict.fromkeys(str(row["generic"]) for row in study.rows))
        against = generic or known[0]
        if against not in known:
            raise OptionError(f"generic '{against}'; expected one of {', '.join(known)}")
        row: Row = {"model": name}
        for split in splits:
            found = study.row(against, split)
            row |= {f"ruq_{split}": found["ruq"], f"ruq_{split}_ci": found["ruq_ci"], f"n_{split}": found["n"]}
        rows.append(row | others.get(name, {}))
        notes += [f"{name}: {note}" for note in study.notes]
    agreement = rank_agreement(rows, f"ruq_{chosen}")
    shared = {key: value for key, value in study.signature.options.items() if key != "model"}
    signature = Signature("sweep", {"generic": against, "target": chosen, **shared})
    return Sweep(rows, signature, notes=(*map(_told, agreement.to_dicts()), *notes), agreement=agreement)


def rank_agreement(rows: Sequence[Row], target: str) -> pl.DataFrame:
    """Kendall's tau-b between the rankings of models by `target` and by every other column of numbers.

    None where fewer than three models have both values, or where one of them is constant.
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
