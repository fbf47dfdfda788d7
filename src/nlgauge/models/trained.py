"""Folders of trained metrics: known for what they are, or refused, and the weights that they hold beside an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nlgauge.errors import ModelError
from nlgauge.models.fetch import model_identity
from nlgauge.models.training_run import read_trained

HEAD = "model_head.safetensors"


def trained_identity(spec: str, task: str) -> str:
    """`folder@hash` of a model that `nlgauge train TASK` made; an error says what else it is."""
    folder = Path(spec.partition("@")[0])
    read_trained(folder, task)
    if not (folder / HEAD).is_file():
        raise ModelError(f"{folder}: has no {HEAD}; expected the weights that training wrote; train the model again")
    return model_identity(spec)


def save_head(folder: Path, weights: Mapping[str, Any]) -> None:
    """Write what a network has beside its encoder."""
    from safetensors.torch import save_file

    save_file({name: value.detach().cpu().contiguous() for name, value in weights.items()}, folder / HEAD)


def set_head(module: Any, folder: Path) -> None:
    """Read what `save_head` wrote into a module."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        module.load_state_dict(load_file(folder / HEAD))
    except (SafetensorError, OSError, RuntimeError) as error:
        raise ModelError(
            f"{folder / HEAD}: cannot be loaded ({str(error).splitlines()[0]}); expected what training wrote; train "
            "the model again"
        ) from error
