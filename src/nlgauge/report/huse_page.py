"""A page about HUSE: scores, the plane of the two features, and the texts behind the errors (paper 3, section 5.3)."""

from __future__ import annotations

from nlgauge._version import __version__
from nlgauge.drawing import safe_json, vega_bundle
from nlgauge.report.filling import filled
from nlgauge.report.study_tables import grid
from nlgauge.studies.base import Result
from nlgauge.studies.huse.judges import PEOPLE
from nlgauge.studies.huse.score import ALIKE, DIVERSITY, QUALITY, clearest_errors

_MEANING = {
    QUALITY: "Texts of the model that the judgment alone gives away.",
    DIVERSITY: "Texts that only the model's probability gives away, mostly references that it would hardly write.",
    ALIKE: "Texts that the classifier takes for the other side's.",
}


def render_huse(result: Result, examples: int = 5) -> str:
    """The page as text; nothing in it is loaded from elsewhere, and texts are shown as text."""
    header, rows = grid(result.index, result.columns, result.rows)
    errors = result.tables["errors"]
    shown = clearest_errors(errors, examples)
    groups = [
        (system, kind, _MEANING[kind], found.to_dicts())
        for system in dict.fromkeys(errors["system"].to_list())
        for kind in (QUALITY, DIVERSITY, ALIKE)
        if len(found := shown.filter((shown["system"] == system) & (shown["verdict"] == kind)))
    ]
    counts = errors.group_by("system", "verdict", "source", maintain_order=True).len().to_dicts()
    return filled(
        "huse.html",
        version=__version__,
        header=header,
        rows=rows,
        sentence=result.sentence,
        signature=str(result.signature),
        notes=result.notes,
        judges=sorted({str(row["judge"]) for row in result.rows} - {PEOPLE}),
        groups=groups,
        counts=counts,
        spec_json=safe_json(result.chart().to_dict()),
        bundle=vega_bundle(),
    )
