"""What measures from contextual token embeddings share: weighed tokens, and groups of texts measured only once."""

from __future__ import annotations

import math
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.engine.blobs import BlobStore
from nlgauge.engine.cache import Cache, file_with_hash
from nlgauge.errors import ModelError
from nlgauge.metrics.diversity.embedding import LONG, EncoderMetric, check_encoder, unit
from nlgauge.metrics.reference.references import ReferencePairMetric, TextAndReference
from nlgauge.models.encoders.embedder import Embedder, TokenVectors, load_embedder
from nlgauge.models.encoders.encoding import remembered
from nlgauge.models.fetch import model_identity, resolve_model

Group = tuple[str, ...]
LAYER = "Hidden layer of the model: -1 is the last, k the output of block k."

_CHARACTERS_AT_ONCE = 1 << 17
_MOST_CHARACTERS_READ = 1 << 12
_CHOSEN_LATER = {"references", "part", "scale"}
_one_reader = threading.Lock()


@dataclass(frozen=True)
class WeighedTokens:
    """Unit vectors, one row per token or n-gram, and what each weighs; one that weighs nothing can still be matched."""

    units: Array
    weights: Array

    @classmethod
    def of(cls, tokens: TokenVectors, weights: Array | None = None) -> WeighedTokens:
        """All tokens with these weights (1 each unless given), special ones with none."""
        given = np.ones(len(tokens.special)) if weights is None else weights
        return cls(unit(tokens.vectors.astype(np.float64)), np.where(tokens.special, 0.0, given))

    @property
    def is_empty(self) -> bool:
        """Whether nothing has any weight."""
        return not self.weights.sum() > 0


@dataclass(frozen=True)
class TokenTexts:
    """A text's tokens: their ids, what stands for each in the text, and the number and text of the word it is in.

    Special tokens are in the word -1, which has no text. Texts are in lower case.
    """

    ids: Array
    tokens: tuple[str, ...]
    places: Array
    words: tuple[str, ...]


def measured_once(
    embedder: Embedder, about: str, groups: Sequence[Group], measure: Callable[[list[Group]], Sequence[Array]]
) -> Array:
    """A row of numbers for each group of texts: from disk for groups that were measured before.

    `about` says all that a measurement depends on beside the model and the texts. Groups are measured some at a time,
    so that the token embeddings of a large chunk need not be in memory together.
    """
    keys = [bytes.fromhex(Cache.key(about, msgspec.json.encode(group))) for group in groups]
    store = BlobStore(f"token-measures-{embedder.identity.partition('@')[2]}")
    known: dict[bytes, bytes] = {}
    for part in _parts(dict(zip(keys, groups, strict=True))):
        known |= remembered(store, part, measure)
    return np.array([np.frombuffer(known[key], np.float64) for key in keys])


def _parts(groups: Mapping[bytes, Group]) -> Iterator[dict[bytes, Group]]:
    part: dict[bytes, Group] = {}
    size = 0
    for key, group in groups.items():
        part[key] = group
        size += sum(min(len(text), _MOST_CHARACTERS_READ) for text in group)
        if size >= _CHARACTERS_AT_ONCE:
            yield part
            part, size = {}, 0
    if part:
        yield part


def vectors_of_texts(embedder: Embedder, groups: Sequence[Group], layer: int) -> dict[str, TokenVectors]:
    """Token embeddings of every text of some groups, without the white space around it."""
    texts = list(dict.fromkeys(text.strip() for group in groups for text in group))
    return dict(zip(texts, embedder.token_vectors(texts, layer=layer), strict=True))


def token_texts(model: str, texts: Sequence[str], longest: int | None = None) -> list[TokenTexts]:
    """The tokens that a model reads, special ones included, at most `longest` per text."""
    with _one_reader:
        tokenizer = _tokenizer(model_identity(model))
        found = tokenizer(list(texts), truncation=longest is not None, max_length=longest, verbose=False)
    return [_token_texts(text, encoding) for text, encoding in zip(texts, found.encodings, strict=True)]


@lru_cache(maxsize=2)
def _tokenizer(model: str) -> Any:
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(resolve_model(model), local_files_only=True, trust_remote_code=False)
    if not tokenizer.is_fast:
        raise ModelError(
            f"{model}: its tokeniser does not say where tokens stand; expected a fast one (a tokenizer.json)"
        )
    return tokenizer


