"""What metrics see: some response sets, tokenised once for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.tables import ResponseSets
from nlgauge.metrics.score import RowKeys
from nlgauge.text.tokens import Tokenizer, TokenTable, text_bytes

JACKKNIFE_GROUPS = 64


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

    With `grouped`, sets are dealt into groups by a hash of their id (of their context or texts when ids are mere line
    numbers), so that corpus measures can tell what leaving out a part of the corpus does.
    """

    def __init__(self, sets: ResponseSets, *, grouped: bool = False) -> None:
        self.sets = sets
        self._grouped = grouped
        self._tokens: dict[Tokenizer, TokenTable] = {}
        self._ngrams: dict[Tokenizer, SetNgrams] = {}

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

    @cached_property
    def rows(self) -> RowKeys:
        """Ids, and hashes of contexts to check that two systems answered the same."""
        frame = self.sets.frame
        return RowKeys(self.sets.ids, _hashes(frame["context"].fill_null("")) if "context" in frame.columns else None)

    def text_groups(self) -> Array | None:
        """The group of each text, when groups were asked for."""
        if not self._grouped:
            return None
        frame = self.sets.frame
        if self.sets.explicit_ids:
            keys = frame["id"]
        elif "context" in frame.columns:
            keys = frame["context"].fill_null("")
        else:
            keys = self.sets.texts.gather(self.sets.offsets[:-1])
        groups = (_hashes(keys) % np.uint64(JACKKNIFE_GROUPS)).astype(np.uint8)
        return np.repeat(groups, self.sets.sizes)


def _hashes(texts: pl.Series) -> Array:
    from nlgauge.text.split_kernels import token_lanes

    data, offsets = text_bytes(texts)
    return np.ascontiguousarray(token_lanes(data, offsets[:-1], offsets[1:])[:, 0])
