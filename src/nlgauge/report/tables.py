"""Scores and comparisons as text, Markdown, LaTeX, CSV, Parquet and JSON."""

from __future__ import annotations

import html
import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nlgauge.data.writing import guard_formulas
from nlgauge.engine.files import atomic_path, write_text
from nlgauge.errors import OptionError, argument
from nlgauge.metrics.score import Score
from nlgauge.schema import document_text, stamped
from nlgauge.scoring.compared import Comparison
from nlgauge.scoring.comparison import family_in_words
from nlgauge.scoring.power import parts_of, what_next
from nlgauge.signature import Signature
from nlgauge.stats.jackknife import LeftOut

FORMATS = ("text", "json", "csv", "markdown", "latex")
RESULT_FORMATS = (*FORMATS, "parquet")
_ENDINGS = {
    ".txt": "text",
    ".json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".tex": "latex",
    ".parquet": "parquet",
}
_LATEX_NAMES = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "|": "bar", "<": "less", ">": "greater"}
_LATEX = str.maketrans(
    {sign: rf"\{sign}" for sign in "&%$#_{}"} | {sign: rf"\text{name}{{}}" for sign, name in _LATEX_NAMES.items()}
)
_NUMBERS = re.compile(r"[-<.,%\[\]\d ]*")
_HTML = re.compile(r"<[A-Za-z/!?]|&#?\w+;")
_MINUS = re.compile(r"-(?=[.\d])")


def unique_names(scores: Sequence[Score]) -> dict[str, str]:
    """A column name for each metric label: the plain name if it is unique."""
    labels = dict.fromkeys(score.label for score in scores)
    by_label = {score.label: score.name for score in scores}
    names = [by_label[label] for label in labels]
    return {label: by_label[label] if names.count(by_label[label]) == 1 else label for label in labels}


@dataclass(frozen=True)
class Sheet:
    """One result, ready for every format: cells for readers, a frame and a document for programs.

    `text` is what readers get where a table of cells will not do.
    """

    header: list[str]
    rows: list[list[str]]
    signatures: list[str]
    frame: pl.DataFrame
    document: dict[str, Any]
    notes: tuple[str, ...] = ()
    text: str = ""

    def shown(self, form: str) -> str:
        """For readers: as text, Markdown or LaTeX."""
        if form == "markdown":
            remarks = [*(f"`{signature}`" for signature in self.signatures), *map(plain_html, self.notes)]
            table = markdown_table(self.header, self.rows, markdown_text)
            return "\n".join([table, *([""] if remarks else []), *(f"- {remark}" for remark in remarks)])
        if form == "latex":
            return latex_table(self.header, self.rows, [*self.signatures, *self.notes])
        notes = [f"  {signature}" for signature in self.signatures]
        remarks = [f"note: {note}" for note in self.notes]
        signed = ["", "signatures", *notes] if notes else []
        return "\n".join([self.text or aligned(self.header, self.rows), *signed, *remarks])


def choose_format(form: str, output: Path | None) -> str:
    """The given format, or that of the output's name, or text."""
    chosen = form or ("text" if output is None else _ENDINGS.get(output.suffix, ""))
    if not chosen and output is not None:
        raise OptionError(f"{output}: unknown ending; expected {', '.join(_ENDINGS)}, or {argument('format')}")
    if chosen not in RESULT_FORMATS:
        raise OptionError(f"{argument('format', chosen)}; expected one of {', '.join(RESULT_FORMATS)}")
    if chosen == "parquet" and output is None:
        raise OptionError(
            f"{argument('format', 'parquet')} cannot be printed; name a file: {argument('output', 'results.parquet')}"
        )
    return chosen


def render(sheet: Sheet, form: str, *, spreadsheet: bool = False) -> str:
    """A result in one of `FORMATS`; for a `spreadsheet`, CSV has an apostrophe before what it would run."""
    if form == "json":
        return document_text(sheet.document)
    if form == "csv":
        return (guard_formulas(sheet.frame) if spreadsheet else sheet.frame).write_csv().rstrip("\n")
    if form not in FORMATS:
        raise OptionError(f"format '{form}'; expected one of {', '.join(FORMATS)}")
    return sheet.shown(form)


