"""A retrieval system: the response whose context is most similar to the prompt, by BM25."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.data.columns import Reading
from nlgauge.data.reading import Source
from nlgauge.data.tables import ResponseSets
from nlgauge.errors import DataError, MissingExtra, ModelError, OptionError
from nlgauge.models.language.base import (
    Continuation,
    LanguageModel,
    Sampling,
    TokenLogprobs,
    check_to_generate,
    check_to_score_sampled,
    draw_place,
)
from nlgauge.text.tokens import Tokenizer


@dataclass(frozen=True)
class Hit:
    """A retrieved response, its context, and the similarity of that context to the prompt."""

    context: str
    response: str
    score: float


class RetrievalModel(LanguageModel):
    """BM25 over pairs of context and response: the baseline of HUSE (paper 3, section 5.1).

    The paper retrieves "the single most relevant response from the training set using the BM25 similarity metric on
    inputs" with Apache Solr, so the formula is Lucene's, with the defaults of the library `bm25s` (k1 = 1.5,
    b = 0.75). Contexts are cut into lower-case words without punctuation marks; there is neither a list of stop words
    nor stemming. A pair whose context is the prompt itself may be found like any other.

    A pair is a hit when its context shares a word with the prompt; a prompt without hits has an empty response. The
    order of pairs does not matter: equal hits are sorted by context, then by response.
    """

    end_token = None
    start_context = ""
    window = 0

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = _sorted_pairs(pairs)
        words = _words([context for context, _ in self._pairs])
        if not any(words):
            raise DataError(f"found {len(self._pairs)} contexts without a single word; expected contexts to search in")
        self._index = _new_index()
        self._index.index(words, show_progress=False)
        self.name = f"bm25-{self._index.method}"
        about = f"nlgauge-{self.name}-1 words k1={self._index.k1:g} b={self._index.b:g}"
        self._fingerprint = _fingerprint(self._pairs, about)

    @classmethod
    def load(cls, path: str | Path) -> RetrievalModel:
        """Read the pairs of a file: response sets with contexts (each response is a pair), or texts with contexts.

        A table with the columns `context` and `response` works, too. An empty cell of a wide CSV is not a response.
        """
        _new_index()
        source = Source(path=str(path), reading=Reading(empty_cells="drop"), extras=())
        table = source.read()
        frame = table.frame
        if "context" not in frame.columns:
            raise DataError(
                "contexts are missing; expected pairs to search in: a column 'context' beside 'responses' or "
                "'response'",
                file=source.name,
            )
        if len(missing := frame["context"].is_null().arg_true()):
            id = frame["id"][int(missing[0])]
            raise DataError(f"the context of '{id}' is missing; expected one for each response", file=source.name)
        contexts = frame["context"]
        if isinstance(table, ResponseSets):
            contexts = contexts.gather(np.repeat(np.arange(len(table)), table.sizes))
        try:
            return cls(zip(contexts.to_list(), table.texts.to_list(), strict=True))
        except DataError as error:
            raise error.at(file=source.name) from error

    def __len__(self) -> int:
        return len(self._pairs)

    def score(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: tokens of retrieved responses have no probability."""
        raise ModelError(
            f"{self.name} retrieves responses and has no probabilities of tokens, but these were asked for; score its "
            "responses with a language model, such as smollm2 or an n-gram model of the same texts"
        )

    def score_sampled(
        self, prompts: Sequence[str], texts: Sequence[Sequence[str]], sampling: Sampling
    ) -> list[list[TokenLogprobs]]:
        """The log-probability of retrieving each text, as one token: that of all hits whose response it is.

        A text that is not the response of a hit cannot be retrieved (-inf); at temperature 0 the best hit has
        probability 1. White space around a text does not matter. Without a hit the response is surely empty.
        """
        check_to_score_sampled(self, prompts, texts, sampling)
        result = []
        for group, words in zip(texts, _words(list(prompts)), strict=True):
            ranked, scores = self._ranked(words)
            places, cumulated = _choices(ranked, scores, sampling)
            known: dict[str, float] = {} if len(places) else {"": 0.0}
            for place, score in zip(places.tolist(), scores[: len(places)].tolist(), strict=True):
                below = (score - scores[0]) / sampling.temperature if sampling.temperature else 0.0
                response = sampling.cut(self._pairs[place][1])
                known[response] = float(np.logaddexp(known.get(response, -math.inf), below - math.log(cumulated[-1])))
            logs = [min(0.0, known.get(text.strip(), -math.inf)) for text in group]
            result.append([TokenLogprobs((text,), np.array([log])) for text, log in zip(group, logs, strict=True)])
        return result

    def sample(self, prompts: Sequence[str], sampling: Sampling, seeds: Sequence[int]) -> list[Continuation]:
        """The response of one hit for each prompt and its seed; "" if there is no hit.

        Temperature 0 takes the best hit, as the paper does. Above it, a hit is drawn with a probability proportional
        to exp(BM25 score / temperature), by one uniform draw from the seed's own generator; `top_k` and `top_p` keep
        the best hits. A response ends before a stop string, as everywhere, but `max_new_tokens` does not cut it.
        """
        check_to_generate(prompts, seeds)
        if sampling.beams > 1:
            raise OptionError(f"{self.name} has no beam search, but beams is {sampling.beams}; use beams=1")
        rows: dict[str, list[int]] = {}
        for row, prompt in enumerate(prompts):
            rows.setdefault(prompt, []).append(row)
        result = [""] * len(prompts)
        for same, words in zip(rows.values(), _words(list(rows)), strict=True):
            places, cumulated = _choices(*self._ranked(words), sampling)
            for row in same if len(places) else ():
                place = places[draw_place(cumulated, np.random.Generator(np.random.PCG64(seeds[row])))]
                result[row] = sampling.cut(self._pairs[int(place)][1])
        scored = self.score_sampled(prompts, [[text] for text in result], sampling)
        return [Continuation(text, found[0].total, tokens=1) for text, found in zip(result, scored, strict=True)]

    def hits(self, prompt: str, *, limit: int = 10) -> tuple[Hit, ...]:
        """The best hits of a prompt, best first."""
        check_to_generate([prompt], [0])
        if limit < 1:
            raise OptionError(f"limit is {limit}; expected at least 1")
        places, scores = self._ranked(_words([prompt])[0])
        best = zip((self._pairs[place] for place in places[:limit].tolist()), scores[:limit].tolist(), strict=True)
        return tuple(Hit(context, response, score) for (context, response), score in best)

    def _ranked(self, words: list[str]) -> tuple[Array, Array]:
        """The indices of all hits and their scores, best first."""
        if not words:
            return np.zeros(0, np.int64), np.zeros(0)
        scores = self._index.get_scores(words)
        places = np.flatnonzero(scores)
        places = places[np.argsort(-scores[places], kind="stable")]
        return places, scores[places]


