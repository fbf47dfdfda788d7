"""Sentence and token embeddings: each distinct text once, in batches of similar length, cached on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import MissingExtra, ModelError, OptionError
from nlgauge.models.encoders.encoding import LOADING_ERRORS, CachedModel, halving, identity_with, window_of
from nlgauge.models.fetch import model_identity, resolve_model
from nlgauge.models.runtime import SAFE, cannot_load, import_torch, shared


@dataclass(frozen=True)
class TokenVectors:
    """A text's token embeddings, one row per token, and which tokens the tokeniser added ([CLS], [SEP])."""

    vectors: Array
    special: Array


class Embedder(CachedModel):
    """Embeddings from a sentence-transformers or transformers folder.

    A `dtype` other than float32 gives other results, so it is part of `identity`. A text beyond the model's window is
    cut there, as the model's authors do. A plain transformers encoder gives the mean of its last layer as a sentence
    embedding.
    """

    def __init__(self, spec: str, *, dtype: str = "float32", **machine: Any) -> None:
        super().__init__("embeddings", identity_with(spec, dtype), resolve_model(spec), dtype=dtype, **machine)

    def encode(self, texts: Sequence[str]) -> Array:
        """One vector per text, as the model gives it (float32)."""
        rows = self._numbers(texts, str.encode, self._encode)
        return np.stack(rows) if rows else np.empty((0, 0), np.float32)

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
            network, tokenizer = self._network(), self._tokenizer
            layers = int(network.config.num_hidden_layers)
            if not -layers - 1 <= layer <= layers:
                raise OptionError(f"layer {layer} of {self.identity}; expected 0 to {layers}, or -1 for the last")
            edges = {tokenizer.cls_token_id, tokenizer.sep_token_id}

            def run(inputs: Any, rows: list[dict[str, Any]]) -> list[TokenVectors]:
                hidden = network(**inputs, output_hidden_states=True).hidden_states[layer].float().cpu().numpy()
                real = inputs["attention_mask"].bool().cpu().numpy()
                return [TokenVectors(hidden[k][real[k]], _special(row, edges)) for k, row in enumerate(rows)]

            distinct = list(dict.fromkeys(texts))
            found = self._read(tokenizer, distinct, window_of(network, tokenizer), run)
            self._check_finite([one.vectors for one in found], distinct)
            self._check_unchanged()
        by_text = dict(zip(distinct, found, strict=True))
        return [by_text[text] for text in texts]

    def _encode(self, texts: list[str]) -> Array:
        """Encode, with half the batch if memory runs out."""

        def run(size: int) -> Array:
            found: Array = self._model.encode(texts, batch_size=size, convert_to_numpy=True, show_progress_bar=False)
            return found.astype(np.float32, copy=False)

        found = halving(run, self._batch_size, self.identity)
        self._check_finite(list(found), texts)
        return found

    @cached_property
    def _model(self) -> Any:
        torch = import_torch("embedding texts", self._threads)
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingExtra.needs("embedding texts", "models") from error
        try:
            model = SentenceTransformer(
                str(self._folder),
                device=self._device,
                model_kwargs={"use_safetensors": True, "dtype": getattr(torch, self._dtype)},
                **SAFE,
            )
        except LOADING_ERRORS as error:
            raise cannot_load(self._folder, "an embedding model", self._device, error) from error
        if not (self._folder / "modules.json").exists():
            _refuse_random_weights(self._folder)
        return model

    def _network(self) -> Any:
        """The transformer inside the model."""
        first = self._model[0]
        network = getattr(first, "auto_model", None) or getattr(first, "model", None)
        if not hasattr(network, "config"):
            raise ModelError(
                f"{self.identity} begins with a {type(first).__name__}, which reads words without their context; "
                "expected a transformer"
            )
        return network

    @cached_property
    def _tokenizer(self) -> Any:
        """The folder's own tokeniser: sentence-transformers sets another window on its copy."""
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self._folder, **SAFE)


def _refuse_random_weights(folder: Path) -> None:
    """Transformers fills weights that a folder lacks with random numbers; only the unused pooler may be missing."""
    from transformers import AutoModel

    _, facts = AutoModel.from_pretrained(folder, use_safetensors=True, output_loading_info=True, **SAFE)
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
    return shared(Embedder, model_identity(spec), kept=4)
