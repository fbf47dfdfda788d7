"""English sentences in other English phrases, from a table whose words are inflected according to the parse.

It replaces the back translation of paper 4: without a neural translator, a rule-based round trip loses articles and
meaning, and this does not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from nlgauge.perturb.resources.parser import Parsed, Token, parse, parser_name
from nlgauge.perturb.resources.translation import Translator
from nlgauge.perturb.resources.word_forms import begins_with_vowel, inflected, with_capitals_of
from nlgauge.perturb.resources.word_tables import table, word_sets

_MOST_TOKENS = 100

_WORDS = word_sets("phrases")
_FINITE = ("VBD", "VBZ", "VBP")
_WHOLE = {"ca": "cannot", "wo": "will not", "sha": "shall not"}


class _Rule(NamedTuple):
    kind: str
    old: tuple[str, ...]
    new: str
    needs: tuple[str, ...]


@lru_cache(maxsize=1)
def _rules() -> dict[str, list[_Rule]]:
    """Rules by the first word that they replace, the longest first."""
    found: dict[str, list[_Rule]] = {}
    for kind, rules in table("phrases")["rules"].items():
        for entry in " ".join(rules.split()).split("; "):
            pair, _, needs = entry.partition(" | ")
            old, _, new = pair.partition(" = ")
            rule = _Rule(kind, tuple(old.split()), new, tuple(needs.split()))
            found.setdefault(rule.old[0], []).append(rule)
    return {word: sorted(rules, key=lambda rule: -len(rule.old)) for word, rules in found.items()}


@dataclass(frozen=True, kw_only=True)
class Phrases(Translator):
    """English phrases for English phrases, from a table: every match is replaced, in the right form."""

    name: ClassVar[str] = "phrases"

    def paraphrase(self, sentences: Sequence[str]) -> list[str]:
        """Each sentence with its phrases replaced; an empty text if there is none, and for very long ones."""
        return [
            _Rewriter(line, parsed).result() if len(parsed) <= _MOST_TOKENS else ""
            for line, parsed in zip(sentences, parse(sentences), strict=True)
        ]

    def facts(self) -> Mapping[str, Any]:
        """The parser, and a hash of the table."""
        rules = "".join(f"\n{one}" for one in table("phrases")["rules"].values())
        digest = hashlib.blake2b(rules.encode(), digest_size=4).hexdigest()
        return {"table": digest, "parser": parser_name()}


class _Rewriter:
    """One sentence, its parse, and its replacements."""

    def __init__(self, text: str, tokens: Parsed) -> None:
        self.text, self.tokens = text, tokens
        self.children: list[list[Token]] = [[] for _ in tokens]
        for number, token in enumerate(tokens):
            if token.head != number:
                self.children[token.head].append(token)
        self.words = [token.text.lower() for token in tokens]

    def result(self) -> str:
        """The sentence with every phrase of the table replaced, from left to right."""
        made, place, number = [], 0, 0
        while number < len(self.tokens):
            found = self._contraction(number) or self._phrase(number)
            if found is None:
                number += 1
                continue
            new, count = found
            first, last = self.tokens[number], self.tokens[number + count - 1]
            made += [self._with_article(self.text[place : first.start], number, new), new]
            place, number = last.end, number + count
        return "".join([*made, self.text[place:]]) if made else ""

    def _with_article(self, before: str, number: int, new: str) -> str:
        """The text before a phrase, with its last "a" or "an" adapted to the phrase."""
        if number and self.words[number - 1] in ("a", "an"):
            article = "an" if begins_with_vowel(new) else "a"
            return re.sub(
                r"\b(an?)(\s+)$", lambda old: with_capitals_of(article, old[1][0]) + old[2], before, flags=re.I
            )
        return before

    def _contraction(self, number: int) -> tuple[str, int] | None:
        """ "couldn't go" → "was unable to go", "didn't" → "did not"; not before a subject, as in questions."""
        if self.words[number + 1 : number + 2] not in (["n't"], ["n’t"], ["not"]):
            return None
        after = self.tokens[number + 2 : number + 3]
        token = self.tokens[number]
        if not after or after[0].relation in ("nsubj", "nsubjpass", "expl", "det", "poss") or number == 0:
            return None
        if self.words[number] in ("could", "ca", "can") and after[0].tag == "VB" and token.head == number + 2:
            if after[0].lemma in _WORDS["idioms"]:
                return None
            tag = "VBD" if self.words[number] == "could" else "VBP"
            being = self._being(tag, self._subject(token.head))
            return (f"{being} unable to", 2) if being else None
        if self.words[number + 1] == "not" or token.pos not in ("AUX", "VERB"):
            return None
        whole = _WHOLE.get(self.words[number], f"{token.text} not")
        return with_capitals_of(whole, token.text), 2

    def _phrase(self, number: int) -> tuple[str, int] | None:
        token = self.tokens[number]
        for key in dict.fromkeys((token.lemma.lower(), self.words[number])):
            for rule in _rules().get(key, ()):
                count = len(rule.old)
                if self.words[number + 1 : number + count] != list(rule.old[1:]):
                    continue
                if rule.kind == "verbs":
                    made = self._verb(number, rule) if key == token.lemma.lower() else None
                elif rule.kind == "nouns":
                    made = self._noun(number, rule)
                else:
                    fits = key == self.words[number] and self._fits_place(number, rule)
                    made = (rule.new, count) if fits else None
                if made is not None:
                    return with_capitals_of(made[0], token.text if token.start == 0 else "a"), made[1]
        return None

    def _verb(self, number: int, rule: _Rule) -> tuple[str, int] | None:
        token, children = self.tokens[number], self.children[number]
        relations = {child.relation for child in children}
        if token.tag[:2] != "VB" or token.relation in ("aux", "auxpass", "amod", "compound") or "auxpass" in relations:
            return None
        if token.relation in ("ccomp", "xcomp") and self.tokens[token.head].lemma in _WORDS["bare_infinitive"]:
            return None
        if token.lemma == "be" and ("neg" in relations or not self._subject_is_before(number)):
            return None
        count = len(rule.old)
        if not all(self._fits_verb(number, rule)):
            return None
        head, space, rest = rule.new.partition(" ")
        if rest.endswith("+ing"):
            following = self.tokens[number + count : number + count + 1]
            gerund = inflected(following[0].lemma, "VBG") if following and following[0].tag == "VB" else None
            joined = any(child.relation == "conj" for child in self.children[number + count]) if following else False
            if gerund is None or joined or following[0].lemma == "be":
                return None
            rest, count = rest.replace("+ing", gerund), count + 1
        if head != "be":
            form = inflected(head, token.tag)
        elif token.tag == "VBG" or any(child.lemma == "do" and child.relation == "aux" for child in children):
            form = None
        else:
            form = self._being(token.tag, self._subject(number))
        return (f"{form}{space}{rest}", count) if form else None

    def _fits_verb(self, number: int, rule: _Rule) -> list[bool]:
        """Whether the verb meets the conditions of a rule."""
        children = self.children[number]
        relations = {child.relation for child in children}
        if len(rule.old) > 1:
            tests = [rule.old[-1] != "that" or self.tokens[number + len(rule.old) - 1].tag == "IN"]
            return [*tests, rule.old[0] != "think" or self.tokens[number].tag in _FINITE]
        tests = ["prt" not in relations]
        objects = [child for child in children if child.relation in ("dobj", "obj")]
        clauses = [child for child in children if child.relation in ("xcomp", "ccomp")]
        following = self.tokens[number + 1 : number + 2]
        need = rule.needs[0]
        if need in ("object", "past-object"):
            near = [thing for thing in objects if thing.start > self.tokens[number].start]
            tests += [need == "object" or self.tokens[number].tag == "VBD"]
            tests += [rule.old != ("call",) or not {child.text for child in children} & _WORDS["places"]]
            tests += ["back" not in [child.text for child in children], all(one.tag[-2:] != "DT" for one in near)]
            tests += [len(near) == 1, not clauses, not relations & {"oprd", "dative", "advcl"}]
            tests += [all(thing.lemma.lower() not in rule.needs[2:] and thing.tag[0] != "W" for thing in near)]
            tests += [not following or following[0].relation not in ("advmod", "prep", "punct")]
        elif need == "alone":
            tests += [
                not relations & {"dobj", "prep", "xcomp", "ccomp", "acomp", "advmod", "npadvmod", "dative", "oprd"}
            ]
        elif need == "gerund":
            tests += [bool(following) and following[0].tag == "VBG" and following[0].head == number]
        elif need == "adjective":
            states = {child.text.lower() for child in children if child.relation == "acomp"}
            tests += [
                bool(states) and not _WORDS["never_become"] & states,
                not clauses,
                not relations & {"prep", "dobj"},
            ]
        elif need == "feeling":
            told = [
                child for child in children if child.relation == "acomp" and child.text.lower() in _WORDS["feelings"]
            ]
            tests += [bool(told and following) and (following[0] in told or self.tokens[following[0].head] in told)]
        elif need == "clause":
            tests += [bool(following) and self._begins_clause(number, clauses), self.tokens[number].tag in _FINITE]
        return tests

    def _begins_clause(self, number: int, clauses: Sequence[Token]) -> bool:
        """Whether a statement with its own subject follows directly, without "that" or a question word."""
        after = self.tokens[number + 1]
        if after.tag[0] == "W" or after.relation == "mark" or after.text.lower() in ("that", "if", "whether", "how"):
            return False
        for clause in clauses:
            place = self.tokens.index(clause)
            subjects = [child for child in self.children[place] if child.relation in ("nsubj", "nsubjpass", "expl")]
            if subjects and self._first(self.tokens.index(subjects[0])) == number + 1:
                return clause.tag in ("VBD", "VBZ", "VBP") or any(
                    child.relation in ("aux", "auxpass") and child.text.lower() != "to"
                    for child in self.children[place]
                )
        return False

    def _first(self, number: int) -> int:
        """The index of the first token of a token's subtree."""
        return min([number, *(self._first(self.tokens.index(child)) for child in self.children[number])])

    def _noun(self, number: int, rule: _Rule) -> tuple[str, int] | None:
        token = self.tokens[number]
        compound = token.relation == "compound" or any(child.relation == "compound" for child in self.children[number])
        if token.tag not in ("NN", "NNS") or compound or self.words[number] == "movies":
            return None
        if rule.old[0] in ("parents", "clothes"):
            return (rule.new, 1) if self.words[number] == rule.old[0] else None
        head, space, last = rule.new.rpartition(" ")
        form = inflected(last, token.tag) if token.tag == "NNS" else last
        return (f"{head}{space}{form}", 1) if form else None

    def _fits_place(self, number: int, rule: _Rule) -> bool:
        token = self.tokens[number]
        need = rule.needs[0] if rule.needs else ""
        before = self.words[number - 1] if number else ""
        if before in ("not", "n't", "n’t", "so", "too", "quite", "how", "as", "such", "on", "in") and need != "cc":
            return before in ("so", "too") and need == "acomp"
        if need == "edge":
            after = self.tokens[number + len(rule.old) :]
            if number == 0:
                return bool(after) and after[0].text.lower() not in ("after", "thereafter", "as", "enough", "for")
            return all(rest.relation == "punct" for rest in after)
        if rule.old in (("tired",), ("sick",)) and self.words[number + 1 : number + 2] == ["of"]:
            return False
        if rule.old == ("again",) and _WORDS["negated"] & {*self.words[:number]}:
            return False
        if need == "bare":
            return token.relation == "amod" and not self.children[number] and before not in ("the", "of", "very", "her")
        if need == "advmod" and rule.old[0] in ("very", "really"):
            return token.relation == need and self.tokens[token.head].tag in ("JJ", "RB") and token.head == number + 1
        return not need or token.relation == need

    def _subject(self, number: int) -> Token | None:
        """The subject of a verb, or of the verb that it is joined to."""
        for _ in range(4):
            for child in self.children[number]:
                if child.relation in ("nsubj", "nsubjpass"):
                    return child
            if self.tokens[number].relation not in ("conj", "xcomp"):
                return None
            number = self.tokens[number].head
        return None

    def _subject_is_before(self, number: int) -> bool:
        subject = self._subject(number)
        return subject is not None and subject.start < self.tokens[number].start

    def _being(self, tag: str, subject: Token | None) -> str | None:
        """The form of "be" for a tag and a subject."""
        if tag in ("VB", "VBN", "VBG"):
            return {"VB": "be", "VBN": "been", "VBG": "being"}[tag]
        if subject is None or subject.tag[0] in "WD":
            return None
        joined = any(child.relation == "conj" for child in self.children[self.tokens.index(subject)])
        many = joined or subject.text.lower() in _WORDS["many"] or subject.tag in ("NNS", "NNPS")
        if tag == "VBD":
            return "were" if many else "was"
        return "are" if many else "am" if subject.text.lower() == "i" else "is"
