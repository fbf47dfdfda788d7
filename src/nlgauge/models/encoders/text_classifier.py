"""Classifiers of single texts with two labels, such as whether a sentence is grammatical; each text once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from nlgauge.arrays import Array
from nlgauge.errors import ModelError, UnknownName
from nlgauge.models.encoders.pair_scorer import PairScorer
from nlgauge.models.fetch import model_identity
from nlgauge.models.runtime import shared

_ACCEPTABLE = ("acceptable", "label_1")


class TextClassifier(PairScorer):
    """The probability of one of two labels, by any sequence classifier of transformers with safetensors.

    `label` is by default the one that the model calls acceptable or LABEL_1, as classifiers trained on CoLA do.
    """

    def __init__(self, spec: str, label: str = "", **machine: Any) -> None:
        super().__init__(spec, output="softmax", **machine)
        names = list(self.labels.values())
        if len(names) != 2:
            raise ModelError(
                f"{self.identity} has {len(names)} labels ({', '.join(names)}); expected a classifier with two, "
                "one of which means acceptable; name another model"
            )
        chosen = label or next((name for name in names if name.lower() in _ACCEPTABLE), "")
        if not chosen:
            raise ModelError(
                f"{self.identity} has the labels {' and '.join(names)}; expected LABEL_1 or acceptable among them; "
                f"name the one that means acceptable, as in label={names[1]}"
            )
        if chosen.lower() not in map(str.lower, names):
            raise UnknownName.among(f"label of {self.identity}", chosen, names)
        self.label = next(name for name in names if name.lower() == chosen.lower())

    def probabilities(self, texts: Sequence[str]) -> Array:
        """One probability per text, in order."""
        # The tokeniser of a pair scorer accepts single texts, too.
        return self.score(cast(Any, list(texts)))


def load_text_classifier(spec: str, label: str = "") -> TextClassifier:
    """A classifier on the device of the environment, cached for the next call."""
    return shared(TextClassifier, model_identity(spec), label)
