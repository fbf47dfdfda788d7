"""Grammaticality of sentences: the filter that drops ungrammatical results (paper 4, section 3.2 and appendix B.2).

A filter is named by a spec: `link-grammar`, `classifier:model=FOLDER,threshold=0.5`, or `none`. Sentences are judged as
an ordinary reader would write them, whatever their tokenisation; each distinct one is judged once and cached.
"""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from nlgauge.configured import Configured
from nlgauge.errors import OptionError
from nlgauge.perturb.base import Perturbed
from nlgauge.perturb.resources.parser import readable
from nlgauge.perturb.resources.remembered import digest, remembered
from nlgauge.registry import Registry

Judgement = Literal["grammatical", "ungrammatical", "unjudged"]
_JUDGEMENTS: tuple[Judgement, ...] = ("grammatical", "ungrammatical", "unjudged")

_DOUBLE_QUOTES = re.compile(r"``|''|[“”„\"]")
_SINGLE_QUOTES = re.compile(r"(?<!\w)['‘](?=\w)(?!(?:s|m|d|re|ve|ll|t|til|cause|em)\b)|(?<=[.,!?])\s*['’](?!\w)")
_ELLIPSIS = re.compile(r"\s*(?:\.\s?){2,}|\s*…\s*")
_JOINED = (
    (re.compile(r"\b(ca|wo|sha) n(['’])t\b", re.IGNORECASE), r"\1n\2t"),
    (re.compile(r" n(['’])t\b", re.IGNORECASE), r"n\1t"),
    (re.compile(r" (['’](?:s|m|d|re|ve|ll))\b", re.IGNORECASE), r"\1"),
    (re.compile(r"(?<=s) (['’])(?= )"), r"\1"),
    (re.compile(r"\b(gon|wan|got) (na|ta)\b", re.IGNORECASE), r"\1\2"),
    (re.compile(r" ([.,;:!?)%])"), r"\1"),
    (re.compile(r"([($]) "), r"\1"),
    (re.compile(r"(\w) - (\w)"), r"\1-\2"),
    (re.compile(r"\bi\b(?!\.\w)"), "I"),
)
_MARKS = re.compile(r"([.,;:!?])(?:\s*[.,;:!?])+")


def as_written(sentence: str) -> str:
    """A sentence as an ordinary reader would write it, for a judge to read.

    Masked names become names, all capitals become lower case, tokenised text is put together ("did n't go ." →
    "didn't go."), the first letter and "I" are capital, and quotation marks are left out, since a sentence of a dialog
    may have only one of a pair.
    """
    text = " ".join(_SINGLE_QUOTES.sub("", _DOUBLE_QUOTES.sub(" ", readable(sentence))).split())
    for pattern, new in _JOINED:
        text = pattern.sub(new, text)
    text = _ELLIPSIS.sub(lambda dots: "." if dots.end() == len(text) else ", ", text)
    text = _MARKS.sub(lambda marks: "." if marks[0][-1] == "." else marks[1], text).strip(" ,;:-–—")
    first = next((place for place, letter in enumerate(text) if letter.isalnum()), 0)
    return text[:first] + text[first : first + 1].upper() + text[first + 1 :]


@dataclass(frozen=True, kw_only=True)
class Grammar(Configured, ABC):
    """A grammaticality filter. Subclasses are frozen dataclasses; their fields are the options of its spec."""

    @abstractmethod
    def judge(self, sentences: Sequence[str]) -> list[Judgement]:
        """One verdict per sentence, each in the form of `as_written`."""

    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """Everything that verdicts depend on, for the signature."""

    def resources(self) -> str:
        """What of this machine verdicts depend on beside that: they are kept under both."""
        return ""

    def prepare(self) -> None:
        """Raise an error that says what to install or fetch if a resource is missing."""
        self.facts()

    def verdicts(self, sentences: Sequence[str]) -> list[Judgement]:
        """One verdict per sentence; `unjudged` if a sentence cannot be judged, such as one that is too long."""
        written = [as_written(sentence) for sentence in sentences]
        store = f"grammar-1-{digest(f'{self.signature} {self.resources()}').hex()}"

        def judged(texts: list[str]) -> list[bytes]:
            return [bytes([_JUDGEMENTS.index(verdict)]) for verdict in self.judge(texts)]

        return [_JUDGEMENTS[found[0]] for found in remembered(store, written, judged)]

    def judge_changes(self, outcomes: Iterable[Perturbed]) -> list[Judgement]:
        """The worst verdict on the changed sentences of each text."""
        lines = [one.changed_sentences() for one in outcomes]
        every = sorted({line for found in lines for line in found})
        verdict = dict(zip(every, self.verdicts(every), strict=True))
        worse = ("grammatical", "unjudged", "ungrammatical").index
        return [max((verdict[line] for line in found), key=worse, default="grammatical") for found in lines]

    def accepts(self, sentences: Sequence[str]) -> list[bool]:
        """Whether each sentence is accepted; sentences that cannot be judged are."""
        return [verdict != "ungrammatical" for verdict in self.verdicts(sentences)]

    def relevant_options(self) -> Mapping[str, Any]:
        """Everything that results depend on."""
        return self.facts()