def _new_index() -> Any:
    """An empty index, with the library's debugging messages off, which it enables globally."""
    try:
        import bm25s
    except ImportError as error:
        raise MissingExtra.needs("retrieval by BM25", "retrieval") from error
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    return bm25s.BM25(method="lucene", dtype="float64")


def _sorted_pairs(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    found = list(pairs)
    if not found:
        raise DataError("found no pairs; expected at least one context with its response")
    for number, pair in enumerate(found):
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise DataError(f"pair {number} is {str(pair)[:60]}; expected a tuple of two texts: context and response")
        try:
            "".join(pair).encode()
        except UnicodeEncodeError as error:
            raise DataError(f"pair {number} has half a surrogate pair; expected two texts") from error
    return sorted(found)


def _words(texts: list[str]) -> list[list[str]]:
    """The lower-case words of each text, in order; marks and symbols are not words."""
    table = Tokenizer("word", lower=True)(pl.Series(texts, dtype=pl.String))
    distinct = [table.token(token) for token in range(table.vocabulary_size)]
    is_word = np.array([any(map(str.isalnum, token)) for token in distinct], bool)[table.ids]
    words = [distinct[token] for token in table.ids[is_word].tolist()]
    offsets = np.concatenate(([0], np.cumsum(is_word)))[table.offsets]
    return [words[first:last] for first, last in pairwise(offsets.tolist())]


def _choices(places: Array, scores: Array, sampling: Sampling) -> tuple[Array, Array]:
    """The hits to draw from, and their cumulated weights."""
    if sampling.temperature == 0 or not len(places):
        return places[:1], np.ones(len(places[:1]))
    with np.errstate(over="ignore"):
        cumulated = sampling.nucleus(np.exp((scores - scores[0]) / sampling.temperature))
    return places[: len(cumulated)], cumulated


def _fingerprint(pairs: Sequence[tuple[str, str]], about: str) -> str:
    """A hash of the sorted pairs and the formula."""
    digest = hashlib.blake2b(f"{about}\n".encode(), digest_size=16)
    for pair in pairs:
        for text in pair:
            data = text.encode()
            digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
