"""Unrelated words or sentences (paper 4, Table 1, "relatedness")."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, ClassVar

from nlgauge.configured import option
from nlgauge.perturb.aspects import clauses
from nlgauge.perturb.base import Edit, Kind, Outcome, PerturbationOfShare, one_way
from nlgauge.perturb.corpus import CLASSES, Corpus
from nlgauge.perturb.resources.parser import Token
from nlgauge.perturb.resources.word_forms import in_form_of, replaced
from nlgauge.perturb.resources.word_tables import word_sets
from nlgauge.perturb.story import Story
from nlgauge.text.words import keywords

if TYPE_CHECKING:
    from nlgauge.metrics.reference.moverscore import MoverScore

_FEWEST = 3
_VOWEL = re.compile("[aeiouy]")
_MASK = re.compile(r"\[[A-Z]+\]")
_PAIRS_AT_ONCE = 64
_TRIES = 60
_ROLES = ("dobj", "pobj", "nsubj", "nsubjpass", "attr", "conj")
_WORDS = word_sets("relatedness")


@dataclass(frozen=True, kw_only=True)
class Relatedness(PerturbationOfShare):
    """Put random words of other texts in place of a `share` of nouns and verbs, in the right form, or a sentence of
    another text in place of one; each half of the time.

    Words are drawn as often as they occur. At least three words change, else a sentence does. A verb with an object
    gets a verb that can have one. Coherent examples are stories in which no two sentences have a MoverScore of
    `threshold` or more (`model`, last layer). The paper takes .1 on its own model's scale; with MiniLM, .1 leaves 73%
    of 300 ROC stories (the largest score of a story: median .02, 5% below -.12 and 5% above .25).
    """

    name: ClassVar[str] = "relatedness"
    kind: ClassVar[Kind] = "coherence"
    paper: ClassVar[str] = "OpenMEVA, Table 1"
    parses: ClassVar[bool] = True
    uses_words: ClassVar[bool] = True

    share: float = option(0.25, "Share of the nouns and verbs that are replaced.")
    threshold: float = option(0.1, "Coherent stories have no two sentences with a MoverScore of this or more.")
    model: str = option("minilm", "Model of the MoverScore.")

    def relevant_options(self) -> Mapping[str, Any]:
        """The model with its hash."""
        from nlgauge.models.fetch import model_identity

        return {**super().relevant_options(), "model": model_identity(self.model)}

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:
        """Several words, or one sentence."""
        ways = (
            ("words", lambda: self._words(story, draw, corpus)),
            ("sentence", lambda: _sentence(story, draw, corpus)),
        )
        reason = "too few nouns and verbs to replace, and no sentence of another text to put in"
        return one_way(story, draw, ways, reason)

    def prepare(self) -> None:
        """Raise an error without the parser or the model of MoverScore."""
        super().prepare()
        self._measure().prepare()

    def warm(self, stories: Sequence[Story]) -> None:
        """Compare the sentences of all stories at once; results are cached on disk."""
        self._weakly_related(stories)

    def coherent(self, story: Story) -> bool:
        """Whether no two sentences of the story are similar (footnote 4 of the paper)."""
        return self._weakly_related([story])[0]

    def _measure(self) -> MoverScore:
        from nlgauge.metrics.reference.moverscore import MoverScore

        return MoverScore(model=self.model)

    def _weakly_related(self, stories: Sequence[Story]) -> list[bool]:
        """For each story, whether all its pairs of sentences are below the threshold.

        Pairs are compared some at a time, neighbours first, until one of a story reaches the threshold: a long story
        has more pairs than can be compared.
        """
        measure = self._measure()
        found = [True] * len(stories)
        waiting = {number: _pairs(story) for number, story in enumerate(stories)}
        while waiting:
            batch = {number: list(islice(rest, _PAIRS_AT_ONCE)) for number, rest in waiting.items()}
            pairs = [pair for group in batch.values() for pair in group]
            scores = iter(measure.of_pairs(pairs).tolist() if pairs else ())
            for number, group in batch.items():
                values = list(islice(scores, len(group)))
                found[number] = not any(value >= self.threshold for value in values)
                if not found[number] or len(group) < _PAIRS_AT_ONCE:
                    del waiting[number]
        return found

    def _words(self, story: Story, draw: random.Random, corpus: Corpus) -> list[Edit]:
        wanted = round(self.share * sum(token.pos in CLASSES for token in story.tokens))
        if wanted < _FEWEST or not all(corpus.words.get(name) for name in CLASSES):
            return []
        tables = {name: (list(found), list(accumulate(found.values()))) for name, found in corpus.words.items()}
        places = [token for token in story.tokens if _is_replaceable(story, token)]
        draw.shuffle(places)
        known = {token.base for token in story.tokens}
        changes: list[list[Edit]] = []
        for token in places:
            if len(changes) == wanted:
                break
            lemma = _other_word(story, token, draw, known, *tables[token.pos])
            if lemma and (form := in_form_of(lemma, token)) is not None:
                changes.append(replaced(story, token, form))
        return [edit for edits in changes for edit in edits] if len(changes) >= _FEWEST else []


def _pairs(story: Story) -> Iterator[tuple[str, str]]:
    """Pairs of sentences, those nearest to each other first."""
    lines = story.lines
    for gap in range(1, len(lines)):
        yield from zip(lines, lines[gap:], strict=False)


def _is_replaceable(story: Story, token: Token) -> bool:
    if not token.text.isalpha() or token.base in _WORDS["odd_nouns"]:
        return False
    below = story.relations(token)
    if token.pos == "NOUN":
        if token.relation not in _ROLES or "compound" in below:
            return False
        return token.tag == "NNS" or (token.tag == "NN" and _article(story, token) != "")
    if token.pos != "VERB" or token.base in _WORDS["light"] or token.relation in ("amod", "aux"):
        return False
    complements = below & {"prt", "xcomp", "ccomp", "dative", "oprd", "acomp"}
    return token.tag in ("VB", "VBD", "VBZ", "VBP") and not complements


def _article(story: Story, token: Token) -> str:
    """The word before a noun's phrase that allows the singular."""
    for child in story.children(token):
        if child.relation in ("det", "poss") and child.place < token.place:
            if child.word in ("a", "an"):
                return "a"
            return child.word if child.relation == "poss" or child.word in _WORDS["any_article"] else ""
    return ""


