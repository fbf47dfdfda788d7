"""Warnings as one plain line on standard error, in every process of a command."""

from __future__ import annotations

import sys
import warnings
from typing import Any


def show_warnings_plainly() -> None:
    """Print warnings as `nlgauge: warning: …`, without the position in the code."""
    warnings.showwarning = _show


def _show(message: Warning | str, category: type[Warning], *_place: Any, **_more: Any) -> None:
    if not issubclass(category, DeprecationWarning):
        print(f"nlgauge: warning: {message}", file=sys.stderr)
