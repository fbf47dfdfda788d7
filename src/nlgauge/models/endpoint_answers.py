"""Reading log-probabilities out of an endpoint's answer, in the dialects that servers speak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def parse_echo(choice: dict[str, Any], whole: str) -> tuple[list[str], list[float | None], list[int]] | None:
    """OpenAI's `logprobs`: `tokens`, `token_logprobs`, `text_offset`.

    Offsets are counted from the tokens where these spell the text, since some servers count a start token that is not
    part of it; `text_offset` serves where a character is spread over tokens.
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
    """vLLM's `prompt_logprobs`: a row a token, of `{id: {"logprob", "decoded_token"}}`, the token itself first."""
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


def _starts(tokens: Sequence[str], before: int) -> list[int]:
    starts, place = [], -before
    for token in tokens:
        starts.append(place)
        place += len(token)
    return starts


def _are(values: Any, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(values, list) and all(isinstance(value, kinds) for value in values)
