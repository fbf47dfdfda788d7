"""One loaded language model per spec, shared within the process, and a cache of its scores."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec
import numpy as np

from nlgauge.engine.blobs import BlobStore
from nlgauge.errors import ModelError
from nlgauge.models.fetch import model_identity
from nlgauge.models.language.base import LanguageModel, Sampling, TokenLogprobs, check_finite, load_language_model
from nlgauge.models.runtime import shared

_KEPT_EVERY = 64
_WITHOUT_FOLDER = ("http://", "https://", "ngram:", "bm25:")
_lock = threading.RLock()


def load_shared(spec: str) -> LanguageModel:
    """The model shared within this process, loaded on first use; one whose folder has changed is loaded again."""
    if spec.startswith(_WITHOUT_FOLDER):
        return shared(load_language_model, spec)
    return shared(_load_identified, spec, model_identity(spec))


def _load_identified(spec: str, identity: str, **machine: Any) -> LanguageModel:  # noqa: ARG001 - has the hash
    return load_language_model(spec, **machine)


def _is_endpoint(spec: str) -> bool:
    return spec.startswith(("http://", "https://"))


def loaded_model(model: str | LanguageModel) -> LanguageModel:
    """A model that is loaded already, or the shared one of this name; a hash after the name is left out."""
    if isinstance(model, LanguageModel):
        return model
    return load_shared(model if _is_endpoint(model) else model.partition("@")[0])


def language_model_identity(spec: str | LanguageModel) -> str:
    """`name@hash` for local models; an endpoint, whose weights cannot be seen, is just named."""
    if isinstance(spec, LanguageModel):
        return f"{spec.name}@{spec.fingerprint}" if spec.fingerprint else spec.name
    if _is_endpoint(spec):
        return spec
    if spec.startswith(("ngram:", "bm25:")):
        name = spec.partition("@")[0]
        with _lock:
            return f"{name}@{load_shared(name).fingerprint}"
    return model_identity(spec)


class Memory:
    """Answers of a model, on disk under its identity, of which nothing is kept once the model has changed.

    A loaded model that has neither a fingerprint nor an address has no memory.
    """

    def __init__(self, kind: str, model: str | LanguageModel) -> None:
        self._model, self._store = model, None
        if isinstance(model, LanguageModel) and not model.fingerprint and not _is_endpoint(model.name):
            return
        self._identity = language_model_identity(model)
        about = hashlib.blake2b(self._identity.encode(), digest_size=8).hexdigest()
        self._store = BlobStore(f"{kind}-{about}")

    def get(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """The answers that are known."""
        return {} if self._store is None else self._store.get_many(list(dict.fromkeys(keys)))

    def put(self, answers: Mapping[bytes, bytes]) -> None:
        """Keep answers."""
        if self._store is None:
            return
        if (found := language_model_identity(self._model)) != self._identity:
            raise ModelError(
                f"a model changed while it was in use: it is now {found}; expected {self._identity}, as when the run "
                "began; nothing of it was kept: run again"
            )
        self._store.put_many(answers.items())


def score_texts(
    spec: str | LanguageModel,
    prompts: Sequence[str],
    texts: Sequence[Sequence[str]],
    *,
    with_end: bool = False,
    sampling: Sampling | None = None,
) -> list[list[TokenLogprobs]]:
    """Log-probabilities of texts under prompts by a model, named or loaded; threads call it one after another.

    With `sampling`, they are those of writing the texts so, their end included. Scores are cached on disk, a few
    prompts at a time, so that a killed run loses little.
    """
    memory = Memory("logprobs", spec)
    how = with_end if sampling is None else asdict(sampling)
    keys = [[_key(prompt, text, how) for text in group] for prompt, group in zip(prompts, texts, strict=True)]
    known = memory.get(key for group in keys for key in group)
    todo = [i for i, group in enumerate(keys) if any(key not in known for key in group)]
    with _lock:
        for start in range(0, len(todo), _KEPT_EVERY):
            part = todo[start : start + _KEPT_EVERY]
            groups = [[j for j, key in enumerate(keys[i]) if key not in known] for i in part]
            chosen = [[texts[i][j] for j in group] for i, group in zip(part, groups, strict=True)]
            model, asked = loaded_model(spec), [prompts[i] for i in part]
            if sampling is None:
                scored = model.score(asked, chosen, with_end=with_end)
            else:
                scored = model.score_sampled(asked, chosen, sampling)
            named = spec if isinstance(spec, str) else spec.name
            for i, group, results in zip(part, groups, scored, strict=True):
                found = {(prompts[i], texts[i][j]): one for j, one in zip(group, results, strict=True)}
                check_finite(named, found, sampling=sampling)
            fresh = {
                keys[i][j]: msgspec.msgpack.encode((result.tokens, result.logprobs.tobytes()))
                for i, group, results in zip(part, groups, scored, strict=True)
                for j, result in zip(group, results, strict=True)
            }
            memory.put(fresh)
            known |= fresh
    return [[_unpack(known[key]) for key in group] for group in keys]


def _key(prompt: str, text: str, how: bool | dict[str, Any]) -> bytes:
    about = msgspec.json.encode([prompt, text, how])
    return hashlib.blake2b(about, digest_size=16).digest()


def _unpack(data: bytes) -> TokenLogprobs:
    tokens, values = msgspec.msgpack.decode(data, type=tuple[tuple[str, ...], bytes])
    return TokenLogprobs(tokens, np.frombuffer(values, np.float64))
