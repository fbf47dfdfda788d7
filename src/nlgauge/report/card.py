"""The report card: one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from nlgauge._version import __version__
from nlgauge.data.reading import Source
from nlgauge.data.tables import ResponseSets
from nlgauge.drawing import safe_json, vega_bundle
from nlgauge.metrics.comparison import Comparison
from nlgauge.metrics.score import Interval, Score
from nlgauge.report import charts
from nlgauge.report.tables import interval as show_interval
from nlgauge.report.tables import number, p_value, per_item_table, unique_names

SIGNIFICANT = 0.05
_EXTREMES = 3
_CONTEXT_SHOWN = 300


@dataclass(frozen=True)
class Example:
    """One context with what the systems answered."""

    id: str
    context: str
    answers: list[tuple[str, str, list[str]]]


def render_card(
    scores: Sequence[Score], comparisons: Sequence[Comparison], sources: Sequence[Source], interval: Interval
) -> str:
    """The page as text; nothing in it is loaded from elsewhere, and model output is shown as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    systems = list(dict.fromkeys(score.system for score in scores))
    names = unique_names(scores)
    specs = {"intervals": charts.to_spec(charts.interval_chart(scores))}
    examples: list[tuple[str, list[Example]]] = []
    if any(score.per_item is not None for score in scores):
        texts = _texts(sources, systems)
        table, shown = _values(scores, texts)
        measured = [column for column in table.columns if column not in ("system", "id", "context")]
        specs["distribution"] = charts.to_spec(charts.distribution_chart(table, measured, systems))
        if len(systems) == 2:
            specs["pairs"] = charts.to_spec(charts.paired_chart(table, measured, *systems))
        leading = next(score for score in scores if score.per_item is not None)
        examples = _extremes(leading, [s for s in scores if s.label == leading.label], texts)
    else:
        shown = None
    environment = Environment(
        loader=PackageLoader("nlgauge.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("card.html").render(
        version=__version__,
        systems=systems,
        files=[source.name for source in sources],
        sentences=summarise(comparisons, systems),
        header=systems,
        rows=_rows(scores, comparisons, names, systems),
        compared=bool(comparisons),
        level=f"{interval.confidence:.0%}",
        shown=shown,
        examples=examples,
        leading=names[leading.label] if examples else "",
        specs=specs,
        specs_json=safe_json(specs),
        bundle=vega_bundle(),
    )


_VERDICTS = {
    "more diverse": ("more diverse", "less diverse"),
    "less diverse": ("less diverse", "more diverse"),
    "better": ("better", "worse"),
    "worse": ("worse", "better"),
}


def summarise(comparisons: Sequence[Comparison], systems: Sequence[str]) -> list[str]:
    """What the comparisons say, in plain sentences."""
    sentences = []
    for other in systems[1:]:
        found: dict[str, list[str]] = {
            verdict: [] for verdict in ("more diverse", "less diverse", "better", "worse", "")
        }
        for c in (c for c in comparisons if c.second == other):
            up, down = _VERDICTS[c.higher_is]
            found["" if c.p_holm >= SIGNIFICANT else up if c.difference > 0 else down].append(c.metric)
        none = found.pop("")
        sentences += [f"{other} is {word} than {systems[0]} by {', '.join(by)}." for word, by in found.items() if by]
        if none:
            sentences.append(f"No significant difference between {other} and {systems[0]} by {', '.join(none)}.")
    return sentences


def _rows(
    scores: Sequence[Score], comparisons: Sequence[Comparison], names: dict[str, str], systems: Sequence[str]
) -> list[dict[str, Any]]:
    rows = []
    for label, name in names.items():
        mine = {score.system: score for score in scores if score.label == label}
        against = {c.second: c for c in comparisons if c.metric_label == label}
        rows.append(
            {
                "name": name,
                "higher_is": mine[systems[0]].higher_is,
                "values": [
                    (number(mine[s].value), show_interval(mine[s].ci), mine[s].n, mine[s].excluded) for s in systems
                ],
                "differences": [
                    (number(c.difference), show_interval(c.ci), p_value(c.p_holm), c.p_holm < SIGNIFICANT, c.second)
                    for c in against.values()
                ],
                "signatures": list(dict.fromkeys(str(mine[s].signature) for s in systems)),
            }
        )
    return rows


def _texts(sources: Sequence[Source], systems: Sequence[str]) -> pl.DataFrame:
    """Contexts and responses of every set: `system, id, context, responses`."""
    frames = []
    for position, source in enumerate(sources):
        for table in source.stream():
            if not isinstance(table, ResponseSets):
                continue
            frame = table.to_polars()
            if "context" not in frame.columns:
                frame = frame.with_columns(context=pl.lit(""))
            if "system" not in frame.columns:
                frame = frame.with_columns(system=pl.lit(systems[position]))
            frames.append(frame.select("system", "id", pl.col("context").fill_null(""), "responses"))
    return pl.concat(frames)


def _values(scores: Sequence[Score], texts: pl.DataFrame) -> tuple[pl.DataFrame, tuple[int, int] | None]:
    """Values of contexts for the charts, at most `POINTS_SHOWN` contexts a system, and how many of how many."""
    table = per_item_table(scores)
    systems = list(dict.fromkeys(score.system for score in scores))
    if "system" not in table.columns:
        table = table.insert_column(0, pl.repeat(systems[0], len(table), eager=True).alias("system"))
    ids = table["id"].unique().sort()
    shown = None
    if len(ids) > charts.POINTS_SHOWN:
        shown = (charts.POINTS_SHOWN, len(ids))
        table = table.filter(pl.col("id").is_in(ids.sample(charts.POINTS_SHOWN, seed=0).to_list()))
    contexts = texts.select("id", pl.col("context").str.slice(0, _CONTEXT_SHOWN)).unique("id", keep="first")
    joined = table.join(contexts, on="id", how="left").with_columns(pl.col("context").fill_null(""))
    return joined.with_columns(pl.selectors.float().fill_nan(None)), shown


def _extremes(leading: Score, scores: Sequence[Score], texts: pl.DataFrame) -> list[tuple[str, list[Example]]]:
    """The most and the least diverse contexts by the first metric, averaged over systems."""
    frames = [score.per_item.select("id", "value") for score in scores if score.per_item is not None]
    mean = pl.concat(frames).group_by("id").agg(pl.col("value").mean()).sort("value", "id")
    if leading.higher_is in ("more diverse", "better"):
        mean = mean.reverse()
    most, least = mean["id"].head(_EXTREMES).to_list(), mean["id"].tail(_EXTREMES).to_list()[::-1]
    values = {
        (score.system, row[0]): row[1]
        for score in scores
        if score.per_item is not None
        for row in score.per_item.filter(pl.col("id").is_in(most + least)).select("id", "value").iter_rows()
    }

    def example(id: str) -> Example:
        rows = texts.filter(pl.col("id") == id)
        answers = [
            (
                row["system"],
                number(values[row["system"], id]) if (row["system"], id) in values else "",
                row["responses"],
            )
            for row in rows.iter_rows(named=True)
        ]
        return Example(id, rows["context"][0] if len(rows) else "", answers)

    return [("Most diverse", [example(i) for i in most]), ("Least diverse", [example(i) for i in least])]
