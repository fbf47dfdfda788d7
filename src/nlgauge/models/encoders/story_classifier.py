"""UNION's classifier, trained: the probability that a story is real, each distinct story once, cached on disk."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from nlgauge.arrays import Array
from nlgauge.engine.blobs import BlobStore
from nlgauge.models.encoders.encoding import in_batches, padded, remembered, tokenised
from nlgauge.models.runtime import Machine, import_torch
from nlgauge.models.training.run import read_trained, set_head, trained_identity
from nlgauge.text.words import one_line

TASK = "union"


class StoryClassifier:
    """A folder that `nlgauge train union` made. A story beyond the window of its training is cut there."""

    def __init__(self, spec: str, *, device: str = "cpu", batch_size: int = 64, threads: int = 0) -> None:
        self._folder = Path(spec.partition("@")[0])
        self._card = read_trained(self._folder, TASK)
        self.identity = trained_identity(spec, TASK)
        self._device, self._batch_size, self._threads = device, batch_size, threads
        self._store = BlobStore(f"union-{self.identity.rpartition('@')[2]}")
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def probabilities(self, stories: Sequence[str]) -> Array:
        """The probability that each story is real; NaN for an empty one."""
        lines = [one_line(story) for story in stories]
        keys = [hashlib.blake2b(line.encode("utf-8", "surrogatepass"), digest_size=16).digest() for line in lines]
        distinct = {key: line for key, line in zip(keys, lines, strict=True) if line}
        with self._lock:
            known = remembered(self._store, distinct, self._run)
        return np.array(
            [np.frombuffer(known[key], np.float64)[0] if key in known else np.nan for key in keys], dtype=np.float64
        )

    def _run(self, stories: list[str]) -> list[Array]:
        network, tokenizer = self._load()
        rows = tokenised(tokenizer, stories, int(self._card.run["window"]))
        order = sorted(range(len(rows)), key=lambda i: (-len(rows[i]["input_ids"]), stories[i]))

        def run(batch: Sequence[int]) -> list[Array]:
            logits, _ = network(padded(tokenizer, [rows[i] for i in batch], self._device))
            return list(logits.double().sigmoid().cpu().numpy())

        found = dict(zip(order, in_batches(order, run, self._batch_size, self.identity), strict=True))
        return [found[i] for i in range(len(stories))]

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            torch = import_torch("union")
            from nlgauge.models.encoders.networks import StoryNetwork, load_encoder

            if self._threads:
                torch.set_num_threads(self._threads)
            tokenizer, encoder = load_encoder(self._folder, self._device)
            network = StoryNetwork(encoder)
            set_head(network.head, self._folder)
            self._loaded = network.eval(), tokenizer
        return self._loaded


def load_story_classifier(spec: str) -> StoryClassifier:
    """A classifier on the device of the environment, cached for the next call."""
    return _load_on(trained_identity(spec, TASK), Machine.from_environment())


@lru_cache(maxsize=2)
def _load_on(spec: str, machine: Machine) -> StoryClassifier:
    return StoryClassifier(spec, **machine.options)
