"""Sentences in other words: in place of themselves, or after themselves as a repetition (paper 4, Tables 1 and 2)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from nlgauge.configured import option
from nlgauge.perturb.base import Edit, Kind, Outcome, Perturbation, Unchanged, edited
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.resources.paraphrase import Paraphraser, shared_paraphraser
from nlgauge.perturb.story import Story
from nlgauge.signature import Signature


@dataclass(frozen=True, kw_only=True)
class Paraphrasing(Perturbation):
    """Base of perturbations by paraphrase: a translator, and the scores required of a paraphrase.

    A paraphrase has a MoverScore above `mover` and a BLEU-1 below `bleu` with its sentence (paper 4, appendix B.1).
    `translator` is `phrases`, `apertium` or `models:forward=NAME;back=NAME`.
    """

    translator: str = option("phrases", "phrases, apertium, or models:forward=NAME;back=NAME.")
    mover: float = option(0.4, "A paraphrase has a MoverScore above this with its sentence.")
    bleu: float = option(0.6, "A paraphrase has a BLEU-1 below this with its sentence.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.paraphraser.translator  # noqa: B018 - raises the error of an invalid spec

    @property
    def paraphraser(self) -> Paraphraser:
        """The source of paraphrases."""
        return shared_paraphraser(self.translator, self.mover, self.bleu)

    def prepare(self) -> None:
        """Raise an error without the translator or the model of MoverScore."""
        self.paraphraser.prepare()

    def warm(self, stories: Sequence[Story]) -> None:
        """Find the paraphrases of all sentences at once."""
        self.paraphraser.find(
            sorted({story.sentence(number) for story in stories for number in range(len(story.sentences))})
        )

    @property
    def signature(self) -> Signature:
        """The signature, with everything that paraphrases depend on."""
        return super().signature.with_facts(self.paraphraser.facts())

    def candidates(self, story: Story, last: int) -> list[tuple[int, str]]:
        """The sentences before number `last` that have a paraphrase, with the paraphrase."""
        found = self.paraphraser.find(story.sentence(number) for number in range(last))
        return [(number, found[line]) for number in range(last) if (line := story.sentence(number)) in found]


@dataclass(frozen=True, kw_only=True)
class SemanticRepetition(Paraphrasing):
    """A sentence, never the last, with its paraphrase right after it."""

    name: ClassVar[str] = "semantic-repetition"
    kind: ClassVar[Kind] = "coherence"
    paper: ClassVar[str] = "OpenMEVA, Table 1"

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - unused here
        """Repeat one of the sentences that have a paraphrase."""
        found = self.candidates(story, len(story.sentences) - 1)
        if not found:
            return Unchanged("no sentence but the last has a paraphrase that is near in meaning and far in words")
        number, paraphrase = draw.choice(found)
        end = story.sentences[number][1]
        return edited(story.text, [Edit(end, end, f" {paraphrase}")], self.paraphraser.translator.name)


@dataclass(frozen=True, kw_only=True)
class Paraphrases(Paraphrasing):
    """A sentence replaced by its paraphrase."""

    name: ClassVar[str] = "paraphrases"
    kind: ClassVar[Kind] = "robustness"
    paper: ClassVar[str] = "OpenMEVA, Table 2"

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - unused here
        """Replace one of the sentences that have a paraphrase."""
        found = self.candidates(story, len(story.sentences))
        if not found:
            return Unchanged("no sentence has a paraphrase that is near in meaning and far in words")
        number, paraphrase = draw.choice(found)
        return edited(story.text, [Edit(*story.sentences[number], paraphrase)], self.paraphraser.translator.name)
