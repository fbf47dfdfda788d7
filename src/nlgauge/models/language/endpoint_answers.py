"""Reading log-probabilities out of an endpoint's answer, in the dialects of known servers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated, Any, TypeVar

import msgspec

_UNDERFLOW = -1e30
T = TypeVar("T")


class _Echo(msgspec.Struct):
    tokens: list[str]
    token_logprobs: list[float | None]
    text_offset: Any = None


class _Given(msgspec.Struct):
    decoded_token: str
    logprob: float


class _Next(msgspec.Struct):
    id: int
    logprob: float
    top_logprobs: list[_Next] = msgspec.field(default_factory=list)


class _Piece(msgspec.Struct):
    id: int
    piece: str | list[Annotated[int, msgspec.Meta(ge=0, le=255)]]


def parse_echo(choice: dict[str, Any], whole: str) -> tuple[list[str], list[float | None], list[int]] | None:
    """OpenAI's `logprobs`: `tokens`, `token_logprobs`, `text_offset`.

    Offsets are computed from the tokens if these spell the text, since some servers count a start token that is not
    part of it; `text_offset` is used if a character spans several tokens.
    """
    found = _read(_Echo, choice.get("logprobs"))
    if found is None or len(found.tokens) != len(found.token_logprobs):
        return None
    before = "".join(found.tokens).find(whole)
    offsets = _starts(found.tokens, before) if before >= 0 else _read(list[int], found.text_offset)
    if offsets is None or len(offsets) != len(found.tokens):
        return None
    return found.tokens, found.token_logprobs, offsets


def parse_prompt_logprobs(choice: dict[str, Any], whole: str) -> tuple[list[str], list[float | None], list[int]] | None:
    """vLLM's `prompt_logprobs`: one row per token, of `{id: {"logprob", "decoded_token"}}`, the token itself first."""
    rows = _read(list[dict[str, Any] | None], choice.get("prompt_logprobs"))
    if not rows or None in rows[1:]:
        return None
    found = _read(list[_Given], [next(iter(row.values()), None) for row in rows if row is not None])
    if found is None:
        return None
    tokens = [one.decoded_token for one in found]
    values: list[float | None] = [one.logprob for one in found]
    if rows[0] is None:
        spelled = "".join(tokens)
        tokens.insert(0, whole.removesuffix(spelled) if whole.endswith(spelled) else "")
        values.insert(0, None)
    before = "".join(tokens).find(whole)
    return (tokens, values, _starts(tokens, before)) if before >= 0 else None


def parse_next_token(answer: dict[str, Any]) -> dict[int, float] | None:
    """llama.cpp's `logprobs.content[0].top_logprobs`: a token's id and its log-probability, for one next token.

    A probability that underflows is given as the lowest float, and left out here.
    """
    logprobs, usage = answer["choices"][0].get("logprobs"), answer.get("usage")
    content = _read(list[_Next], logprobs.get("content") if isinstance(logprobs, dict) else None)
    written = usage.get("completion_tokens", 1) if isinstance(usage, dict) else 1
    if content is None or len(content) != 1 or not content[0].top_logprobs or written != 1:
        return None
    return {one.id: one.logprob for one in [*content[0].top_logprobs, content[0]] if one.logprob > _UNDERFLOW}


def parse_pieces(tokens: Any) -> tuple[list[int], list[bytes]] | None:
    """llama.cpp's tokens with pieces: ids, and the bytes of each token."""
    found = _read(list[_Piece], tokens)
    if not found:
        return None
    pieces = [one.piece.encode() if isinstance(one.piece, str) else bytes(one.piece) for one in found]
    return [one.id for one in found], pieces


def _starts(tokens: Sequence[str], before: int) -> list[int]:
    return list(accumulate(map(len, tokens), initial=-before))[:-1]


def _read(kind: type[T], value: Any) -> T | None:
    """A part of an answer as this type; None if it is anything else."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None
