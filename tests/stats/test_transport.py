"""The least cost of transport, against POT's network simplex."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlgauge.stats.kernels.transport import least_cost

ot: Any = importlib.import_module("ot")


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(["equal", "whole numbers", "any"]),
    st.booleans(),
)
def test_the_cost_is_that_of_pot(seed: int, rows: int, columns: int, weights: str, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    shares = []
    for size in (rows, columns):
        drawn = {"equal": np.ones(size), "whole numbers": rng.integers(1, 4, size), "any": rng.random(size) + 0.01}
        shares.append(drawn[weights] / drawn[weights].sum())
    costs = rng.integers(0, 3, (rows, columns)).astype(np.float64) if ties else rng.random((rows, columns))
    supply, demand = shares
    assert least_cost(supply, demand, costs) == pytest.approx(ot.emd2(*shares, costs, numItermax=10_000_000), abs=1e-12)


def test_a_bound_on_steps_gives_no_value() -> None:
    shares = np.full(5, 0.2)
    assert math.isnan(least_cost(shares, shares, np.random.default_rng(1).random((5, 5)), 2))
