"""Classifiers of single texts with two labels, such as whether a sentence is grammatical; each text once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from nlgauge.arrays import Array
from nlgauge.errors import ModelError, UnknownName
from nlgauge.models.encoders.pair_scorer import PairScorer
from nlgauge.models.runtime import Machine

_ACCEPTABLE = ("acceptable", "label_1")


class TextClassifier:
    """The probability of one of two labels, by any sequence classifier of transformers with safetensors.

    `label` is by default the one that the model calls acceptable or LABEL_1, as classifiers trained on CoLA do.
    """

    def __init__(self, spec: str, label: str = "", **machine: Any) -> None:
        reader = PairScorer(spec, **machine)
        names = list(reader.labels.values())
        if len(names) != 2:
            raise ModelError(
                f"{reader.identity} has {len(names)} labels ({', '.join(names)}); expected a classifier with two, "
                "one of which means acceptable; name another model"
            )
        chosen = label or next((name for name in names if name.lower() in _ACCEPTABLE), "")
        if not chosen:
            raise ModelError(
                f"{reader.identity} has the labels {' and '.join(names)}; expected LABEL_1 or acceptable among them; "
                f"name the one that means acceptable, as in label={names[1]}"
            )
        if chosen.lower() not in map(str.lower, names):
            raise UnknownName.among(f"label of {reader.identity}", chosen, names)
        self.identity = reader.identity
        self.label = next(name for name in names if name.lower() == chosen.lower())
        self._scorer = PairScorer(spec, output="softmax", label=self.label, **machine)

    def probabilities(self, texts: Sequence[str]) -> Array:
        """One probability per text, in order."""
        # The tokeniser of a pair scorer accepts single texts, too.
        return self._scorer.score(cast(Any, list(texts)))


def load_text_classifier(spec: str, label: str = "") -> TextClassifier:
    """A classifier on the device of the environment, cached for the next call."""
    return _load_on(spec, label, Machine.from_environment())


@lru_cache(maxsize=2)
def _load_on(spec: str, label: str, machine: Machine) -> TextClassifier:
    return TextClassifier(spec, label, **machine.options)
