"""The evidence that the package ships, against the studies that it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from papers.evidence import KEPT, Part, cheap, from_documents, table_of
from papers.pages import Run

from nlgauge.metrics.registry import create_metric
from nlgauge.report.evidence import Evidence, Finding, evidence_for, shipped


def rows_of(parts: Iterator[Part] | list[Part]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table_of(list(parts))["rows"]
    return rows


def test_the_shipped_rows_are_those_of_the_papers_results() -> None:
    expected = rows_of(from_documents())
    assert len(expected) > 40
    assert [row for row in shipped()["rows"] if row["study"].partition("/")[1]] == expected


def test_the_cheap_rows_come_out_again(research_data: Path) -> None:
    expected = rows_of(cheap())
    keys = {row["study"] for row in expected}
    found = [row for row in shipped()["rows"] if row["study"] in keys]
    assert len(found) == len(expected) == 12
    for mine, fresh in zip(found, expected, strict=True):
        assert {key: mine[key] for key in ("study", "metric", "signature", "data", "n")} == {
            key: fresh[key] for key in ("study", "metric", "signature", "data", "n")
        }
        for measure, finding in fresh["found"].items():
            assert mine["found"][measure]["value"] == pytest.approx(finding["value"], abs=2e-6)
            assert mine["found"][measure]["interval"] == pytest.approx(finding["interval"], abs=2e-6)


def test_every_row_names_its_study_and_can_be_read() -> None:
    document = shipped()
    for row in document["rows"]:
        study = document["studies"][row["study"]]
        assert study["command"].startswith("nlgauge study ")
        assert set(row["found"]) <= set(KEPT[study["test"]])
        assert row["n"] > 0


def test_evidence_with_the_same_settings_is_told_from_other_evidence() -> None:
    same = evidence_for(create_metric("distinct").signature)
    other = evidence_for(create_metric("distinct:n=2").signature)
    assert {one.test for one in same} == {"content", "decoding", "correlation", "discrimination", "invariance"}
    assert all(one.same for one in same if one.signature)
    assert other
    assert not any(one.same for one in other)
    assert evidence_for(create_metric("rouge-l").signature) == []


def reading(metric: str, data: str) -> str:
    found = [one for one in evidence_for(create_metric(metric).signature) if one.data.startswith(data)]
    assert len(found) == 1
    return found[0].reading


def test_form_does_not_see_content_once_wording_is_held_fixed() -> None:
    assert reading("distinct", "McDiv nuggets") == "does not tell high from low content diversity"
    assert reading("distinct", "conTest story") == "tells high from low content diversity strongly"
    assert reading("ead", "OpenSubtitles") == "too few for an interval"


@pytest.mark.parametrize(
    ("study", "row", "expected"),
    [
        (
            "discrimination",
            {"auc": 0.8, "auc_ci": [0.7, 0.9], "pearson": 0.5, "pearson_ci": [0.4, 0.6], "n": 90},
            ("texts", {"AUC", "r"}, "tells good from worse in 80% of pairs"),
        ),
        (
            "discrimination",
            {"auc": 0.52, "auc_ci": [0.45, 0.6], "n": 90},
            ("texts", {"AUC"}, "does not tell good from worse"),
        ),
        (
            "invariance",
            {"mean_change": 0.25, "mean_change_ci": [0.2, 0.3], "pairs": 70, "source": "human"},
            ("pairs", {"change"}, "a change that does not matter moves it by 0.25 standard deviations"),
        ),
    ],
)
def test_studies_of_aspects_give_their_average(
    study: str, row: dict[str, Any], expected: tuple[str, set[str], str]
) -> None:
    common = {"task": "roc", "metric": "ppl", "rule": None, "signature": "ppl|v:0.1.0"}
    rows = [{**common, **row, "aspect": "average"}, {**common, **row, "aspect": "typos"}]
    run = Run("nlgauge study x", {"study": study, "signature": f"{study}|v:0.1.0", "rows": rows})
    made = list(Part("key", run, {"roc": "ROC stories"}, {}).rows())
    assert len(made) == 1
    unit, measures, words = expected
    assert (made[0]["of"], set(made[0]["found"])) == (unit, measures)
    assert made[0]["data"].startswith("ROC stories")
    assert _as_evidence(study, made[0]).reading == words


def _as_evidence(test: str, row: dict[str, Any]) -> Evidence:
    findings = tuple(
        Finding(name, one["value"], (one["interval"][0], one["interval"][1])) for name, one in row["found"].items()
    )
    return Evidence(test, row["data"], row["n"], row["of"], findings, row["metric"], row["signature"], "", "", True)
