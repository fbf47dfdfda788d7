"""Paraphrases of sentences that mean the same in other words (paper 4, Table 1, appendix B.1 and Table 14).

They come from a translator, and are kept if they are similar in meaning (MoverScore) and different in words (BLEU-1).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from nlgauge.errors import OptionError
from nlgauge.metrics.reference.moverscore import MoverScore
from nlgauge.perturb.resources.translation import create_translator

LEAST_TOKENS = 5
_MOVER_MODEL = "minilm"

_WORD = re.compile(r"\[[A-Za-z]+\]|\w+?(?=n['’]t\b)|n['’]t\b|['’]\w+|\w+(?:-\w+)*|[^\w\s]")


def words(text: str) -> list[str]:
    """Words and marks in lower case, equal for plain and tokenised text."""
    return _WORD.findall(text.lower())


def bleu_1(text: str, reference: str) -> float:
    """The share of a text's words that the reference has, times the brevity penalty (Papineni et al. 2002)."""
    own, other = words(text), words(reference)
    if not own:
        return 0.0
    shared = (Counter(own) & Counter(other)).total()
    return shared / len(own) * min(1.0, math.exp(1 - len(other) / len(own)))


class Paraphraser:
    """Paraphrases of sentences whose MoverScore is above `mover` and BLEU-1 below `bleu`; each sentence once.

    Sentences of fewer than five words and marks have none, nor do those that only open or close a quotation.
    """

    def __init__(self, translator: str, mover: float, bleu: float) -> None:
        for name, value in (("mover", mover), ("bleu", bleu)):
            if not -1 <= value <= 1.01:
                raise OptionError(f"{name}={value}; expected a score from -1 to 1, as mover=0.4 and bleu=0.6")
        self.translator = create_translator(translator)
        self.mover, self.bleu = mover, bleu
        self._known: dict[str, str] = {}

    def prepare(self) -> None:
        """Raise an error that says what to install or fetch if a resource is missing."""
        self.translator.facts()
        MoverScore(model=_MOVER_MODEL).prepare()

    def facts(self) -> dict[str, str]:
        """Everything that a paraphrase depends on."""
        return {"translator": str(self.translator.signature), "model": str(MoverScore(model=_MOVER_MODEL).signature)}

    def find(self, sentences: Iterable[str]) -> dict[str, str]:
        """The paraphrase of every sentence that has one."""
        wanted = list(dict.fromkeys(sentences))
        waiting = sorted(sentence for sentence in wanted if sentence not in self._known)
        self._known |= dict.fromkeys(waiting, "")
        able = [sentence for sentence in waiting if len(words(sentence)) >= LEAST_TOKENS and _is_whole(sentence)]
        said = zip(able, self.translator.paraphrase(able), strict=True) if able else ()
        far = [(said_again, sentence) for sentence, said_again in said if self._is_far(said_again, sentence)]
        scores = MoverScore(model=_MOVER_MODEL).of_pairs(far).tolist() if far else []
        for (said_again, sentence), score in zip(far, scores, strict=True):
            if score > self.mover:
                self._known[sentence] = said_again
        return {sentence: self._known[sentence] for sentence in wanted if self._known[sentence]}

    def _is_far(self, said_again: str, sentence: str) -> bool:
        return bool(said_again) and words(said_again) != words(sentence) and bleu_1(said_again, sentence) < self.bleu


shared_paraphraser = lru_cache(maxsize=8)(Paraphraser)  # one per process and options


def _is_whole(sentence: str) -> bool:
    """Whether quotation marks and brackets come in pairs."""
    straight = sentence.count('"') % 2 == 0 and sentence.count("``") == sentence.count("''")
    return straight and all(sentence.count(one) == sentence.count(other) for one, other in ("“”", "()"))
