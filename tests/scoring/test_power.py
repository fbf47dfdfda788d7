"""What is promised to be found in four of five experiments, in families of comparisons."""

from __future__ import annotations

import numpy as np
import pytest

from nlgauge.scoring.comparison import compare_systems
from nlgauge.scoring.power import power_of
from nlgauge.stats.families import paired_max_t
from nlgauge.stats.inference import Comparing
from tests.scoring.test_compare import made


@pytest.mark.parametrize(("contexts", "systems"), [(7, 5), (12, 40)])
def test_few_contexts_and_many_comparisons_promise_what_they_keep(contexts: int, systems: int) -> None:
    """One system differs: where swaps are few, the level at which it is found says little about its power."""
    rng, promised = np.random.default_rng(contexts), []
    for _ in range(15):
        noise = rng.normal(size=(1 + systems, contexts))
        scores = [made(row, f"s{place:02}") for place, row in enumerate(noise)]
        powers = [power_of(one) for one in compare_systems(scores, Comparing())[:4]]
        promised += [one.smallest for one in powers if one is not None]
    assert len(promised) == 60
    kept = 0
    for _ in range(200):
        noise = rng.normal(size=(contexts, 1 + systems))
        differences = noise[:, 1:] - noise[:, :1]
        differences[:, 0] += np.median(promised)
        kept += paired_max_t(differences).p[0] < 0.05
    assert 0.7 <= kept / 200 <= 0.92
