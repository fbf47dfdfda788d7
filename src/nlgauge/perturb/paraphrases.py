"""Paraphrases: a sentence in other words, which should leave a metric's opinion as it is (paper 4, Table 2)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from nlgauge.perturb.base import Edit, Kind, Outcome, Unchanged, edited
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.semantic_repetition import Paraphrasing
from nlgauge.perturb.story import Story


@dataclass(frozen=True, kw_only=True)
class Paraphrases(Paraphrasing):
    """A sentence replaced by its paraphrase."""

    name: ClassVar[str] = "paraphrases"
    kind: ClassVar[Kind] = "robustness"
    paper: ClassVar[str] = "OpenMEVA, Table 2"

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - one story will do
        """Replace one of the sentences that have a paraphrase."""
        found = self.candidates(story, len(story.sentences))
        if not found:
            return Unchanged("no sentence has a paraphrase that is near in meaning and far in words")
        number, paraphrase = draw.choice(found)
        return edited(story.text, [Edit(*story.sentences[number], paraphrase)], self.paraphraser.translator.name)
