"""Language models behind an address that speaks the OpenAI protocol (vLLM, llama.cpp, hosted services).

Scoring asks for an echo of prompt and text with log-probabilities (`echo`, `max_tokens: 0`, or 1 where 0 is refused),
and falls back to vLLM's `prompt_logprobs`; llama.cpp's server has neither and is asked token by token
(`endpoint_llama.py`). The server tokenises prompt and text together: a token that spans both belongs to the text.
If a server adds its own start token, an empty prompt works; otherwise set a `start_context`.

Answers are cached on disk by address, model and request, so that an interrupted run resumes without paying again. The
key comes from `NLGAUGE_API_KEY` and is never printed. `NLGAUGE_MAX_TOKENS` limits the tokens that may be spent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self, TypeVar
from urllib.parse import urldefrag

import numpy as np

from nlgauge.engine.cache import Cache
from nlgauge.errors import OptionError
from nlgauge.models.language.base import (
    Continuation,
    LanguageModel,
    Sampling,
    TokenLogprobs,
    check_to_generate,
    check_to_score,
    check_to_score_sampled,
    excerpt,
)
from nlgauge.models.language.endpoint_answers import parse_echo, parse_prompt_logprobs
from nlgauge.models.language.endpoint_http import Connection, Refused, Request
from nlgauge.models.language.endpoint_llama import LlamaServer

DIALECTS = ("auto", "openai", "llama.cpp")
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Reply:
    """A chat model's answer; `refused` if the server reports a refusal or a content filter."""

    text: str
    refused: bool


