"""The report card as Markdown and as JSON."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nlgauge._version import __version__
from nlgauge.report.card.contents import Card, Measured
from nlgauge.report.card.texts import visible
from nlgauge.report.filling import filled
from nlgauge.report.results import StudyTable
from nlgauge.report.tables import markdown_table, one_line
from nlgauge.schema import document_text, stamped

_MARKED = str.maketrans({**{character: f"\\{character}" for character in "\\`*_[]#~"}, "|": "&#124;"})
_TEXT_SHOWN = 300
_CODE = re.compile(r"(`[^`]+`)")


def to_json(card: Card, plan: Mapping[str, Any] | None = None) -> str:
    """One JSON document with the content of the page except charts and examples, and with the plan, if any."""
    document = stamped("report", _document(card)) | ({"plan": plan} if plan else {})
    return document_text(_finite(document)) + "\n"


def _document(card: Card) -> dict[str, Any]:
    return {
        "version": __version__,
        "files": list(card.run.files),
        "systems": list(card.systems),
        "summary": [asdict(verdict) for verdict in card.verdicts],
        "refusal": card.run.refusal or None,
        "advice": [asdict(advice) for advice in card.advice],
        "not_measured": [asdict(missing) for missing in card.missing],
        "texts": [asdict(facts) for facts in card.facts],
        "questions": [
            {
                "question": question.title,
                "metrics": [_metric(one) for one in card.of(question)],
                "studies": [asdict(result) for result in card.results_of(question)],
            }
            for question in card.questions
            if card.of(question) or card.results_of(question)
        ],
        "repeats": asdict(card.repeats),
        "length_bias": None if card.bias is None else card.bias.to_dict(),
    }


def _metric(one: Measured) -> dict[str, Any]:
    return {
        "metric": one.name,
        "scores": [score.to_dict() for score in one.scores],
        "comparisons": [
            {**made.to_dict(), "power": None if power is None else asdict(power)} for made, power in one.comparisons
        ],
        "evidence": [{**asdict(found), "reading": found.reading} for found in one.evidence],
    }


def _finite(value: Any) -> Any:
    """Replace non-finite numbers by null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value


def to_markdown(card: Card) -> str:
    """The card as Markdown; texts of systems are escaped, so that they stay text."""
    filters = {"plain": _plain, "prose": _prose, "cut": _cut}
    return filled("card.md", filters, version=__version__, card=card, table=_table).rstrip() + "\n"


def _table(result: StudyTable) -> str:
    return markdown_table(result.header, result.rows, _plain)


def _cut(text: str) -> str:
    return _plain(text if len(text) <= _TEXT_SHOWN else f"{text[:_TEXT_SHOWN]} …")


def _prose(text: str) -> str:
    """A sentence of NLGauge on one line, with code in backticks and everything else escaped."""
    parts = _CODE.split(one_line(visible(text)))
    return "".join(part if _CODE.fullmatch(part) else _escaped(part) for part in parts)


def _plain(text: str) -> str:
    """Text on one line, escaped for Markdown and HTML."""
    return _escaped(one_line(visible(text)))


def _escaped(text: str) -> str:
    return html.escape(text, quote=False).translate(_MARKED)
