"""The report card as one self-contained page: nothing is loaded from elsewhere, and texts are escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from nlgauge._version import __version__
from nlgauge.drawing import colours, safe_json, vega_bundle
from nlgauge.metrics.score import Direction, Score
from nlgauge.report import charts
from nlgauge.report.card.contents import Card
from nlgauge.report.card.examples import Example, Examples
from nlgauge.report.card.meanings import ALIKE
from nlgauge.report.card.summary import is_significant
from nlgauge.report.card.texts import clipped, visible
from nlgauge.report.evidence import Evidence, shipped
from nlgauge.report.filling import filled
from nlgauge.report.study_tables import short
from nlgauge.scoring.power import POWER

_NAME_SHOWN = 80


def render_page(card: Card) -> str:
    """The page as text."""
    folder = resources.files("nlgauge.report") / "templates"
    program = f"{vega_bundle()}\n{(folder / 'card.js').read_text(encoding='utf-8')}"
    specs = _specs(card)
    return filled(
        "card.html",
        {"visible": visible, "shown": lambda text: clipped(text, _NAME_SHOWN)},
        version=__version__,
        card=card,
        systems=list(zip(card.systems, colours(len(card.systems)), strict=True)),
        titles={question.key: question.title for question in card.questions},
        is_significant=is_significant,
        brief=_brief,
        level=f"{card.run.interval.level:.0%}",
        share=f"{POWER:.0%}",
        alike=short(ALIKE),
        provenance=shipped(),
        charts=set(specs),
        data=safe_json({"specs": specs, **_explorer(card.examples, card.systems)}),
        style=(folder / "card.css").read_text(encoding="utf-8"),
        program=program,
        digest=base64.b64encode(hashlib.sha256(program.encode("utf-8")).digest()).decode("ascii"),
    )


def _brief(evidence: Sequence[Evidence]) -> list[tuple[str, str]]:
    """The first finding of every test on each of its data, short enough for a cell."""
    found: dict[str, list[str]] = {}
    for one in evidence:
        found.setdefault(one.title, []).append(short(one.findings[0].value, one.digits))
    return [(title, " · ".join(values)) for title, values in found.items()]


def _specs(card: Card) -> dict[str, Any]:
    """Every chart by the id of its element on the page."""
    systems, made = card.systems, {}
    for question in card.questions:
        metrics = card.of(question)
        scores = [score for one in metrics for score in one.scores]
        if scores:
            names = [one.name for one in metrics for _ in one.scores]
            made[f"values-{question.anchor}"] = charts.interval_chart(scores, names, systems)
    valued = [one for one in card.measured if one.scores[0].items is not None]
    if valued:
        contexts = dict(card.run.texts.frame.select("id", "context").iter_rows())
        called = {one.scores[0].label: one.name for one in valued}
        table = charts.wide_values(card.run.scores, called, contexts)
        made["distribution"] = charts.distribution_chart(table, list(called.values()), systems)
        if len(systems) == 2 and any(one.paired for one in card.run.comparisons) and table["id"].is_duplicated().any():
            made["pairs"] = charts.paired_chart(table, list(called.values()), *systems)
    if card.bias is not None:
        made["length"] = charts.length_chart(card.bias)
    if card.meanings is not None:
        made["meanings"] = charts.meanings_chart(card.meanings, systems)
    quality = _rising(card, Direction.BETTER, ("quality", "fluency"))
    diversity = _rising(card, Direction.MORE_DIVERSE, ("content", "form", "repetition"))
    if quality and diversity:
        made["plane"] = charts.plane_chart(quality, diversity, systems)
    return {name: charts.to_spec(chart) for name, chart in made.items()}


def _rising(card: Card, direction: Direction, first: Sequence[str]) -> list[tuple[str, Score]]:
    """Scores of metrics that rise in a direction: of the questions that come first, then of all others but columns."""
    others = [question.key for question in card.questions if question.key not in (*first, "columns")]
    return [
        (one.name, score)
        for key in (*first, *others)
        for one in card.measured
        if one.question == key and one.scores[0].direction is direction
        for score in one.scores
    ]


def _explorer(examples: Examples | None, systems: Sequence[str]) -> dict[str, Any]:
    """Examples as input of the page's script: short keys, systems by number."""
    if examples is None:
        return {"examples": [], "metrics": [], "systems": []}
    return {
        "systems": [clipped(system, _NAME_SHOWN) for system in systems],
        "colours": colours(len(systems)),
        "metrics": list(examples.metrics),
        "examples": [_packed(example, systems, examples.metrics) for example in examples.shown],
    }


def _packed(example: Example, systems: Sequence[str], metrics: Sequence[str]) -> dict[str, Any]:
    return {
        "id": example.id,
        "context": example.context,
        "answers": [
            {
                "system": systems.index(answer.system),
                "responses": answer.responses,
                "groups": answer.groups,
                "more": answer.left_out,
                "values": [answer.values.get(metric) for metric in metrics],
            }
            for answer in example.answers
        ],
    }
