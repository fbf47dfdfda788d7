"""Reading log-probabilities out of an endpoint's answer, in the dialects of known servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_UNDERFLOW = -1e30


def parse_echo(choice: dict[str, Any], whole: str) -> tuple[list[str], list[float | None], list[int]] | None:
    """OpenAI's `logprobs`: `tokens`, `token_logprobs`, `text_offset`.

    Offsets are computed from the tokens if these spell the text, since some servers count a start token that is not
    part of it; `text_offset` is used if a character spans several tokens.
    """
    found = choice.get("logprobs")
    if not isinstance(found, dict):
        return None
    tokens: Any = found.get("tokens")
    values: Any = found.get("token_logprobs")
    offsets: Any = found.get("text_offset")
    if not _are(tokens, str) or not _are(values, (int, float, type(None))) or len(tokens) != len(values):
        return None
    before = "".join(tokens).find(whole)
    if before >= 0:
        return tokens, values, _starts(tokens, before)
    if _are(offsets, int) and len(offsets) == len(tokens):
        return tokens, values, offsets
    return None


def parse_prompt_logprobs(choice: dict[str, Any], whole: str) -> tuple[list[str], list[float | None], list[int]] | None:
    """vLLM's `prompt_logprobs`: one row per token, of `{id: {"logprob", "decoded_token"}}`, the token itself first."""
    rows = choice.get("prompt_logprobs")
    if not isinstance(rows, list) or not rows:
        return None
    tokens: list[str] = []
    values: list[float | None] = []
    for row in rows:
        entry = next(iter(row.values()), None) if isinstance(row, dict) else None
        if not isinstance(entry, dict):
            if row is not None or tokens:
                return None
            tokens.append("")
            values.append(None)
            continue
        token, value = entry.get("decoded_token"), entry.get("logprob")
        if not isinstance(token, str) or not isinstance(value, (int, float)):
            return None
        tokens.append(token)
        values.append(float(value))
    if tokens[0] == "" and values[0] is None:
        spelled = "".join(tokens)
        tokens[0] = whole.removesuffix(spelled) if whole.endswith(spelled) else ""
    before = "".join(tokens).find(whole)
    return (tokens, values, _starts(tokens, before)) if before >= 0 else None


def parse_next_token(answer: dict[str, Any]) -> dict[int, float] | None:
    """llama.cpp's `logprobs.content[0].top_logprobs`: a token's id and its log-probability, for one next token.

    A probability that underflows is given as the lowest float, and left out here.
    """
    logprobs, usage = answer["choices"][0].get("logprobs"), answer.get("usage")
    content: Any = logprobs.get("content") if isinstance(logprobs, dict) else None
    written = usage.get("completion_tokens", 1) if isinstance(usage, dict) else 1
    if not _are(content, dict) or len(content) != 1 or written != 1:
        return None
    rows = content[0].get("top_logprobs")
    if not _are(rows, dict) or not rows:
        return None
    found = {row.get("id"): row.get("logprob") for row in [*rows, content[0]]}
    if not all(isinstance(token, int) and isinstance(value, (int, float)) for token, value in found.items()):
        return None
    return {token: float(value) for token, value in found.items() if value > _UNDERFLOW}


def parse_pieces(tokens: Any) -> tuple[list[int], list[bytes]] | None:
    """llama.cpp's tokens with pieces: ids, and the bytes of each token."""
    if not _are(tokens, dict) or not tokens:
        return None
    ids, pieces = [], []
    for token in tokens:
        number, piece = token.get("id"), token.get("piece")
        if isinstance(piece, str):
            piece = list(piece.encode())
        if not isinstance(number, int) or not _are(piece, int) or not all(0 <= byte < 256 for byte in piece):
            return None
        ids.append(number)
        pieces.append(bytes(piece))
    return ids, pieces


def _starts(tokens: Sequence[str], before: int) -> list[int]:
    starts, place = [], -before
    for token in tokens:
        starts.append(place)
        place += len(token)
    return starts


def _are(values: Any, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(values, list) and all(isinstance(value, kinds) for value in values)
