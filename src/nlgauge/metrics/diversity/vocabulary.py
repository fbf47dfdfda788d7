"""Counting the different n-grams of a corpus file, once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from nlgauge.data.reading import Source
from nlgauge.engine.cache import Cache, file_digest
from nlgauge.engine.scratch import scratch_folder
from nlgauge.text.census import Census
from nlgauge.text.tokens import Tokenizer


def count_ngrams(path: str, tokenizer: Tokenizer, orders: Sequence[int]) -> dict[int, int]:
    """Different n-grams of each order in a file of texts or response sets."""
    cache = Cache()
    key = cache.key("vocabulary", file_digest(path), tokenizer.name, str(tokenizer.lower), str(list(orders)))
    held = cache.get(key)
    if held is None:
        census: Census | None = None
        with scratch_folder():
            for table in Source(path=path, extras=()).stream():
                part = Census.of(tokenizer(table.texts), orders)
                census = part if census is None else census + part
            if census is None:
                raise AssertionError("a source yields at least one table or raises")
            counts = np.array([int(summary.different) for summary in census.summarise()])
        held = pl.DataFrame({"n": list(orders), "different": counts})
        cache.put(key, held)
    return dict(zip(held["n"].to_list(), held["different"].to_list(), strict=True))
