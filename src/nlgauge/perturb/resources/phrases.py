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
from nlgauge.perturb.resources.word_forms import article_of, inflected, with_capitals_of
from nlgauge.perturb.resources.word_tables import table, word_sets
from nlgauge.perturb.story import Story

_MOST_TOKENS = 100
_WORDS = word_sets("phrases")
_ARTICLE = re.compile(r"\b(an?)(\s+)$", re.IGNORECASE)
_FINITE = ("VBD", "VBZ", "VBP")
_COMPLEMENTS = ("dobj", "prep", "xcomp", "ccomp", "acomp", "advmod", "npadvmod", "dative", "oprd")
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


class _Rewriter(Story):
    """One sentence, its parse, and its replacements."""

    def __init__(self, text: str, parsed: Parsed) -> None:
        super().__init__(text)
        self.sentences = ((0, len(text)),)
        self.tokens = self._placed([parsed])

    def result(self) -> str:
        """The sentence with every phrase of the table replaced, from left to right."""
        made, place, number = [], 0, 0
        while number < len(self.tokens):
            token = self.tokens[number]
            found = self._contraction(token) or self._phrase(token)
            if found is None:
                number += 1
                continue
            new, count = found
            before = self.text[place : token.start]
            made += [_with_article(before, new) if self.word_at(token, -1) in ("a", "an") else before, new]
            number += count
            place = self.tokens[number - 1].end
        return "".join([*made, self.text[place:]]) if made else ""

    def _contraction(self, token: Token) -> tuple[str, int] | None:
        """ "couldn't go" → "was unable to go", "didn't" → "did not"; not before a subject, as in questions."""
        negation, after = self.word_at(token, 1), self.beside(token, 2)
        if negation not in ("n't", "n’t", "not") or after is None or token.place == 0:
            return None
        if after.relation in ("nsubj", "nsubjpass", "expl", "det", "poss"):
            return None
        if token.word in ("could", "ca", "can") and after.tag == "VB" and token.head == after.place:
            being = self._being("VBD" if token.word == "could" else "VBP", self._subject(after))
            return (f"{being} unable to", 2) if being and after.lemma not in _WORDS["idioms"] else None
        if negation == "not" or token.pos not in ("AUX", "VERB"):
            return None
        whole = _WHOLE.get(token.word, f"{token.text} not")
        return with_capitals_of(whole, token.text), 2

    def _phrase(self, token: Token) -> tuple[str, int] | None:
        for key in dict.fromkeys((token.base, token.word)):
            for rule in _rules().get(key, ()):
                count = len(rule.old)
                rest = tuple(one.word for one in self.tokens[token.place + 1 : token.place + count])
                if rest != rule.old[1:]:
                    continue
                if rule.kind == "verbs":
                    made = self._verb(token, rule) if key == token.base else None
                elif rule.kind == "nouns":
                    made = self._noun(token, rule)
                else:
                    fits = key == token.word and self._fits_place(token, rule)
                    made = (rule.new, count) if fits else None
                if made is not None:
                    return with_capitals_of(made[0], token.text if token.start == 0 else "a"), made[1]
        return None

    def _verb(self, token: Token, rule: _Rule) -> tuple[str, int] | None:
        relations = self.relations(token)
        if token.tag[:2] != "VB" or token.relation in ("aux", "auxpass", "amod", "compound") or "auxpass" in relations:
            return None
        if token.relation in ("ccomp", "xcomp") and self.head(token).lemma in _WORDS["bare_infinitive"]:
            return None
        subject, count = self._subject(token), len(rule.old)
        if token.lemma == "be" and ("neg" in relations or subject is None or subject.start >= token.start):
            return None
        if not self._fits_verb(token, rule):
            return None
        head, space, rest = rule.new.partition(" ")
        if rest.endswith("+ing"):
            following = self.beside(token, count)
            gerund = inflected(following.lemma, "VBG") if following and following.tag == "VB" else None
            if not following or not gerund or following.lemma == "be" or "conj" in self.relations(following):
                return None
            rest, count = rest.replace("+ing", gerund), count + 1
        if head != "be":
            form = inflected(head, token.tag)
        elif token.tag == "VBG" or any(one.lemma == "do" and one.relation == "aux" for one in self.children(token)):
            form = None
        else:
            form = self._being(token.tag, subject)
        return (f"{form}{space}{rest}", count) if form else None

    def _fits_verb(self, token: Token, rule: _Rule) -> bool:
        """Whether the verb meets the conditions of a rule."""
        if len(rule.old) > 1:
            is_conjunction = rule.old[-1] != "that" or self.tokens[token.place + len(rule.old) - 1].tag == "IN"
            return is_conjunction and (rule.old[0] != "think" or token.tag in _FINITE)
        relations, need, following = self.relations(token), rule.needs[0], self.beside(token, 1)
        if "prt" in relations:
            return False
        if need in ("object", "past-object"):
            return (need == "object" or token.tag == "VBD") and self._has_plain_object(token, rule)
        if need == "alone":
            return relations.isdisjoint(_COMPLEMENTS)
        if need == "gerund":
            return following is not None and following.tag == "VBG" and following.head == token.place
        states = [child for child in self.children(token) if child.relation == "acomp"]
        if need == "adjective":
            is_plain = not relations & {"prep", "dobj", "xcomp", "ccomp"}
            return bool(states) and is_plain and all(one.word not in _WORDS["never_become"] for one in states)
        if need == "feeling":
            told = [one for one in states if one.word in _WORDS["feelings"]]
            return following is not None and (following in told or self.head(following) in told)
        if need == "clause":
            return token.tag in _FINITE and following is not None and self._begins_clause(token, following)
        return True

    def _has_plain_object(self, token: Token, rule: _Rule) -> bool:
        """Whether a noun or a personal pronoun is all that a verb has after it, and one that the rule allows."""
        children, following = self.children(token), self.beside(token, 1)
        words = {child.text for child in children}
        near = [child for child in children if child.relation in ("dobj", "obj") and child.start > token.start]
        if len(near) != 1 or self.relations(token) & {"xcomp", "ccomp", "oprd", "dative", "advcl"}:
            return False
        if "back" in words or (rule.old == ("call",) and words & _WORDS["places"]):
            return False
        if near[0].tag.startswith("W") or near[0].tag.endswith("DT") or near[0].base in rule.needs[2:]:
            return False
        return following is None or following.relation not in ("advmod", "prep", "punct")

    def _begins_clause(self, token: Token, after: Token) -> bool:
        """Whether a statement with its own subject follows a verb, without "that" or a question word."""
        if after.tag[0] == "W" or after.relation == "mark" or after.word in ("that", "if", "whether", "how"):
            return False
        for clause in self.children(token):
            children = self.children(clause) if clause.relation in ("xcomp", "ccomp") else ()
            subjects = [child for child in children if child.relation in ("nsubj", "nsubjpass", "expl")]
            if subjects and self.subtree(subjects[0])[0] == after:
                auxiliaries = [child for child in children if child.relation in ("aux", "auxpass")]
                return clause.tag in _FINITE or any(one.word != "to" for one in auxiliaries)
        return False

    def _noun(self, token: Token, rule: _Rule) -> tuple[str, int] | None:
        is_compound = token.relation == "compound" or "compound" in self.relations(token)
        if token.tag not in ("NN", "NNS") or is_compound or token.word == "movies":
            return None
        if rule.old[0] in ("parents", "clothes"):
            return (rule.new, 1) if token.word == rule.old[0] else None
        head, space, last = rule.new.rpartition(" ")
        form = inflected(last, token.tag) if token.tag == "NNS" else last
        return (f"{head}{space}{form}", 1) if form else None

    def _fits_place(self, token: Token, rule: _Rule) -> bool:
        need = rule.needs[0] if rule.needs else ""
        before, following = self.word_at(token, -1), self.word_at(token, 1)
        if before in ("not", "n't", "n’t", "so", "too", "quite", "how", "as", "such", "on", "in") and need != "cc":
            return before in ("so", "too") and need == "acomp"
        if need == "edge":
            after = self.tokens[token.place + len(rule.old) :]
            if token.place == 0:
                return bool(after) and after[0].word not in ("after", "thereafter", "as", "enough", "for")
            return all(rest.relation == "punct" for rest in after)
        if rule.old in (("tired",), ("sick",)) and following == "of":
            return False
        if rule.old == ("again",) and any(one.word in _WORDS["negated"] for one in self.tokens[: token.place]):
            return False
        if need == "bare":
            is_alone = token.relation == "amod" and not self.children(token)
            return is_alone and before not in ("the", "of", "very", "her")
        if need == "advmod" and rule.old[0] in ("very", "really"):
            is_next = token.head == token.place + 1 and self.head(token).tag in ("JJ", "RB")
            return token.relation == need and is_next
        return not need or token.relation == need

    def _subject(self, verb: Token) -> Token | None:
        """The subject of a verb, or of the verb that it is joined to."""
        for _ in range(4):
            for child in self.children(verb):
                if child.relation in ("nsubj", "nsubjpass"):
                    return child
            if verb.relation not in ("conj", "xcomp"):
                return None
            verb = self.head(verb)
        return None

    def _being(self, tag: str, subject: Token | None) -> str | None:
        """The form of "be" for a tag and a subject."""
        if tag in ("VB", "VBN", "VBG"):
            return {"VB": "be", "VBN": "been", "VBG": "being"}[tag]
        if subject is None or subject.tag[0] in "WD":
            return None
        joined = "conj" in self.relations(subject)
        many = joined or subject.word in _WORDS["many"] or subject.tag in ("NNS", "NNPS")
        if tag == "VBD":
            return "were" if many else "was"
        return "are" if many else "am" if subject.word == "i" else "is"


def _with_article(before: str, new: str) -> str:
    """The text before a phrase, with its last "a" or "an" adapted to the phrase."""
    article = article_of(new)
    return _ARTICLE.sub(lambda old: with_capitals_of(article, old[1][0]) + old[2], before)
