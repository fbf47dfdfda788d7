"""Language models behind an address that speaks the OpenAI completions protocol (vLLM, llama.cpp, hosted services).

Scoring asks for an echo of prompt and text with log-probabilities (`echo`, `max_tokens: 0`, or 1 where 0 is refused),
and falls back to vLLM's `prompt_logprobs`. The server tokenises prompt and text together: a token that straddles the
border is counted to the text. Where a server puts a start token of its own before a prompt, an empty prompt works as it
is; elsewhere name a `start_context`.

Answers are kept on disk under the address, the model and the request, so that a run that was cut short goes on without
paying again. The key comes from `NLGAUGE_API_KEY` and shows up nowhere. `NLGAUGE_MAX_TOKENS` limits what may be spent.
"""

from __future__ import annotations

import email.utils
import hashlib
import json
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Self, TypeVar
from urllib.parse import urldefrag, urlsplit

import numpy as np

from nlgauge.engine.cache import Cache
from nlgauge.errors import MissingExtra, ModelError, OptionError
from nlgauge.models.endpoint_answers import parse_echo, parse_prompt_logprobs
from nlgauge.models.language import (
    LanguageModel,
    Sampling,
    TokenLogprobs,
    check_to_generate,
    check_to_score,
)

KEY_VARIABLE = "NLGAUGE_API_KEY"
LIMIT_VARIABLE = "NLGAUGE_MAX_TOKENS"
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_LONGEST_WAIT = 60.0
_LARGEST_ANSWER = 64 << 20
_LOCAL = ("localhost", "127.0.0.1", "::1")
T = TypeVar("T")
R = TypeVar("R")


