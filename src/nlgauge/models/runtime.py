"""Loading torch and its friends quietly and only when needed, and where models run."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from nlgauge.errors import MissingExtra, OptionError

_NO_MEMORY = re.compile("out of memory|not enough memory|can't allocate memory", re.IGNORECASE)
_VARIABLES = {"device": "NLGAUGE_DEVICE", "batch_size": "NLGAUGE_BATCH_SIZE", "threads": "NLGAUGE_THREADS"}


class Machine(NamedTuple):
    """Where and how models run that a metric names: speed, never a result. 0 leaves a number to each kind of model."""

    device: str = "cpu"
    batch_size: int = 0
    threads: int = 0

    @classmethod
    def from_environment(cls) -> Machine:
        """From `NLGAUGE_DEVICE`, `NLGAUGE_BATCH_SIZE` and `NLGAUGE_THREADS`, so that worker processes agree."""
        found: dict[str, Any] = {}
        for name, variable in _VARIABLES.items():
            value = os.environ.get(variable, "")
            if value and name != "device" and not value.isdecimal():
                raise OptionError(f"{variable} is '{value}'; expected a whole number, 0 for the default")
            if value:
                found[name] = value if name == "device" else int(value)
        return cls(**found)

    def use(self) -> None:
        """Make this the machine of every model that is loaded from now on, in worker processes too."""
        for name, variable in _VARIABLES.items():
            os.environ[variable] = str(getattr(self, name))

    @property
    def options(self) -> dict[str, Any]:
        """What a model's constructor takes."""
        return {name: value for name, value in self._asdict().items() if value}


def out_of_memory(error: Exception) -> bool:
    """Whether a failure means that memory ran out, on whatever device."""
    return isinstance(error, MemoryError) or bool(_NO_MEMORY.search(str(error)))


def import_torch(what: str) -> Any:
    """The torch module, with transformers' progress bars and thread warnings off; `what` names who needs it."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TQDM_DISABLE", "1")
    try:
        import torch
        import transformers.utils.logging as transformers_logging
    except ImportError as error:
        raise MissingExtra.needs(what, "models") from error
    logging: Any = transformers_logging
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    return torch
