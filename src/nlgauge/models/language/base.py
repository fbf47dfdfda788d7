"""Language models: the one interface of local, n-gram, retrieval and remote models, and loading one by name."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import DataError, ModelError, OptionError
from nlgauge.models.runtime import import_torch

_EXCERPT = 60
DTYPES = ("float32", "bfloat16", "float16")
DECODING = 2
"""The version of what `Sampling` means: increased when equal settings and seeds give other continuations."""


@dataclass(frozen=True)
class TokenLogprobs:
    """One text under one prompt: its tokens, and the natural logarithm of each one's probability.

    The last one is the end token's if and only if the text was scored with its end.
    """

    tokens: tuple[str, ...]
    logprobs: Array

    def __post_init__(self) -> None:
        values = np.asarray(self.logprobs, dtype=np.float64)
        if values.shape != (len(self.tokens),):
            raise ModelError(
                f"{len(self.tokens)} tokens and log-probabilities of shape {values.shape}; expected one each"
            )
        object.__setattr__(self, "logprobs", values)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def total(self) -> float:
        """The logarithm of the whole text's probability."""
        return math.fsum(self.logprobs.tolist())


@dataclass(frozen=True)
class Continuation:
    """A text that a model wrote, and how probable it was to write it.

    `logprob` is the natural logarithm of the probability of what was drawn under the sampling distribution (NaN where
    the model does not say), the end included, and `tokens` the number of tokens drawn (0: unknown). A text that is
    `truncated` was cut after the largest number of tokens: no end was drawn.
    """

    text: str
    logprob: float = math.nan
    tokens: int = 0
    truncated: bool = False


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How to continue a prompt.

    `temperature` 0 is greedy; `top_p` keeps the smallest set of tokens whose probabilities reach it and `top_k` the
    most probable ones (0: all); temperature comes first, then `top_k`, then `top_p`. `beams` above 1 is beam search,
    which is deterministic. A continuation ends at the model's end token, before the first string of `stop`, or after
    `max_new_tokens`. White space that it begins with is ignored before stop strings are looked for, since many models
    begin with a line break; it still counts towards `max_new_tokens`.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    beams: int = 1
    max_new_tokens: int = 40
    stop: tuple[str, ...] = ("\n",)

    def __post_init__(self) -> None:
        if not _is_number(self.temperature) or not 0 <= self.temperature < math.inf:
            raise OptionError(f"temperature is {self.temperature!r}; expected a number from 0 (greedy) up")
        if not _is_number(self.top_p) or not 0 < self.top_p <= 1:
            raise OptionError(f"top_p is {self.top_p!r}; expected a number above 0, at most 1 (all tokens)")
        for name, least, meaning in (("top_k", 0, "0: all tokens"), ("beams", 1, "1: none"), ("max_new_tokens", 1, "")):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                hint = f" ({meaning})" if meaning else ""
                raise OptionError(f"{name} is {value!r}; expected a whole number, at least {least}{hint}")
        if isinstance(self.stop, str) or not all(isinstance(text, str) and text for text in self.stop):
            raise OptionError(f"stop is {self.stop!r}; expected several non-empty strings, or none")
        object.__setattr__(self, "stop", tuple(self.stop))
        filtered = self.top_p < 1 or self.top_k > 0
        if self.beams > 1 and (filtered or self.temperature not in (0, 1)):
            raise OptionError(
                f"beams={self.beams} conflicts with temperature, top_p and top_k: beam search does not sample; leave "
                "them at their defaults or set beams=1"
            )
        if self.temperature == 0 and filtered:
            raise OptionError(
                "temperature=0 conflicts with top_p and top_k: greedy decoding does not sample; leave them at their "
                "defaults or raise the temperature"
            )

    @property
    def deterministic(self) -> bool:
        """Whether every seed gives the same continuation."""
        return self.beams > 1 or self.temperature == 0

    def stops(self, text: str) -> bool:
        """Whether a continuation that begins with `text` contains a stop string."""
        begun = text.lstrip()
        return any(stop in begun for stop in self.stop)

    def cut(self, text: str) -> str:
        """The text before the first stop string after leading white space, stripped."""
        begun = text.lstrip()
        ends = [place for place in (begun.find(stop) for stop in self.stop) if place >= 0]
        return begun[: min(ends)].strip() if ends else begun.strip()

    @property
    def is_plain(self) -> bool:
        """Whether the distribution is the model's own: temperature 1, and no token is left out."""
        return self.temperature == 1 and self.top_p == 1 and self.top_k == 0 and self.beams == 1

    def nucleus(self, weights: Array) -> Array:
        """Cumulated weights, from weights in descending order, as far as `top_k` and `top_p` keep them."""
        cumulated = np.cumsum(weights[: self.top_k or None])
        return cumulated[: int(np.searchsorted(cumulated, self.top_p * cumulated[-1])) + 1]


