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
        scores = nlgauge.score(str(file), ["distinct:variant=reference", "cos-sim:variant=reference"])
        authors = read_sets(str(file)).frame
        assert [score.n for score in scores] == [SIZES[file.stem]] * 2
        for score, column in zip(scores, ("distinct_ngrams", "cosine_similarity"), strict=True):
            assert score.per_item is not None
            gap = (score.per_item["value"] - authors[f"metric_averaged_{column}"]).abs().max()
            assert gap is not None
            assert float(gap) <= ROUNDING  # type: ignore[arg-type]
