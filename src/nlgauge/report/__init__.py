"""Tables, charts and the report card: shows results, computes none. `nlgauge.report(data)` writes a card."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nlgauge.report.card.contents import Card


class _Room(ModuleType):
    """This package, which is called as a function too, since the verb for writing a report has its name."""

    def __call__(self, data: Any, metrics: Any = None, **options: Any) -> Card:
        """As `nlgauge.report.writing.report`."""
        from nlgauge.report.writing import report

        return report(data, metrics, **options)


sys.modules[__name__].__class__ = _Room
