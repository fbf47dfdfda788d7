"""The contract of a perturbation: `perturb(story, draw, corpus)` returns the changes, or the reason for none."""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from nlgauge.configured import Configured
from nlgauge.errors import MissingExtra, ModelError, OptionError
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.resources.parser import parser_name
from nlgauge.perturb.story import Story
from nlgauge.text.words import sentence_spans

Kind = Literal["coherence", "robustness"]
SEED = 12345


@dataclass(frozen=True, order=True)
class Edit:
    """Replace the characters from `start` to `end` of a text by `new`."""

    start: int
    end: int
    new: str


@dataclass(frozen=True)
class Change:
    """`old`, from `start` to `end` of the original, became `new`, from `new_start` to `new_end` of the other text."""

    start: int
    end: int
    old: str
    new_start: int
    new_end: int
    new: str


@dataclass(frozen=True)
class Perturbed:
    """A text that differs from its original: by which rule, and where."""

    original: str
    text: str
    rule: str
    changes: tuple[Change, ...]

    def changed_sentences(self) -> list[str]:
        """The changed sentences of the new text, for a filter."""
        return [
            self.text[start:end]
            for start, end in sentence_spans(self.text)
            if any(change.new_start < end and change.new_end > start for change in self.changes)
            or any(start <= change.new_start == change.new_end <= end for change in self.changes)
        ]


@dataclass(frozen=True)
class Unchanged:
    """The reason why a perturbation does not apply to a text."""

    reason: str


Outcome = Perturbed | Unchanged


def edited(text: str, edits: Iterable[Edit], rule: str) -> Outcome:
    """A text with edits made, which may not overlap; edits that change nothing are left out."""
    wanted = sorted(edit for edit in edits if text[edit.start : edit.end] != edit.new)
    made: list[str] = []
    changes: list[Change] = []
    place = length = 0
    for edit in wanted:
        if not place <= edit.start <= edit.end <= len(text):
            raise ValueError(f"edits overlap or leave the text: {wanted}")
        kept = text[place : edit.start]
        length += len(kept)
        old = text[edit.start : edit.end]
        changes.append(Change(edit.start, edit.end, old, length, length + len(edit.new), edit.new))
        made += [kept, edit.new]
        length += len(edit.new)
        place = edit.end
    result = "".join([*made, text[place:]])
    if result == text:
        return Unchanged("what was drawn leaves the text as it is")
    return Perturbed(text, result, rule, tuple(changes))


def one_way(
    story: Story, draw: random.Random, ways: Sequence[tuple[str, Callable[[], list[Edit]]]], otherwise: str
) -> Outcome:
    """The edits of a random rule that has any; `otherwise` is the reason if none has."""
    shuffled = list(ways)
    draw.shuffle(shuffled)
    for rule, edits_of in shuffled:
        if edits := edits_of():
            return edited(story.text, edits, rule)
    return Unchanged(otherwise)


def drawn(draw: random.Random, found: Sequence[list[Edit]]) -> list[Edit]:
    """One of several groups of edits, if there are any."""
    return draw.choice(found) if found else []


def draw_for(seed: int, *key: Any) -> random.Random:
    """A random generator that depends on the seed and the key alone."""
    text = "\n".join(map(str, (seed, *key)))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return random.Random(int.from_bytes(digest))


@dataclass(frozen=True, kw_only=True)
class Perturbation(Configured, ABC):
    """A way to change texts. Subclasses are frozen dataclasses; their fields are the options, on the command line too.

    `name` is its name in specs. A perturbation of `coherence` makes a text worse (paper 4, Table 1), one of
    `robustness` should not change a metric's value (Table 2). `uses_words`: whether it takes words of other texts,
    `parses`, `uses_wordnet`: what it needs. `filtered` says whether ungrammatical results are dropped.
    """

    kind: ClassVar[Kind]
    paper: ClassVar[str] = ""
    parses: ClassVar[bool] = False
    uses_words: ClassVar[bool] = False
    uses_wordnet: ClassVar[bool] = False
    filtered: ClassVar[bool] = True

    @abstractmethod
    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:
        """The changed text, or the reason. All randomness comes from `draw`."""

    def prepare(self) -> None:
        """Raise an error that says what to install or fetch if a resource is missing."""
        if self.parses or self.uses_words:
            parser_name()
        if self.uses_wordnet:
            from nlgauge.perturb.resources.wordnet import load_wordnet

            load_wordnet()

    def warm(self, stories: Sequence[Story]) -> None:
        """Compute for many stories at once what would be slow one by one."""

    def coherent(self, story: Story) -> bool:  # noqa: ARG002 - all stories by default
        """Whether a human-written story is a coherent example of the aspect (paper 4, Table 1, second column)."""
        return True

    def __call__(
        self, text: str | Story, *, seed: int = SEED, version: int = 0, corpus: Corpus | None = None
    ) -> Outcome:
        """Perturb one text. The same seed and version give the same result; other versions usually differ."""
        story = Story(text) if isinstance(text, str) else text
        if not story.sentences:
            return Unchanged("the text has no words")
        draw = draw_for(seed, self.name, version, story.text)
        return self.perturb(story, draw, Corpus() if corpus is None else corpus)


@dataclass(frozen=True, kw_only=True)
class PerturbationOfShare(Perturbation):
    """A perturbation that changes a share of the words or sentences."""

    share: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            text = f"{self.name}:share={self.share}; expected a share above 0 and at most 1, such as 0.25"
            raise OptionError(text)


def usable(perturbations: Iterable[Perturbation]) -> tuple[list[Perturbation], dict[str, str]]:
    """Those that can run on this machine, and what the others need, by name."""
    able: list[Perturbation] = []
    lacking: dict[str, str] = {}
    for one in perturbations:
        try:
            one.prepare()
        except (MissingExtra, ModelError) as error:
            lacking[one.name] = str(error)
        else:
            able.append(one)
    return able, lacking
