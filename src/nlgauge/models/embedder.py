"""Sentence and token embeddings: each distinct text once, in batches of like length, remembered on disk."""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from nlgauge.arrays import Array
from nlgauge.engine.store import BlobStore
from nlgauge.errors import MissingExtra, ModelError
from nlgauge.models.fetch import model_identity, resolve_model
from nlgauge.models.runtime import import_torch

_KEPT_EVERY = 4096


class Embedder:
    """Embeddings from a sentence-transformers or transformers folder.

    `device`, `batch_size` and `threads` change the speed but not the result (to about 1e-6). A text beyond the model's
    window is cut there, as the model's authors do.
    """

    def __init__(self, spec: str, *, device: str = "cpu", batch_size: int = 64, threads: int = 0) -> None:
        self.identity = model_identity(spec)
        self._folder = resolve_model(spec)
        self._device, self._batch_size, self._threads = device, batch_size, threads
        self._store = BlobStore(f"embeddings-{self.identity.partition('@')[2]}")
        self._lock = threading.Lock()
        self._model: Any = None

    def encode(self, texts: Sequence[str]) -> Array:
        """One vector a text, as the model gives it (float32)."""
        keys = [hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest() for text in texts]
        distinct = dict(zip(keys, texts, strict=True))
        known = self._store.get_many(list(distinct))
        missing = [key for key in distinct if key not in known]
        with self._lock:
            for start in range(0, len(missing), _KEPT_EVERY):
                part = missing[start : start + _KEPT_EVERY]
                fresh = self._encode([distinct[key] for key in part])
                values = {key: row.tobytes() for key, row in zip(part, fresh, strict=True)}
                self._store.put_many(values.items())
                known |= values
        rows = {key: np.frombuffer(value, np.float32) for key, value in known.items()}
        return np.stack([rows[key] for key in keys]) if keys else np.empty((0, 0), np.float32)

    def token_embeddings(self, texts: Sequence[str], *, layer: int = -1) -> list[Array]:
        """One matrix a text with a row a token, special tokens aside, from one hidden layer."""
        import torch

        with self._lock:
            transformer: Any = self._load()[0]
            found: list[Array] = []
            for text in texts:
                inputs = transformer.tokenizer(
                    text, return_tensors="pt", truncation=True, return_special_tokens_mask=True
                )
                special = inputs.pop("special_tokens_mask")[0].bool()
                with torch.inference_mode():
                    hidden = self._hidden(transformer, inputs.to(self._device), layer)
                found.append(hidden[0][~special].float().cpu().numpy())
        return found

    @staticmethod
    def _hidden(transformer: Any, inputs: Any, layer: int) -> Any:
        network = getattr(transformer, "auto_model", None) or transformer.model
        return network(**inputs, output_hidden_states=True).hidden_states[layer]

    def _encode(self, texts: list[str]) -> Array:
        """Encode, with half the batch when memory does not suffice."""
        import torch

        size = self._batch_size
        while True:
            try:
                found: Array = self._load().encode(
                    texts, batch_size=size, convert_to_numpy=True, show_progress_bar=False
                )
                return found.astype(np.float32, copy=False)
            except (torch.OutOfMemoryError, MemoryError) as error:
                if size == 1:
                    raise ModelError(f"{self.identity}: out of memory even with one text at a time") from error
                size //= 2
                warnings.warn(f"{self.identity}: out of memory; going on with batches of {size}", stacklevel=2)

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
                    model_kwargs={"use_safetensors": True},
                )
            except (OSError, ValueError) as error:
                raise ModelError(f"{self._folder}: cannot be loaded as an embedding model ({error})") from error
        return self._model


@lru_cache(maxsize=4)
def load_embedder(spec: str) -> Embedder:
    """An embedder with default settings, kept for the next call."""
    return Embedder(spec)
