"""Do two systems differ? Paired, unpaired, refused; and how often a system differs from itself."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

import nlgauge
from nlgauge.arrays import Array
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.base import SetMetric
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import Direction, ItemValues, RowKeys, Score
from nlgauge.report.leaderboard import Results, leaderboard
from nlgauge.report.tables import choose_format, comparison_sheet, render, score_sheet
from nlgauge.scoring.compared import Comparison
from nlgauge.scoring.comparison import compare_scores, corrected
from nlgauge.scoring.scoring import score_data
from nlgauge.stats.inference import Comparing
from tests import helpers
from tests.errors import raises

SPLITS = 200


def made(values: Sequence[float] | Array, system: str, ids: Sequence[str] | None = None, **changes: Any) -> Score:
    """A score with these values of sets."""
    known = nlgauge.score([["a", "b"]], ["distinct"])[0]
    keys = RowKeys(pl.Series("id", ids or [str(i) for i in range(len(values))]), None)
    items = ItemValues((keys,), (np.array(values, dtype=np.float64),))
    return replace(known, value=float(np.nanmean(values)), items=items, system=system, **changes)


def zipf_sets(rng: np.random.Generator, contexts: int, responses: int) -> list[list[str]]:
    """Responses that draw a few words from one skewed vocabulary."""
    words = rng.zipf(1.3, (contexts, responses, 8)) % 400
    return [[" ".join(f"w{w}" for w in text) for text in texts] for texts in words]


@pytest.mark.parametrize("paired", [True, False], ids=["paired", "unpaired"])
def test_a_system_differs_from_itself_one_time_in_twenty(paired: bool) -> None:
    rng = np.random.default_rng(20)
    corpus = zipf_sets(rng, 40 if paired else 20, 8)
    said = 0
    for seed in range(SPLITS):
        if paired:
            dealt = [rng.permutation(texts).tolist() for texts in corpus]
            halves = [[texts[side::2] for texts in dealt] for side in (0, 1)]
        else:
            order = rng.permutation(len(corpus))
            halves = [[corpus[i] for i in order[side::2]] for side in (0, 1)]
        scores = [
            replace(nlgauge.score(ResponseSets.of(half, ids=range(len(half))), ["distinct"])[0], system=name)
            for half, name in zip(halves, "ab", strict=True)
        ]
        found = nlgauge.compare_all(scores, resamples=100, seed=seed, paired=paired)[0]
        said += "than" in found.verdict
    assert 0.02 <= said / SPLITS <= 0.09


def test_a_paired_comparison_says_all_that_a_reader_needs() -> None:
    one, two = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [0.3, 0.3, 0.5, 0.5, 0.8, 0.7, 0.9]
    found = nlgauge.compare_all([made(one, "a"), made(two, "b")])[0]
    differences = np.array(two) - np.array(one)
    assert found.first_value == pytest.approx(0.4)
    assert found.second_value == pytest.approx(4 / 7)
    assert found.difference == pytest.approx(differences.mean())
    assert found.effect == pytest.approx(differences.mean() / differences.std(ddof=1))
    assert found.p == found.p_adjusted == found.smallest_p == 2 / 2**7
    assert found.verdict == "b is more diverse than a"
    assert found.ci[0] < found.difference < found.ci[1]
    assert "effect:cohen-dz" in found.signature


def test_the_verdict_follows_direction_and_correction() -> None:
    def verdict(difference: float, p: float, higher: str, smallest: float = 0.0) -> str:
        return Comparison(
            "m", "m", "a", "b", difference, (0, 0), 0.01, 9, higher, "", p, smallest_p=smallest  # type: ignore[arg-type]
        ).verdict  # fmt: skip

    assert verdict(0.1, 0.04, "less diverse") == "b is less diverse than a"
    assert verdict(-0.1, 0.04, "less diverse") == "b is more diverse than a"
    assert verdict(-0.1, 0.04, "better") == "b is worse than a"
    assert verdict(0.1, 0.05, "better") == "no significant difference"
    assert verdict(0.1, math.nan, "worse") == "b is worse than a"
    assert verdict(0.1, 0.2, "better", smallest=0.0625) == "too few contexts to tell"


def test_five_contexts_are_too_few_and_six_are_not() -> None:
    for count, verdict in ((5, "too few contexts to tell"), (6, "b is more diverse than a")):
        scores = [made(np.arange(count) / 10, "a"), made(np.arange(count) / 10 + 0.3, "b")]
        assert nlgauge.compare_all(scores)[0].verdict == verdict


def test_no_spread_has_no_effect_size() -> None:
    same = nlgauge.compare(made([0.5] * 8, "a"), made([0.5] * 8, "b"))
    assert (same.difference, same.effect, same.p, same.verdict) == (0.0, 0.0, 1.0, "no significant difference")
    apart = nlgauge.compare(made([0.25] * 8, "a"), made([0.5] * 8, "b"))
    assert (apart.difference, apart.effect) == (0.25, None)
    assert nlgauge.compare(made(np.arange(8) / 10, "a"), made(np.arange(8) / 10 + 0.3, "b")).effect is None
    assert apart.to_dict()["effect"] is None


def test_one_comparison_needs_no_correction() -> None:
    alone = nlgauge.compare(made(np.arange(8) / 10, "a"), made(np.arange(8) / 9, "b"))
    assert alone.to_dict()["p_adjusted"] == alone.p_adjusted == alone.p


def test_names_of_files_are_no_scores() -> None:
    with pytest.raises(DataError, match=r"found str and str; expected two scores, .* nlgauge\.score\("):
        nlgauge.compare("a.json", "b.json")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="found Score and list; expected two scores"):
        nlgauge.compare(made([0.1, 0.2], "a"), [made([0.1, 0.2], "b")])  # type: ignore[arg-type]


def test_one_context_says_nothing() -> None:
    with pytest.raises(DataError, match="nothing can be said about 'a' and 'b' by distinct: 1 context on which both"):
        nlgauge.compare(made([0.5], "a"), made([0.7], "b"))
    with pytest.raises(DataError, match=r"nothing can be said .* 1 context on which both"):
        nlgauge.compare(made([0.5, math.nan, 0.1], "a"), made([0.7, 0.5, math.nan], "b"))
    corpus = nlgauge.score([["a b", "c d"]], ["ead"], confidence=True)[0]
    with pytest.raises(DataError, match="nothing can be said about a difference between 'a' and 'b'; expected several"):
        nlgauge.compare(replace(corpus, system="a"), replace(corpus, system="b"))
    with pytest.raises(DataError, match=r"nothing can be said .* 1 and 3 sets with a value"):
        nlgauge.compare(made([0.5], "a"), made([0.7, 0.5, 0.6], "b"), paired=False)


def test_what_cannot_be_paired_is_refused_with_the_reason_and_the_way_out() -> None:
    one = made([0.1, 0.2, 0.3], "a", ["x", "y", "z"])
    for other, reason in (
        (made([0.1, 0.2], "b", ["x", "y"]), "3 and 2 sets, 2 ids in common"),
        (made([0.1, 0.2, 0.3], "b", ["x", "y", "y"]), "duplicate id 'y' in 'b'"),
        (made([0.1, 0.2, 0.3], "b", ["u", "v", "w"]), "0 ids in common"),
    ):
        with pytest.raises(DataError, match=reason) as raised:
            nlgauge.compare(one, other)
        assert raised.value.option == "paired"


def test_a_refused_pairing_counts_contexts_and_points_at_one_that_is_missing() -> None:
    def scored(contexts: list[str] | None, system: str, ids: list[str] | None = None) -> Score:
        texts = [["a b", "a c"]] * len(contexts or ids or [])
        sets = ResponseSets.of(texts, contexts=contexts, ids=ids)
        return replace(nlgauge.score(sets, ["distinct"])[0], system=system)

    def refusal(first: Score, second: Score) -> str:
        with pytest.raises(DataError) as raised:
            nlgauge.compare(first, second)
        return str(raised.value)

    one = scored(["rain", "sun", "snow"], "a")
    assert "3 and 2 sets, 2 contexts in common, the context of set '1' of 'a' is not in 'b'" in refusal(
        one, scored(["snow", "rain"], "b")
    )
    assert "3 and 4 sets, 3 contexts in common, the context of set '3' of 'b' is not in 'a'" in refusal(
        one, scored(["rain", "snow", "sun", "fog"], "b")
    )
    shared = nlgauge.compare(scored(["rain", "sun"], "a"), scored(["rain", "rain", "sun"], "b"))
    assert (shared.n, shared.units) == (2, 2)
    named = refusal(scored(["rain", "sun"], "a", ["x\x1b[31m", "y"]), scored(["sun", "sun"], "b", ["x\x1b[31m", "y"]))
    assert "2 ids in common, 1 of them with another context, 1 contexts in common" in named
    assert "the context of set 'x\ufffd[31m' of 'a' is not in 'b'" in named
    assert "--context" not in named
    numbered = refusal(scored(None, "a", ["1", "2", "3"]), scored(None, "b", ["1", "2"]))
    assert "2 ids in common (ids look like line numbers, and no contexts are known: name their column" in numbered
    assert "--context" not in refusal(scored(None, "a", ["x", "y"]), scored(None, "b", ["x", "z"]))


def test_unpaired_sets_are_tested_by_trying_every_partition_when_there_are_few() -> None:
    found = nlgauge.compare(made([1, 2, 3, 4], "a"), made([5, 6, 7, 8, 9], "b"), paired=False)
    assert found.p == found.smallest_p == pytest.approx(2 / math.comb(9, 4))
    assert (found.difference, found.n, found.paired) == (4.5, 9, False)
    assert found.effect == pytest.approx(4.5 / math.sqrt((3 * 5 / 3 + 4 * 2.5) / 7))
    assert found.verdict == "b is more diverse than a"
    assert found.ci[0] > 0
    assert nlgauge.compare(made([5, 6, 7, 8, 9], "b"), made([1, 2, 3, 4], "a"), paired=False).p == found.p
    few = nlgauge.compare(made([1, 2], "a"), made([5, 6], "b"), paired=False)
    assert few.verdict == "too few sets to tell"


def test_unpaired_numbers_do_not_depend_on_order_and_follow_the_seed() -> None:
    rng = np.random.default_rng(4)
    one, two = rng.random(60), rng.random(50) + 0.1
    first = nlgauge.compare(made(one, "a"), made(two, "b"), paired=False)
    again = nlgauge.compare(made(one[::-1], "a"), made(two[::-1], "b"), paired=False)
    assert (first.p, first.ci, first.difference) == (again.p, again.ci, again.difference)
    other = nlgauge.compare(made(one, "a"), made(two, "b"), paired=False, seed=9)
    assert other.ci == first.ci
    assert other.p == pytest.approx(first.p, abs=0.02)


def test_whole_corpora_are_compared_unpaired_with_wider_intervals() -> None:
    rng = np.random.default_rng(8)
    texts = [zipf_sets(rng, 150, 2) for _ in range(2)]
    scores = [
        replace(nlgauge.score(ResponseSets.of(sets, ids=range(150)), ["ead"], confidence=True)[0], system=name)
        for sets, name in zip(texts, "ab", strict=True)
    ]
    paired, unpaired = (nlgauge.compare(*scores, paired=flag) for flag in (True, False))
    assert paired.difference == unpaired.difference
    assert "jackknife-unpaired" in unpaired.signature
    assert unpaired.effect is None
    half = (unpaired.ci[1] - unpaired.ci[0]) / 2
    ends = [(score.ci[1] - score.ci[0]) / 2 for score in scores if score.ci is not None]
    assert half == pytest.approx(math.hypot(*ends), rel=0.02)
    assert unpaired.verdict == "no significant difference"
    short = nlgauge.score(ResponseSets.of(texts[0][:90], ids=range(90)), ["ead"], confidence=True)[0]
    with raises(DataError, option="paired"):
        nlgauge.compare(scores[1], short)


def test_latex_has_a_minus_and_text_on_the_left() -> None:
    scores = [made([0.5, 0.6, 0.7, 0.8], "a-1"), made([0.1, 0.3, 0.2, 0.5], "b-2")]
    lines = render(comparison_sheet(scores, nlgauge.compare_all(scores)), "latex").splitlines()
    assert lines[0] == r"% needs \usepackage{booktabs}"
    assert r"\begin{tabular}{llrlrrrrrrl}" in lines
    row = next(line for line in lines if line.startswith("distinct"))
    assert row.startswith("distinct & a-1 & 0.6500 & b-2 & 0.2750 & $-$0.3750 & [$-$0.")


def test_hostile_names_stay_in_their_cells() -> None:
    scores = [made([0.1, 0.3, 0.2], "=1+1"), made([0.2, 0.3, 0.4], "x\n% & <y>|_")]
    compared = nlgauge.compare_all(scores)
    for sheet in (score_sheet(scores, compared), comparison_sheet(scores, compared)):
        assert "'=1+1" in render(sheet, "csv", spreadsheet=True)
        latex = render(sheet, "latex")
        assert r"x \% \& \textless{}y\textgreater{}\textbar{}\_" in latex
        assert all("|" not in line for line in latex.splitlines() if not line.startswith("%"))
        lines = render(sheet, "markdown").splitlines()
        assert r"x % &amp; &lt;y&gt;\|_" in "\n".join(lines[:3])
        assert len(json.loads(render(sheet, "json"))["comparisons"]) == 1


def run(folder: Path, *arguments: str) -> helpers.Outcome:
    return helpers.nlgauge("compare", *arguments, cwd=folder, cache=folder / "cache")


def test_compare_prints_the_verdict_and_writes_every_format(examples: Path, tmp_path: Path) -> None:
    files = [str(examples / f"system_{name}.jsonl") for name in "ab"]
    printed = run(tmp_path, *files, "-m", "distinct", "-m", "self-bleu")
    assert printed.code == 0
    assert printed.out.count("b is more diverse than a") == 2
    document = json.loads(run(tmp_path, *files, "-m", "distinct", "-f", "json").out)
    assert "sets" not in document
    expected = helpers.nlgauge(
        "score", *files, "-m", "distinct", "-f", "json", cwd=tmp_path, cache=tmp_path / "cache"
    )  # fmt: skip
    assert document == json.loads(expected.out)
    done = run(tmp_path, *files, "-m", "distinct", "-o", "out.parquet")
    assert (done.code, done.out) == (0, "")
    row = pl.read_parquet(tmp_path / "out.parquet").row(0, named=True)
    assert row["verdict"] == "b is more diverse than a"
    assert row["effect"] == document["comparisons"][0]["effect"]


def test_the_format_is_what_was_asked_for_or_what_the_name_says() -> None:
    assert choose_format("", None) == "text"
    assert choose_format("", Path("out.md")) == "markdown"
    assert choose_format("csv", Path("out.txt")) == "csv"
    for form, output, message in (
        ("parquet", None, "cannot be printed"),
        ("", Path("out.doc"), "unknown ending"),
        ("yaml", None, "expected one of text, json"),
    ):
        with pytest.raises(OptionError, match=message):
            choose_format(form, output)


def test_files_with_other_contexts_need_unpaired(examples: Path, tmp_path: Path) -> None:
    sets = "".join(json.dumps({"context": f"c{i}", "responses": ["a b", f"a {i}"]}) + "\n" for i in range(9))
    (tmp_path / "other.jsonl").write_text(sets)
    files = [str(examples / "system_a.jsonl"), "other.jsonl"]
    refused = run(tmp_path, *files, "-m", "distinct")
    assert refused.code == 2
    assert "cannot be paired: 45 and 9 sets" in refused.err
    assert "--unpaired" in refused.err
    done = run(tmp_path, *files, "-m", "distinct", "-m", "ead", "--unpaired")
    assert done.code == 0
    assert "permutation-studentised-10000" in done.out
    assert "measured at 9 sets, 2 responses per set: ead" in done.err
    alone = run(tmp_path, files[0], "-m", "distinct")
    assert alone.code == 2
    assert "expected two to compare" in alone.err


def shared(rng: np.random.Generator, contexts: int, each: int, system: str) -> Score:
    """Several sets of every context, with an intra-class correlation of one half."""
    values = 0.5 + 0.05 * (rng.normal(size=contexts).repeat(each) + rng.normal(size=contexts * each))
    score = made(values, system)
    keys = RowKeys(score.items.rows[0].ids, np.arange(contexts, dtype=np.uint64).repeat(each)) if score.items else None
    assert keys is not None
    return replace(score, items=ItemValues((keys,), (values,)))


@pytest.mark.parametrize("paired", [True, False], ids=["paired", "unpaired"])
def test_sets_of_one_context_are_one_unit(paired: bool) -> None:
    """15 contexts x 6 sets: taken as 90 independent sets, equal systems differed in 31 %."""
    rng, said, hits = np.random.default_rng(31), 0, 0
    for seed in range(SPLITS):
        one, two = shared(rng, 15, 6, "a"), shared(rng, 15, 6, "b")
        found = nlgauge.compare(one, two, paired=paired, seed=seed)
        said += found.significant
        hits += found.ci[0] <= 0 <= found.ci[1]
        assert found.unit == "context"
        assert found.units == (15 if paired else 30)
    assert said / SPLITS <= 0.1
    assert hits / SPLITS >= 0.9
    assert nlgauge.compare(one, two, unit="set").units == 90
    with raises(DataError, option="unit"):
        nlgauge.compare(made([0.1, 0.2, 0.3], "a"), made([0.1, 0.2, 0.4], "b"), unit="context")


def test_forty_systems_that_lie_far_apart_are_forty_clusters() -> None:
    """A p-value that cannot fall below 1/10,001 made one cluster of 33 systems."""
    rng = np.random.default_rng(40)
    noise = 0.0001 * rng.normal(size=(40, 30))
    scores = tuple(made(0.01 * place + row, f"s{place:02}") for place, row in enumerate(noise))
    board = leaderboard([Results("all.json", scores)])
    assert sorted(place.cluster or 0 for place in board.places) == list(range(1, 41))


def test_thirty_metrics_of_many_systems_are_all_significant() -> None:
    rng = np.random.default_rng(30)
    scores = [
        replace(made(0.1 * (system > 0) + 0.001 * rng.normal(size=25), f"s{system}"), label=f"m{metric}")
        for metric in range(30)
        for system in range(21)
    ]
    found = [
        compare_scores(base, other, Comparing())
        for base in scores[::21]
        for other in scores
        if other.label == base.label and other is not base
    ]
    for correction in ("max-t", "holm"):
        assert all(one.significant for one in corrected(found, Comparing(correction=correction)))


def test_an_output_says_in_words_which_tests_are_a_family() -> None:
    rng = np.random.default_rng(32)
    scores = [made(row, f"s{place}") for place, row in enumerate(rng.normal(size=(4, 20)))]

    def told(count: int, **options: Any) -> str:
        notes = comparison_sheet(scores, nlgauge.compare_all(scores[:count], **options)).notes
        assert notes == score_sheet(scores, nlgauge.compare_all(scores[:count], **options)).notes
        return notes[0]

    assert told(4) == "3 tests are one family, corrected by max-T: p (adjusted) below 0.05 is significant"
    assert told(3, paired=False).startswith("2 tests are one family, corrected by Holm's method")
    assert told(4, margin=0.1).endswith("the two tests of the margin are families of their own, by Holm's method")
    assert told(4, correction="none").startswith("3 tests, none of them corrected")
    assert told(2).startswith("one test, which needs no correction")
    assert comparison_sheet(scores[:1], []).notes == ()


def test_systems_within_a_margin_are_equal_and_others_are_not_worse() -> None:
    rng = np.random.default_rng(6)
    base = rng.random(60)
    one, near = made(base, "a"), made(base + 0.002 * rng.normal(size=60), "b")
    assert nlgauge.compare(one, near, margin=0.01).verdict == "equal within 0.01"
    better = made(base + 0.05 + 0.02 * rng.normal(size=60), "b")
    assert nlgauge.compare(one, better, margin=0.01).verdict == "b is more diverse than a"
    assert nlgauge.compare(one, better, margin=0.2).verdict == "b is more diverse than a, but by less than 0.2"
    unsure = made(base + 0.3 * rng.normal(size=60), "b")
    assert nlgauge.compare(one, unsure, margin=0.001).verdict == "cannot tell"
    wide = made(base + 0.12 + 0.5 * rng.normal(size=60), "b")
    assert nlgauge.compare(one, wide, margin=0.15).verdict == "b is not less diverse than a by more than 0.15"
    with pytest.raises(OptionError):
        nlgauge.compare(one, near, margin=-0.1)


def test_differences_as_large_as_the_margin_are_called_equal_one_time_in_twenty() -> None:
    rng, equal, not_worse = np.random.default_rng(7), 0, 0
    for seed in range(SPLITS):
        base = rng.random(30)
        found = nlgauge.compare(
            made(base, "a"), made(base - 0.1 + 0.1 * rng.normal(size=30), "b"), margin=0.1, seed=seed
        )
        equal += found.equal_p is not None and found.equal_p < 0.05
        not_worse += found.not_worse_p is not None and found.not_worse_p < 0.05
    assert equal / SPLITS <= 0.09
    assert not_worse / SPLITS <= 0.09


def test_a_corpus_with_other_ids_is_not_paired() -> None:
    """Groups of equal sizes were taken for the same texts."""
    one, two = (
        replace(nlgauge.score(ResponseSets.of([["a b"], ["c d"]], ids=ids), ["ttr"], confidence=True)[0], system=name)
        for ids, name in ((["p", "q"], "a"), (["r", "s"], "b"))
    )
    assert one.left_out is not None
    assert one.left_out.keys is not None
    with raises(DataError, option="paired"):
        nlgauge.compare(one, two)
    assert 0 < nlgauge.compare(one, two, paired=False).p <= 1


def test_systems_are_compared_on_the_contexts_that_they_share() -> None:
    one, two = made([0.1, 0.2, 0.3, 0.4], "a", ["w", "x", "y", "z"]), made([0.2, 0.3, 0.4], "b", ["x", "y", "v"])
    with raises(DataError, option="paired"):
        nlgauge.compare(one, two)
    found = nlgauge.compare(one, two, common=True)
    assert found.n == 2
    assert found.difference == pytest.approx(0.0)
    assert "|common:2|" in found.signature
    told = comparison_sheet([one, two], [found]).notes
    assert told[0] == "'a' and 'b' are compared on what they have in common: 2 sets"
    assert "common" not in nlgauge.compare(one, two, common=True, paired=False).signature


def test_runs_are_a_source_of_error_of_their_own() -> None:
    """Five runs of each system, which differ by as much as contexts do; a run is the same on all contexts."""
    rng, times = np.random.default_rng(8), 150
    contexts, runs = np.arange(20, dtype=np.uint64).repeat(5), np.tile(np.arange(5, dtype=np.uint64), 20)

    def system(name: str, levels: Array) -> Score:
        values = levels[contexts] + 0.5 * rng.normal(size=5)[runs] + 0.2 * rng.normal(size=100)
        score = made(values, name)
        assert score.items is not None
        return replace(score, items=ItemValues((RowKeys(score.items.rows[0].ids, contexts, runs),), (values,)))

    false = blind = 0
    for _ in range(times):
        levels = rng.normal(size=20)
        one, two = system("a", levels), system("b", levels)
        found = nlgauge.compare(one, two)
        assert found.unit == "context-x-run"
        false += found.significant
        blind += nlgauge.compare(one, two, unit="context").significant
    assert false / times <= 0.1
    assert blind / times > 0.3


def test_a_few_equal_differences_exclude_nothing() -> None:
    few, many = ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3] * 3)
    for values, ends in ((few, (-1.0, 1.0)), (many, (0.25, 0.25))):
        found = nlgauge.compare(made(values, "a"), made([one + 0.25 for one in values], "b"))
        assert found.ci == pytest.approx(ends)
        assert found.significant == (len(values) > 5)
    whole = [
        replace(
            nlgauge.score(Items.of([text] * 2, ids=["1", "2"]), ["distinct:over=corpus,n=1"], confidence=True)[0],
            system=text,
        )
        for text in ("a b c d", "a a a a")
    ]
    found = nlgauge.compare(*whole)
    assert (found.ci, found.p) == ((-1.0, 1.0), 0.5)


@pytest.mark.parametrize("paired", [True, False])
def test_values_that_do_not_vary_show_no_more_than_their_number(paired: bool) -> None:
    """Nothing shows an error there, and Student's t would give 0: three equal contexts were `equal within 0.1`."""
    for count, equal in ((3, False), (8, True)):
        found = nlgauge.compare(made([0.3] * count, "a"), made([0.3] * count, "b"), margin=0.1, paired=paired)
        assert found.is_equal == found.is_not_worse == equal
        assert found.equal_p == pytest.approx(0.5**count if paired else 1 / math.comb(2 * count, count))
        assert found.p == 1.0


