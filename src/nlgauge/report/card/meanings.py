"""Groups of responses with similar meaning, according to the sentence encoder of a measured metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from nlgauge.metrics.batch import Batch
from nlgauge.report.card.texts import Texts

ALIKE = 0.65
CONTEXTS_READ = 500


@dataclass(frozen=True)
class Meanings:
    """The group of every response: `groups[system, id][i]` numbers that of response i, from 0 on, the largest first.

    Two groups are joined while the mean cosine between their responses is at least `ALIKE`. This describes a set; no
    test has shown where the threshold should be.
    """

    model: str
    groups: Mapping[tuple[str, str], tuple[int, ...]]


def meanings_of(texts: Texts, model: str) -> Meanings:
    """Group the responses of every set, of the first `CONTEXTS_READ` sets of each system."""
    parts = [texts.of(system).unique("id", keep="first", maintain_order=True) for system in texts.systems]
    frame = pl.concat([part.head(CONTEXTS_READ) for part in parts])
    flat = frame["responses"].explode().to_list()
    vectors = Batch.embed(model, flat).astype(np.float64)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    groups: dict[tuple[str, str], tuple[int, ...]] = {}
    start = 0
    for system, id, responses in frame.select("system", "id", "responses").iter_rows():
        stop = start + len(responses)
        groups[system, id] = _grouped(vectors[start:stop])
        start = stop
    return Meanings(model, groups)


def _grouped(units: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[int, ...]:
    """Average linkage on cosines; numbers go from the largest group to the smallest, ties by first response."""
    if len(units) == 1:
        return (0,)
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    distances = np.clip(1 - units @ units.T, 0, 2)
    np.fill_diagonal(distances, 0)
    labels = fcluster(linkage(squareform(distances, checks=False), "average"), 1 - ALIKE, "distance").tolist()
    ranked = sorted(set(labels), key=lambda label: (-labels.count(label), labels.index(label)))
    return tuple(ranked.index(label) for label in labels)
