"""Filling the templates of this room; in pages, texts are escaped unless marked as safe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nlgauge.report.study_tables import short
from nlgauge.report.tables import interval, number, p_value

_FILTERS: dict[str, Callable[..., str]] = {"number": number, "interval": interval, "p_value": p_value, "short": short}


def filled(template: str, filters: Mapping[str, Callable[..., str]] | None = None, **values: Any) -> str:
    """The template with these values; one that is missing is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("nlgauge.report"),
        autoescape=template.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {**_FILTERS, **(filters or {})}
    return environment.get_template(template).render(values)
