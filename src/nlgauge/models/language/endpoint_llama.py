"""llama.cpp's `llama-server`, which does not echo log-probabilities of a prompt.

A given text is scored token by token: `/tokenize` splits prompt and text, and for every token of the text a completions
request with the tokens before it as the prompt asks for one token and the log-probabilities of the `n_probs` most
probable ones, before any sampler. If the token is not among them, more are requested, at last the whole
vocabulary. This takes one request per token; `cache_prompt` lets the server evaluate only new tokens, at the cost of
differences in the last digits. The server counts the whole prompt in every request, and so does the limit on tokens.

The generated token is discarded but matters: the server omits tokens that end inside a character from its
log-probabilities and continues with the next token, so a bias makes it generate a token of whole characters.

Tested against a server that follows llama.cpp's documentation and source (around a real model), not against
`llama-server` itself.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from nlgauge.models.language.base import Sampling, TokenLogprobs
from nlgauge.models.language.endpoint_answers import parse_next_token, parse_pieces
from nlgauge.models.language.endpoint_http import BadAnswer, Connection, Request

_MOST_PROBABLE = (128, 4096)
_UNKNOWN_VOCABULARY = 1 << 20
_SEEDS = 2**32 - 1  # the seed 2^32 - 1 means a random seed
_SAMPLERS_OFF: Request = {
    "min_p": 0.0,
    "typical_p": 1.0,
    "top_n_sigma": -1.0,
    "xtc_probability": 0.0,
    "dynatemp_range": 0.0,
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry_multiplier": 0.0,
    "mirostat": 0,
}


class LlamaServer:
    """The requests of `llama-server`, over a connection whose address may end in `/v1`."""

    def __init__(self, http: Connection) -> None:
        self._http = http
        self._root = http.url.removesuffix("/v1")

    def answers(self) -> bool:
        """Whether the server is one of llama.cpp's: these report their `default_generation_settings`."""
        try:
            return "default_generation_settings" in self._http.ask("GET", f"{self._root}/props")
        except BadAnswer:
            return False

    @staticmethod
    def generation(sampling: Sampling, seed: int) -> Request:
        """Sampling options: temperature, then top-k, then top-p, without the server's default filters."""
        return {
            **_SAMPLERS_OFF,
            "samplers": ["temperature", "top_k", "top_p"],
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "seed": seed % _SEEDS,
        }

    def asked(self, prompt: str, text: str) -> Request:
        """The cache key of a text's log-probabilities."""
        return {"model": self._http.model, "prompt": prompt, "text": text, "score": "n_probs"}

    def score(self, prompt: str, text: str) -> TokenLogprobs:
        """A text under a prompt; every token is cached, so that an interrupted run resumes."""
        asked = self.asked(prompt, text)
        known = self._http.kept(asked) or {"tokens": self._tokenize(prompt + text), "logprobs": []}
        ids, pieces, inside = self._inside(known["tokens"], prompt, text)
        values: list[float] = list(known["logprobs"])
        try:
            for place in inside[len(values) :]:
                values.append(self._logprob(ids[:place], ids[place], pieces[place]))
        finally:
            if len(values) > len(known["logprobs"]):
                self._http.keep(asked, {"tokens": known["tokens"], "logprobs": values})
        shown = tuple(pieces[i].decode(errors="replace") for i in inside)
        return TokenLogprobs(shown, np.array(values, dtype=np.float64))

    def _tokenize(self, text: str, *, add_special: bool = True) -> Any:
        request = {"content": text, "add_special": add_special, "parse_special": True, "with_pieces": True}
        return self._http.ask("POST", f"{self._root}/tokenize", request).get("tokens")

    def _pieces(self, tokens: Any) -> tuple[list[int], list[bytes]]:
        parsed = parse_pieces(tokens)
        if parsed is None:
            raise self._http.error(
                "tokens without their pieces", "ids and pieces from /tokenize", "use a newer llama-server"
            )
        return parsed

    @cached_property
    def _letter(self) -> int:
        """A token that ends where a character ends."""
        return self._pieces(self._tokenize("a", add_special=False))[0][-1]

    def _inside(self, tokens: Any, prompt: str, text: str) -> tuple[list[int], list[bytes], list[int]]:
        """Ids, bytes and positions of the text's tokens; a token that spans prompt and text belongs to the text."""
        ids, pieces = self._pieces(tokens)
        whole, border = (prompt + text).encode(), len(prompt.encode())
        place = -b"".join(pieces).rfind(whole)
        if place > 0:
            raise self._http.error(
                "tokens that do not spell the text", "the same characters", "use a model that does not rewrite them"
            )
        inside = []
        for i, piece in enumerate(pieces):
            if place + len(piece) > border and place < len(whole):
                inside.append(i)
            place += len(piece)
        return ids, pieces, inside

    def _logprob(self, before: list[int], token: int, piece: bytes) -> float:
        if not before:
            raise self._http.no_context()
        most = [size for size in _MOST_PROBABLE if size < self._vocabulary] + [self._vocabulary]
        for asked in most:
            found = self._most_probable(before, asked)
            if token in found:
                return found[token]
            if len(found) < asked:
                break
        shown = piece.decode(errors="replace")
        raise self._http.error(
            f"no log-probability for the token {token} ('{shown}') among the {len(found)} given",
            f"it among the {asked} most probable ones",
            "lift the server's limit on n_probs, or use a local model",
        )

    def _most_probable(self, before: list[int], most: int) -> dict[int, float]:
        request: Request = {
            **_SAMPLERS_OFF,
            "model": self._http.model,
            "prompt": before,
            "n_predict": 1,
            "n_probs": most,
            "post_sampling_probs": False,
            "cache_prompt": True,
            "samplers": ["temperature"],
            "temperature": 1.0,
            "seed": 0,
            "logit_bias": [[self._letter, 1000.0]],
        }
        answer = self._http.pay(request, len(before) + 1)
        found = parse_next_token(answer)
        if found is None:
            raise self._http.error(
                "an answer without the log-probabilities of one next token",
                "choices[0].logprobs.content[0].top_logprobs with ids, for n_probs",
                "use a newer llama-server, or a local model",
            )
        return found

    @cached_property
    def _vocabulary(self) -> int:
        rows = self._http.models()
        for row in rows:
            size = meta.get("n_vocab") if isinstance(meta := row.get("meta"), dict) else None
            if isinstance(size, int) and (row["id"] == self._http.model or len(rows) == 1):
                return size
        return _UNKNOWN_VOCABULARY
