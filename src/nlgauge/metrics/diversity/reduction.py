"""From similarity to diversity: any symmetric similarity of two texts gives a diversity metric (paper 1, section 5)."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import ClassVar

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.errors import OptionError, UnknownName
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import EVERYWHERE, Bounds, Direction

Similarity = Callable[[str, str], float]


def jaccard(one: str, other: str) -> float:
    """Share of the words of two texts that both have."""
    first, second = set(one.split()), set(other.split())
    return len(first & second) / len(first | second) if first | second else 1.0


SIMILARITIES: dict[str, Similarity] = {"jaccard": jaccard}


def register_similarity(name: str, similarity: Similarity) -> None:
    """Make a similarity available as `pairs:similarity=NAME`."""
    if name in SIMILARITIES and SIMILARITIES[name] is not similarity:
        raise OptionError(f"a similarity '{name}' exists already; choose another name")
    SIMILARITIES[name] = similarity


def reduce_pairs(texts: list[str], similarity: Similarity) -> float:
    """Minus the mean similarity over the unordered pairs of texts; each different pair is computed once."""
    once = cache(similarity)
    values = [float(once(*pair)) for pair in combinations(sorted(texts), 2)]
    return -math.fsum(values) / len(values)


@dataclass(frozen=True, kw_only=True)
class PairReduction(SetMetric):
    """Minus the mean similarity over the pairs of a set, for any symmetric similarity of two texts.

    `similarity` is `jaccard`, a name given to `register_similarity`, or `package.module:function` of your own code.
    """

    name: ClassVar[str] = "pairs"
    aspect: ClassVar[str] = "form"
    depends_on_size: ClassVar[bool] = False
    direction: ClassVar[Direction] = Direction.MORE_DIVERSE
    paper: ClassVar[str] = "Tevet & Berant 2021, section 5"
    needs: ClassVar[int] = 2

    similarity: str = option("jaccard", "jaccard, a registered name, or package.module:function.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.function()

    @property
    def bounds(self) -> Bounds:
        """Those of minus a share; a similarity of the user's own may have any."""
        return (-1.0, 0.0) if self.similarity == "jaccard" else EVERYWHERE

    @property
    def cacheable(self) -> bool:
        """Only what NLGauge itself defines: a user's function may change under the same name."""
        return self.similarity == "jaccard"

    def function(self) -> Similarity:
        """The similarity that the option names."""
        if self.similarity in SIMILARITIES:
            return SIMILARITIES[self.similarity]
        module, colon, attribute = self.similarity.partition(":")
        if not colon:
            raise UnknownName.among("similarity", self.similarity, [*SIMILARITIES, "package.module:function"])
        try:
            found: Similarity = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise OptionError(f"similarity {self.similarity}: {error}") from error
        return found

    def per_set(self, batch: Batch) -> Array:
        """Minus the mean similarity of each set."""
        similarity = self.function()
        return np.array([reduce_pairs(texts, similarity) for texts in batch.texts_of_sets])
