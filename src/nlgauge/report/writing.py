"""Writing a report card: from data to one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nlgauge.configured import spread
from nlgauge.data.columns import Reading
from nlgauge.data.sources.files import STDIN, kept_open
from nlgauge.engine.files import atomic_path, check_writable, write_text
from nlgauge.engine.running import Running
from nlgauge.errors import OptionError, argument
from nlgauge.metrics.base import Metric
from nlgauge.metrics.column import ColumnMetric
from nlgauge.metrics.registry import Unmeasured, measurable_metrics
from nlgauge.models.runtime import Machine
from nlgauge.report.card.contents import Card, Missing, make_card
from nlgauge.report.card.measuring import default_metrics, measure
from nlgauge.report.card.texts import read_texts
from nlgauge.report.results import read_result
from nlgauge.scoring.scoring import inputs_of
from nlgauge.stats.inference import Comparing

ENDINGS = {".html": "html", ".htm": "html", ".md": "md", ".json": "json", ".pdf": "pdf"}
FORMATS = tuple(sorted(set(ENDINGS.values())))


def report(
    data: Any,
    metrics: str | Sequence[str | Metric] | None = None,
    *,
    output: str | Path = "report.html",
    format: str = "",
    columns: Sequence[str] = (),
    studies: Sequence[str | Path] = (),
    paired: bool = True,
    **options: Any,
) -> Card:
    """Write a report card to `output`: a page that says what the numbers say, and how far to trust them.

    `data` is what `score` takes. Without `metrics`, those that the data allows are measured; `columns` of the data are
    further metrics, and `studies` are JSON files of studies to show. The format is that of the output's name: .html,
    .md, .json or .pdf. Further options are those of `Reading`, `Comparing`, `Machine` and `Running`.
    """
    own = ("output", "format", "columns", "studies", "paired", "metrics")
    reading, inference, machine, running = spread(options, Reading, Comparing, Machine, Running, also=own)
    place = Path(output)
    form = check_report(place, format)
    with machine.used():
        made, unmeasured = measurable_metrics(metrics or ())
        card = make_report(
            data,
            [*made, *(ColumnMetric(column=name) for name in columns)],
            unmeasured=unmeasured,
            studies=studies,
            paired=paired,
            reading=reading,
            inference=inference,
            running=running,
        )
    write_report(card, place, form)
    return card


def check_report(output: Path, format: str = "") -> str:
    """The format of a report; fails before any work when it could not be written."""
    check_writable(output)
    if format and format not in FORMATS:
        raise OptionError(f"{argument('format', format)}; expected one of {', '.join(FORMATS)}")
    form = format or ENDINGS.get(output.suffix.lower(), "")
    if not form:
        expected = f"a name in {', '.join(ENDINGS)}, or {argument('format', 'FORMAT')}"
        raise OptionError(f"{output}: a report cannot be '{output.suffix}'; expected {expected}", option="output")
    if form == "pdf":
        from nlgauge.report.printing import find_browser

        find_browser()
    return form


def make_report(
    data: Any,
    metrics: Sequence[Any],
    *,
    unmeasured: Sequence[Unmeasured] = (),
    studies: Sequence[str | Path] = (),
    paired: bool = True,
    reading: Reading,
    inference: Comparing,
    running: Running,
) -> Card:
    """The card of data that is measured now; without metrics, by those that the data allows."""
    results = [read_result(Path(path)) for path in studies]
    with kept_open():
        inputs = inputs_of(data, reading, metrics)
        if isinstance(inputs, list) and any(source.path == STDIN for source in inputs):
            raise OptionError("standard input ('-'); a report reads its files twice: save the texts to a file first")
        read = read_texts(inputs)
        missing = [Missing(one.metric, one.reason) for one in unmeasured]
        if not metrics:
            metrics, missing = default_metrics(read)
        run = measure(
            inputs,
            metrics,
            read,
            inference=inference,
            missing=missing,
            results=results,
            paired=paired,
            running=running,
        )
    return make_card(run)


def write_report(card: Card, output: Path, form: str, plan: Mapping[str, Any] | None = None) -> None:
    """Write a card in one of `FORMATS`; JSON carries the plan that writes it again."""
    from nlgauge.report.card.page import render_page
    from nlgauge.report.documents import to_json, to_markdown

    if form == "pdf":
        from nlgauge.report.printing import print_page

        with atomic_path(output) as temporary:
            temporary.write_bytes(print_page(render_page(card)))
        return
    if form == "json":
        write_text(output, to_json(card, plan))
        return
    write_text(output, render_page(card) if form == "html" else to_markdown(card))
