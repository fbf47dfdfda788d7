"""Cells of `docs/statistics.md` about systems with other numbers of responses: texts that a language model wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.tables import ResponseSets
from nlgauge.scoring.scoring import score
from nlgauge.stats.permutation import paired_permutation
from papers.coverage import ERRORS, Cell, Generator
from papers.pages import data_folder

METRICS = ("distinct", "entropy", "self-bleu", "vendi", "ead:over=set")
SIZES = ((3, 5), (3, 7))
TITLES = {"sizes-texts": "Systems of different sizes: texts of a language model"}
TEXTS = {
    "sizes-texts": "The same where the ten responses of each set of the decoding tests of paper 1 are dealt to two "
    "systems, 50 sets at a time; the generator, its temperature and the context are those of the set. Columns: "
    "responses per set.",
}
_DEALS = 12
_SETS = 50
_RESPONSES = 10
_FILES = {"replies": "dec_test_1000_no_hds_resp_gen.csv", "stories": "dec_test_1000_no_hds_story_gen.csv"}


def cells(times: int) -> Iterator[Cell]:
    """All cells of this table."""
    for file in _FILES:
        for metric in METRICS:
            for sizes in SIZES:
                column = f"{sizes[0]} and {sizes[1]}"
                yield Cell("sizes-texts", f"{metric}, {file}", column, ERRORS, rejects(file, metric, sizes), 3 * times)


def rejects(file: str, metric: str, sizes: tuple[int, int]) -> Callable[[Generator, int], float]:
    """Whether the two halves of the responses of one generator are found to differ."""

    def once(rng: Generator, seed: int) -> float:
        differences = _differences(data_folder(), file, metric, sizes)
        chosen = rng.choice(len(differences), _SETS, replace=False)
        drawn = differences[chosen, rng.integers(0, _DEALS, _SETS)]
        return float(paired_permutation(np.zeros(_SETS), drawn, resamples=1000, seed=seed) < 0.05)

    return once


@cache
def _differences(folder: Path, file: str, metric: str, sizes: tuple[int, int]) -> Array:
    """Of every set, and of every way in which its responses were dealt: the second system minus the first."""
    first, second = (_values(folder, file, metric, size, sizes[0], place) for place, size in enumerate(sizes))
    return second - first


def _values(folder: Path, file: str, metric: str, size: int, at: int, place: int) -> Array:
    sets = _sets(folder, file)
    orders = np.random.default_rng(0).permuted(np.tile(np.arange(_RESPONSES), (len(sets) * _DEALS, 1)), axis=1)
    dealt = orders[:, :size] if place == 0 else orders[:, _RESPONSES - size :]
    texts = [[sets[row // _DEALS][one] for one in places] for row, places in enumerate(dealt.tolist())]
    ids = [str(number) for number in range(len(texts))]
    table = ResponseSets.of(texts, contexts=ids, ids=ids, systems=["a"] * len(ids))
    (found,) = score(table, [f"{metric}{',' if ':' in metric else ':'}size={at}"], confidence=True)
    assert found.per_item is not None  # noqa: S101
    values = dict(found.per_item.select("id", "value").iter_rows())
    ordered: Array = np.array([values[one] for one in ids]).reshape(len(sets), _DEALS)
    return ordered


@cache
def _sets(folder: Path, file: str) -> list[list[str]]:
    """The sets with ten responses that say something."""
    frame = pl.read_csv(folder / "diversity_eval" / "decTest" / _FILES[file], infer_schema=False)
    rows = frame.select(pl.concat_list(f"resp_{place}" for place in range(_RESPONSES)).alias("texts"))["texts"]
    return [texts for texts in rows.to_list() if all(text and text.strip() for text in texts)]
