"""Paired tests of HUSE, HUSE-Q and HUSE-D between systems that share references.

The same halves of the contexts (with their references and both systems' texts) are drawn for both systems, and
neighbours searched again in each half: a half differs from the whole about as much as the whole from the population
(`docs/papers/huse_coverage.md`), so that the spread of the differences between halves is the error of the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from nlgauge.arrays import Array
from nlgauge.stats.correlation import percentiles
from nlgauge.stats.families import resampled_family
from nlgauge.stats.inference import Correction
from nlgauge.stats.kernels.neighbours import Draw
from nlgauge.studies.base import Row, pair
from nlgauge.studies.huse.data import HuseData
from nlgauge.studies.huse.intervals import HuseInference
from nlgauge.studies.huse.options import SCORES
from nlgauge.studies.tasks import context_units


@dataclass(frozen=True)
class _Drawn:
    """The scores of one system, those of its halves (scores x draws), and what it shares with others."""

    name: str
    scores: Array
    halves: Array
    references: list[tuple[Any, ...]]
    units: tuple[str, ...]


def compare_systems(
    systems: Sequence[HuseData], using: HuseInference, correction: Correction
) -> tuple[list[Row], list[str]]:
    """Differences of all three scores between each two systems, with intervals and p-values, and what was left out."""
    notes: list[str] = []
    drawn: list[_Drawn] = []
    for one in systems:
        if len(one) >= 2 * (using.k + 1):
            drawn.append(_draw(one, using))
        else:
            notes.append(f"{one.system} is not tested: {len(one)} texts, and halves need {2 * (using.k + 1)}")
    rows: list[Row] = []
    draws: list[Array] = []
    for first, second in combinations(drawn, 2):
        if first.references != second.references or first.units != second.units:
            notes.append(f"{first.name} and {second.name} are not tested: they do not share references and contexts")
            continue
        moved = first.halves - second.halves
        moved -= moved.mean(axis=1, keepdims=True)
        for place, score in enumerate(SCORES):
            difference = float(first.scores[place] - second.scores[place])
            ends = pair(percentiles(moved[place] + difference, using.level))
            rows.append(
                {"first": first.name, "second": second.name, "score": score, "difference": difference}
                | {"difference_ci": ends}
            )
            draws.append(moved[place])
    if rows:
        p = resampled_family(np.array([row["difference"] for row in rows]), np.stack(draws), correction)
        rows = [{**row, "p": float(value)} for row, value in zip(rows, p, strict=True)]
    return rows, notes


def _draw(data: HuseData, using: HuseInference) -> _Drawn:
    features = data.features(per_token=using.per_token)
    found = using.classify(features, data.is_model)
    references, labels = _references(data), _units(data, using)
    draw = Draw("halves", labels, resamples=using.resamples, seed=using.seed)
    errors = draw.errors([features, features[:, 1:]], data.is_model, k=using.k, ties=using.ties)
    return _Drawn(
        data.system,
        _scores(*(2 * one.error for one in found)),
        _scores(*(2 * errors)),
        sorted(references),
        tuple(np.unique(labels).tolist()),
    )


def _scores(huse: float | Array, huse_q: float | Array) -> Array:
    return np.array([huse, huse_q, 1 + huse - huse_q])


def _references(data: HuseData) -> list[tuple[Any, ...]]:
    """What makes references the same: context and text, or id and judgment where there are no texts."""
    places = np.flatnonzero(~data.is_model).tolist()
    if any(data.texts):
        return [(data.contexts[i], data.texts[i]) for i in places]
    return [(data.ids[i], float(data.judgment[i])) for i in places]


def _units(data: HuseData, using: HuseInference) -> Array:
    """Contexts, where texts share them; else every reference by itself, and every text of the model."""
    if context_units(data.contexts, data.ids, using.unit).of is not None:
        return np.array([context or f"item {id}" for context, id in zip(data.contexts, data.ids, strict=True)])
    references = dict(zip(np.flatnonzero(~data.is_model).tolist(), _references(data), strict=True))
    rank = {place: number for number, place in enumerate(sorted(references, key=lambda place: references[place]))}
    labels, texts = [], 0
    for place in range(len(data)):
        if place in rank:
            labels.append(f"reference {rank[place]}")
        else:
            labels.append(f"text {texts}")
            texts += 1
    return np.array(labels)