class EndpointModel(LanguageModel):
    """A model on a server.

    `timeout` is for a whole answer, in seconds; a failed request is repeated `retries` times, after `pause`, 2 `pause`,
    4 `pause`, … seconds or what the server asks for, at most a minute. `max_tokens` limits the tokens spent through
    this object, by the server's own count; before a request its cost is estimated at one token per four characters.
    `dialect` is `openai`, `llama.cpp`, or `auto`: decided by the server's answer at `/props`, at the first request.
    """

    def __init__(
        self,
        url: str,
        model: str = "",
        *,
        dialect: str = "auto",
        start_context: str = "",
        end_token: str | None = None,
        window: int = 0,
        timeout: float = 120.0,
        retries: int = 5,
        pause: float = 0.5,
        max_tokens: int | None = None,
        requests_at_once: int = 8,
        cache: Cache | None = None,
    ) -> None:
        if dialect not in DIALECTS:
            raise OptionError(f"dialect is '{dialect}'; expected one of {', '.join(DIALECTS)}")
        self._http = Connection(
            url,
            timeout=timeout,
            retries=retries,
            pause=pause,
            max_tokens=max_tokens,
            requests_at_once=requests_at_once,
            cache=cache,
        )
        self._workers = requests_at_once
        self._llama = LlamaServer(self._http)
        self._dialect = dialect
        self._least_tokens, self._echoes, self._renamed = 0, True, False
        self.start_context, self.end_token, self.window = start_context, end_token, window
        try:
            self.model = self._http.model = model or self._only_model()
        except BaseException:
            self.close()
            raise
        self.name = f"{self._http.url}#{self.model}"

    @classmethod
    def at(cls, spec: str, **options: Any) -> Self:
        """The model at `http://host:port/v1#model-name`; without a name, the server's only model.

        `&dialect=llama.cpp` after the name sets the dialect.
        """
        url, fragment = urldefrag(spec)
        model, given, dialect = fragment.partition("&dialect=")
        return cls(url, model, **{**options, "dialect": dialect} if given else options)

    @property
    def spent(self) -> int:
        """Tokens spent through this object."""
        return self._http.spent

    @property
    def requests(self) -> int:
        """Requests sent through this object."""
        return self._http.requests

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def score(
        self, prompts: Sequence[str], texts: Sequence[Sequence[str]], *, with_end: bool = False
    ) -> list[list[TokenLogprobs]]:
        """Log-probabilities of `texts[i]` under `prompts[i]`: one request per text, or per token (llama.cpp)."""
        check_to_score(self, prompts, texts, with_end=with_end)
        end = (self.end_token or "") if with_end else ""
        jobs = [(prompt, text) for prompt, group in zip(prompts, texts, strict=True) for text in group]
        found = iter(self._in_parallel(lambda job: self._score_one(self.start_context + job[0], job[1] + end), jobs))
        return [[next(found) for _ in group] for group in texts]

    def score_sampled(
        self, prompts: Sequence[str], texts: Sequence[Sequence[str]], sampling: Sampling
    ) -> list[list[TokenLogprobs]]:
        """As `score` at temperature 1 without top-p and top-k, with the end where an end token is known; else an error.

        A server reports the probabilities of its model, not those of what it draws from.
        """
        check_to_score_sampled(self, prompts, texts, sampling)
        if not sampling.is_plain:
            return super().score_sampled(prompts, texts, sampling)
        return self.score(prompts, texts, with_end=self.end_token is not None)

    def sample(self, prompts: Sequence[str], sampling: Sampling, seeds: Sequence[int]) -> list[Continuation]:
        """One continuation for each prompt and its seed, one request each, without a probability.

        Reproducibility depends on the server. Stop strings that begin with white space are not sent but cut here, so
        the server may write more than is kept.
        """
        check_to_generate(prompts, seeds)
        if sampling.beams > 1:
            raise OptionError("beams: completions endpoints have no beam search; expected beams=1; use a local model")
        used = [0 if sampling.deterministic else int(seed) for seed in seeds]

        def run(job: tuple[str, int]) -> Continuation:
            try:
                choice = self._http.choice(self._complete(self._generation(*job, sampling)))
            except Refused as error:
                about = f"the prompt was {excerpt(job[0])}: leave it out if the server refuses only this one"
                raise Refused(f"{error.message}; {about}") from error
            text = choice.get("text")
            if not isinstance(text, str):
                raise self._http.error("an answer without text", "choices[0].text", "check that it serves completions")
            return Continuation(sampling.cut(text))

        return self._in_parallel(run, list(zip(prompts, used, strict=True)))

    def chat(self, conversations: Sequence[tuple[str, str]], sampling: Sampling, seeds: Sequence[int]) -> list[Reply]:
        """One reply to every pair of instructions (the role `system`) and message (the role `user`), and its seed.

        Of `sampling`, temperature and length are sent. Every seed is requested and cached separately, even at
        temperature 0.
        """
        check_to_generate([text for pair in conversations for text in pair], [seed for seed in seeds for _ in range(2)])

        def run(job: tuple[tuple[str, str], int]) -> Reply:
            (instructions, message), seed = job
            roles = [{"role": "system", "content": instructions}, {"role": "user", "content": message}]
            request: Request = {"model": self.model, "messages": roles, "n": 1}
            request |= {"temperature": sampling.temperature, "seed": seed}
            choice = self._http.choice(self._complete_chat(request, sampling.max_new_tokens))
            said = choice.get("message")
            text = (said.get("refusal") or said.get("content") or "") if isinstance(said, dict) else None
            if not isinstance(said, dict) or not isinstance(text, str):
                raise self._http.error(
                    "an answer without a message of text", "choices[0].message.content", "check that it serves chats"
                )
            return Reply(text, refused=bool(said.get("refusal")) or choice.get("finish_reason") == "content_filter")

        jobs = [(pair, int(seed)) for pair, seed in zip(conversations, seeds, strict=True)]
        return self._in_parallel(run, jobs)

    def _generation(self, prompt: str, seed: int, sampling: Sampling) -> Request:
        request: Request = {"model": self.model, "prompt": self.start_context + prompt, "n": 1}
        request |= {"max_tokens": sampling.max_new_tokens}
        # The server would stop at leading white space, which `Sampling` ignores.
        stop = [text for text in sampling.stop if not text[0].isspace()]
        request |= {"stop": stop} if stop else {}
        llama = request | self._llama.generation(sampling, seed)
        request |= {"temperature": sampling.temperature, "seed": seed}
        request |= {"top_p": sampling.top_p} if sampling.top_p < 1 else {}
        request |= {"top_k": sampling.top_k} if sampling.top_k else {}
        return llama if self._speaks_llama(llama, request) else request

    def _speaks_llama(self, as_llama: Request, as_openai: Request) -> bool:
        """Whether to use llama.cpp's requests; a cached answer decides without a request."""
        if self._dialect == "auto":
            if self._http.kept(as_llama) is not None:
                return True
            if self._http.kept(as_openai) is not None:
                return False
            self._dialect = "llama.cpp" if self._llama.answers() else "openai"
        return self._dialect == "llama.cpp"

    def _score_one(self, prompt: str, text: str) -> TokenLogprobs:
        if not text:
            return TokenLogprobs((), np.empty(0))
        if self._speaks_llama(self._llama.asked(prompt, text), self._echo_request(prompt + text)):
            return self._llama.score(prompt, text)
        tokens, values, starts = self._echo(prompt + text)
        ends = [*starts[1:], math.inf]
        inside = [
            i
            for i, (start, end) in enumerate(zip(starts, ends, strict=True))
            if (start >= len(prompt) or end > len(prompt))
            and start < len(prompt + text)
            and not (start == end and values[i] is None)
        ]
        found = [values[i] for i in inside]
        if not found or any(value is None for value in found):
            raise self._http.no_context()
        return TokenLogprobs(tuple(tokens[i] for i in inside), np.array(found, dtype=np.float64))

    def _echo_request(self, whole: str) -> Request:
        request: Request = {"model": self.model, "prompt": whole, "echo": True, "logprobs": 1, "temperature": 0}
        return request | {"max_tokens": self._least_tokens}

    def _echo(self, whole: str) -> tuple[list[str], list[float | None], list[int]]:
        """Tokens of a text, their log-probabilities (None: unknown) and their start offsets."""
        if self._echoes:
            choice = self._http.choice(self._complete_echo(whole))
            if (parsed := parse_echo(choice, whole) or parse_prompt_logprobs(choice, whole)) is not None:
                return parsed
        request = {"model": self.model, "prompt": whole, "prompt_logprobs": 0, "temperature": 0, "max_tokens": 1}
        try:
            choice = self._http.choice(self._complete(request))
        except Refused:
            choice = {}
        if (parsed := parse_prompt_logprobs(choice, whole)) is None:
            raise self._http.error(
                "an answer without log-probabilities of the prompt",
                "choices[0].logprobs for an echo, or prompt_logprobs",
                "use a server that gives them (vLLM does), or a local model",
            )
        self._echoes = False
        return parsed

    def _complete_echo(self, whole: str) -> Any:
        request = self._echo_request(whole)
        try:
            return self._complete(request)
        except Refused as error:
            if request["max_tokens"] == 1 or "max_tokens" not in str(error):
                raise
        self._least_tokens = 1
        return self._complete(self._echo_request(whole))

    def _complete_chat(self, request: Request, length: int) -> Any:
        """The answer to a chat; some services require `max_completion_tokens` as the limit of its length."""
        path, estimate = "chat/completions", sum(len(one["content"]) for one in request["messages"]) // 4 + 1 + length
        renamed = {**request, "max_completion_tokens": length}
        if not self._renamed and self._http.kept(renamed) is None:
            try:
                return self._remembered({**request, "max_tokens": length}, estimate, path)
            except Refused as error:
                if "max_completion_tokens" not in str(error):
                    raise
            self._renamed = True
        return self._remembered(renamed, estimate, path)

    def _complete(self, request: Request) -> Any:
        return self._remembered(request, len(request["prompt"]) // 4 + 1 + request["max_tokens"], "completions")

    def _remembered(self, request: Request, estimate: int, path: str) -> Any:
        """The answer to a request: from the cache, or from the server and then cached."""
        answer = self._http.kept(request)
        if answer is None:
            answer = self._http.pay(request, estimate, path)
            self._http.keep(request, answer)
        return answer

    def _only_model(self) -> str:
        names = [str(row["id"]) for row in self._http.models()]
        if len(names) != 1:
            found = f"{len(names)} models ({', '.join(names[:10])})"
            raise self._http.error(found, "one, or its name", "write http://host:port/v1#model-name")
        return names[0]

    def _in_parallel(self, run: Callable[[T], R], jobs: Sequence[T]) -> list[R]:
        """Each distinct job once, several at a time; the first failure cancels those that have not started."""
        if not jobs:
            return []
        with ThreadPoolExecutor(min(self._workers, len(jobs))) as pool:
            futures = {job: pool.submit(run, job) for job in dict.fromkeys(jobs)}
            try:
                done = {job: future.result() for job, future in futures.items()}
                return [done[job] for job in jobs]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
