"""HTTP connection to a server: requests with retries, a limit on cost, and cached answers; the key is never printed."""

from __future__ import annotations

import email.utils
import hashlib
import json
import os
import threading
import time
import weakref
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from nlgauge.engine.cache import Cache
from nlgauge.errors import MissingExtra, ModelError, OptionError

KEY_VARIABLE = "NLGAUGE_API_KEY"
LIMIT_VARIABLE = "NLGAUGE_MAX_TOKENS"
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_LONGEST_WAIT = 60.0
_LARGEST_ANSWER = 64 << 20
_LOCAL = ("localhost", "127.0.0.1", "::1")
Request = dict[str, Any]


class BadAnswer(ModelError):
    """An answer that is not status 200, or not JSON."""


class Refused(BadAnswer):
    """A request that the server rejects."""


class Connection:
    """One server: `spent` tokens and `requests` so far, over all threads. `model` is only named in messages."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float,
        retries: int,
        pause: float,
        max_tokens: int | None,
        requests_at_once: int,
        cache: Cache | None,
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra.needs("a model endpoint", "models") from error
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise OptionError(
                "the address of an endpoint is not of the form http://host:port/v1#model-name; expected that, without "
                f"a name or password in it; set the key in the environment variable {KEY_VARIABLE}"
            )
        if timeout <= 0 or retries < 0 or pause < 0 or requests_at_once < 1:
            raise OptionError("timeout must be above 0, retries and pause at least 0, requests_at_once at least 1")
        self.url = url.rstrip("/")
        self.model = ""
        self.spent, self.requests = 0, 0
        self._key = os.environ.get(KEY_VARIABLE, "")
        self._timeout, self._retries, self._pause = timeout, retries, pause
        self._limit = max_tokens if max_tokens is not None else _limit_from_environment()
        self._cache = cache if cache is not None else Cache()
        self._lock = threading.Lock()
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=httpx.Timeout(timeout),
            limits=httpx.Limits(max_connections=requests_at_once),
            trust_env=parts.hostname not in _LOCAL,
        )
        self._closing = weakref.finalize(self, self._client.close)

    def close(self) -> None:
        """Close the connections; happens automatically when the object is deleted."""
        self._closing()

    def kept(self, asked: Request) -> Any:
        """The cached answer to a request to this address, or None."""
        found = self._cache.get(self._cache_key(asked))
        return None if found is None else json.loads(found["answer"][0])

    def keep(self, asked: Request, answer: Any) -> None:
        """Cache an answer on disk."""
        import polars as pl

        self._cache.put(self._cache_key(asked), pl.DataFrame({"answer": [json.dumps(answer)]}))

    def _cache_key(self, asked: Request) -> str:
        text = f"endpoint\n{self.url}\n{json.dumps(asked, sort_keys=True)}"
        return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()

    def pay(self, request: Request, estimate: int, path: str = "completions") -> dict[str, Any]:
        """The answer to a request for text, counted by the server's own count, else by the estimate."""
        self._reserve(estimate)
        cost = 0
        try:
            answer = self.ask("POST", f"{self.url}/{path}", request)
            self.choice(answer)
            usage = answer.get("usage") or {}
            total = usage.get("total_tokens") if isinstance(usage, dict) else None
            cost = total if isinstance(total, int) else estimate
            return answer
        finally:
            with self._lock:
                self.spent += cost - estimate

    def ask(self, method: str, url: str, request: Request | None = None) -> dict[str, Any]:
        """The JSON object of a successful answer; temporary failures are retried."""
        try:
            answer = json.loads(self._fetch(method, url, request))
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            found, do = "an answer that is not a JSON object", "check that the address ends in /v1 or similar"
            raise self.error(found, "one", do, BadAnswer)
        return answer

    def models(self) -> list[dict[str, Any]]:
        """What the server says about each of its models."""
        rows = self.ask("GET", f"{self.url}/models").get("data")
        return [row for row in rows if isinstance(row, dict) and "id" in row] if isinstance(rows, list) else []

    def choice(self, answer: Any) -> dict[str, Any]:
        """The first choice of an answer."""
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise self.error("an answer without choices", "choices[0]", "check that it serves completions")
        first: dict[str, Any] = choices[0]
        return first

    def error(self, found: str, expected: str, do: str, kind: type[ModelError] = ModelError) -> ModelError:
        """An error that names the address and hides the key."""
        parts = urlsplit(self.url)
        place = f"{parts.scheme}://{parts.netloc}{parts.path}"
        return kind(self._hide_key(f"{place}: found {found}; expected {expected}; {do}"))

    def no_context(self) -> ModelError:
        """The error for a text that nothing precedes."""
        return self.error(
            "no log-probability for the first token of a text",
            "a context before it",
            "give a prompt, or a start_context such as '<|endoftext|>'",
        )

    def _reserve(self, estimate: int) -> None:
        with self._lock:
            if self._limit is not None and self.spent + estimate > self._limit:
                raise self.error(
                    f"{self.spent} tokens spent and about {estimate} to come",
                    f"at most {self._limit}",
                    f"raise {LIMIT_VARIABLE} to continue; paid answers are cached",
                )
            self.spent += estimate

    def _fetch(self, method: str, url: str, request: Request | None) -> bytes:
        for attempt in range(self._retries + 1):
            trouble, wait = self._try(method, url, request)
            if isinstance(trouble, bytes):
                return trouble
            if wait is None or attempt == self._retries:
                raise trouble
            time.sleep(min(max(wait, self._pause * 2**attempt), _LONGEST_WAIT))
        raise AssertionError("unreachable")

    def _try(self, method: str, url: str, request: Request | None) -> tuple[bytes | ModelError, float | None]:
        """One attempt: the body, or what went wrong and the least time to wait (None: do not retry)."""
        import httpx

        with self._lock:
            self.requests += 1
        try:
            with self._client.stream(method, url, json=request) as response:
                body = self._read(response)
                status, asked = response.status_code, response.headers.get("retry-after", "")
                if status == 200:
                    return body, None
                return self._status_error(status, body), _retry_after(asked) if status in _RETRIED else None
        except (httpx.TimeoutException, TimeoutError):
            return self.error(
                f"no complete answer within {self._timeout:g} s", "one", "raise the timeout, or check the server's load"
            ), 0.0
        except httpx.ConnectError as error:
            reason = str(error) or type(error).__name__
            return self.error(f"no connection ({reason})", "a running server", "start it, or check host and port"), 0.0
        except httpx.HTTPError as error:
            return self.error(f"a broken answer ({type(error).__name__})", "a complete one", "check the server"), 0.0

    def _read(self, response: Any) -> bytes:
        """A body within the time and size allowed: a read timeout alone would not stop a very slow answer."""
        deadline = time.monotonic() + self._timeout
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if time.monotonic() > deadline:
                raise TimeoutError
            if len(body) > _LARGEST_ANSWER:
                raise self.error(f"an answer above {_LARGEST_ANSWER >> 20} MB", "a smaller one", "check the address")
        return bytes(body)

    def _status_error(self, status: int, body: bytes) -> ModelError:
        said = self._hide_key(body[:300].decode(errors="replace").strip())
        found = f"status {status}" + (f" ({said})" if said else "")
        kind, expected, do = BadAnswer, "status 200", "check the server's log and run again; paid answers are cached"
        if status in (401, 403):
            state = "refused" if self._key else "not set"
            expected, do = "a valid key", f"set the environment variable {KEY_VARIABLE} (it is {state})"
        elif status == 404:
            expected, do = "completions at this address", f"check the address and the model '{self.model}'"
        elif status == 429:
            expected, do = "fewer requests", "wait, or lower batch_size; paid answers are cached"
        elif status not in _RETRIED and status < 500:
            kind, do = Refused, "check the request against what the server supports"
        return self.error(found, expected, do, kind)

    def _hide_key(self, text: str) -> str:
        return text.replace(self._key, "…") if self._key else text


def _retry_after(value: str) -> float:
    """The waiting time that a server asks for, in seconds, given as a number or as a date."""
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(TypeError, ValueError):
        return max(0.0, (email.utils.parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    return 0.0


def _limit_from_environment() -> int | None:
    value = os.environ.get(LIMIT_VARIABLE, "")
    if not value:
        return None
    if not value.isdecimal():
        raise OptionError(f"{LIMIT_VARIABLE} is '{value}'; expected a whole number of tokens")
    return int(value)
