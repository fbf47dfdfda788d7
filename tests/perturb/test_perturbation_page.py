"""The pairs of docs/perturbations.md were read, and at least 18 of 20 are valid: a changed rule must be read again."""

from __future__ import annotations

import json
import tomllib

import pytest
from papers.perturbations import PAIRS, VALID, VERDICTS, WEAK, key_of, pairs_of

from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.registry import COHERENCE, ROBUSTNESS
from nlgauge.perturb.story import Story, parse_all
from tests.conftest import ROOT

ENOUGH = 18


@pytest.fixture(scope="module")
def stories() -> dict[str, Story]:
    rows = [json.loads(line) for line in (ROOT / "examples/stories.jsonl").read_text(encoding="utf-8").splitlines()]
    found = {row["id"]: Story(row["text"]) for row in rows}
    parse_all(found.values())
    return found


@pytest.mark.parametrize("aspect", [*COHERENCE, *ROBUSTNESS])
def test_every_pair_has_a_verdict_and_nearly_all_are_valid(aspect: str, stories: dict[str, Story]) -> None:
    verdicts = tomllib.loads(VERDICTS.read_text(encoding="utf-8"))[aspect]
    pairs = pairs_of(aspect, stories, Corpus.of(list(stories.values())))
    found = [verdicts[key_of(*pair)] for pair in pairs]
    assert len(found) == PAIRS
    assert sum(verdict == VALID or verdict.startswith(WEAK) for verdict in found) >= ENOUGH
