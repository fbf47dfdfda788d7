"""Sentence and token embeddings: each distinct text once, in batches of similar length, cached on disk."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.engine.blobs import BlobStore
from nlgauge.errors import MissingExtra, ModelError, OptionError
from nlgauge.models.encoders.encoding import (
    LOADING_ERRORS,
    halving,
    identity_with,
    in_batches,
    padded,
    remembered,
    tokenised,
    window_of,
)
from nlgauge.models.fetch import resolve_model
from nlgauge.models.runtime import Machine, cannot_load, import_torch


@dataclass(frozen=True)
class TokenVectors:
    """A text's token embeddings, one row per token, and which tokens the tokeniser added ([CLS], [SEP])."""

    vectors: Array
    special: Array


class Embedder:
    """Embeddings from a sentence-transformers or transformers folder.

    `device`, `batch_size` and `threads` change the speed but not the result (to about 1e-6). A `dtype` other than
    float32 gives other results, so it is part of `identity`. A text beyond the model's window is cut there, as the
    model's authors do. A plain transformers encoder gives the mean of its last layer as a sentence embedding.
    """

    def __init__(
        self, spec: str, *, device: str = "cpu", batch_size: int = 64, threads: int = 0, dtype: str = "float32"
    ) -> None:
        self.identity = identity_with(spec, dtype)
        self._folder = resolve_model(spec)
        self._device, self._batch_size, self._threads, self._dtype = device, batch_size, threads, dtype
        self._store = BlobStore(f"embeddings-{self.identity.partition('@')[2]}")
        self._lock = threading.Lock()
        self._model: Any = None
        self._tokenizer: Any = None

    def encode(self, texts: Sequence[str]) -> Array:
        """One vector per text, as the model gives it (float32)."""
        keys = [hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest() for text in texts]
        distinct = dict(zip(keys, texts, strict=True))
        with self._lock:
            known = remembered(self._store, distinct, self._encode)
        rows = {key: np.frombuffer(value, np.float32) for key, value in known.items()}
        return np.stack([rows[key] for key in keys]) if keys else np.empty((0, 0), np.float32)

    def token_embeddings(
        self, texts: Sequence[str], *, layer: int = -1, special: Literal["drop", "keep"] = "drop"
    ) -> list[Array]:
        """One matrix per text with one row per token, from one hidden layer; `special` keeps special tokens."""
        found = self.token_vectors(texts, layer=layer)
        return [one.vectors if special == "keep" else one.vectors[~one.special] for one in found]

    def token_vectors(self, texts: Sequence[str], *, layer: int = -1) -> list[TokenVectors]:
        """Contextual embeddings (float32) of every token of each text, from one hidden layer.

        Layer 0 is the embedding of words, k the output of the k-th block, -1 the last. Texts are cut at the tokeniser's
        own limit (bert-score does the same), which can be more than what the model reads for sentence embeddings.
        """
        if not texts:
            return []
        with self._lock:
            network, tokenizer = self._network(), self._load_tokenizer()
            layers = int(network.config.num_hidden_layers)
            if not -layers - 1 <= layer <= layers:
                raise OptionError(f"layer {layer} of {self.identity}; expected 0 to {layers}, or -1 for the last")
            distinct = list(dict.fromkeys(texts))
            window = window_of(network, tokenizer)
            rows = tokenised(tokenizer, distinct, window)
            order = sorted(range(len(rows)), key=lambda i: (-len(rows[i]["input_ids"]), distinct[i]))
            edges = {tokenizer.cls_token_id, tokenizer.sep_token_id}

            def run(batch: Sequence[int]) -> list[TokenVectors]:
                inputs = padded(tokenizer, [rows[i] for i in batch], self._device)
                hidden = network(**inputs, output_hidden_states=True).hidden_states[layer].float().cpu().numpy()
                real = inputs["attention_mask"].bool().cpu().numpy()
                return [TokenVectors(hidden[k][real[k]], _special(rows[i], edges)) for k, i in enumerate(batch)]

            found = dict(zip(order, in_batches(order, run, self._batch_size, self.identity), strict=True))
        by_text = {text: found[i] for i, text in enumerate(distinct)}
        return [by_text[text] for text in texts]

    def _encode(self, texts: list[str]) -> Array:
        """Encode, with half the batch if memory runs out."""

        def run(size: int) -> Array:
            found: Array = self._load().encode(texts, batch_size=size, convert_to_numpy=True, show_progress_bar=False)
            return found.astype(np.float32, copy=False)

        return halving(run, self._batch_size, self.identity)

    def _load(self) -> Any:
        if self._model is None:
            torch = import_torch("embedding texts")
            try:
                from sentence_transformers import SentenceTransformer
            except ImportError as error:
                raise MissingExtra.needs("embedding texts", "models") from error
            if self._threads:
                torch.set_num_threads(self._threads)
            try:
                self._model = SentenceTransformer(
                    str(self._folder),
                    device=self._device,
                    local_files_only=True,
                    trust_remote_code=False,
                    model_kwargs={"use_safetensors": True, "dtype": getattr(torch, self._dtype)},
                )
            except LOADING_ERRORS as error:
                raise cannot_load(self._folder, "an embedding model", self._device, error) from error
            if not (self._folder / "modules.json").exists():
                _refuse_random_weights(self._folder)
        return self._model

    def _network(self) -> Any:
        """The transformer inside the model."""
        first = self._load()[0]
        network = getattr(first, "auto_model", None) or getattr(first, "model", None)
        if not hasattr(network, "config"):
            raise ModelError(
                f"{self.identity} begins with a {type(first).__name__}, which reads words without their context; "
                "expected a transformer"
            )
        return network

    def _load_tokenizer(self) -> Any:
        """The folder's own tokeniser: sentence-transformers sets another window on its copy."""
        if self._tokenizer is None:
            from transformers import AutoTokenizer

            self._tokenizer = AutoTokenizer.from_pretrained(
                self._folder, local_files_only=True, trust_remote_code=False
            )
        return self._tokenizer


def _refuse_random_weights(folder: Path) -> None:
    """Transformers fills weights that a folder lacks with random numbers; only the unused pooler may be missing."""
    from transformers import AutoModel

    _, facts = AutoModel.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, output_loading_info=True
    )
    if missing := sorted(name for name in facts["missing_keys"] if "pooler" not in name):
        raise ModelError(
            f"{folder}: {len(missing)} weights are missing ({missing[0]}, …); expected all; fetch the model again"
        )


def _special(row: dict[str, Any], edges: set[int | None]) -> Array:
    """Special tokens, added or literal in the text; bert-score gives them no weight either."""
    pairs = zip(row["special_tokens_mask"], row["input_ids"], strict=True)
    return np.array([bool(mask) or token in edges for mask, token in pairs], dtype=bool)


def load_embedder(spec: str) -> Embedder:
    """An embedder on the device of the environment, cached for the next call."""
    return _load_on(spec, Machine.from_environment())


@lru_cache(maxsize=4)
def _load_on(spec: str, machine: Machine) -> Embedder:
    return Embedder(spec, **machine.options)
