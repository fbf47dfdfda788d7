"""The contract of a perturbation: `perturb(story, draw, corpus)` says what changed and where, or why nothing did."""

from __future__ import annotations

import dataclasses
import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from nlgauge.errors import MissingExtra, ModelError, OptionError
from nlgauge.metrics import options
from nlgauge.metrics.signature import Signature
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.parser import parser_name
from nlgauge.perturb.story import Story
from nlgauge.registry import PLUGIN_MODULE
from nlgauge.text.words import sentence_spans

Kind = Literal["coherence", "robustness"]
SEED = 12345


@dataclass(frozen=True, order=True)
class Edit:
    """Put `new` in place of the characters from `start` to `end` of a text."""

    start: int
    end: int
    new: str


@dataclass(frozen=True)
class Change:
    """`old`, from `start` to `end` of the original, stands as `new` from `new_start` to `new_end` of the other text."""

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
        """The sentences of the new text that have a change in them: all that a filter needs to read."""
        return [
            self.text[start:end]
            for start, end in sentence_spans(self.text)
            if any(change.new_start < end and change.new_end > start for change in self.changes)
            or any(start <= change.new_start == change.new_end <= end for change in self.changes)
        ]


@dataclass(frozen=True)
class Unchanged:
    """Why a perturbation does not apply to a text."""

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


def draw_for(seed: int, *key: Any) -> random.Random:
    """A generator that depends on the seed and the key alone."""
    text = "\n".join(map(str, (seed, *key)))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return random.Random(int.from_bytes(digest))


@dataclass(frozen=True, kw_only=True)
class Perturbation(ABC):
    """A way to change texts. Subclasses are frozen dataclasses; their fields are the options, on the command line too.

    `name` is what users type. A perturbation of `coherence` makes a text worse (paper 4, Table 1), one of `robustness`
    should leave a metric's opinion as it is (Table 2). `uses_words`: whether it takes words of other texts, `parses`:
    whether it needs a parser. `filtered` says whether ungrammatical results are dropped.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    paper: ClassVar[str] = ""
    parses: ClassVar[bool] = False
    uses_words: ClassVar[bool] = False
    filtered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        options.check_choices(self)

    @abstractmethod
    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:
        """The text changed, or why not. All chance comes from `draw`."""

    def prepare(self) -> None:
        """Raise the error that says what to install or fetch, where this needs more than the machine has."""
        if self.parses or self.uses_words:
            parser_name()

    def warm(self, stories: Sequence[Story]) -> None:  # noqa: B027 - most need nothing
        """Compute for many stories at once what is slow one by one."""

    def coherent(self, story: Story) -> bool:  # noqa: ARG002 - all stories, unless a subclass is choosy
        """Whether a human-written story is a coherent example of the aspect (paper 4, Table 1, second column)."""
        return True

    def __call__(
        self, text: str | Story, *, seed: int = SEED, version: int = 0, corpus: Corpus | None = None
    ) -> Outcome:
        """Perturb one text. The same seed and version give the same result; another version, mostly another one."""
        story = Story(text) if isinstance(text, str) else text
        if not story.sentences:
            return Unchanged("the text has no words")
        draw = draw_for(seed, self.name, version, story.text)
        return self.perturb(story, draw, Corpus() if corpus is None else corpus)

    def __reduce__(self) -> tuple[Any, ...]:
        """By name where the class comes from a user's file, which a worker process runs for itself."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        named = type(self).__module__.startswith(PLUGIN_MODULE)
        return _made_again, (self.name if named else type(self), values)

    def relevant_options(self) -> Mapping[str, Any]:
        """Options that matter to the result, as they appear in the signature."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def signature(self) -> Signature:
        """How to make this perturbation again."""
        return Signature(self.name, {key: options.show(value) for key, value in self.relevant_options().items()})

    @classmethod
    def from_options(cls, given: Mapping[str, str]) -> Self:
        """Make the perturbation from options written as text."""
        return options.build(cls, cls.name, given)


def _made_again(kind: str | type[Perturbation], values: Mapping[str, Any]) -> Perturbation:
    from nlgauge.perturb.registry import PERTURBATIONS

    made: Perturbation = (PERTURBATIONS.find(kind) if isinstance(kind, str) else kind)(**values)
    return made


def usable(perturbations: Iterable[Perturbation]) -> tuple[list[Perturbation], dict[str, str]]:
    """Those that can run on this machine, and what the others lack, by name."""
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


def check_share(name: str, value: float) -> None:
    """Refuse a share that is none."""
    if not 0 < value <= 1:
        raise OptionError(f"{name}={value}; expected a share above 0 and at most 1, such as 0.25")
