"""The sets of docs/content_test.md were read: a set by the model-free tester that changes must be read again."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from papers.content_test import OUT, PLANS, READ, VERDICTS, contexts_for, key_of, read_sets
from papers.perturbations import VALID, WEAK

from nlgauge.studies.testers.build import write_sets


def test_every_set_of_the_page_has_a_verdict() -> None:
    verdicts = tomllib.loads(VERDICTS.read_text(encoding="utf-8"))
    for tester in PLANS:
        for name in ("high", "low"):
            assert len(verdicts[tester][name]) == READ, (tester, name)
    assert "**unread**" not in OUT.read_text(encoding="utf-8")


@pytest.mark.parametrize(("label", "name", "enough"), [(1, "high", 10), (0, "low", 18)])
def test_the_sets_of_the_model_free_tester_are_those_that_were_read(
    label: int, name: str, enough: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = _written_once(tmp_path_factory)
    verdicts = tomllib.loads(VERDICTS.read_text(encoding="utf-8"))["data"][name]
    plan, _ = PLANS["data"]
    rows = write_sets(plan.testers()[0], contexts_for("data"), plan, folder).sets.to_dicts()
    found = [verdicts[key_of(row)] for row in read_sets(rows, label)]
    assert len(found) == READ
    assert sum(verdict == VALID or verdict.startswith(WEAK) for verdict in found) >= enough


def _written_once(factory: pytest.TempPathFactory) -> Path:
    """The folder of the run, whose finished parts serve the second test."""
    folder = factory.getbasetemp() / "content test"
    folder.mkdir(exist_ok=True)
    return folder
