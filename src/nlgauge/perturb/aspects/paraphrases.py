"""Sentences in other words: in place of themselves, or after themselves as a repetition (paper 4, Tables 1 and 2)."""

from __future__ import annotations

import random
from abc import abstractmethod
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

    spares_last: ClassVar[bool] = False

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
        self.paraphraser.find(sorted({line for story in stories for line in story.lines}))

    @property
    def signature(self) -> Signature:
        """The signature, with everything that paraphrases depend on."""
        return super().signature.with_facts(self.paraphraser.facts())

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - unused here
        """Use one of the sentences that have a paraphrase."""
        spans = story.sentences[:-1] if self.spares_last else story.sentences
        lines = story.lines[: len(spans)]
        known = self.paraphraser.find(lines)
        found = [(span, known[line]) for span, line in zip(spans, lines, strict=True) if line in known]
        if not found:
            sentence = "no sentence but the last" if self.spares_last else "no sentence"
            return Unchanged(f"{sentence} has a paraphrase that is near in meaning and far in words")
        return edited(story.text, [self.put(*draw.choice(found))], self.paraphraser.translator.name)

    @abstractmethod
    def put(self, span: tuple[int, int], paraphrase: str) -> Edit:
        """The edit that puts the paraphrase of a sentence into the text."""


@dataclass(frozen=True, kw_only=True)
class SemanticRepetition(Paraphrasing):
    """A sentence, never the last, with its paraphrase right after it."""

    name: ClassVar[str] = "semantic-repetition"
    kind: ClassVar[Kind] = "coherence"
    paper: ClassVar[str] = "OpenMEVA, Table 1"

    spares_last: ClassVar[bool] = True

    def put(self, span: tuple[int, int], paraphrase: str) -> Edit:
        """After the sentence."""
        return Edit(span[1], span[1], f" {paraphrase}")


@dataclass(frozen=True, kw_only=True)
class Paraphrases(Paraphrasing):
    """A sentence replaced by its paraphrase."""

    name: ClassVar[str] = "paraphrases"
    kind: ClassVar[Kind] = "robustness"
    paper: ClassVar[str] = "OpenMEVA, Table 2"

    def put(self, span: tuple[int, int], paraphrase: str) -> Edit:
        """In place of the sentence."""
        return Edit(*span, paraphrase)
