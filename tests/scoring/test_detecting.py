"""`nlgauge plan --detect`: experiments of the planned size find the difference as often as was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import nlgauge
from nlgauge.arrays import Array
from nlgauge.cli.main import app
from nlgauge.data.columns import Reading
from nlgauge.data.human.ratings import read_ratings
from nlgauge.data.reading import Source
from nlgauge.data.tables import Ratings
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.column import ColumnMetric
from nlgauge.metrics.score import Score
from nlgauge.scoring.detecting import Needed, needed_ratings, needed_to_detect
from nlgauge.scoring.scoring import score_data
from nlgauge.stats.inference import Comparing
from nlgauge.stats.permutation import sign_tails
from nlgauge.stats.power import power_range, spread_freedom, units_needed

HOW = Comparing()
Draw = Callable[[np.random.Generator, Any], Array]


def normal(rng: np.random.Generator, shape: Any) -> Array:
    found: Array = rng.normal(size=shape)
    return found


def lognormal(rng: np.random.Generator, shape: Any) -> Array:
    found: Array = rng.lognormal(0, 0.5, shape) - np.exp(0.125)
    return found


def differences(draw: Draw, rng: np.random.Generator, contexts: int, times: int = 1) -> Array:
    """Of two systems with three responses per context, whose difference varies between contexts, too."""
    sides = draw(rng, (2, times, contexts, 3)).mean(axis=3)
    found: Array = 0.1 * draw(rng, (times, contexts)) + 0.15 * (sides[1] - sides[0])
    return found


@pytest.mark.parametrize("draw", [normal, lognormal])
def test_plans_from_a_pilot_find_the_difference_in_four_of_five_experiments(draw: Draw) -> None:
    powers, inside, size = [], 0, 0.08 if draw is normal else 0.05
    for seed in range(12):
        rng = np.random.default_rng(seed)
        (pilot,) = differences(draw, rng, 40)
        ones = np.ones(40)
        contexts = units_needed(pilot, ones, 0.05, size, seed=seed)
        assert contexts is not None
        again = differences(draw, rng, contexts, 200) + size
        powers.append(float(np.mean(sign_tails(np.abs(again), np.abs(again.sum(axis=1))) <= 0.05)))
        low, high = power_range(spread_freedom(pilot, ones), 0.05)
        inside += low - 0.03 <= powers[-1] <= high + 0.03
    assert 0.75 <= np.mean(powers) <= 0.85
    assert inside >= 8


def test_few_units_are_planned_with_the_steps_of_the_test() -> None:
    """Five contexts find nothing however large the difference is, and at .001 ten do not."""
    pilot = np.random.default_rng(0).normal(size=30)
    assert units_needed(pilot, np.ones(30), 0.05, 100.0) == 6
    assert units_needed(pilot, np.ones(30), 0.001, 100.0) == 11
    assert units_needed(np.full(30, 0.5), np.ones(30), 0.05, 0.1) is None


def test_numbers_grow_with_the_square_of_the_difference_also_beyond_those_that_are_simulated() -> None:
    pilot = np.random.default_rng(1).normal(size=200)
    found = [units_needed(pilot, np.ones(200), 0.05, size) for size in (0.2, 0.1, 0.02)]
    first, *others = [one for one in found if one is not None]
    assert [one / first for one in others] == pytest.approx([4, 100], rel=0.1)


def scored(folder: Path, shape: tuple[int, int, int], spreads: Sequence[float], seed: int = 0) -> list[Score]:
    """Two systems with contexts x runs x sets; standard deviations of contexts, of runs and of the rest."""
    rng = np.random.default_rng(seed)
    contexts, runs, _ = shape
    shared = rng.normal(size=(contexts, 1, 1))
    sources = []
    for name in ("a", "b"):
        own, run = spreads[0] * rng.normal(size=(contexts, 1, 1)), spreads[1] * rng.normal(size=(1, runs, 1))
        values = shared + own + run + spreads[2] * rng.normal(size=shape)
        rows = [
            {"id": f"{c}-{r}-{k}", "context": f"c{c}", "run": f"r{r}", "responses": ["x", "y"], "q": values[c, r, k]}
            for c, r, k in np.ndindex(*shape)
        ]
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        sources.append(Source(path=str(path), reading=Reading(), extras=("q",)))
    return score_data(sources, [ColumnMetric(column="q")], inference=HOW, sizing=HOW)


def only(found: Sequence[Needed]) -> Needed:
    (one,) = found
    return one


def of(needs: Mapping[str, int | None] | None, name: str) -> int:
    """What is needed, where it is enough."""
    number = (needs or {})[name]
    assert number is not None
    return number


def test_sets_of_a_context_help_as_far_as_contexts_allow(tmp_path: Path) -> None:
    """With 60 contexts the error is at least that of contexts, about .1 * sqrt(2 / 60) = .018."""
    scores = scored(tmp_path, (60, 1, 2), (0.1, 0.0, 0.3))
    near, far = (only(needed_to_detect(scores, size, HOW)) for size in (0.1, 0.02))
    assert near.simulated
    assert near.has == {"contexts": 60, "per_context": 2}
    assert of(near.needs, "contexts") > 60
    assert 3 <= of(near.needs, "per_context") <= 8
    assert far.needs["per_context"] is None
    assert only(needed_to_detect(scores, near.reach, HOW)).needs["contexts"] == pytest.approx(60, rel=0.07)


def test_several_runs_are_planned_with_contexts_and_alone(tmp_path: Path) -> None:
    scores = scored(tmp_path, (40, 4, 1), (0.01, 0.2, 0.1))
    found = only(needed_to_detect(scores, 0.2, HOW))
    assert not found.simulated
    assert found.has == {"contexts": 40, "runs": 4}
    assert found.needs["contexts"] is None
    assert 8 <= of(found.needs, "runs") <= 30
    small = only(needed_to_detect(scored(tmp_path, (40, 4, 1), (0.3, 0.2, 0.1)), 0.03, HOW))
    assert small.needs == {"contexts": None, "runs": None}
    assert of(small.together, "contexts") == pytest.approx(10 * of(small.together, "runs"), abs=10)


def test_one_system_is_planned_for_an_interval(tmp_path: Path) -> None:
    first = scored(tmp_path, (50, 1, 1), (0.5, 0.0, 0.1))[:1]
    found = only(needed_to_detect(first, 0.1, HOW))
    values = first[0].items.all_values() if first[0].items else np.empty(0)
    contexts = found.needs["contexts"]
    assert contexts == pytest.approx((1.96 * values.std(ddof=1) / 0.1) ** 2, rel=0.02)
    assert found.power_range is None
    assert first[0].ci is not None
    assert found.reach == pytest.approx((first[0].ci[1] - first[0].ci[0]) / 2, rel=0.05)


def test_a_family_and_other_designs_need_more(tmp_path: Path) -> None:
    a, b = scored(tmp_path, (30, 1, 1), (0.1, 0.0, 0.1))
    alone = only(needed_to_detect([a, b], 0.05, HOW)).needs["contexts"]
    more = [nlgauge.Score(**{**vars(b), "system": f"b{number}"}) for number in range(4)]
    holm = needed_to_detect([a, *more], 0.05, Comparing(correction="holm"))
    apart = only(needed_to_detect([a, b], 0.05, HOW, paired=False))
    assert alone is not None
    assert of(holm[0].needs, "contexts") > 1.2 * alone
    assert apart.has["contexts"] == 60
    assert of(apart.needs, "contexts") > 10 * alone
    assert not apart.simulated


def made_ratings(items: int, raters: int, per_item: int, seed: int = 3) -> Ratings:
    rng = np.random.default_rng(seed)
    levels, leniency = rng.normal(0, 0.5, items), rng.normal(0, 0.3, raters)
    rows = [
        {"item": f"i{i}", "rater": f"r{r}", "question": "q", "value": levels[i] + leniency[r] + rng.normal(0, 0.6)}
        for i in range(items)
        for r in rng.choice(raters, per_item, replace=False)
    ]
    return Ratings(pl.DataFrame(rows))


def test_ratings_need_raters_where_these_rate_all_items_and_items_where_they_do_not() -> None:
    crossed, crowd = (only(needed_ratings(made_ratings(*shape), 0.1, HOW)) for shape in ((80, 8, 8), (80, 40, 4)))
    assert crossed.needs["items"] is None
    assert crossed.together is not None
    assert crowd.has == {"items": 80, "ratings_per_item": 4}
    assert crowd.needs["items"] == pytest.approx(80 * (crowd.reach / 0.1) ** 2, rel=0.05)
    easy = only(needed_ratings(made_ratings(80, 8, 8), 0.25, HOW))
    assert 4 <= of(easy.needs, "ratings_per_item") <= 16


def test_ratings_that_show_no_raters_are_refused(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("item,rater,value\n" + "".join(f"i{i},r{i % 2},{i}\n" for i in range(8)))
    with pytest.raises(DataError) as caught:
        needed_ratings(read_ratings(tmp_path / "r.csv"), 0.1, HOW)
    assert caught.value.file == str(tmp_path / "r.csv")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """The command, here; its result as a document."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "cache"))

    def ran(*words: str) -> dict[str, Any]:
        app(["plan", *words, "--no-progress", "-o", "needed.json"], standalone_mode=False)
        document: dict[str, Any] = json.loads((tmp_path / "needed.json").read_text())
        return document

    return ran


