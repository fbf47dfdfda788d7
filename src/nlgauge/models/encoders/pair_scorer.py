"""Cross-encoders: models that score two texts together; each pair once, cached on disk."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

import msgspec
import numpy as np

from nlgauge.arrays import Array
from nlgauge.engine.blobs import BlobStore
from nlgauge.errors import ModelError, OptionError, UnknownName
from nlgauge.models.encoders.encoding import (
    identity_with,
    in_batches,
    padded,
    remembered,
    tokenised,
    window_of,
)
from nlgauge.models.fetch import resolve_model
from nlgauge.models.runtime import Machine, cannot_load, import_torch, load_folder

TextPair = tuple[str, str]
Output = Literal["auto", "raw", "sigmoid", "softmax"]

_WHAT = "a sequence classifier"
_ACTIVATIONS = {"Sigmoid": "sigmoid", "Identity": "raw"}


class PairScorer:
    """Scores of ordered pairs of texts by a sequence classifier: STS regression, NLI, BLEURT and the like.

    `output` is the activation applied to the model's logits. `auto` is what sentence-transformers does for a model with
    one number (the activation that its settings name, else a sigmoid), and the probability of `label` for a model with
    several; BLEURT and other plain regressions require `raw`. A model with several labels needs `label`.

    A pair beyond the window is cut as the tokeniser does it: tokens are removed from the end of the longer text, one by
    one, until both fit. `device`, `batch_size` and `threads` change the speed but not the result (to about 1e-6).
    """

    def __init__(
        self,
        spec: str,
        *,
        output: Output = "auto",
        label: str = "",
        device: str = "cpu",
        batch_size: int = 64,
        threads: int = 0,
        dtype: str = "float32",
    ) -> None:
        if output not in get_args(Output):
            raise OptionError(f"output is {output!r}; expected one of {', '.join(get_args(Output))}")
        self.identity = identity_with(spec, dtype)
        self.output, self.label = output, label
        self._folder = resolve_model(spec)
        self._device, self._batch_size, self._threads, self._dtype = device, batch_size, threads, dtype
        self._store = BlobStore(f"pairs-{self.identity.partition('@')[2]}")
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    @cached_property
    def labels(self) -> dict[int, str]:
        """The model's labels by index, as its settings name them; reading them loads no weights."""
        return {int(place): str(name) for place, name in self._config.id2label.items()}

    @cached_property
    def _config(self) -> Any:
        import_torch(_WHAT)
        from transformers import AutoConfig

        try:
            return AutoConfig.from_pretrained(self._folder, local_files_only=True, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise cannot_load(self._folder, _WHAT, self._device, error) from error

    def score(self, pairs: Sequence[TextPair]) -> Array:
        """One number per pair, in order; (a, b) and (b, a) are two pairs."""
        activation, place = self._activation(), self._place()
        return _activated(self.logits(pairs), activation, place)

    def logits(self, pairs: Sequence[TextPair]) -> Array:
        """The output of the model's head: one row per pair, one column per label."""
        keys = [hashlib.blake2b(msgspec.json.encode(pair), digest_size=16).digest() for pair in pairs]
        distinct = dict(zip(keys, pairs, strict=True))
        with self._lock:
            known = remembered(self._store, distinct, self._run)
        return np.array([np.frombuffer(known[key], np.float32) for key in keys]).reshape(len(keys), len(self.labels))

    def _run(self, pairs: list[TextPair]) -> list[Array]:
        model, tokenizer = self._load()
        rows = tokenised(tokenizer, pairs, window_of(model, tokenizer))
        order = sorted(range(len(rows)), key=lambda i: (-len(rows[i]["input_ids"]), pairs[i]))

        def run(batch: Sequence[int]) -> list[Array]:
            inputs = padded(tokenizer, [rows[i] for i in batch], self._device)
            return list(model(**inputs).logits.float().cpu().numpy())

        found = dict(zip(order, in_batches(order, run, self._batch_size, self.identity), strict=True))
        values = [found[i] for i in range(len(pairs))]
        if not np.isfinite(values).all():
            raise ModelError(f"{self.identity} gives values that are not numbers; expected numbers; use dtype float32")
        return values

    def _place(self) -> int:
        """The column of the requested label."""
        if len(self.labels) == 1:
            if self.label:
                raise OptionError(f"{self.identity} gives one number and has no label '{self.label}'; leave it out")
            return 0
        if not self.label:
            names = ", ".join(self.labels.values())
            raise OptionError(f"{self.identity} has {len(self.labels)} labels ({names}); name the one to score by")
        places = {name.lower(): place for place, name in self.labels.items()}
        if self.label.lower() not in places:
            raise UnknownName.among(f"label of {self.identity}", self.label, self.labels.values())
        return places[self.label.lower()]

    def _activation(self) -> str:
        """`raw`, `sigmoid` or `softmax`."""
        if self.output != "auto":
            if self.output == "softmax" and len(self.labels) == 1:
                raise OptionError(f"{self.identity} gives one number, whose softmax is always 1; use raw or sigmoid")
            return self.output
        if len(self.labels) > 1:
            return "softmax"
        settings = getattr(self._config, "sentence_transformers", None) or {}
        named = settings.get("activation_fn") or getattr(self._config, "sbert_ce_default_activation_function", None)
        if named is None:
            return "sigmoid"
        kind = str(named).rpartition(".")[2]
        if kind not in _ACTIVATIONS:
            raise ModelError(f"{self.identity} asks for the activation {named}; expected a known one: use output=raw")
        return _ACTIVATIONS[kind]

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            torch = import_torch(_WHAT)
            if self._threads:
                torch.set_num_threads(self._threads)
            tokenizer, model = load_folder(
                self._folder, "AutoModelForSequenceClassification", _WHAT, self._device, self._dtype
            )
            self._loaded = model, tokenizer
        return self._loaded


def _activated(logits: Array, activation: str, place: int) -> Array:
    from scipy.special import expit, softmax

    values = logits.astype(np.float64)
    if activation == "softmax":
        chosen: Array = softmax(values, axis=1)[:, place]
    else:
        chosen = expit(values[:, place]) if activation == "sigmoid" else values[:, place]
    return chosen


def load_pair_scorer(spec: str, output: Output = "auto", label: str = "") -> PairScorer:
    """A scorer on the device of the environment, cached for the next call."""
    return _load_on(spec, output, label, Machine.from_environment())


@lru_cache(maxsize=2)
def _load_on(spec: str, output: Output, label: str, machine: Machine) -> PairScorer:
    return PairScorer(spec, output=output, label=label, **machine.options)
