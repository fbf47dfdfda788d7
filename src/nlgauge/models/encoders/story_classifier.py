"""UNION's classifier, trained: the probability that a story is real, each distinct story once, cached on disk."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nlgauge.arrays import Array
from nlgauge.models.encoders.encoding import CachedModel
from nlgauge.models.runtime import import_torch, shared
from nlgauge.models.training.run import read_trained, set_head, trained_identity
from nlgauge.text.words import one_line

TASK = "union"


class StoryClassifier(CachedModel):
    """A folder that `nlgauge train union` made. A story beyond the window of its training is cut there."""

    number = np.float64

    def __init__(self, spec: str, **machine: Any) -> None:
        folder = Path(spec.partition("@")[0])
        self._card = read_trained(folder, TASK)
        super().__init__(TASK, trained_identity(spec, TASK), folder, **machine)

    def probabilities(self, stories: Sequence[str]) -> Array:
        """The probability that each story is real; NaN for an empty one."""
        lines = [one_line(story) for story in stories]
        values = np.full(len(lines), np.nan)
        filled = [line for line in lines if line]
        values[[bool(line) for line in lines]] = np.ravel(self._numbers(filled, str.encode, self._run))
        return values

    def _run(self, stories: list[str]) -> list[Array]:
        tokenizer, network = self._loaded

        def run(inputs: Any, _rows: Any) -> list[Array]:
            return list(network(inputs)[0].double().sigmoid().cpu().numpy())

        values = self._read(tokenizer, stories, int(self._card.run["window"]), run)
        self._check_finite(values, stories)
        return values

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        import_torch(TASK, self._threads)
        from nlgauge.models.encoders.networks import StoryNetwork, load_encoder

        tokenizer, encoder = load_encoder(self._folder, self._device)
        network = StoryNetwork(encoder)
        set_head(network.head, self._folder)
        return tokenizer, network.eval()


def load_story_classifier(spec: str) -> StoryClassifier:
    """A classifier on the device of the environment, cached for the next call."""
    return shared(StoryClassifier, trained_identity(spec, TASK))