def _token_texts(text: str, encoding: Any) -> TokenTexts:
    places = np.array([-1 if place is None else place for place in encoding.word_ids], dtype=np.int64)
    spans: dict[int, tuple[int, int]] = {}
    for place, (begin, end) in zip(places.tolist(), encoding.offsets, strict=True):
        first, last = spans.get(place, (begin, end))
        spans[place] = (min(begin, first), max(end, last))
    spans[-1] = (0, 0)
    return TokenTexts(
        np.array(encoding.ids, dtype=np.int64),
        tuple(text[begin:end].strip().lower() for begin, end in encoding.offsets),
        places,
        tuple(text[slice(*spans[place])].strip().lower() for place in places.tolist()),
    )


@lru_cache(maxsize=2)
def inverse_frequencies(model: str, file: str) -> tuple[Mapping[int, float], float]:
    """Weights of token ids by the texts of a `file@hash`, and the weight of a token that is in none of them.

    The weight of a token that is in c of N texts is log((N + 1) / (c + 1)), as in the packages of BERTScore and
    MoverScore, which count over the very texts that they compare: there, a value depends on its companions.
    """
    from nlgauge.data.reading import Source

    texts = Source(path=file.rpartition("@")[0], extras=()).read().texts.to_list()
    counts: Counter[int] = Counter()
    for one in token_texts(model, [text.strip() for text in texts]):
        counts.update(set(one.ids.tolist()))
    weights = {token: math.log((len(texts) + 1) / (count + 1)) for token, count in counts.items()}
    return weights, math.log(len(texts) + 1)


@dataclass(frozen=True, kw_only=True)
class ContextualMetric(EncoderMetric, ReferencePairMetric):
    """A measure of two texts from their contextual token embeddings.

    `layer` is the hidden layer of `model` that the embeddings come from: -1 is the last, k the output of the k-th
    block. `idf` is a file of texts, any that NLGauge reads, whose rare tokens weigh more; else all weigh the same.
    """

    numbers_per_pair: ClassVar[int] = 1

    layer: int = option(-1, LAYER)
    idf: str | None = option(None, "File of texts whose rare tokens weigh more; without it, all tokens weigh the same.")
    long: Literal["cut"] = option("cut", LONG)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.idf is not None:
            object.__setattr__(self, "idf", file_with_hash(self.idf, "texts"))

    def prepare(self) -> None:
        """Refuse to begin without the model."""
        check_encoder(self.model, self.name)

    @abstractmethod
    def weighed(self, texts: Sequence[str], tokens: Sequence[TokenVectors]) -> list[WeighedTokens]:
        """What of each text is compared, and with what weight."""

    @abstractmethod
    def compare(self, own: WeighedTokens, other: WeighedTokens) -> Sequence[float]:
        """Numbers about a text and a reference, neither of them empty."""

    def numbers(self, pairs: Sequence[TextAndReference]) -> Array:
        """What `compare` gives for each pair, one row per pair; NaN where either side is empty."""
        options = {name: value for name, value in self.relevant_options().items() if name not in _CHOSEN_LATER}
        return measured_once(load_embedder(self.model), f"{self.name} {options}", pairs, self._measure)

    def idf_weights(self, texts: Sequence[TokenTexts]) -> list[Array]:
        """The weight of every token of each text."""
        if self.idf is None:
            return [np.ones(len(one.ids)) for one in texts]
        weights, unseen = inverse_frequencies(model_identity(self.model), file_with_hash(self.idf, "texts"))
        return [np.array([weights.get(token, unseen) for token in one.ids.tolist()]) for one in texts]

    def _measure(self, pairs: Sequence[Group]) -> list[Array]:
        vectors = vectors_of_texts(load_embedder(self.model), pairs, self.layer)
        read = dict(zip(vectors, self.weighed(list(vectors), list(vectors.values())), strict=True))
        rows = []
        for own, other in ((read[text.strip()], read[reference.strip()]) for text, reference in pairs):
            empty = own.is_empty or other.is_empty
            rows.append(np.array([math.nan] * self.numbers_per_pair if empty else self.compare(own, other)))
        return rows


def longest_of(tokens: Sequence[TokenVectors]) -> int:
    """The number of tokens of the longest text: where texts beyond the window were cut."""
    return max(len(one.special) for one in tokens)