@dataclass(frozen=True, kw_only=True)
class NoGrammar(Grammar):
    """Accepts everything."""

    name: ClassVar[str] = "none"

    def judge(self, sentences: Sequence[str]) -> list[Judgement]:
        """No verdicts."""
        return ["unjudged"] * len(sentences)

    def verdicts(self, sentences: Sequence[str]) -> list[Judgement]:
        """No verdicts, and nothing to cache."""
        return self.judge(sentences)

    def facts(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}


@dataclass(frozen=True, kw_only=True)
class LinkGrammar(Grammar):
    """A sentence is grammatical if Link Grammar can link all its words.

    The time that takes grows steeply with the number of words, so a sentence of more than `words` is not judged.
    """

    name: ClassVar[str] = "link-grammar"

    words: int = 60

    def __post_init__(self) -> None:
        if not 1 <= self.words <= 250:
            raise OptionError(f"link-grammar:words={self.words}; expected a number of words from 1 to 250")

    def judge(self, sentences: Sequence[str]) -> list[Judgement]:
        """Whether there is a linkage of all words."""
        from nlgauge.perturb.resources.link_grammar import link_parser

        parser = link_parser()
        found: list[Judgement] = []
        for sentence in sentences:
            if len(re.findall(r"\w+|[^\w\s]", sentence)) > self.words:
                found.append("unjudged")
            else:
                found.append("grammatical" if parser.links(sentence) else "ungrammatical")
        return found

    def facts(self) -> Mapping[str, Any]:
        """The library's version and the bound."""
        from nlgauge.perturb.resources.link_grammar import link_parser

        return {**dataclasses.asdict(self), "library": link_parser().version}

    def resources(self) -> str:
        """The version of the dictionary, which is a package of its own."""
        from nlgauge.perturb.resources.link_grammar import link_parser

        return link_parser().dictionary_version


@dataclass(frozen=True, kw_only=True)
class ClassifierGrammar(Grammar):
    """A sentence is grammatical if a CoLA classifier gives it at least `threshold` (paper 4, appendix B.2: 0.5).

    `model` is a catalogue name, a folder or a hub name; `label` is the one that means acceptable, if the model does
    not call it LABEL_1 or acceptable.
    """

    name: ClassVar[str] = "classifier"

    model: str = ""
    threshold: float = 0.5
    label: str = ""

    def __post_init__(self) -> None:
        if not self.model:
            raise OptionError(
                "classifier: no model is named, and none comes with NLGauge; expected one, as in "
                "classifier:model=textattack/bert-base-uncased-CoLA or classifier:model=FOLDER"
            )
        if not 0 < self.threshold < 1:
            raise OptionError(f"classifier:threshold={self.threshold}; expected a probability between 0 and 1")

    def judge(self, sentences: Sequence[str]) -> list[Judgement]:
        """By the probability that a sentence is acceptable."""
        from nlgauge.models.encoders.text_classifier import load_text_classifier

        shares = load_text_classifier(self.model.partition("@")[0], self.label).probabilities(sentences)
        return ["grammatical" if share >= self.threshold else "ungrammatical" for share in shares.tolist()]

    def facts(self) -> Mapping[str, Any]:
        """The model with its hash, its label and the threshold."""
        from nlgauge.models.encoders.text_classifier import load_text_classifier

        classifier = load_text_classifier(self.model.partition("@")[0], self.label)
        return {"model": classifier.identity, "threshold": self.threshold, "label": classifier.label}


GRAMMARS: Registry[Grammar] = Registry(
    "grammar filter",
    "nlgauge.grammars",
    {kind.name: f"{__name__}:{kind.__name__}" for kind in (NoGrammar, LinkGrammar, ClassifierGrammar)},
    "classifier:model=FOLDER,threshold=0.5",
)


def create_grammar(spec: str) -> Grammar:
    """A filter from `name` or `name:option=value,option=value`."""
    return GRAMMARS.create(spec)
