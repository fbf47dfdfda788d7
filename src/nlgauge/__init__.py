"""NLGauge gauges generated text, and gauges the gauges."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_PUBLIC = {name: module for module, name in re.findall(r"^from (\S+) import \w+ as (\w+)$", _STUB, re.M)}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that `import nlgauge` stays quick."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'nlgauge' has no attribute '{name}'")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return __all__
