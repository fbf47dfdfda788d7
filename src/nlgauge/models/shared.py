"""One loaded language model for everybody in the process who names it, and a memory of what it has scored."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np

from nlgauge.engine.store import BlobStore
from nlgauge.models.fetch import model_identity
from nlgauge.models.language import LanguageModel, TokenLogprobs, load_language_model
from nlgauge.models.runtime import Machine

_KEPT_EVERY = 64
_lock = threading.Lock()


def load_shared(spec: str) -> LanguageModel:
    """The model that everybody in this process shares, loaded on first use."""
    return _load_on(spec, Machine.from_environment())


@lru_cache(maxsize=2)
def _load_on(spec: str, machine: Machine) -> LanguageModel:
    return load_language_model(spec, **machine.options)


def _is_endpoint(spec: str) -> bool:
    return spec.startswith(("http://", "https://"))


def language_model_identity(spec: str) -> str:
    """`name@hash` for local models; an endpoint, whose weights cannot be seen, is just named."""
    if _is_endpoint(spec):
        return spec
    if spec.startswith(("ngram:", "bm25:")):
        name = spec.partition("@")[0]
        with _lock:
            return f"{name}@{load_shared(name).fingerprint}"
    return model_identity(spec)


def score_texts(
    spec: str, prompts: Sequence[str], texts: Sequence[Sequence[str]], *, with_end: bool = False
) -> list[list[TokenLogprobs]]:
    """Log-probabilities of texts under prompts by a named model.

    What was scored before comes from disk, a few prompts at a time, so that a killed run loses little. Callers in
    several threads take turns.
    """
    name = spec if _is_endpoint(spec) else spec.partition("@")[0]
    identity = language_model_identity(spec)
    store = BlobStore(f"logprobs-{hashlib.blake2b(identity.encode(), digest_size=8).hexdigest()}")
    keys = [[_key(prompt, text, with_end) for text in group] for prompt, group in zip(prompts, texts, strict=True)]
    known = store.get_many(list({key for group in keys for key in group}))
    todo = [i for i, group in enumerate(keys) if any(key not in known for key in group)]
    with _lock:
        for start in range(0, len(todo), _KEPT_EVERY):
            part = todo[start : start + _KEPT_EVERY]
            groups = [[j for j, key in enumerate(keys[i]) if key not in known] for i in part]
            chosen = [[texts[i][j] for j in group] for i, group in zip(part, groups, strict=True)]
            scored = load_shared(name).score([prompts[i] for i in part], chosen, with_end=with_end)
            fresh = {
                keys[i][j]: _pack(result)
                for i, group, results in zip(part, groups, scored, strict=True)
                for j, result in zip(group, results, strict=True)
            }
            store.put_many(fresh.items())
            known |= fresh
    return [[_unpack(known[key]) for key in group] for group in keys]


def _key(prompt: str, text: str, with_end: bool) -> bytes:
    about = msgspec.json.encode([prompt, text, with_end])
    return hashlib.blake2b(about, digest_size=16).digest()


def _pack(result: TokenLogprobs) -> bytes:
    return msgspec.msgpack.encode((result.tokens, result.logprobs.tobytes()))


def _unpack(data: bytes) -> TokenLogprobs:
    tokens, values = msgspec.msgpack.decode(data, type=tuple[tuple[str, ...], bytes])
    return TokenLogprobs(tokens, np.frombuffer(values, np.float64))
