"""What every chart needs: colours, data, and files that open anywhere.

Model output is hostile text: pages hold it as escaped JSON, and nothing is loaded from elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nlgauge.engine.files import atomic_path
from nlgauge.errors import OptionError

if TYPE_CHECKING:
    import altair as alt
else:

    class _Altair:
        """Altair, imported by the first chart: it takes longer to load than all of NLGauge."""

        def __getattr__(self, name: str) -> Any:
            import altair

            return getattr(altair, name)

    alt = _Altair()

__all__ = ["alt"]  # for type checkers: what is imported is exported, too
PALETTE = ("#3366aa", "#dd7733", "#339977", "#aa4499", "#888833", "#44aacc")
CHART_ENDINGS = (".html", ".png", ".svg", ".pdf")
_TEXT_SHOWN = 200
_PAGE = Path(__file__).with_name("chart.html")


def colours(count: int) -> list[str]:
    """So many colours, from the palette over and over."""
    return [PALETTE[i % len(PALETTE)] for i in range(count)]


def inline(rows: Sequence[dict[str, Any]]) -> Any:
    """Rows as the data of a chart."""
    return alt.Data(values=list(rows))  # type: ignore[no-untyped-call]


def shortened(text: str | None) -> str:
    """A text as it fits into a tooltip."""
    text = text or ""
    return text if len(text) <= _TEXT_SHOWN else text[:_TEXT_SHOWN] + "…"


def safe_json(value: Any) -> str:
    """JSON that can stand inside a script element whatever text it holds."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@lru_cache(maxsize=1)
def vega_bundle() -> str:
    """The drawing program, to stand in a page."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def check_chart_path(path: Path) -> None:
    """Refuse a name that says no format that charts have."""
    if path.suffix.lower() not in CHART_ENDINGS:
        raise OptionError(f"{path}: a chart cannot be '{path.suffix}'; expected a name in {', '.join(CHART_ENDINGS)}")


def save_chart(chart: Any, path: str | Path, *, title: str = "NLGauge") -> None:
    """Write a chart as a page that needs no network, or as PNG, SVG or PDF, by the ending of its name."""
    import html

    import vl_convert

    target = Path(path)
    check_chart_path(target)
    spec: dict[str, Any] = chart.to_dict()
    kind = target.suffix.lower()
    if kind == ".html":
        page = _PAGE.read_text(encoding="utf-8")
        filled = page.format(title=html.escape(title), bundle=vega_bundle(), spec=safe_json(spec))
        content = filled.encode("utf-8")
    elif kind == ".svg":
        content = vl_convert.vegalite_to_svg(spec).encode("utf-8")
    elif kind == ".png":
        content = vl_convert.vegalite_to_png(spec, scale=2)
    else:
        content = vl_convert.vegalite_to_pdf(spec)
    with atomic_path(target) as temporary:
        temporary.write_bytes(content)
