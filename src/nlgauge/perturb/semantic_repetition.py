"""Semantic repetition: a sentence said twice, the second time in other words (paper 4, Table 1)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from nlgauge.metrics.signature import Signature
from nlgauge.perturb.base import Edit, Kind, Outcome, Perturbation, Unchanged, edited
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.paraphrase import Paraphraser, shared_paraphraser
from nlgauge.perturb.story import Story


@dataclass(frozen=True, kw_only=True)
class Paraphrasing(Perturbation):
    """What perturbations by paraphrase share: a translator, and the scores that a paraphrase must have.

    A paraphrase has a MoverScore above `mover` and a BLEU-1 below `bleu` with its sentence (paper 4, appendix B.1).
    `translator` is `phrases`, `apertium` or `models:forward=NAME;back=NAME`.
    """

    translator: str = "phrases"
    mover: float = 0.4
    bleu: float = 0.6

    def __post_init__(self) -> None:
        super().__post_init__()
        self.paraphraser.translator  # noqa: B018 - a spec that makes no sense is refused here

    @property
    def paraphraser(self) -> Paraphraser:
        """Where paraphrases come from."""
        return shared_paraphraser(self.translator, self.mover, self.bleu)

    def prepare(self) -> None:
        """Refuse to begin without the translator or the model of MoverScore."""
        self.paraphraser.prepare()

    def warm(self, stories: Sequence[Story]) -> None:
        """Find the paraphrases of all sentences at once."""
        self.paraphraser.find(
            sorted({story.sentence(number) for story in stories for number in range(len(story.sentences))})
        )

    @property
    def signature(self) -> Signature:
        """How to make this perturbation again, and all that its paraphrases depend on."""
        return super().signature.with_facts(self.paraphraser.facts())

    def candidates(self, story: Story, last: int) -> list[tuple[int, str]]:
        """The sentences before the number `last` that have a paraphrase, and it."""
        found = self.paraphraser.find(story.sentence(number) for number in range(last))
        return [(number, found[line]) for number in range(last) if (line := story.sentence(number)) in found]


@dataclass(frozen=True, kw_only=True)
class SemanticRepetition(Paraphrasing):
    """A sentence, never the last, with its paraphrase right after it."""

    name: ClassVar[str] = "semantic-repetition"
    kind: ClassVar[Kind] = "coherence"
    paper: ClassVar[str] = "OpenMEVA, Table 1"

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - one story will do
        """Repeat one of the sentences that have a paraphrase."""
        found = self.candidates(story, len(story.sentences) - 1)
        if not found:
            return Unchanged("no sentence but the last has a paraphrase that is near in meaning and far in words")
        number, paraphrase = draw.choice(found)
        end = story.sentences[number][1]
        return edited(story.text, [Edit(end, end, f" {paraphrase}")], self.paraphraser.translator.name)
