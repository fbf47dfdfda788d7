"""Published numbers, from the research data that `NLGAUGE_DATA` names."""

from __future__ import annotations

from pathlib import Path

import nlgauge
from nlgauge.data.reading import read_sets

ROUNDING = 0.0005 + 1e-9
SIZES = {
    "mcdiv_all_no_hds_story_gen": 2000,
    "mcdiv_nuggets_200_with_hds_story_gen": 200,
    "mcdiv_nuggets_no_hds_story_gen": 1012,
    "con_test_200_with_hds_resp_gen": 220,
    "con_test_200_with_hds_story_gen": 250,
    "dec_test_1000_no_hds_resp_gen": 994,
    "dec_test_1000_no_hds_story_gen": 985,
    "dec_test_200_with_hds_resp_gen": 203,
    "dec_test_200_with_hds_story_gen": 203,
}


def test_distinct_and_cos_sim_equal_the_authors_columns_in_every_file(research_data: Path) -> None:
    files = sorted((research_data / "diversity_eval").rglob("*.csv"))
    assert {file.stem for file in files} == set(SIZES)
    for file in files:
        scores = nlgauge.score(str(file), ["distinct", "cos-sim:variant=reference"])
        authors = read_sets(str(file)).frame
        assert [score.n for score in scores] == [SIZES[file.stem]] * 2
        for score, column in zip(scores, ("distinct_ngrams", "cosine_similarity"), strict=True):
            assert score.per_item is not None
            gap = (score.per_item["value"] - authors[f"metric_averaged_{column}"]).abs().max()
            assert gap is not None
            assert float(gap) <= ROUNDING  # type: ignore[arg-type]


def test_the_authors_columns_count_an_order_without_ngrams_as_0(research_data: Path) -> None:
    """Sets whose responses are all shorter than five words: there the two readings of distinct differ."""
    seen = 0
    for file in sorted((research_data / "diversity_eval").rglob("*.csv")):
        zero, omit = nlgauge.score(str(file), ["distinct", "distinct:absent=omit"])
        assert zero.per_item is not None
        assert omit.per_item is not None
        authors = read_sets(str(file)).frame["metric_averaged_distinct_ngrams"]
        short = zero.per_item["value"] != omit.per_item["value"]
        for counted, omitted, column in zip(
            zero.per_item["value"].filter(short),
            omit.per_item["value"].filter(short),
            authors.filter(short),
            strict=True,
        ):
            assert abs(counted - column) <= ROUNDING
            assert abs(omitted - column) > 10 * ROUNDING
            seen += 1
    assert seen > 20
