"""Cross-encoders: models that score two texts together; each pair once, cached on disk."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, get_args

import msgspec
import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import ModelError, OptionError, UnknownName
from nlgauge.models.encoders.encoding import CachedModel, identity_with, window_of
from nlgauge.models.fetch import model_identity, resolve_model
from nlgauge.models.runtime import SAFE, cannot_load, import_torch, load_folder, shared

TextPair = tuple[str, str]
Output = Literal["auto", "raw", "sigmoid", "softmax"]

_WHAT = "a sequence classifier"
_ACTIVATIONS = {"Sigmoid": "sigmoid", "Identity": "raw"}


class PairScorer(CachedModel):
    """Scores of ordered pairs of texts by a sequence classifier: STS regression, NLI, BLEURT and the like.

    `output` is the activation applied to the model's logits. `auto` is what sentence-transformers does for a model with
    one number (the activation that its settings name, else a sigmoid), and the probability of `label` for a model with
    several; BLEURT and other plain regressions require `raw`. A model with several labels needs `label`.

    A pair beyond the window is cut as the tokeniser does it: tokens are removed from the end of the longer text, one by
    one, until both fit.
    """

    def __init__(
        self,
        spec: str,
        *,
        output: Output = "auto",
        label: str = "",
        dtype: str = "float32",
        **machine: Any,
    ) -> None:
        if output not in get_args(Output):
            raise OptionError(f"output is {output!r}; expected one of {', '.join(get_args(Output))}")
        super().__init__("pairs", identity_with(spec, dtype), resolve_model(spec), dtype=dtype, **machine)
        self.output, self.label = output, label

    @cached_property
    def labels(self) -> dict[int, str]:
        """The model's labels by index, as its settings name them; reading them loads no weights."""
        return {int(place): str(name) for place, name in self._config.id2label.items()}

    @cached_property
    def _config(self) -> Any:
        import_torch(_WHAT)
        from transformers import AutoConfig

        try:
            return AutoConfig.from_pretrained(self._folder, **SAFE)
        except (OSError, ValueError) as error:
            raise cannot_load(self._folder, _WHAT, self._device, error) from error

    def score(self, pairs: Sequence[TextPair]) -> Array:
        """One number per pair, in order; (a, b) and (b, a) are two pairs."""
        from scipy.special import expit, softmax

        activation, place = self._activation(), self._place()
        values = self.logits(pairs).astype(np.float64)
        if activation == "softmax":
            values = softmax(values, axis=1)
        elif activation == "sigmoid":
            values = expit(values)
        return values[:, place]

    def logits(self, pairs: Sequence[TextPair]) -> Array:
        """The output of the model's head: one row per pair, one column per label."""
        rows = self._numbers(pairs, msgspec.json.encode, self._run)
        return np.array(rows).reshape(len(pairs), len(self.labels))

    def _run(self, pairs: list[TextPair]) -> list[Array]:
        tokenizer, model = self._loaded

        def run(inputs: Any, _rows: Any) -> list[Array]:
            return list(model(**inputs).logits.float().cpu().numpy())

        values = self._read(tokenizer, pairs, window_of(model, tokenizer), run)
        self._check_finite(values, pairs)
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

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        import_torch(_WHAT, self._threads)
        return load_folder(self._folder, "AutoModelForSequenceClassification", _WHAT, self._device, self._dtype)


def load_pair_scorer(spec: str, output: Output = "auto", label: str = "") -> PairScorer:
    """A scorer on the device of the environment, cached for the next call."""
    return shared(PairScorer, model_identity(spec), output=output, label=label)