def draw_place(cumulated: Array, draws: np.random.Generator) -> int:
    """A place, drawn with a probability in proportion to its weight, from cumulated weights."""
    total = cumulated[-1]
    return int(np.searchsorted(cumulated, min(draws.random() * total, np.nextafter(total, 0.0)), side="right"))


class LanguageModel(ABC):
    """A model that scores texts under a prompt, token by token, and continues prompts.

    `start_context` precedes every prompt, even an empty one; `end_token` is None if a text's end cannot be
    scored. `fingerprint` is a short hash of all that decides results ("" if unknown), for signatures and
    caches.
    `window` is the largest number of tokens that the model sees at once (0: unknown).
    """

    name: str
    end_token: str | None
    start_context: str
    window: int
    _fingerprint = ""

    @property
    def fingerprint(self) -> str:
        """A short hash of all that decides results, or ""."""
        return self._fingerprint

    @abstractmethod
    def score(
        self, prompts: Sequence[str], texts: Sequence[Sequence[str]], *, with_end: bool = False
    ) -> list[list[TokenLogprobs]]:
        """Log-probabilities of the texts `texts[i]` under `prompts[i]`; `with_end` adds that of ending there.

        A text's result depends on its own prompt only, never on other texts or their order. The caller adds any space
        between prompt and text. An empty text has no tokens (or the end token alone).
        """

    def score_sampled(
        self, prompts: Sequence[str], texts: Sequence[Sequence[str]], sampling: Sampling
    ) -> list[list[TokenLogprobs]]:
        """Log-probabilities of writing `texts[i]` after `prompts[i]` under the sampling distribution, the end included.

        The end is the model's end token or a stop string, whichever is drawn. What cannot be drawn has the
        log-probability -inf. The caller adds any space between prompt and text.
        """
        check_to_score_sampled(self, prompts, texts, sampling)
        raise ModelError(
            f"{self.name} gives no probabilities under the sampling distribution ({', '.join(_shown(sampling))}); "
            "expected a local model, or temperature 1 without top_p and top_k"
        )

    @abstractmethod
    def sample(self, prompts: Sequence[str], sampling: Sampling, seeds: Sequence[int]) -> list[Continuation]:
        """One stripped continuation for each prompt and its seed, with the probability of what was drawn.

        It depends on that prompt, the sampling and that seed only, never on other prompts or their order.
        """

    def generate(self, prompts: Sequence[str], sampling: Sampling, seeds: Sequence[int]) -> list[str]:
        """The texts of `sample`."""
        return [one.text for one in self.sample(prompts, sampling, seeds)]


def _shown(sampling: Sampling) -> list[str]:
    return [f"{name} {getattr(sampling, name):g}" for name in ("temperature", "top_p", "top_k", "beams")]


def cannot_write(text: str) -> TokenLogprobs:
    """The log-probability of a text that a model cannot write, as a whole."""
    return TokenLogprobs((text,), np.array([-math.inf]))


def check_to_score_sampled(
    model: LanguageModel, prompts: Sequence[str], texts: Sequence[Sequence[str]], sampling: Sampling
) -> None:
    """Raise an error for invalid arguments of `score_sampled`."""
    check_to_score(model, prompts, texts, with_end=False)
    if sampling.beams > 1:
        raise OptionError(f"beams is {sampling.beams}: beam search has no distribution to score by; expected beams=1")


def check_to_score(
    model: LanguageModel, prompts: Sequence[str], texts: Sequence[Sequence[str]], *, with_end: bool
) -> None:
    """Raise an error for invalid arguments of `score`."""
    _check_texts(prompts, "prompts")
    if isinstance(texts, str) or len(texts) != len(prompts):
        raise DataError(f"{len(texts)} lists of texts for {len(prompts)} prompts; texts[i] belong to prompts[i]")
    for i, group in enumerate(texts):
        _check_texts(group, f"texts[{i}]")
    if with_end and model.end_token is None:
        raise ModelError(f"{model.name} has no end token; expected one to score where a text ends; use with_end=False")


