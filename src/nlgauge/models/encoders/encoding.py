"""Shared by encoders of texts and of pairs: cached numbers, tokens, and batches that shrink if memory runs out."""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nlgauge.arrays import Array
from nlgauge.engine.blobs import BlobStore
from nlgauge.errors import ModelError, OptionError
from nlgauge.models.fetch import model_identity
from nlgauge.models.identity import check_unchanged
from nlgauge.models.language.base import DTYPES, excerpt
from nlgauge.models.runtime import out_of_memory

R = TypeVar("R")
T = TypeVar("T")

LOADING_ERRORS = (OSError, ValueError, RuntimeError, AssertionError)  # a torch without CUDA raises the last
_KEPT_EVERY = 4096
_SURELY_NO_WINDOW = 1_000_000


def identity_with(spec: str, dtype: str) -> str:
    """`name@hash` of a model; a dtype other than float32 changes results and is part of it."""
    if dtype not in DTYPES:
        raise OptionError(f"dtype is {dtype!r}; expected one of {', '.join(DTYPES)}")
    identity = model_identity(spec)
    return identity if dtype == DTYPES[0] else f"{identity}-{dtype}"


class CachedModel:
    """A model whose numbers are computed once for each distinct input, and cached on disk; loaded when first needed.

    Its identity is that of its folder when it is made; when the folder has changed since, nothing is kept.
    `device`, `batch_size` and `threads` change the speed but not the result (to about 1e-6).
    """

    number: type = np.float32

    def __init__(
        self,
        kind: str,
        identity: str,
        folder: Path,
        *,
        device: str = "cpu",
        batch_size: int = 64,
        threads: int = 0,
        dtype: str = DTYPES[0],
    ) -> None:
        self.identity = identity
        self._folder, self._device, self._batch_size, self._dtype = folder, device, batch_size, dtype
        self._threads = threads
        self._store = BlobStore(f"{kind}-{identity.rpartition('@')[2]}")
        self._lock = threading.Lock()

    def _numbers(
        self, items: Sequence[T], key: Callable[[T], bytes], compute: Callable[[list[T]], Iterable[Array]]
    ) -> list[Array]:
        """The numbers of each item, in order, cached under a hash of its key."""
        keys = [hashlib.blake2b(key(item), digest_size=16).digest() for item in items]

        def checked(some: list[T]) -> Iterable[Array]:
            found = compute(some)
            self._check_unchanged()
            return found

        with self._lock:
            known = remembered(self._store, dict(zip(keys, items, strict=True)), checked)
        return [np.frombuffer(known[key], self.number) for key in keys]

    def _check_unchanged(self) -> None:
        check_unchanged(self._folder, self.identity.rpartition("@")[2].partition("-")[0])

    def _check_finite(self, rows: Sequence[Array], inputs: Sequence[Any]) -> None:
        """An error for the first input whose numbers are not all finite."""
        for row, given in zip(rows, inputs, strict=True):
            if not np.isfinite(row).all():
                place = " and ".join(map(excerpt, (given,) if isinstance(given, str) else given))
                raise ModelError(
                    f"{self.identity} gives numbers that are not finite for {place}; expected finite ones; use dtype "
                    "float32, or get the model again if its weights are damaged"
                )

    def _read(self, tokenizer: Any, texts: Sequence[Any], window: int, run: Callable[..., list[R]]) -> list[R]:
        """Results of `run` for texts or pairs, in order: from batches of similar length, padded and as rows."""
        rows = tokenised(tokenizer, texts, window)
        order = sorted(range(len(rows)), key=lambda i: (-len(rows[i]["input_ids"]), texts[i]))

        def run_batch(batch: Sequence[int]) -> list[R]:
            some = [rows[i] for i in batch]
            return run(padded(tokenizer, some, self._device), some)

        found = dict(zip(order, in_batches(order, run_batch, self._batch_size, self.identity), strict=True))
        return [found[i] for i in range(len(rows))]


def remembered(
    store: BlobStore, wanted: Mapping[bytes, T], compute: Callable[[list[T]], Iterable[Array]]
) -> dict[bytes, bytes]:
    """The numbers of every item: from the cache on disk; the rest is computed and cached part by part."""
    known = store.get_many(list(wanted))
    missing = [key for key in wanted if key not in known]
    for start in range(0, len(missing), _KEPT_EVERY):
        part = missing[start : start + _KEPT_EVERY]
        found = compute([wanted[key] for key in part])
        fresh = {key: row.tobytes() for key, row in zip(part, found, strict=True)}
        store.put_many(fresh.items())
        known |= fresh
    return known


def tokenised(tokenizer: Any, texts: Sequence[Any], window: int) -> list[dict[str, Any]]:
    """What the model reads for each text or pair of texts, cut at the window, not yet padded."""
    pairs = [(text, None) if isinstance(text, str) else text for text in texts]
    second = None if pairs[0][1] is None else [other for _, other in pairs]
    found = tokenizer(
        [one for one, _ in pairs],
        second,
        truncation="longest_first",
        max_length=window,
        return_special_tokens_mask=True,
        verbose=False,
    )
    return [{name: values[i] for name, values in found.items()} for i in range(len(pairs))]


def padded(tokenizer: Any, rows: Sequence[dict[str, Any]], device: str) -> Any:
    """Rows of tokens as padded tensors on a device."""
    if tokenizer.pad_token is None:
        raise ModelError(
            f"{tokenizer.name_or_path}: the tokeniser has no padding token; expected one, as encoders have"
        )
    inputs = [{name: value for name, value in row.items() if name != "special_tokens_mask"} for row in rows]
    return tokenizer.pad(inputs, return_tensors="pt", verbose=False).to(device)


def window_of(network: Any, tokenizer: Any) -> int:
    """The number of tokens: the tokeniser's limit, at most the number of positions; 512 if both are unknown."""
    limits = [limit] if (limit := tokenizer.model_max_length) < _SURELY_NO_WINDOW else []
    if isinstance(places := getattr(network.config, "max_position_embeddings", None), int) and places > 0:
        embeddings = getattr(network.base_model, "embeddings", None)
        padding = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
        limits.append(places if padding is None else places - padding - 1)
    return min(limits, default=512)


def in_batches(items: Sequence[int], run: Callable[[Sequence[int]], list[R]], size: int, name: str) -> list[R]:
    """Results of `run` over batches of items, without gradients, in smaller batches if memory runs out."""
    import torch

    results: list[R] = []

    def run_all(size: int) -> list[R]:
        with torch.inference_mode():
            while len(results) < len(items):
                results.extend(run(items[len(results) : len(results) + size]))
        return results

    return halving(run_all, size, name)


def halving(run: Callable[[int], R], size: int, name: str) -> R:
    """`run(size)`, repeated with half the size whenever memory runs out."""
    while True:
        try:
            return run(size)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            if size == 1:
                raise ModelError(f"{name}: out of memory even with one text at a time") from error
            size //= 2
            warnings.warn(f"{name}: out of memory; continuing with batches of {size}", stacklevel=2)
