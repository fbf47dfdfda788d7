"""Perturbations: controlled changes of texts that make them worse or keep their quality. No tests of metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nlgauge.perturb.base import Edit, Perturbation, Perturbed, Unchanged, edited
    from nlgauge.perturb.corpus import Corpus
    from nlgauge.perturb.registry import create_perturbation, perturbation_names, register_perturbation
    from nlgauge.perturb.story import Story

__all__ = [
    "Corpus",
    "Edit",
    "Perturbation",
    "Perturbed",
    "Story",
    "Unchanged",
    "create_perturbation",
    "edited",
    "perturbation_names",
    "register_perturbation",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'nlgauge.perturb' has no attribute '{name}'")
    from nlgauge.perturb import base, registry

    return getattr(registry if name in vars(registry) else base, name)
