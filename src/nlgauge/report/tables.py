"""Scores as text, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from typing import Any

import polars as pl

from nlgauge.data.writing import guard_formulas
from nlgauge.errors import OptionError
from nlgauge.metrics.comparison import Comparison
from nlgauge.metrics.score import Score

FORMATS = ("text", "json", "csv", "markdown", "latex")
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}",
}  # fmt: skip


def unique_names(scores: Sequence[Score]) -> dict[str, str]:
    """A column name for each metric label: the plain name where it is unique."""
    labels = dict.fromkeys(score.label for score in scores)
    by_label = {score.label: score.name for score in scores}
    names = [by_label[label] for label in labels]
    return {label: by_label[label] if names.count(by_label[label]) == 1 else label for label in labels}


def render(scores: Sequence[Score], comparisons: Sequence[Comparison], form: str) -> str:
    """Scores, and comparisons if there are any, in one of `FORMATS`."""
    if form == "json":
        document: dict[str, Any] = {"scores": [score.to_dict() for score in scores]}
        if comparisons:
            document["comparisons"] = [comparison.to_dict() for comparison in comparisons]
        return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
    if form == "csv":
        return _csv(scores)
    header, rows = _grid(scores, comparisons)
    if form == "markdown":
        return markdown_table(header, rows) + "\n\n" + "\n".join(f"- `{s}`" for s in _signatures(scores))
    if form == "latex":
        return latex_table(header, rows, _signatures(scores))
    if form == "text":
        notes = [f"  {signature}" for signature in _signatures(scores)]
        return "\n".join([aligned(header, rows), "", "signatures", *notes])
    raise OptionError(f"format '{form}'; expected one of {', '.join(FORMATS)}")


def number(value: float) -> str:
    """Four significant places after the point, without a negative zero."""
    text = f"{value:.4f}"
    return text.removeprefix("-") if text.strip("-0.") == "" else text


def p_value(p: float) -> str:
    """A p-value as papers print it."""
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def interval(ci: tuple[float, float] | None) -> str:
    """An interval, or a dash where there is none."""
    return "-" if ci is None else f"[{number(ci[0])}, {number(ci[1])}]"


def _signatures(scores: Sequence[Score]) -> list[str]:
    return list(dict.fromkeys(str(score.signature) for score in scores))


def _grid(scores: Sequence[Score], comparisons: Sequence[Comparison]) -> tuple[list[str], list[list[str]]]:
    names = unique_names(scores)
    systems = list(dict.fromkeys(score.system for score in scores))
    with_ci = any(score.ci is not None for score in scores)
    if len(systems) == 1:
        header = ["metric", "value", *(["interval"] if with_ci else []), "n", "higher is"]
        rows = [
            [names[s.label], number(s.value), *([interval(s.ci)] if with_ci else []), str(s.n), s.higher_is]
            for s in scores
        ]
        return header, rows
    found = {(score.label, score.system): score for score in scores}
    against = {(c.metric_label, c.second): c for c in comparisons}
    header = ["metric"]
    for position, system in enumerate(systems):
        header += [system, *(["interval"] if with_ci else [])]
        if position and comparisons:
            header += ["difference", "interval", "p", "p (Holm)"]
    header.append("higher is")
    rows = []
    for label, name in names.items():
        row = [name]
        for position, system in enumerate(systems):
            score = found[label, system]
            row += [number(score.value), *([interval(score.ci)] if with_ci else [])]
            if position and comparisons:
                made = against.get((label, system))
                row += (
                    ["-"] * 4
                    if made is None
                    else [number(made.difference), interval(made.ci), p_value(made.p), p_value(made.p_holm)]
                )
        rows.append([*row, found[label, systems[0]].higher_is])
    return header, rows


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


def aligned(header: list[str], rows: list[list[str]]) -> str:
    """A table as plain text."""
    widths = [max(_width(line[column]) for line in [header, *rows]) for column in range(len(header))]
    lines = []
    for line in [header, ["-" * width for width in widths], *rows]:
        cells = [cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """A table as Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def latex_table(header: list[str], rows: list[list[str]], signatures: list[str]) -> str:
    """A table as LaTeX (booktabs), signatures as comments."""
    lines = [" & ".join(map(_escape_latex, line)) + r" \\" for line in rows]
    return "\n".join(
        [
            *(f"% {signature}" for signature in signatures),
            r"\begin{tabular}{l" + "r" * (len(header) - 2) + "l}",
            r"\toprule",
            " & ".join(map(_escape_latex, header)) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _csv(scores: Sequence[Score]) -> str:
    frame = pl.DataFrame(
        {
            "system": [score.system for score in scores],
            "metric": [score.label for score in scores],
            "value": [score.value for score in scores],
            "ci_low": [None if score.ci is None else score.ci[0] for score in scores],
            "ci_high": [None if score.ci is None else score.ci[1] for score in scores],
            "n": [score.n for score in scores],
            "higher_is": [score.higher_is for score in scores],
            "signature": [str(score.signature) for score in scores],
        },
        schema_overrides={"ci_low": pl.Float64, "ci_high": pl.Float64},
    )
    return guard_formulas(frame).write_csv().rstrip("\n")


def per_item_table(scores: Sequence[Score]) -> pl.DataFrame:
    """`id` and one column a metric, with `system` first when there are several."""
    names = unique_names(scores)
    systems = list(dict.fromkeys(score.system for score in scores))
    frames = []
    for system in systems:
        mine = [score for score in scores if score.system == system and score.per_item is not None]
        if not mine:
            continue
        columns = [score.per_item["value"].alias(names[score.label]) for score in mine if score.per_item is not None]
        first = mine[0].per_item
        if first is None:
            continue
        frame = pl.DataFrame([first["id"], *columns])
        frames.append(frame.insert_column(0, pl.repeat(system, len(frame), eager=True).alias("system")))
    if not frames:
        raise OptionError("none of the metrics has values of single sets; --per-item needs one that has")
    table = pl.concat(frames)
    return table if len(systems) > 1 else table.drop("system")