Run = Callable[..., dict[str, Any]]


def test_the_command_writes_the_numbers_in_every_format(examples: Path, run: Run) -> None:
    files = [str(examples / f"system_{name}.jsonl") for name in "ab"]
    options = (*files, "-m", "distinct", "-m", "distinct:over=corpus", "--detect", "0.1", "--power", "0.9")
    document = run(*options)
    of_sets, of_corpus = document["needed"]
    assert (document["schema"], document["power"]) == ("nlgauge.needed/1", 0.9)
    assert (of_sets["simulated"], of_corpus["simulated"]) == (True, False)
    assert (set(of_sets["has"]), set(of_corpus["has"])) == ({"contexts"}, {"texts"})
    app(["plan", *options, "--no-progress", "-o", "needed.csv"], standalone_mode=False)
    frame = pl.read_csv("needed.csv")
    assert frame["contexts_needed"][0] == of_sets["needs"]["contexts"]
    assert frame["texts_needed"][1] == of_corpus["needs"]["texts"]


def test_a_constant_metric_is_said_and_the_others_are_planned(tmp_path: Path, run: Run) -> None:
    for name, step in (("a", 1), ("b", 3)):
        rows = [{"id": str(i), "responses": ["x", "y"], "q": (step * i) ** 2 % 7, "c": 0.1} for i in range(12)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = run("a.jsonl", "b.jsonl", "--column", "q", "--column", "c", "--detect", "1")
    assert [bool(one["needs"]) for one in document["needed"]] == [True, False]
    with pytest.raises(DataError):
        run("a.jsonl", "b.jsonl", "--column", "c", "--detect", "1")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("a.jsonl", "--detect", "0"), "detect"),
        (("a.jsonl", "--detect", "nan"), "detect"),
        (("a.jsonl", "--detect", "0.1", "--power", "1"), "power"),
        (("--detect", "0.1"), "ratings"),
        (("a.jsonl", "--ratings", "a.jsonl", "--detect", "0.1"), "ratings"),
        (("--ratings", "a.jsonl"), "detect"),
    ],
)
def test_bad_options_are_refused(words: tuple[str, ...], option: str, run: Run) -> None:
    with pytest.raises(OptionError) as caught:
        run(*words)
    assert caught.value.option == option


def test_a_pilot_of_one_context_is_refused(tmp_path: Path, run: Run) -> None:
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text('{"id": "1", "context": "c", "responses": ["x", "y"]}\n')
    for files in (("a.jsonl",), ("a.jsonl", "b.jsonl")):
        with pytest.raises(DataError):
            run(*files, "-m", "distinct", "--detect", "0.1")