class EndpointModel(LanguageModel):
    """A model on a server.

    `timeout` is for a whole answer, in seconds; a failed request is repeated `retries` times, after `pause`, 2 `pause`,
    4 `pause`, … seconds or what the server asks for, at most a minute. `max_tokens` limits the tokens spent through
    this object, by the server's own count; before a request its cost is estimated at a token for four characters.
    """

    def __init__(
        self,
        url: str,
        model: str = "",
        *,
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
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra.needs("a model endpoint", "models") from error
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise OptionError(
                "the address of an endpoint is not of the form http://host:port/v1#model-name; expected that, without "
                f"a name or password in it; a key goes into the environment variable {KEY_VARIABLE}"
            )
        if timeout <= 0 or retries < 0 or pause < 0 or requests_at_once < 1:
            raise OptionError("timeout must be above 0, retries and pause at least 0, requests_at_once at least 1")
        self._url = url.rstrip("/")
        self._key = os.environ.get(KEY_VARIABLE, "")
        self._timeout, self._retries, self._pause, self._workers = timeout, retries, pause, requests_at_once
        self._limit = max_tokens if max_tokens is not None else _limit_from_environment()
        self._cache = cache if cache is not None else Cache()
        self._lock = threading.Lock()
        self._least_tokens = 0
        self._dialect = "echo"
        self.spent, self.requests = 0, 0
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._client = httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(timeout),
            limits=httpx.Limits(max_connections=requests_at_once),
            trust_env=parts.hostname not in _LOCAL,
        )
        self.start_context, self.end_token, self.window = start_context, end_token, window
        try:
            self.model = model or self._only_model()
        except BaseException:
            self.close()
            raise
        self.name = f"{self._url}#{self.model}"

    @classmethod
    def at(cls, spec: str, **options: Any) -> Self:
        """The model at `http://host:port/v1#model-name`; without a name, the only one that the server has."""
        url, model = urldefrag(spec)
        return cls(url, model, **options)

    @property
    def fingerprint(self) -> str:
        """Nothing: the weights cannot be seen."""
        return ""

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def score(
        self, prompts: Sequence[str], texts: Sequence[Sequence[str]], *, with_end: bool = False
    ) -> list[list[TokenLogprobs]]:
        """Log-probabilities of the texts `texts[i]` under `prompts[i]`, one request a text."""
        check_to_score(self, prompts, texts, with_end=with_end)
        end = (self.end_token or "") if with_end else ""
        pairs = dict.fromkeys((prompt, text) for prompt, group in zip(prompts, texts, strict=True) for text in group)
        jobs = list(pairs)
        found = self._in_parallel(lambda job: self._score_one(self.start_context + job[0], job[1] + end), jobs)
        done = dict(zip(jobs, found, strict=True))
        return [[done[prompt, text] for text in group] for prompt, group in zip(prompts, texts, strict=True)]

    def generate(self, prompts: Sequence[str], sampling: Sampling, seeds: Sequence[int]) -> list[str]:
        """One continuation a prompt and its seed, one request each; how well a seed reproduces is up to the server."""
        check_to_generate(prompts, seeds)
        if sampling.beams > 1:
            raise OptionError("beams: completions endpoints have no beam search; expected beams=1; use a local model")
        request: dict[str, Any] = {"max_tokens": sampling.max_new_tokens, "temperature": sampling.temperature, "n": 1}
        request |= {"top_p": sampling.top_p} if sampling.top_p < 1 else {}
        request |= {"top_k": sampling.top_k} if sampling.top_k else {}
        request |= {"stop": list(sampling.stop)} if sampling.stop else {}
        jobs = [
            (prompt, 0 if sampling.deterministic else int(seed)) for prompt, seed in zip(prompts, seeds, strict=True)
        ]

        def run(job: tuple[str, int]) -> str:
            answer = self._complete({**request, "prompt": self.start_context + job[0], "seed": job[1]})
            text = self._choice(answer).get("text")
            if not isinstance(text, str):
                raise self._error("an answer without text", "choices[0].text", "check that it serves completions")
            return sampling.cut(text)

        distinct = list(dict.fromkeys(jobs))
        done = dict(zip(distinct, self._in_parallel(run, distinct), strict=True))
        return [done[job] for job in jobs]

    def _score_one(self, prompt: str, text: str) -> TokenLogprobs:
        if not text:
            return TokenLogprobs((), np.empty(0))
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
            raise self._error(
                "no log-probability for the first token of a text",
                "something before it",
                "give a prompt, or a start_context such as '<|endoftext|>'",
            )
        return TokenLogprobs(tuple(tokens[i] for i in inside), np.array(found, dtype=np.float64))

    def _echo(self, whole: str) -> tuple[list[str], list[float | None], list[int]]:
        """Tokens of a text, their log-probabilities (None: unknown) and where they start in it."""
        if self._dialect == "echo":
            request = {"prompt": whole, "echo": True, "logprobs": 1, "temperature": 0}
            choice = self._choice(self._complete(request, scoring=True))
            if (parsed := parse_echo(choice, whole)) is not None:
                return parsed
            if (parsed := parse_prompt_logprobs(choice, whole)) is not None:
                return parsed
        try:
            request = {"prompt": whole, "prompt_logprobs": 0, "temperature": 0, "max_tokens": 1}
            choice = self._choice(self._complete(request))
        except _Refused:
            choice = {}
        if (parsed := parse_prompt_logprobs(choice, whole)) is None:
            raise self._error(
                "an answer without log-probabilities of the prompt",
                "choices[0].logprobs for an echo, or prompt_logprobs",
                "use a server that gives them (vLLM does), or a local model",
            )
        self._dialect = "prompt_logprobs"
        return parsed

    def _complete(self, request: dict[str, Any], *, scoring: bool = False) -> Any:
        """The answer to a request: from disk, or from the server and then kept."""
        request = {"model": self.model, **request}
        if not scoring:
            return self._answer(request)
        least = self._least_tokens
        try:
            return self._answer({**request, "max_tokens": least})
        except _Refused as error:
            if least == 1 or "max_tokens" not in str(error):
                raise
            self._least_tokens = 1
            return self._answer({**request, "max_tokens": 1})

    def _answer(self, request: dict[str, Any]) -> Any:
        asked = json.dumps(request, sort_keys=True)
        key = hashlib.blake2b(f"endpoint\n{self._url}\n{asked}".encode(), digest_size=20).hexdigest()
        kept = self._cache.get(key)
        if kept is not None:
            return json.loads(kept["answer"][0])
        estimate = len(request["prompt"]) // 4 + 1 + request.get("max_tokens", 0)
        self._reserve(estimate)
        cost = 0
        try:
            answer = self._post(request)
            usage = answer.get("usage") or {}
            total = usage.get("total_tokens") if isinstance(usage, dict) else None
            cost = total if isinstance(total, int) else estimate
        finally:
            with self._lock:
                self.spent += cost - estimate
        import polars as pl

        self._cache.put(key, pl.DataFrame({"answer": [json.dumps(answer)]}))
        return answer

    def _reserve(self, estimate: int) -> None:
        with self._lock:
            if self._limit is not None and self.spent + estimate > self._limit:
                raise self._error(
                    f"{self.spent} tokens spent and about {estimate} to come",
                    f"at most {self._limit}",
                    f"raise {LIMIT_VARIABLE} to go on; what was paid for is kept",
                )
            self.spent += estimate

    def _post(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = self._json(self._fetch("POST", f"{self._url}/completions", request))
        self._choice(answer)
        return dict(answer)

    def _fetch(self, method: str, url: str, request: dict[str, Any] | None = None) -> bytes:
        """The body of a good answer; trouble that may pass is tried again."""
        for attempt in range(self._retries + 1):
            trouble, wait = self._try(method, url, request)
            if isinstance(trouble, bytes):
                return trouble
            if wait is None or attempt == self._retries:
                raise trouble
            time.sleep(min(max(wait, self._pause * 2**attempt), _LONGEST_WAIT))
        raise AssertionError("unreachable")

    def _try(self, method: str, url: str, request: dict[str, Any] | None) -> tuple[bytes | ModelError, float | None]:
        """One attempt: the body, or what went wrong and the least time to wait (None: do not try again)."""
        import httpx

        with self._lock:
            self.requests += 1
        try:
            with self._client.stream(method, url, json=request) as response:
                body = self._read(response)
                if response.status_code == 200:
                    return body, None
                wait = _retry_after(response.headers.get("retry-after")) if response.status_code in _RETRIED else None
                return self._status_error(response.status_code, body), wait
        except (httpx.TimeoutException, _TooSlow):
            return self._error(
                f"no whole answer within {self._timeout:g} s", "one", "raise the timeout, or look at the server's load"
            ), 0.0
        except httpx.ConnectError as error:
            reason = str(error) or type(error).__name__
            return self._error(f"no connection ({reason})", "a running server", "start it, or check host and port"), 0.0
        except httpx.HTTPError as error:
            return self._error(f"a broken answer ({type(error).__name__})", "a whole one", "look at the server"), 0.0

    def _read(self, response: Any) -> bytes:
        """A body within the time and size allowed: a read timeout alone would let a trickle of bytes go on for ever."""
        deadline = time.monotonic() + self._timeout
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if time.monotonic() > deadline:
                raise _TooSlow
            if len(body) > _LARGEST_ANSWER:
                raise self._error(f"an answer above {_LARGEST_ANSWER >> 20} MB", "a smaller one", "check the address")
        return bytes(body)

    def _status_error(self, status: int, body: bytes) -> ModelError:
        said = self._hide_key(body[:300].decode(errors="replace").strip())
        found = f"status {status}" + (f" ({said})" if said else "")
        if status in (401, 403):
            state = "refused" if self._key else "not set"
            return self._error(found, "a valid key", f"set the environment variable {KEY_VARIABLE} (it is {state})")
        if status == 404:
            return self._error(
                found, "completions at this address", f"check the address and the model '{self._name()}'"
            )
        if status == 429:
            return self._error(found, "fewer requests", "wait, or lower batch_size; what was paid for is kept")
        if status in _RETRIED or status >= 500:
            return self._error(found, "status 200", "look at the server's log and run again; what was paid for is kept")
        return _Refused(self._message(found, "status 200", "check the request against what the server supports"))

    def _json(self, body: bytes) -> Any:
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._error(
                "an answer that is not a JSON object", "one", "check that the address ends in /v1 or alike"
            )
        return answer

    def _choice(self, answer: Any) -> dict[str, Any]:
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise self._error("an answer without choices", "choices[0]", "check that it serves completions")
        first: dict[str, Any] = choices[0]
        return first

    def _only_model(self) -> str:
        answer = self._json(self._fetch("GET", f"{self._url}/models"))
        rows = answer.get("data")
        names = (
            [str(row["id"]) for row in rows if isinstance(row, dict) and "id" in row] if isinstance(rows, list) else []
        )
        if len(names) != 1:
            raise self._error(
                f"{len(names)} models ({', '.join(names[:10])})",
                "one, or its name",
                "write http://host:port/v1#model-name",
            )
        return names[0]

    def _in_parallel(self, run: Callable[[T], R], jobs: Sequence[T]) -> list[R]:
        """Several requests at once; the first failure stops those that have not begun."""
        if len(jobs) < 2:
            return [run(job) for job in jobs]
        with ThreadPoolExecutor(min(self._workers, len(jobs))) as pool:
            futures = [pool.submit(run, job) for job in jobs]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _name(self) -> str:
        return getattr(self, "model", "")

    def _hide_key(self, text: str) -> str:
        return text.replace(self._key, "…") if self._key else text

    def _message(self, found: str, expected: str, do: str) -> str:
        parts = urlsplit(self._url)
        place = f"{parts.scheme}://{parts.netloc}{parts.path}"
        return self._hide_key(f"{place}: found {found}; expected {expected}; {do}")

    def _error(self, found: str, expected: str, do: str) -> ModelError:
        return ModelError(self._message(found, expected, do))


class _Refused(ModelError):
    """A request that the server does not take as it is."""


class _TooSlow(Exception):
    """An answer whose bytes trickle."""


def _retry_after(value: str | None) -> float:
    """Seconds that a server asks to wait for, given as a number or as a date."""
    if not value:
        return 0.0
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (email.utils.parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0


def _limit_from_environment() -> int | None:
    value = os.environ.get(LIMIT_VARIABLE, "")
    if not value:
        return None
    if not value.isdecimal():
        raise OptionError(f"{LIMIT_VARIABLE} is '{value}'; expected a whole number of tokens")
    return int(value)
