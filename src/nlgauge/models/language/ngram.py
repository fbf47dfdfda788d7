"""A word n-gram language model: trained on a user's own text in seconds, without a download."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.engine.checksums import Damaged, file_checksum, opened, sealed
from nlgauge.engine.files import atomic_path, write_text
from nlgauge.errors import DataError, ModelError, OptionError, OutputError
from nlgauge.models.language.base import (
    Continuation,
    LanguageModel,
    Sampling,
    TokenLogprobs,
    cannot_write,
    check_to_generate,
    check_to_score,
    check_to_score_sampled,
    draw_place,
)
from nlgauge.models.language.kneser_ney import KneserNey, NgramCounts
from nlgauge.text.tokens import Tokenizer

UNKNOWN, END = 0, 1
SPECIAL = ("<unk>", "</s>")
START = "<s>"
HIGHEST_ORDER = 6
CARD = "ngram.json"

_CONTEXTS_KEPT = 64
_NONE = np.zeros(0, np.int64)
_OPENING = frozenset("([{“‘«¿¡$£€#@")
_CLOSING = frozenset(".,;:!?…%)]}”’»'")
_BETWEEN = frozenset("-/")


class _Card(msgspec.Struct):
    """The content of `ngram.json`, which describes the counts beside it."""

    format: Literal["nlgauge-ngram-1"]
    order: Annotated[int, msgspec.Meta(ge=1, le=HIGHEST_ORDER)]
    min_count: Annotated[int, msgspec.Meta(ge=1)]
    fingerprint: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    sha256: str


class NgramModel(LanguageModel):
    """Word n-grams with interpolated modified Kneser-Ney smoothing (Chen & Goodman 1999).

    A text is its words and punctuation marks after a start symbol and before an end token. Any word that training did
    not keep is `<unk>`, which has its own probability and is never generated. Texts may be of any length (`window` 0).
    """

    end_token = SPECIAL[END]
    start_context = START
    window = 0

    def __init__(self, words: Sequence[str], counts: NgramCounts, *, min_count: int = 1) -> None:
        self.words = tuple(words)
        self.order = counts.order
        self.min_count = min_count
        self.name = f"ngram-{self.order}"
        self._fingerprint = _fingerprint(self.words, counts)
        self._symbols = {word: symbol for symbol, word in enumerate(self.words, start=len(SPECIAL))}
        self._smoothed = KneserNey(counts)

    @classmethod
    def train(cls, texts: Iterable[str] | pl.Series, *, order: int = 3, min_count: int = 1) -> NgramModel:
        """Count the n-grams of texts; words that occur fewer than `min_count` times become `<unk>`.

        Texts without a word or punctuation mark are left out. The order of texts does not matter.
        """
        if not 1 <= order <= HIGHEST_ORDER:
            raise OptionError(f"order is {order}; expected 1 to {HIGHEST_ORDER}")
        if min_count < 1:
            raise OptionError(f"min_count is {min_count}; expected 1 or more")
        table = Tokenizer("word")(_column(texts))
        if not len(table.ids):
            found = f"{len(table)} texts without a single word" if len(table) else "no texts"
            raise DataError(f"found {found} to train an n-gram model on; expected at least one text with words")
        frequent = np.flatnonzero(np.bincount(table.ids) >= min_count).tolist()
        if not frequent:
            raise DataError(f"no word occurs {min_count} times; lower min_count or train on more text")
        frequent.sort(key=table.token)
        words = [table.token(token) for token in frequent]
        vocabulary = len(SPECIAL) + len(words)
        symbols = np.full(table.vocabulary_size, UNKNOWN)
        symbols[frequent] = np.arange(len(SPECIAL), vocabulary)
        framed, offsets = _framed(symbols[table.ids], table.lengths[table.lengths > 0], start=vocabulary)
        return cls(words, NgramCounts.of(framed, offsets, vocabulary, order), min_count=min_count)

    def score(
        self, prompts: Sequence[str], texts: Sequence[Sequence[str]], *, with_end: bool = False
    ) -> list[list[TokenLogprobs]]:
        """The log-probability of each token of `texts[i]` after `prompts[i]`; an empty prompt is the start of a text.

        Tokens keep their spelling; those that the model does not know get the probability of `<unk>`.
        """
        check_to_score(self, prompts, texts, with_end=with_end)
        contexts = [self._context(symbols) for _, symbols in self._tokenize(prompts)]
        prompt_of = [i for i, candidates in enumerate(texts) for _ in candidates]
        tokenized = self._tokenize([text for candidates in texts for text in candidates])
        end, end_symbol = ((SPECIAL[END],), [[END]]) if with_end else ((), [])
        rows = [
            np.concatenate((contexts[i], symbols, *end_symbol))
            for i, (_, symbols) in zip(prompt_of, tokenized, strict=True)
        ]
        offsets = np.cumsum([0, *(len(row) for row in rows)])
        logprobs = np.log(self._smoothed.probabilities(np.concatenate((_NONE, *rows)), offsets))
        result: list[list[TokenLogprobs]] = [[] for _ in prompts]
        for i, (words, _), (first, last) in zip(prompt_of, tokenized, pairwise(offsets.tolist()), strict=True):
            result[i].append(TokenLogprobs((*words, *end), logprobs[first + len(contexts[i]) : last]))
        return result

    def score_sampled(
        self, prompts: Sequence[str], texts: Sequence[Sequence[str]], sampling: Sampling
    ) -> list[list[TokenLogprobs]]:
        """The log-probability of drawing each token of `texts[i]` after `prompts[i]`, and then the end.

        A text with an unknown word, with a stop string, or with more than `max_new_tokens` words cannot be written; one
        of just as many words has no end, since it is cut there.
        """
        check_to_score_sampled(self, prompts, texts, sampling)
        choices = self._choices(sampling)
        result: list[list[TokenLogprobs]] = []
        for (_, before), group in zip(self._tokenize(prompts), texts, strict=True):
            found = []
            for text, (words, symbols) in zip(group, self._tokenize(group), strict=True):
                ends = len(words) < sampling.max_new_tokens
                drawn = [*symbols.tolist(), *([END] * ends)]
                if sampling.stops(text) or len(words) > sampling.max_new_tokens or UNKNOWN in drawn:
                    found.append(cannot_write(text))
                    continue
                context, values = self._context(before).tolist(), []
                for symbol in drawn:
                    values.append(choices(tuple(context)).logprob(symbol))
                    context = self._after(context, symbol)
                found.append(TokenLogprobs((*words, *((SPECIAL[END],) * ends)), np.array(values)))
            result.append(found)
        return result

    def sample(self, prompts: Sequence[str], sampling: Sampling, seeds: Sequence[int]) -> list[Continuation]:
        """One continuation for each prompt and its seed, drawn from the whole vocabulary without `<unk>`.

        Every token uses one uniform draw from the seed's generator.
        """
        check_to_generate(prompts, seeds)
        if sampling.beams > 1:
            raise OptionError(f"{self.name} has no beam search, but beams is {sampling.beams}; use beams=1")
        choices = self._choices(sampling)
        return [
            self._continue(self._context(symbols).tolist(), sampling, seed, choices)
            for (_, symbols), seed in zip(self._tokenize(prompts), seeds, strict=True)
        ]

    def _choices(self, sampling: Sampling) -> Callable[[tuple[int, ...]], _Choices]:
        """What to draw from after a context; a few contexts are remembered."""

        @lru_cache(_CONTEXTS_KEPT)
        def choices(context: tuple[int, ...]) -> _Choices:
            return _Choices.of(self._smoothed.distribution(context), sampling)

        return choices

    def _after(self, context: list[int], symbol: int) -> list[int]:
        """The context after one more symbol."""
        return [*context, symbol][max(0, len(context) + 2 - self.order) :]

    def next_probabilities(self, prompt: str) -> dict[str, float]:
        """The probability of every word, of `<unk>` and of the end token after a prompt."""
        context = self._context(self._tokenize([prompt])[0][1])
        return dict(zip((*SPECIAL, *self.words), self._smoothed.distribution(context.tolist()).tolist(), strict=True))

    def save(self, folder: str | Path) -> None:
        """Write the model into a folder: a new or empty one, or one with an n-gram model, which is then replaced."""
        folder = Path(folder)
        before = _prepare(folder)
        counts = self._smoothed.counts
        symbols = pl.Series("word", [*SPECIAL, *self.words, START])
        frame = counts.to_frame().with_columns(symbols.extend_constant(None, sum(map(len, counts.keys[1:]))))
        file = folder / _counts_file(self.fingerprint)
        with atomic_path(file) as temporary:
            with temporary.open("wb") as stream:
                frame.write_ipc(stream, compression="zstd")
            digest = file_checksum(temporary)
        card = _Card(
            format="nlgauge-ngram-1",
            order=self.order,
            min_count=self.min_count,
            fingerprint=self.fingerprint,
            sha256=digest,
        )
        write_text(folder / CARD, json.dumps(sealed(msgspec.to_builtins(card)), indent=2) + "\n")
        if before is not None and before.fingerprint != self.fingerprint:
            with suppress(OSError):
                (folder / _counts_file(before.fingerprint)).unlink()

    @classmethod
    def load(cls, folder: str | Path) -> NgramModel:
        """Read a model that `save` wrote, and check that nothing in it has changed."""
        folder = Path(folder)
        card = _read_card(folder)
        file = folder / _counts_file(card.fingerprint)
        try:
            data = file.read_bytes()
        except OSError as error:
            raise ModelError(f"{file}: cannot be read ({error.strerror}); train the model again") from error
        if hashlib.sha256(data).hexdigest() == card.sha256:
            frame = pl.read_ipc(data)
            counts = NgramCounts.from_frame(frame, card.order)
            words = frame["word"][len(SPECIAL) : counts.vocabulary].to_list()
            if _fingerprint(words, counts) == card.fingerprint:
                return cls(words, counts, min_count=card.min_count)
        raise ModelError(f"{folder}: damaged: {file.name} does not match {CARD}; train the model again")

    def _tokenize(self, texts: Sequence[str]) -> list[tuple[tuple[str, ...], Array]]:
        """The tokens of each text, as words and as symbols."""
        table = Tokenizer("word")(_column(texts))
        distinct = [table.token(token) for token in range(table.vocabulary_size)]
        words = [distinct[token] for token in table.ids.tolist()]
        symbols = np.array([self._symbols.get(word, UNKNOWN) for word in distinct], np.int64)[table.ids]
        return [(tuple(words[first:last]), symbols[first:last]) for first, last in pairwise(table.offsets.tolist())]

    def _context(self, symbols: Array) -> Array:
        """The context after the start symbol and these symbols."""
        whole = np.concatenate(([self._smoothed.counts.vocabulary], symbols))
        return whole[max(0, len(whole) + 1 - self.order) :]

    def _continue(
        self,
        context: list[int],
        sampling: Sampling,
        seed: int,
        choices: Callable[[tuple[int, ...]], _Choices],
    ) -> Continuation:
        draws = np.random.Generator(np.random.PCG64(seed))
        new: list[str] = []
        values: list[float] = []
        while len(new) < sampling.max_new_tokens:
            among = choices(tuple(context))
            symbol = among.draw(draws)
            values.append(among.logprob(symbol))
            if symbol == END:
                break
            new.append(self.words[symbol - len(SPECIAL)])
            context = self._after(context, symbol)
        cut = len(values) == len(new)
        return Continuation(sampling.cut(join_words(new)), math.fsum(values), len(values), truncated=cut)


@dataclass(frozen=True)
class _Choices:
    """The symbols to draw from, the logarithms of their weights, and their cumulated weights."""

    symbols: Array
    logs: Array
    cumulated: Array

    @classmethod
    def of(cls, probabilities: Array, sampling: Sampling) -> _Choices:
        """What is left of the distribution of the next symbol."""
        symbols = np.arange(UNKNOWN + 1, len(probabilities))
        weights = probabilities[symbols]
        if sampling.temperature == 0:
            return cls(symbols[[np.argmax(weights)]], np.zeros(1), np.ones(1))
        logs = np.log(weights)
        if sampling.temperature != 1:
            with np.errstate(over="ignore"):
                logs = np.log(weights / weights.max()) / sampling.temperature
                weights = np.exp(logs)
        if sampling.top_k or sampling.top_p < 1:
            likeliest = np.argsort(-weights, kind="stable")
            cumulated = sampling.nucleus(weights[likeliest])
            kept = likeliest[: len(cumulated)]
            return cls(symbols[kept], logs[kept], cumulated)
        return cls(symbols, logs, np.cumsum(weights))

    def draw(self, draws: np.random.Generator) -> int:
        """One symbol."""
        return int(self.symbols[draw_place(self.cumulated, draws)])

    def logprob(self, symbol: int) -> float:
        """The log-probability of drawing a symbol; -inf where it is not among these."""
        (places,) = np.nonzero(self.symbols == symbol)
        return float(self.logs[places[0]] - np.log(self.cumulated[-1])) if len(places) else -math.inf


def join_words(words: Sequence[str]) -> str:
    """Readable text that the tokeniser cuts into the same words: no space before a comma or inside brackets.

    Straight double quotes open and close alternately; hyphens and slashes have no spaces around them.
    """
    text, glued, quoted = "", True, False
    for word in words:
        opening = word in _OPENING or (word == '"' and not quoted)
        closing = word in _CLOSING or (word == '"' and quoted)
        text += word if glued or closing or word in _BETWEEN else f" {word}"
        glued = opening or word in _BETWEEN
        quoted ^= word == '"'
    return text


def _framed(symbols: Array, lengths: Array, start: int) -> tuple[Array, Array]:
    """Concatenated texts, each between the start symbol and the end token, and their offsets."""
    offsets = np.concatenate(([0], np.cumsum(lengths + 2)))
    framed = np.full(offsets[-1], start)
    framed[offsets[1:] - 1] = END
    framed[np.arange(len(symbols)) + 1 + 2 * np.repeat(np.arange(len(lengths)), lengths)] = symbols
    return framed, offsets


def _column(texts: Iterable[str] | pl.Series) -> pl.Series:
    if isinstance(texts, str):
        raise DataError("found one text; expected a list of texts")
    try:
        column = texts if isinstance(texts, pl.Series) else pl.Series(list(texts), dtype=pl.String)
    except (TypeError, UnicodeEncodeError) as error:
        raise DataError(f"found something that is not text ({error}); expected texts") from error
    if column.dtype != pl.String:
        raise DataError(f"found a column of {column.dtype}; expected texts")
    if missing := column.null_count():
        raise DataError(f"{missing} of {len(column)} texts are missing; expected texts")
    return column


def _fingerprint(words: Sequence[str], counts: NgramCounts) -> str:
    """A hash of the words and counts, equal on every machine and for every order of the training texts."""
    digest = hashlib.blake2b(f"nlgauge-ngram-1 word {counts.order}\n".encode(), digest_size=16)
    digest.update("\n".join(words).encode())
    for values in (*counts.keys, *counts.counts):
        digest.update(len(values).to_bytes(8, "little"))
        digest.update(values.astype("<i8").tobytes())
    return digest.hexdigest()


def _counts_file(fingerprint: str) -> str:
    """Each model has its own file, so that replacing the card is atomic."""
    return f"counts-{fingerprint}.arrow"


def _read_card(folder: Path) -> _Card:
    try:
        return msgspec.convert(opened((folder / CARD).read_bytes()), _Card)
    except OSError as error:
        found = f"{CARD} cannot be read ({error.strerror})" if folder.is_dir() else "there is no such folder"
        raise ModelError(f"{folder}: {found}; expected a folder that NgramModel.save wrote") from error
    except (Damaged, msgspec.ValidationError) as error:
        raise ModelError(
            f"{folder}: {CARD} is damaged, or not the card of an n-gram model ({error}); train it again"
        ) from error


def _prepare(folder: Path) -> _Card | None:
    """Create the folder if necessary; returns the card of the model in it, if any; other content is an error."""
    try:
        folder.mkdir(exist_ok=True)
        if not any(folder.iterdir()):
            return None
    except OSError as error:
        raise OutputError(f"{folder}: cannot be a folder for a model: {error.strerror}") from error
    try:
        return _read_card(folder)
    except ModelError as error:
        raise OutputError(f"{folder}: holds something other than an n-gram model; choose a new folder") from error