def test_runs_that_do_not_vary_show_no_more_than_their_contexts() -> None:
    sides = [
        pl.DataFrame({"context": list("xxyy"), "run": list("1212"), "text": ["t"] * 4, "value": [value] * 4})
        for value in (0.3, 0.5)
    ]
    first, second = (
        replace(nlgauge.score(side, ["column:column=value"], confidence=True, runs="run")[0], system=name)
        for side, name in zip(sides, "ab", strict=True)
    )
    found = nlgauge.compare(first, second)
    assert (found.unit, found.units, found.p) == ("context-x-run", 2, 0.5)
    assert not found.significant


def test_no_p_value_is_0() -> None:
    rng = np.random.default_rng(13)
    apart = nlgauge.compare(made(rng.normal(size=2000), "a"), made(50 + rng.normal(size=2000), "b"), margin=1)
    assert apart.p > 0
    assert apart.not_worse_p is not None
    assert 0 < apart.not_worse_p < 1e-300


def test_exchanged_systems_have_the_same_p_value() -> None:
    rng = np.random.default_rng(12)
    one, two = made(rng.normal(size=30), "a"), made(rng.normal(0.4, 1, 30), "b")
    for paired in (True, False):
        assert nlgauge.compare(one, two, paired=paired).p == nlgauge.compare(two, one, paired=paired).p


