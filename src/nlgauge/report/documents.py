"""The report card as Markdown and as JSON."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from nlgauge._version import __version__
from nlgauge.report.card.contents import Card, Measured
from nlgauge.report.card.examples import Example
from nlgauge.report.card.texts import visible
from nlgauge.report.evidence import Evidence
from nlgauge.report.study_tables import short, show
from nlgauge.report.tables import interval, markdown_table, number, one_line, p_value
from nlgauge.schema import stamped

_MARKED = str.maketrans({**{character: f"\\{character}" for character in "\\`*_[]#~"}, "|": "&#124;"})
_TEXT_SHOWN = 300
_CODE = re.compile(r"(`[^`]+`)")


def to_json(card: Card, plan: Mapping[str, Any] | None = None) -> str:
    """One JSON document with the content of the page except charts and examples, and with the plan, if any."""
    document = stamped("report", _document(card)) | ({"plan": plan} if plan else {})
    return json.dumps(_finite(document), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


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
    lines = [f"# NLGauge report: {_plain(', '.join(card.systems))}", ""]
    lines += [f"From {_plain(', '.join(card.run.files))}. NLGauge {__version__}.", "", "## Summary", ""]
    lines += [f"- {_plain(v.sentence)}{f' ({_plain(v.detail)})' if v.detail else ''}" for v in card.verdicts]
    if card.run.refusal:
        lines.append(f"- The systems were not compared: {_prose(card.run.refusal)}")
    if len(card.systems) == 1:
        lines.append("- One system: nothing to compare it with.")
    lines += ["", "Not measured:", "", *(f"- {_plain(m.what)}: {_prose(m.reason)}" for m in card.missing)]
    lines += ["", "## Before you rely on it", ""]
    lines += [f"- {'**Careful.** ' * (a.kind == 'warning')}{_plain(a.title)}. {_prose(a.text)}" for a in card.advice]
    lines += ["", "## The texts", "", _facts(card)]
    for question in card.questions:
        metrics, results = card.of(question), card.results_of(question)
        if metrics or results:
            lines += ["", f"## {question.title}", "", question.means, ""]
        if metrics:
            lines += [_scores(metrics, card.systems), "", *_known(metrics)]
        for result in results:
            rows = [[_plain(cell) for cell in row] for row in result.rows]
            said = [_plain(result.sentence), ""] if result.sentence else []
            lines += ["", *said, markdown_table(list(result.header), rows), "", f"- `{result.signature}`"]
    lines += ["", "## Repetition", ""]
    for title, found in (
        ("responses that share it within a context", card.repeats.within),
        ("contexts that have it", card.repeats.across),
    ):
        cells = [[_plain(row.text), *map(str, row.counts)] for row in found]
        header = [f"phrase, {title}", *map(_plain, card.systems)]
        lines += [markdown_table(header, cells), ""]
    if card.examples is not None:
        for title, shown in zip(card.examples.ends, (card.examples.most, card.examples.least), strict=True):
            lines += [f"## {title} by {_plain(card.examples.leading)}", ""]
            lines += [line for example in shown for line in _example(example)]
    return "\n".join(lines).rstrip() + "\n"


def _facts(card: Card) -> str:
    header = [
        "system",
        "contexts",
        "responses",
        "words per response",
        "repeated in its context",
        "also given elsewhere",
    ]
    rows = [
        [
            _plain(f.system),
            str(f.contexts),
            str(f.responses),
            f"{f.mean_length:.1f}",
            f"{f.repeated:.1%}",
            f"{f.elsewhere:.1%}",
        ]
        for f in card.facts
    ]
    return markdown_table(header, rows)


def _scores(metrics: Sequence[Measured], systems: Sequence[str]) -> str:
    compared = any(one.comparisons for one in metrics)
    header = ["metric", *map(_plain, systems)]
    header += [part for other in systems[1:] for part in (f"difference of {_plain(other)}", "p (adjusted)")] * compared
    rows = []
    for one in metrics:
        row = [_plain(one.name)]
        row += [f"{number(s.value)} {'' if s.ci is None else interval(s.ci)}".rstrip() for s in one.scores]
        found = {made.second: made for made, _ in one.comparisons}
        for other in systems[1:] if compared else ():
            made = found.get(other)
            row += (
                ["-", "-"]
                if made is None
                else [f"{number(made.difference)} {interval(made.ci)}", p_value(made.p_adjusted)]
            )
        rows.append([*row, one.scores[0].higher_is])
    return markdown_table([*header, "higher is"], rows)


def _known(metrics: Sequence[Measured]) -> Iterator[str]:
    """Signature and evidence of each metric."""
    for one in metrics:
        yield f"- `{'`, `'.join(one.signatures)}`"
        yield from (f"  - {_said(found)}" for found in one.evidence)


def _said(one: Evidence) -> str:
    found = ", ".join(
        f"{f.measure} {short(f.value, 3)}{'' if f.interval is None else f' {show(list(f.interval), 3)}'}"
        for f in one.findings
    )
    other = "" if one.same else f"; other settings: {one.metric}"
    return f"{one.title} on {one.data} (n = {one.n}): {found}: {one.reading}{other}"


def _example(example: Example) -> Iterator[str]:
    yield f"**{_cut(example.context) or '(no context)'}** ({_cut(example.id)})"
    yield ""
    for answer in example.answers:
        yield f"- {_plain(answer.system)}"
        yield from (f"  - {_cut(response)}" for response in answer.responses)
    yield ""


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
