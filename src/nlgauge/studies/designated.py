"""The designated distribution: words whose diversity is known to be the same at every length (paper 2, section 2)."""

from __future__ import annotations

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import OptionError

LARGEST_VOCABULARY = 10**9


def draw_designated(generator: np.random.Generator, shape: tuple[int, ...], vocabulary: float) -> Array:
    """Word numbers drawn independently with P(X = k) = integral from 0 to v of lambda^k e^-lambda / (v k!) d lambda.

    That is, lambda is uniform on (0, v) and X is Poisson(lambda). Words up to about v have almost equal probability
    1 / v; the probability of larger numbers falls to 0 within a few times the square root of v.
    """
    if not 0 < vocabulary <= LARGEST_VOCABULARY:
        raise OptionError(
            f"a vocabulary of {vocabulary:g} words; the designated distribution takes 1 to {LARGEST_VOCABULARY:,}"
        )
    rates = generator.uniform(0.0, vocabulary, shape)
    return generator.poisson(rates).astype(np.int32)


def designated_probability(numbers: Array, vocabulary: float) -> Array:
    """P(X = k): the integral is the regularised lower incomplete gamma function P(k + 1, v) divided by v."""
    from scipy.special import gammainc

    probability: Array = gammainc(np.asarray(numbers) + 1.0, vocabulary) / vocabulary
    return probability
