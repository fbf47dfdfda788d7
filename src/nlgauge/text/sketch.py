"""Estimates of the number of different items in a HyperLogLog sketch."""

from __future__ import annotations

import math

import numpy as np

from nlgauge.arrays import Array

_RANKS = 64


def relative_error(precision: int) -> float:
    """Relative standard error of an estimate."""
    return math.sqrt(3 * math.log(2) - 1) / math.sqrt(1 << precision)


def estimate(registers: Array) -> float:
    """The improved raw estimator of Ertl (2017): unbiased over the whole range, without correction tables."""
    m = len(registers)
    counts = np.bincount(np.minimum(registers, _RANKS + 1), minlength=_RANKS + 2)
    z = m * _tau(1 - counts[_RANKS + 1] / m)
    for k in range(_RANKS, 0, -1):
        z = 0.5 * (z + float(counts[k]))
    z += m * _sigma(counts[0] / m)
    return float(m * m / (2 * math.log(2) * z)) if math.isfinite(z) else 0.0


def _sigma(x: float) -> float:
    if x == 1.0:
        return math.inf
    y, z = 1.0, x
    while True:
        x *= x
        before, z = z, z + x * y
        y += y
        if z == before:
            return z


def _tau(x: float) -> float:
    if x in (0.0, 1.0):
        return 0.0
    y, z = 1.0, 1.0 - x
    while True:
        x = math.sqrt(x)
        y *= 0.5
        before, z = z, z - (1 - x) ** 2 * y
        if z == before:
            return z / 3