def write_sheet(sheet: Sheet, form: str, output: Path, *, spreadsheet: bool = False) -> None:
    """A result as a file in one of `RESULT_FORMATS`, written atomically."""
    if form == "parquet":
        with atomic_path(output) as temporary, temporary.open("wb") as file:
            sheet.frame.write_parquet(file)
    else:
        write_text(output, render(sheet, form, spreadsheet=spreadsheet) + "\n")


def list_sheet(kind: str, rows: Sequence[Mapping[str, Any]], text: str) -> Sheet:
    """A list of things under the name `kind`; in tables, a nested value is JSON in its cell."""
    cells = [{key: _nested(value) for key, value in row.items()} for row in rows]
    frame = pl.DataFrame(cells)
    lines = [["" if cell is None else str(cell) for cell in row.values()] for row in cells]
    return Sheet(frame.columns, lines, [], frame, stamped("list", {kind: list(rows)}), text=text)


def _nested(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | tuple) else value


def score_sheet(scores: Sequence[Score], comparisons: Sequence[Comparison], *, values: bool = False) -> Sheet:
    """Scores, one line per metric, with the comparisons if there are any; `values` as in `results_document`."""
    flat = [
        {
            "system": score.system,
            "metric": score.label,
            "value": score.value,
            **ends(score.ci),
            "n": score.n,
            "higher_is": score.higher_is,
            "signature": str(score.signature),
        }
        for score in scores
    ]
    return Sheet(
        *_grid(scores, comparisons),
        list(dict.fromkeys(str(score.signature) for score in scores)),
        flat_frame(flat),
        results_document(scores, comparisons, values=values),
        _notes(scores, comparisons),
    )


_SIDES = ("first", "first_value", "second", "second_value", "difference")
_WITH_MARGIN = ("margin", "equal_p", "not_worse_p")
_TEST = ("p", "p_adjusted", "effect", "n", "paired", "higher_is", "verdict", "signature")
_MAY_BE_EMPTY = dict.fromkeys(("ci_low", "ci_high", "effect", "mean_rank"), pl.Float64) | {"cluster": pl.Int64}


def ends(ci: tuple[float, float] | None) -> dict[str, float | None]:
    """An interval in two columns."""
    low, high = ci or (None, None)
    return {"ci_low": low, "ci_high": high}


def flat_frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """A frame of rows, the type of whose columns does not depend on the values that are there."""
    kinds = {name: kind for name, kind in _MAY_BE_EMPTY.items() if rows and name in rows[0]}
    return pl.DataFrame(rows, schema_overrides=kinds, infer_schema_length=None)


def comparison_sheet(scores: Sequence[Score], comparisons: Sequence[Comparison], *, values: bool = False) -> Sheet:
    """Comparisons, one line each, with effect size and verdict."""
    names = unique_names(scores)
    header = ["metric", "first", "value", "second", "value", "difference", "interval", *_tests(comparisons), "effect"]
    rows = [
        [
            names[c.metric_label],
            one_line(c.first),
            number(c.first_value),
            one_line(c.second),
            number(c.second_value),
            number(c.difference),
            interval(c.ci),
            *_tests([c]).values(),
            "-" if c.effect is None else f"{c.effect:.2f}",
            one_line(c.verdict),
        ]
        for c in comparisons
    ]
    flat = [
        {
            "metric": c.metric_label,
            **{name: getattr(c, name) for name in _SIDES},
            **ends(c.ci),
            **{name: getattr(c, name) for name in _TEST},
            **({} if c.margin is None else {name: getattr(c, name) for name in _WITH_MARGIN}),
        }
        for c in comparisons
    ]
    return Sheet(
        [*header, "verdict"],
        rows,
        list(dict.fromkeys(c.signature for c in comparisons)),
        flat_frame(flat),
        results_document(scores, comparisons, values=values),
        _notes(scores, comparisons),
    )


