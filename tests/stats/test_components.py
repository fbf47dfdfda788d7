"""Variance components: where an error comes from, and what to add next."""

from __future__ import annotations

import numpy as np
import pytest

from nlgauge.arrays import Array
from nlgauge.stats.components import error_parts, variance_components
from nlgauge.stats.means import mean_interval
from nlgauge.stats.units import Units

Variances = tuple[float, float, float, float]


def crossed(
    rng: np.random.Generator, sizes: tuple[int, int, int], variances: Variances, levels: Array | None = None
) -> tuple[Array, Units]:
    """Values of contexts x runs x responses; `levels` are those of contexts where they are given."""
    contexts, runs, responses = sizes
    of = np.arange(contexts).repeat(runs * responses)
    run = np.tile(np.arange(runs).repeat(responses), contexts)
    a, b, ab, e = np.sqrt(variances)
    context = a * rng.normal(size=contexts) if levels is None else levels
    values = context[of] + b * rng.normal(size=runs)[run] + ab * rng.normal(size=(contexts, runs))[of, run]
    return values + e * rng.normal(size=len(of)), Units(of, run, "context-x-run")


@pytest.mark.parametrize("variances", [(1.0, 0.3, 0.2, 0.5), (0.0, 1.0, 0.1, 0.3), (0.4, 0.0, 0.0, 1.0)])
@pytest.mark.parametrize("kept", [1.0, 0.7])
def test_components_are_recovered_also_where_rows_are_missing(variances: Variances, kept: float) -> None:
    found = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        values, units = crossed(rng, (30, 6, 3), variances)
        chosen = np.flatnonzero(rng.random(len(values)) < kept)
        made = variance_components(values[chosen], units[chosen])
        assert made is not None
        assert made.responses is not None
        found.append([made.contexts, made.runs, made.cells, made.responses])
    assert np.mean(found, axis=0) == pytest.approx(variances, abs=0.1)


def test_components_are_those_of_the_analysis_of_variance_of_statsmodels() -> None:
    smf = pytest.importorskip("statsmodels.formula.api")
    anova = pytest.importorskip("statsmodels.stats.anova")
    import pandas as pd

    contexts, runs, responses = 12, 4, 3
    values, units = crossed(np.random.default_rng(3), (contexts, runs, responses), (1.0, 0.5, 0.4, 0.6))
    frame = pd.DataFrame({"y": values, "c": units.of, "r": units.runs})
    table = anova.anova_lm(smf.ols("y ~ C(c) * C(r)", frame).fit())
    squares = dict(zip(("contexts", "runs", "both", "rest"), table["mean_sq"], strict=True))
    found = variance_components(values, units)
    assert found is not None
    expected = [
        (squares["contexts"] - squares["both"]) / (runs * responses),
        (squares["runs"] - squares["both"]) / (contexts * responses),
        (squares["both"] - squares["rest"]) / responses,
        squares["rest"],
    ]
    assert [found.contexts, found.runs, found.cells, found.responses] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("sides", [1, 2])
def test_parts_add_up_to_the_squared_error(sides: int) -> None:
    """Of means, and of differences between systems on the same contexts."""
    estimates, squared = [], []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        levels = rng.normal(size=15)
        made = [crossed(rng, (15, 4, 2), (1.0, 0.3, 0.2, 0.4), levels) for _ in range(sides)]
        parts = error_parts(made)
        assert parts is not None
        estimates.append(made[-1][0].mean() - (made[0][0].mean() if sides > 1 else 0.0))
        squared.append(parts.error() ** 2)
    assert np.mean(squared) == pytest.approx(np.var(estimates), rel=0.2)


@pytest.mark.parametrize(
    ("sizes", "variances", "add"),
    [
        ((20, 5, 3), (1.0, 0.01, 0.01, 0.1), "contexts"),
        ((20, 5, 3), (0.05, 1.0, 0.01, 0.1), "runs"),
        ((200, 100, 2), (0.0, 0.0, 0.01, 4.0), "responses"),
    ],
)
def test_the_advice_is_right_where_it_is_clear(sizes: tuple[int, int, int], variances: Variances, add: str) -> None:
    right = 0
    for seed in range(60):
        parts = error_parts([crossed(np.random.default_rng(seed), sizes, variances)])
        assert parts is not None
        right += parts.add == add
        assert f"add {parts.add} next" in parts.words
        assert parts.to_dict()["error_with_twice"][parts.add] < parts.error()
    assert right >= 51


def test_what_one_value_per_context_and_run_cannot_show_is_not_advised() -> None:
    parts = error_parts([crossed(np.random.default_rng(1), (20, 5, 1), (0.1, 0.1, 1.0, 1.0))])
    assert parts is not None
    assert set(parts.doubled) == {"contexts", "runs"}
    alone = error_parts([(np.random.default_rng(1).normal(size=20), Units())])
    assert alone is not None
    assert set(alone.doubled) == {"contexts"}


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_intervals_of_20_contexts_and_a_few_runs_cover(runs: int) -> None:
    """The values share contexts and runs by turns; `docs/statistics.md` has the long version."""
    covered = 0
    for seed in range(400):
        values, units = crossed(np.random.default_rng(seed), (20, runs, 1), (1.0, 0.3, 0.3, 0.0))
        found = mean_interval(values, 0.95, units)
        assert found is not None
        covered += found[0] <= 0 <= found[1]
    assert 0.92 <= covered / 400 <= 0.985