def check_finite(
    name: str, scored: Mapping[tuple[str, str], TokenLogprobs], *, sampling: Sampling | None = None
) -> None:
    """Raise an error for log-probabilities that are not finite, with the prompt and the text that have them.

    Under a sampling distribution, -inf is a token that cannot be drawn.
    """
    for (prompt, text), found in scored.items():
        usable = np.isfinite(found.logprobs) | ((found.logprobs == -math.inf) & (sampling is not None))
        if not usable.all():
            token = int(np.flatnonzero(~usable)[0])
            raise ModelError(
                f"{name} gives the log-probability {found.logprobs[token]} for token {token + 1} of the text "
                f"{excerpt(text)} after the prompt {excerpt(prompt)}; expected finite numbers; use dtype float32, or "
                "get the model again if its weights are damaged"
            )


def excerpt(text: str) -> str:
    """How a text begins, in quotes, to name it in an error."""
    return repr(text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…")


def check_to_generate(prompts: Sequence[str], seeds: Sequence[int]) -> None:
    """Raise an error for invalid arguments of `generate`."""
    _check_texts(prompts, "prompts")
    if len(seeds) != len(prompts):
        raise OptionError(f"{len(seeds)} seeds for {len(prompts)} prompts; expected one seed per prompt")
    for seed in seeds:
        if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or not 0 <= seed < 2**63:
            raise OptionError(f"seed {seed!r}; expected a whole number from 0 to 2^63 - 1")


def load_language_model(
    spec: str, *, device: str = "cpu", dtype: str = "float32", batch_size: int = 16, threads: int = 0
) -> LanguageModel:
    """Load a model by name.

    `spec` is a catalogue name (`smollm2`), a folder, a hub name, `ngram:FOLDER`, `bm25:FILE` (responses are retrieved
    from the file's pairs of context and response), or the address of an endpoint that speaks the OpenAI
    completions protocol (`http://host:port/v1#model-name`). `device`, `dtype` and `threads` (0: unchanged) concern
    local neural models; `batch_size` is the number of rows at once (more if they are short), or of requests at once for
    an endpoint.
    """
    if dtype not in DTYPES:
        raise OptionError(f"dtype is {dtype!r}; expected one of {', '.join(DTYPES)}")
    if batch_size < 1 or threads < 0:
        raise OptionError(f"batch_size is {batch_size}, threads {threads}; expected at least 1 and at least 0")
    if spec.startswith(("http://", "https://")):
        from nlgauge.models.language.endpoint import EndpointModel

        return EndpointModel.at(spec, requests_at_once=batch_size)
    if spec.startswith("ngram:"):
        from nlgauge.models.language.ngram import NgramModel

        return NgramModel.load(Path(spec.removeprefix("ngram:")))
    if spec.startswith("bm25:"):
        from nlgauge.models.language.retrieval import RetrievalModel

        return RetrievalModel.load(spec.removeprefix("bm25:"))
    from nlgauge.models.fetch import resolve_model

    folder = resolve_model(spec)
    two_towers = _is_encoder_decoder(folder)
    import_torch(f"the language model '{spec}'", threads)
    from nlgauge.models.language.causal import CausalModel
    from nlgauge.models.language.seq2seq import Seq2SeqModel

    kind = Seq2SeqModel if two_towers else CausalModel
    return kind(folder, name=spec, device=device, dtype=dtype, batch_size=batch_size)


def _is_encoder_decoder(folder: Path) -> bool:
    try:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return bool(settings.get("is_encoder_decoder", False))
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(
            f"{folder}: config.json is missing or not JSON; expected the folder of a model as transformers saves it"
        ) from error


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check_texts(values: Sequence[str], what: str) -> None:
    if isinstance(values, str):
        raise DataError(f"{what}: one string; expected a list of strings")
    for i, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(f"{what}[{i}] is {type(value).__name__}; expected text")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"{what}[{i}] has half a surrogate pair at character {error.start}; expected text"
            ) from error
