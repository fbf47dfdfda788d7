"""Suites of test texts: complete, counted, and the same bytes however they are built."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from nlgauge.errors import DataError, ModelError, OptionError
from nlgauge.perturb import Corpus, Edit, Perturbation, Perturbed, Story, Unchanged, create_perturbation, edited
from nlgauge.perturb.base import Outcome
from nlgauge.perturb.pairs import Original
from nlgauge.perturb.suite import BuiltSuite, build_suite, prepared
from tests.conftest import ROOT

FILES = ("stories.jsonl", "discrimination.jsonl", "invariance.jsonl", "manifest.json")


def example_stories() -> list[Original]:
    rows = [json.loads(line) for line in (ROOT / "examples/stories.jsonl").read_text().splitlines()]
    return [Original(row["id"], row["text"], row["context"]) for row in rows]


@dataclass(frozen=True, kw_only=True)
class Shout(Perturbation):
    """One sentence in capitals; not for stories with a "because"."""

    name: ClassVar[str] = "shout"
    kind = "coherence"

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:
        """Change a sentence."""
        start, end = draw.choice(story.sentences)
        if "because" in story.text:
            return Unchanged("the story gives a reason")
        return edited(
            story.text, [Edit(start, end, story.text[start:end].upper())], f"sentence of {len(story.sentences)}"
        )

    def coherent(self, story: Story) -> bool:
        """Stories with an "and"."""
        return " and " in story.text


@dataclass(frozen=True, kw_only=True)
class Absent(Perturbation):
    """Lacks something on every machine."""

    name: ClassVar[str] = "absent"
    kind = "robustness"

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:
        """Never called."""
        raise AssertionError

    def prepare(self) -> None:
        """Say what is missing."""
        raise ModelError("no oracle here; install one")


def build(stories: list[Original], workers: int = 1, seed: int = 5) -> BuiltSuite:
    names = ("lexical-repetition", "typos", "punctuation")
    return build_suite(
        stories, [Shout(), *map(create_perturbation, names)], grammar="none", workers=workers, seed=seed, name="own"
    )


def test_a_suite_is_the_same_bytes_in_one_process_and_in_two(tmp_path: Path) -> None:
    stories = [replace(one, id=f"{one.id}-{again}", text=f"{one.text} Again {again}.")
               for again in range(3) for one in example_stories()]  # fmt: skip
    for folder, workers in (("one", 1), ("two", 2), ("again", 1)):
        build(stories, workers).write(tmp_path / folder)
    for name in FILES:
        first = (tmp_path / "one" / name).read_bytes()
        assert first == (tmp_path / "two" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_what_becomes_of_a_story_does_not_depend_on_the_others() -> None:
    stories = example_stories()
    whole, part = build(stories), build(stories[10:30][::-1])
    rows = {row["id"]: row for row in [*whole.discrimination, *whole.invariance]}
    assert all(rows[row["id"]] == row for row in [*part.discrimination, *part.invariance])
    assert build(stories, seed=6).discrimination != whole.discrimination


def test_counts_of_the_manifest_are_those_of_the_rows() -> None:
    suite = build(example_stories())
    counts = Counter((row["aspect"], row["label"]) for row in suite.discrimination)
    row = suite.manifest["discrimination"]["shout"]
    assert counts["shout", 1] == row["coherent"] == sum(" and " in one.text for one in example_stories())
    assert counts["shout", 0] == row["kept"] == row["made"]
    assert row["not_applicable"] == {"the story gives a reason": len(example_stories()) - row["made"]}
    for source in ("human", "incoherent"):
        mine = [row for row in suite.invariance if row["aspect"] == "typos" and row["source"] == source]
        assert len(mine) == 2 * suite.manifest["invariance"][f"typos {source}"]["kept"] > 0


def test_rows_know_their_stories_and_pairs_their_originals() -> None:
    suite = build(example_stories())
    texts = {row["id"]: row["text"] for row in suite.stories}
    made = {row["text"] for row in suite.discrimination if row["label"] == 0}
    assert all(row["text"] == texts[row["story"]] for row in suite.discrimination if row["label"] == 1)
    assert all(row["text"] != texts[row["story"]] for row in suite.discrimination if row["label"] == 0)
    for before, after in zip(suite.invariance[::2], suite.invariance[1::2], strict=True):
        assert before["pair"] == after["pair"]
        assert (before["label"], after["label"]) == (1, 0)
        assert before["text"] != after["text"]
        assert before["text"] in (made if before["source"] == "incoherent" else {texts[before["story"]]})
        for change in after["changes"]:
            assert before["text"][change["start"] : change["end"]] == change["old"]
            assert after["text"][change["new_start"] : change["new_end"]] == change["new"]


def test_the_filter_reads_changed_sentences_and_drops_with_a_count() -> None:
    stories = [
        Original("a", "The dog ate the bone. Green of the quickly the runs and the.", ""),
        Original("b", "Green of the quickly the runs and the. She went home.", ""),
    ]
    suite = build_suite(stories, [Last(end="The cat slept."), Worse()], grammar="link-grammar")
    assert [row["story"] for row in suite.discrimination if row["label"] == 0 and row["aspect"] == "last"] == ["a", "b"]
    row = suite.manifest["discrimination"]["worse"]
    assert (row["made"], row["dropped_by_grammar"], row["kept"]) == (2, 2, 0)
    assert "link-grammar" in suite.manifest["signature"]


@dataclass(frozen=True, kw_only=True)
class Last(Perturbation):
    """Another last sentence."""

    name: ClassVar[str] = "last"
    kind = "coherence"
    end: str

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:
        """Replace the last sentence."""
        return edited(story.text, [Edit(*story.sentences[-1], self.end)], "end")


@dataclass(frozen=True, kw_only=True)
class Worse(Last):
    """A last sentence that is none."""

    name: ClassVar[str] = "worse"
    end: str = "Of the dog cat the the."


def test_a_perturbation_that_cannot_run_is_named_and_the_others_run() -> None:
    suite = build_suite(example_stories()[:5], [Shout(), Absent()], grammar="none")
    assert suite.skipped == suite.manifest["skipped"] == {"absent": "no oracle here; install one"}
    assert suite.discrimination
    with pytest.raises(ModelError, match="no oracle here"):
        build_suite(example_stories()[:5], [Absent()], grammar="none")


def test_bad_suites_are_refused() -> None:
    story = Original("a", "A dog barked.", "")
    with pytest.raises(DataError, match="no story"):
        build_suite([], [Shout()], grammar="none")
    with pytest.raises(DataError, match="two stories have the id 'a'"):
        build_suite([story, story], [Shout()], grammar="none")
    with pytest.raises(OptionError, match="'shout' is a duplicate"):
        build_suite([story], [Shout(), Shout()], grammar="none")


def test_a_first_sentence_becomes_the_context_and_long_stories_end_with_a_sentence() -> None:
    story = Original("a", " One two.  Three four five! Six.\n\nSeven eight nine ten. ", "asked")
    assert prepared([story], first_sentence=True) == [
        Original("a", "Three four five! Six.\n\nSeven eight nine ten.", "One two.")
    ]
    assert prepared([story], max_words=6) == [Original("a", "One two.  Three four five! Six.", "asked")]
    assert prepared([story], max_words=1) == [Original("a", "One two.", "asked")]
    assert prepared([Original("b", "Alone.", ""), Original("c", " ", "")], first_sentence=True) == []


def test_changed_sentences_are_those_with_a_change_in_the_new_text() -> None:
    outcome = edited("A cat sat. A dog ran. It rained.", [Edit(2, 5, "cow"), Edit(17, 21, ".")], "two")
    assert isinstance(outcome, Perturbed)
    assert outcome.text == "A cow sat. A dog . It rained."
    assert outcome.changed_sentences() == ["A cow sat.", "A dog ."]
