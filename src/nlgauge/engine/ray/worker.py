"""The worker of a Ray cluster; imports heavy packages only after its number of threads is set.

Its code is sent to the cluster, so that it can report the version of NLGauge installed there, if any.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any


class RayWorker:
    """Keeps a function, with the models that it loads, and applies it to values."""

    def __init__(self, variables: dict[str, str], folder: str) -> None:
        """Take environment variables, and the working folder of the caller if this node has it."""
        os.environ.update(variables)
        if Path(folder).is_dir():
            os.chdir(folder)
        self._function: Callable[[Any], Any] | None = None
        self._failure = "no function was given"

    def about(self, folder: str) -> dict[str, str]:
        """Versions and host of this worker, and whether it can access the shared folder."""
        try:
            from nlgauge._version import __version__
            from nlgauge.engine.cache import code_digest

            installed = f"{__version__}, code {code_digest()}"
        except ImportError as error:
            installed = f"none, or another one ({error})"
        return {
            "NLGauge": installed,
            "Python": platform.python_version(),
            "host": platform.node(),
            "sees": "yes" if Path(folder).is_dir() else "",
        }

    def use(self, function: bytes, scratch: bytes) -> None:
        """Apply this function from now on."""
        import pickle

        try:
            from nlgauge.engine.scratch import use_scratch
            from nlgauge.registry import load_plugins

            load_plugins()
            self._function = pickle.loads(function)  # noqa: S301 - from the process that started this one
            use_scratch(pickle.loads(scratch))  # noqa: S301 - as above
        except Exception as error:  # noqa: BLE001 - reported with the first value
            self._function, self._failure = None, f"the worker could not start: {error!r}"

    def work(self, ticket: int, value: Any) -> Any:
        """Apply the function; the outcome has its result or error."""
        from nlgauge.engine.pool import outcome_of

        if self._function is None:
            raise RuntimeError(self._failure)
        return outcome_of(ticket, self._function, value)