def _other_word(
    story: Story, token: Token, draw: random.Random, known: set[str], lemmas: Sequence[str], counts: Sequence[int]
) -> str | None:
    takes_object = "dobj" in story.relations(token)
    is_counted = token.tag == "NNS" or _article(story, token) == "a"
    for _ in range(_TRIES):
        lemma = draw.choices(lemmas, cum_weights=counts)[0]
        if token.pos == "VERB":
            fits = lemma not in _WORDS["no_object"] if takes_object else lemma in _WORDS["without_object"]
        else:
            fits = not is_counted or lemma not in _WORDS["uncounted"]
        is_odd = len(lemma) < 3 or lemma in _WORDS["odd_nouns"] or not _VOWEL.search(lemma)
        if fits and not is_odd and lemma not in known:
            return lemma
    return None


def _sentence(story: Story, draw: random.Random, corpus: Corpus) -> list[Edit]:
    """A sentence of another text, without content words of the story, in place of any but a single sentence."""
    places = [place for place in range(len(story.sentences)) if not clauses.is_quoting(story.sentence(place))]
    if len(story.sentences) < 2 or not places or not corpus.sentences:
        return []
    place = draw.choice(places)
    start, end = story.sentences[place]
    known, capitals = story.text.lower(), _has_capitals(story.text)
    for _ in range(_TRIES):
        line = draw.choice(corpus.sentences)
        words = [line[word.start : word.end].lower() for word in keywords(line)]
        if len(words) < 2 or clauses.is_quoting(line) or line[-1] not in ".!" or len(line) > 2 * (end - start) + 80:
            continue
        if _has_capitals(line) == capitals and not any(word in known for word in words):
            return [Edit(start, end, line)]
    return []


def _has_capitals(text: str) -> bool:
    """Whether a text has capitals outside of masked names, which tokenised ones often lack."""
    return any(map(str.isupper, _MASK.sub("", text)))