def test_contexts_that_tie_make_no_p_value_smaller() -> None:
    found = nlgauge.compare(made([0.1] * 5 + [0.2, 0.3], "a"), made([0.1] * 5 + [0.4, 0.5], "b"))
    assert found.smallest_p == found.p == 0.5
    assert found.verdict == "too few contexts to tell"


@dataclass(frozen=True, kw_only=True)
class Busy(SetMetric):
    """A costly metric that says when it works."""

    name: ClassVar[str] = "busy"
    paper: ClassVar[str] = ""
    aspect: ClassVar[str] = "columns"
    direction: ClassVar[Direction] = Direction.MORE_DIVERSE
    costly: ClassVar[bool] = True

    def per_set(self, batch: Batch) -> Array:
        raise RuntimeError("it works")


def test_systems_that_cannot_be_paired_are_refused_before_costly_metrics_work(tmp_path: Path) -> None:
    for name in ("one", "two"):
        lines = [f'{{"id": "{name}{i}", "context": "{name} {i}", "responses": ["a", "b"]}}\n' for i in range(9)]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    with raises(DataError, option="paired"):
        score_data(files, [Busy()], pairing=Comparing())
    for pairing in (None, Comparing(common=True)):
        chosen = files if pairing is None else [files[0], tmp_path / "three.jsonl"]
        (tmp_path / "three.jsonl").write_text("".join((tmp_path / "one.jsonl").read_text().splitlines(True)[:5]))
        with pytest.raises(RuntimeError, match="it works"):
            score_data(chosen, [Busy()], pairing=pairing)
