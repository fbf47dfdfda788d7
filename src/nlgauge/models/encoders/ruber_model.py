"""RUBER, trained: how well a text fits its context, and how similar it is to a reference (Tao et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import ModelError, NLGaugeError
from nlgauge.models.encoders.encoding import CachedModel, in_batches, padded, tokenised
from nlgauge.models.encoders.pooled_reader import PooledReader, load_pooled_reader
from nlgauge.models.runtime import import_torch, shared
from nlgauge.models.training.data import PromptPair
from nlgauge.models.training.run import read_trained, set_head, trained_identity
from nlgauge.text.words import one_line, sentences

TASK = "ruber"
FIRST_SENTENCE, GIVEN = "first sentence", "given"


def story_pair(story: str) -> PromptPair:
    """The first sentence of a story as its context, and the rest."""
    first, *rest = sentences(story) or [""]
    return PromptPair(first, " ".join(rest))


class PairReading:
    """How the texts of pairs become vectors: computed before training, or by an encoder that is trained."""

    def __init__(self, reader: PooledReader, network: Any, tokenizer: Any, window: int) -> None:
        self.reader, self.network, self.tokenizer, self._window = reader, network, tokenizer, window

    def read(self, texts: Sequence[str]) -> list[Any]:
        """One vector or row of tokens per text; None for a text without a word."""
        lines = [one_line(text) for text in texts]
        if not lines:
            return []
        if self.tokenizer is None:
            return [None if np.isnan(row[0]) else row for row in self.reader.read(lines)]
        rows = tokenised(self.tokenizer, lines, self._window)
        return [row if line else None for row, line in zip(rows, lines, strict=True)]

    def logits(self, contexts: Sequence[Any], texts: Sequence[Any]) -> Any:
        """One logit per pair of results of `read`."""
        return self.network(self._vectors(contexts), self._vectors(texts))

    def _vectors(self, rows: Sequence[Any]) -> Any:
        import torch

        from nlgauge.models.encoders.networks import pool

        encoder = self.network.encoder
        if encoder is None:
            return torch.from_numpy(np.stack(rows)).to(self.network.form.device)
        inputs = padded(self.tokenizer, rows, str(encoder.device))
        return pool(encoder(**inputs)[0], inputs["attention_mask"], self.reader.pooling)


class Range(NamedTuple):
    """The range of scores in training; scores are scaled linearly to it."""

    low: float
    high: float

    def place(self, values: Array) -> Array:
        """Scaled scores, clipped to 0 and 1."""
        placed: Array = np.clip((values - self.low) / (self.high - self.low), 0.0, 1.0)
        return placed


class RuberModel(CachedModel):
    """A folder that `nlgauge train ruber` made.

    The ranges that make both parts comparable were fixed by the training texts, so that a score never depends on the
    other texts that are scored. The encoder or the word vectors must exist on this machine, with the same weights.
    """

    number = np.float64

    def __init__(self, spec: str, **machine: Any) -> None:
        super().__init__(TASK, trained_identity(spec, TASK), Path(spec.partition("@")[0]), **machine)
        card = read_trained(self._folder, TASK)
        self._run = card.run
        ranges = card.measures["ranges"] if isinstance(card.measures, dict) else {}
        if set(ranges) != {"referenced", "unreferenced"}:
            raise ModelError(f"{self._folder}: its card has no ranges of scores; expected both; train the model again")
        self.ranges = {part: Range(*ends) for part, ends in ranges.items()}
        try:
            self.reader = load_pooled_reader(self._run["reader"], self._run["pooling"])
        except NLGaugeError as error:
            raise ModelError(
                f"{self._folder}: was trained with {self._run['reader']}, which is not available: {error}"
            ) from error

    @property
    def contexts(self) -> str:
        """Where contexts came from in training: given, or the first sentence of each story."""
        return str(self._run["contexts"])

    def unreferenced(self, pairs: Sequence[PromptPair]) -> Array:
        """The probability that each text belongs to its context; NaN if either has no word."""
        return np.ravel(self._numbers(pairs, msgspec.json.encode, self._probabilities))

    def referenced(self, texts: Sequence[str], references: Sequence[str]) -> Array:
        """The cosine of the pooled vectors of each text and its reference; NaN if either has no word."""
        one, other = (
            self.reader.read([one_line(text) for text in side]).astype(np.float64) for side in (texts, references)
        )
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        cosines: Array = (one * other).sum(axis=1) / lengths
        return cosines

    def _probabilities(self, pairs: list[PromptPair]) -> Array:
        reading = self._reading
        contexts, texts = (reading.read(side) for side in zip(*pairs, strict=True))
        order = [i for i in range(len(pairs)) if contexts[i] is not None and texts[i] is not None]
        order.sort(key=lambda i: (len(pairs[i].text), pairs[i]))

        def run(batch: Sequence[int]) -> list[float]:
            logits = reading.logits([contexts[i] for i in batch], [texts[i] for i in batch])
            return list(logits.double().sigmoid().cpu().numpy())

        values = np.full(len(pairs), np.nan)
        values[order] = in_batches(order, run, self._batch_size, self.identity)
        self._check_finite(list(values[order]), [pairs[i] for i in order])
        return values

    @cached_property
    def _reading(self) -> PairReading:
        import_torch(TASK, self._threads)
        from nlgauge.models.encoders.networks import PairNetwork, load_encoder

        tokenizer, encoder = load_encoder(self._folder, self._device) if self._run["tune"] else (None, None)
        network = PairNetwork(int(self._run["size"]), hidden=int(self._run["hidden"]))
        set_head(network, self._folder)
        network.encoder = encoder
        network.to(self._device).eval()
        return PairReading(self.reader, network, tokenizer, int(self._run["window"]))


def load_ruber(spec: str) -> RuberModel:
    """A model on the device of the environment, cached for the next call."""
    return shared(RuberModel, trained_identity(spec, TASK))
