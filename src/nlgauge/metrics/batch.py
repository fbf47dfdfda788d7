"""What metrics see: some response sets, tokenised once for all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.tables import ResponseSets
from nlgauge.errors import DataError
from nlgauge.metrics.score import RowKeys
from nlgauge.metrics.subsets import draw_subsets, first_subset
from nlgauge.text.tokens import Tokenizer, TokenTable, text_bytes

if TYPE_CHECKING:
    from nlgauge.models.language.base import TokenLogprobs

JACKKNIFE_GROUPS = 64
BIN_BITS = 14
_ODD = 0x9E3779B97F4A7C15
_TEXTS_AT_ONCE = 100_000


@dataclass(frozen=True)
class SetNgrams:
    """N-grams of each set by rank; see `nlgauge.text.set_kernels`."""

    ranks: Array
    different: Array
    total: Array
    texts: Array
    sets: Array


class Batch:
    """Response sets, with tokens and n-grams made on first use and shared between metrics.

    With `grouped`, sets are distributed over groups by a hash of their context (of their id, references or texts where
    there is none), so that corpus measures can tell what leaving out a part of the corpus does.
    """

    def __init__(self, sets: ResponseSets, *, grouped: bool = False) -> None:
        self.sets = sets
        self._grouped = grouped
        self._tokens: dict[Tokenizer, TokenTable] = {}
        self._ngrams: dict[Tokenizer, SetNgrams] = {}
        self._embeddings: dict[str, Array] = {}
        self._at_size: dict[int, Batch] = {}
        self._first: dict[int, Batch] = {}
        self._whole: tuple[Batch, Array] | None = None  # what its texts were drawn from, and from where

    def __len__(self) -> int:
        return len(self.sets)

    def tokens(self, tokenizer: Tokenizer) -> TokenTable:
        """Tokens of all texts, in order."""
        if tokenizer not in self._tokens:
            self._tokens[tokenizer] = tokenizer(self.sets.texts)
        return self._tokens[tokenizer]

    def ngrams(self, tokenizer: Tokenizer, highest: int) -> SetNgrams:
        """N-grams of each set, for n up to at least `highest`."""
        held = self._ngrams.get(tokenizer)
        if held is None or len(held.ranks) < highest:
            from nlgauge.text.set_kernels import rank_ngrams

            tokens = self.tokens(tokenizer)
            sets = self.sets.offsets
            held = SetNgrams(*rank_ngrams(tokens.ids, tokens.offsets, sets, highest), tokens.offsets, sets)
            self._ngrams[tokenizer] = held
        return held

    def embeddings(self, model: str) -> Array:
        """Sentence embeddings of all texts, in order."""
        if self._whole is not None:
            whole, positions = self._whole
            drawn: Array = whole.embeddings(model)[positions]
            return drawn
        if model not in self._embeddings:
            self._embeddings[model] = self.embed(model, self.sets.texts.to_list())
        return self._embeddings[model]

    @staticmethod
    def embed(model: str, texts: Sequence[str]) -> Array:
        """Sentence embeddings of any texts."""
        from nlgauge.models.encoders.embedder import load_embedder

        return load_embedder(model).encode(texts)

    @cached_property
    def with_references(self) -> Batch:
        """The same items, each a set of its text followed by its own references, tokenised and embedded together."""
        references = self.sets.references
        if references is None:
            raise DataError(f"item '{self.sets.ids[0]}' has no reference; expected references[i] to belong to item i")
        together = pl.DataFrame({"text": self.sets.texts, "references": references})
        texts = together.select(pl.concat_list("text", "references").explode()).to_series().alias("text")
        offsets = np.concatenate([[0], np.cumsum(1 + references.list.len().to_numpy().astype(np.int64))])
        return Batch(ResponseSets(self.sets.frame, texts, offsets, self.sets.explicit_ids))

    @cached_property
    def texts_of_sets(self) -> list[list[str]]:
        """The texts of each set, in order."""
        texts = self.sets.texts.to_list()
        return [texts[a:b] for a, b in pairwise(self.sets.offsets)]

    def means(self, values: Sequence[float]) -> Array:
        """The mean of each set's values, given one per text."""
        return np.array([math.fsum(values[a:b]) / (b - a) for a, b in pairwise(self.sets.offsets)])

    def contexts(self) -> list[str]:
        """One context per set; empty where there is none."""
        frame = self.sets.frame
        return frame["context"].fill_null("").to_list() if "context" in frame.columns else [""] * len(self)

    def token_logprobs(self, model: str, *, with_end: bool) -> list[list[TokenLogprobs]]:
        """Log-probabilities of the tokens of each set's texts given the context, a space between the two."""
        from nlgauge.models.shared import score_texts

        prompts = self.contexts()
        sets = [
            [f" {text}" if prompt and text else text for text in texts]
            for prompt, texts in zip(prompts, self.texts_of_sets, strict=True)
        ]
        return score_texts(model, prompts, sets, with_end=with_end)

    @cached_property
    def rows(self) -> RowKeys:
        """Ids, and hashes of contexts and runs: which values belong together, and which are independent.

        A set without a context is by itself.
        """
        frame, ids = self.sets.frame, self.sets.ids.cast(pl.String)
        contexts = runs = None
        if "context" in frame.columns:
            known = frame["context"].cast(pl.String).fill_null("")
            contexts = _hashes(pl.select(pl.when(known != "").then(known).otherwise("set " + ids)).to_series())
        if "runs" in frame.columns:
            runs = _hashes(frame["runs"].cast(pl.String).fill_null(""))
        return RowKeys(self.sets.ids, contexts, runs, self.sets.sizes)

    def subsets(self, size: int) -> Iterator[tuple[Batch, Array]]:
        """Subsets of so many responses of each set as sets of their own, with the row of the set that each is from."""
        for owners, positions in draw_subsets(self._text_hashes, self.sets.offsets, size):
            each = int(np.searchsorted(owners, owners[0], side="right"))
            most = max(1, _TEXTS_AT_ONCE // (size * each)) * each
            for first in range(0, len(owners), most):
                yield self._of_texts(owners[first : first + most], positions[first : first + most])

    def at_size(self, size: int) -> Batch:
        """So many responses of each set, drawn at random; sets that have fewer are left out."""
        if size not in self._at_size:
            self._at_size[size], _ = self._of_texts(*first_subset(self._text_hashes, self.sets.offsets, size))
        return self._at_size[size]

    def _of_texts(self, rows: Array, positions: Array) -> tuple[Batch, Array]:
        offsets = np.arange(len(rows) + 1, dtype=np.int64) * positions.shape[1]
        texts = self.sets.texts.gather(positions.ravel())
        references = None if self.sets.references is None else self.sets.references.gather(rows)
        sets = ResponseSets(self.sets.frame[rows], texts, offsets, self.sets.explicit_ids, references)
        part = Batch(sets, grouped=self._grouped)
        part._whole = self, positions.ravel()
        return part, rows

    def of_bins(self, last: int) -> Batch:
        """The sets whose context falls into the first bins of contexts, up to `last`."""
        if last not in self._first:
            self._first[last] = Batch(self.sets.select(np.flatnonzero(self.bins() <= last)), grouped=self._grouped)
        return self._first[last]

    def bins(self) -> Array:
        """The bin of each set, by a hash of its context; sets of one context share a bin."""
        found: Array = (self._unit_hashes >> np.uint64(64 - BIN_BITS)).astype(np.int64)
        return found

    def text_groups(self) -> Array | None:
        """The group of each text, when groups were asked for."""
        return np.repeat(self._set_groups, self.sets.sizes) if self._grouped else None

    def group_keys(self) -> Array:
        """For each group a digest of what is in it, whatever its order: equal if two systems answer the same."""
        keys = np.zeros(JACKKNIFE_GROUPS, np.uint64)
        np.add.at(keys, self._set_groups, self._unit_hashes * np.uint64(_ODD))
        return keys

    @cached_property
    def _text_hashes(self) -> Array:
        return _hashes(self.sets.texts)

    @cached_property
    def _set_groups(self) -> Array:
        groups: Array = (self._unit_hashes % np.uint64(JACKKNIFE_GROUPS)).astype(np.uint8)
        return groups

    @cached_property
    def _unit_hashes(self) -> Array:
        """A hash of each set's context, since sets of one context are not independent; else of its id."""
        frame = self.sets.frame
        if self.sets.explicit_ids:
            keys = frame["id"]
        elif self.sets.references is not None:
            keys = self.sets.references.list.join("\n").fill_null("")
        else:
            keys = self.sets.texts.gather(self.sets.offsets[:-1])
        if "context" in frame.columns:
            contexts = frame["context"].fill_null("")
            keys = pl.select(pl.when(contexts != "").then(contexts).otherwise(keys).alias("key")).to_series()
        return _hashes(keys)


def _hashes(texts: pl.Series) -> Array:
    from nlgauge.text.split_kernels import token_lanes

    data, offsets = text_bytes(texts)
    return np.ascontiguousarray(token_lanes(data, offsets[:-1], offsets[1:])[:, 0])