def _notes(scores: Sequence[Score], comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    family = family_in_words(comparisons)
    return tuple(map(one_line, (*_on_common(comparisons), *([family] * bool(family)), *what_next(scores, comparisons))))


def _on_common(comparisons: Sequence[Comparison]) -> dict[str, None]:
    """How much systems share, where they are compared on that."""
    return dict.fromkeys(
        f"'{one.first}' and '{one.second}' are compared on what they have in common: {shared} "
        f"{'context' if one.unit == 'context-x-run' else one.unit}{'s' * (shared != '1')}"
        for one in comparisons
        if (shared := Signature.parse(one.signature).facts.get("common"))
    )


def results_document(
    scores: Sequence[Score], comparisons: Sequence[Comparison] = (), *, values: bool = False
) -> dict[str, Any]:
    """For JSON. With `values`, all that a later comparison needs: values of single sets, or of a corpus in parts.

    `sets` has the ids of each system's sets, and hashes of contexts and runs; a score's `values` are in their order.
    """
    entries = [score.to_dict() for score in scores]
    for score, entry in zip(scores, entries, strict=True):
        if score.ci is not None and (parts := parts_of(score)) is not None and parts.several_runs:
            entry["error_parts"] = parts.to_dict()
    document = stamped("scores", {"scores": entries})
    if values:
        sets: dict[str, Any] = {}
        for score, entry in zip(scores, entries, strict=True):
            frame = score.per_item
            if frame is not None:
                entry["values"] = [value if math.isfinite(value) else None for value in frame["value"].to_list()]
                keys = {"id": frame["id"].to_list()}
                for name, column in (("context", "context_hash"), ("run", "run")):
                    if column in frame.columns:
                        keys[name] = [f"{number:016x}" for number in frame[column].to_list()]
                sets.setdefault(score.system, keys)
            elif score.left_out is not None:
                entry["left_out"] = _left_out(score.left_out)
        document["sets"] = sets
    if comparisons:
        document["comparisons"] = [comparison.to_dict() for comparison in comparisons]
    return document


def _left_out(found: LeftOut) -> dict[str, Any]:
    keys = {} if found.keys is None else {"keys": [f"{key:016x}" for key in found.keys.tolist()]}
    return {"values": found.values.tolist(), "sizes": found.sizes.tolist(), **keys}


def one_line(text: str) -> str:
    """A name from a file, on one line: safe in a table or a comment."""
    return " ".join(text.split())


def number(value: float) -> str:
    """Four significant places after the point, without a negative zero."""
    text = f"{value:.4f}"
    return text.removeprefix("-") if text.strip("-0.") == "" else text


def p_value(p: float) -> str:
    """A p-value as papers print it."""
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def interval(ci: tuple[float, float] | None) -> str:
    """An interval, or a dash if there is none."""
    return "-" if ci is None else f"[{number(ci[0])}, {number(ci[1])}]"


def _grid(scores: Sequence[Score], comparisons: Sequence[Comparison]) -> tuple[list[str], list[list[str]]]:
    names = unique_names(scores)
    systems = list(dict.fromkeys(score.system for score in scores))
    with_ci = any(score.ci is not None for score in scores)
    if len(systems) == 1:
        header = ["metric", "value", *(["interval"] * with_ci), "n", "higher is"]
        return header, [[names[s.label], *_value(s, with_ci), str(s.n), s.higher_is] for s in scores]
    found = {(score.label, score.system): score for score in scores}
    against = {(c.metric_label, c.second): c for c in comparisons}
    with_margin = any(one.margin is not None for one in comparisons)
    tested = ["difference", "interval", *_tests(comparisons), *(["verdict"] * with_margin)]
    header = ["metric"]
    for position, system in enumerate(systems):
        header += [one_line(system), *(["interval"] * with_ci)]
        if position and comparisons:
            header += tested
    header.append("higher is")
    rows = []
    for label, name in names.items():
        row = [name]
        for position, system in enumerate(systems):
            row += _value(found[label, system], with_ci)
            if made := against.get((label, system)):
                row += [number(made.difference), interval(made.ci), *_tests([made]).values()]
                row += [one_line(made.verdict)] * with_margin
            elif position and comparisons:
                row += ["-"] * len(tested)
        rows.append([*row, found[label, systems[0]].higher_is])
    return header, rows


def _tests(comparisons: Sequence[Comparison]) -> dict[str, str]:
    """Titles of p-values, and those of the first comparison; a margin adds two."""
    shown = {} if not comparisons else {"p": comparisons[0].p, "p (adjusted)": comparisons[0].p_adjusted}
    for one in comparisons[:1]:
        if one.equal_p is not None and one.not_worse_p is not None:
            shown |= {"p (equal)": one.equal_p, "p (not worse)": one.not_worse_p}
    return {title: p_value(p) for title, p in shown.items()}


def _value(score: Score, with_ci: bool) -> list[str]:
    return [number(score.value), interval(score.ci)] if with_ci else [number(score.value)]


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


def plain_html(text: str) -> str:
    """Text in which nothing is HTML where Markdown is shown; numbers such as <.001 stay as they are."""
    return html.escape(text, quote=False) if _HTML.search(text) else text


def markdown_text(text: str) -> str:
    """A cell of a table in Markdown: one line, in which a bar ends nothing."""
    return plain_html(one_line(text)).replace("|", "\\|")


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], text: Callable[[str], str] = str) -> str:
    """A table as Markdown, of cells as `text` writes them."""
    lines = [list(map(text, header)), ["---"] * len(header), *(list(map(text, row)) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _latex_cell(text: str) -> str:
    escaped = text.translate(_LATEX)
    return _MINUS.sub("$-$", escaped) if _NUMBERS.fullmatch(text) else escaped


def latex_table(header: list[str], rows: list[list[str]], signatures: list[str]) -> str:
    """A table as LaTeX (booktabs): numbers right-aligned with a minus sign, signatures as comments."""
    lines = [" & ".join(map(_latex_cell, line)) + r" \\" for line in rows]
    sides = ["r" if all(_NUMBERS.fullmatch(row[place]) for row in rows) else "l" for place in range(len(header))]
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            *(f"% {signature}" for signature in signatures),
            rf"\begin{{tabular}}{{{''.join(sides)}}}",
            r"\toprule",
            " & ".join(title.translate(_LATEX) for title in header) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def set_values(scores: Sequence[Score], names: Mapping[str, str]) -> pl.DataFrame:
    """`system, id` and one column per metric, empty where a set has no value; of sets with the same id, the first."""
    frames: dict[str, pl.DataFrame] = {}
    for score in scores:
        if (values := score.per_item) is None:
            continue
        column = values.select(
            pl.lit(score.system).alias("system"), "id", pl.col("value").fill_nan(None).alias(names[score.label])
        ).unique("id", keep="first", maintain_order=True)
        before = frames.get(score.system)
        frames[score.system] = column if before is None else before.join(column.drop("system"), on="id", how="left")
    return pl.concat(frames.values(), how="diagonal")


def per_item_table(scores: Sequence[Score]) -> pl.DataFrame:
    """`id` and one column per metric, with `system` first if there are several."""
    names = unique_names(scores)
    systems = list(dict.fromkeys(score.system for score in scores))
    frames = []
    for system in systems:
        values = {names[s.label]: s.per_item for s in scores if s.system == system}
        found = {name: frame for name, frame in values.items() if frame is not None}
        if found:
            ids = next(iter(found.values())).select(pl.lit(system).alias("system"), "id")
            frames.append(ids.with_columns(frame["value"].alias(name) for name, frame in found.items()))
    if not frames:
        raise OptionError(
            f"none of the metrics has values of single sets; {argument('per_item')} requires one that has"
        )
    table = pl.concat(frames)
    return table if len(systems) > 1 else table.drop("system")
