"""Lazy and quiet import of torch, the options of the machine on which models run, and loading of their folders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from nlgauge.configured import Options, check_that, option
from nlgauge.errors import MissingExtra, ModelError, OptionError

R = TypeVar("R")

SAFE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}  # what no loading of a model may lack
_NO_MEMORY = re.compile("out of memory|not enough memory|can't allocate memory", re.IGNORECASE)
_VARIABLES = {"device": "NLGAUGE_DEVICE", "batch_size": "NLGAUGE_BATCH_SIZE", "threads": "NLGAUGE_THREADS"}


@dataclass(frozen=True, kw_only=True)
class Machine(Options):
    """Where and how models run: options of speed, never of results. 0: the default of each kind of model."""

    heading: ClassVar[str] = "Machine"

    device: str = option("", "Where models run: cpu, cuda, cuda:1, mps. Default: NLGAUGE_DEVICE, or cpu.")
    batch_size: int = option(0, "Texts that a model takes at once; 0: its default.", metavar="N")
    threads: int = option(0, "Threads of a model; 0: torch's default.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.batch_size >= 0, "batch_size", self.batch_size, "0 (the default) or more")
        check_that(self.threads >= 0, "threads", self.threads, "0 (the default) or more")

    @classmethod
    def from_environment(cls) -> Machine:
        """From `NLGAUGE_DEVICE`, `NLGAUGE_BATCH_SIZE` and `NLGAUGE_THREADS`, so that worker processes use the same."""
        found: dict[str, Any] = {"device": "cpu"}
        for name, variable in _VARIABLES.items():
            value = os.environ.get(variable, "")
            if value and name != "device" and not value.isdecimal():
                raise OptionError(f"{variable} is '{value}'; expected a whole number, 0 for the default")
            if value:
                found[name] = value if name == "device" else int(value)
        return cls(**found)

    @contextmanager
    def used(self) -> Iterator[Machine]:
        """Models loaded in this block use these options, in worker processes, too; defaults change nothing."""
        before = {variable: os.environ[variable] for variable in _VARIABLES.values() if variable in os.environ}
        self.use()
        try:
            yield self.from_environment()
        finally:
            for variable in _VARIABLES.values():
                os.environ.pop(variable, None)
            os.environ.update(before)

    def use(self) -> None:
        """Make this the machine of every model that is loaded from now on, in worker processes too."""
        for name, variable in _VARIABLES.items():
            if value := getattr(self, name):
                os.environ[variable] = str(value)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of a model's constructor."""
        return {name: value for name in _VARIABLES if (value := getattr(self, name))}


@lru_cache
def _loader(kind: Callable[..., R], kept: int) -> Callable[..., R]:
    return lru_cache(kept)(lambda machine, *given, **named: kind(*given, **named, **machine.options))


def shared(kind: Callable[..., R], *given: Any, kept: int = 2, **named: Any) -> R:
    """What `kind` makes of these arguments and the machine of the environment; the last `kept` are cached."""
    found: R = _loader(kind, kept)(Machine.from_environment(), *given, **named)
    return found


def load_folder(
    folder: Path, auto_class: str, what: str, device: str, dtype: str = "float32", *, optional: str = "\0"
) -> tuple[Any, Any]:
    """The tokeniser and the model of a folder, as a class of transformers loads it; no code of the folder runs.

    Every weight is required, in safetensors, but for those with `optional` in their name.
    """
    torch = import_torch(what)
    import transformers

    from nlgauge.models.training.run import check_trained

    check_trained(folder)
    if not any(folder.glob("*.safetensors")):
        raise ModelError(
            f"{folder}: no weights in .safetensors; expected them, since unpickling other formats runs code; convert "
            "them if you trust them"
        )
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **SAFE)
        model, facts = getattr(transformers, auto_class).from_pretrained(
            folder, use_safetensors=True, dtype=getattr(torch, dtype), output_loading_info=True, **SAFE
        )
        model = model.eval().to(device)
    except Exception as error:  # transformers and safetensors raise many unrelated kinds
        raise cannot_load(folder, what, device, error) from error
    if missing := sorted(name for name in facts["missing_keys"] if optional not in name):
        raise ModelError(
            f"{folder}: {len(missing)} weights are missing ({missing[0]}, …), which would be random; expected {what} "
            "with all of them; fetch or train the model again"
        )
    return tokenizer, model


def cannot_load(folder: Path, what: str, device: str, error: Exception) -> ModelError:
    """The error for a model that transformers cannot load, in one line."""
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ModelError(
        f"{folder}: cannot be loaded as {what}: {reason}; expected a folder as transformers saves it, and a device "
        f"that exists (found '{device}')"
    )


def out_of_memory(error: Exception) -> bool:
    """Whether a failure means that memory ran out, on any device."""
    return isinstance(error, MemoryError) or bool(_NO_MEMORY.search(str(error)))


def import_torch(what: str, threads: int = 0) -> Any:
    """The torch module, with transformers' progress bars and warnings off; `what` names the caller. 0: its threads."""
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
    if threads:
        torch.set_num_threads(threads)
    return torch
