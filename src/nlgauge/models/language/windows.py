"""Rows of tokens that fit the window of a model.

A prompt is cut from the left (its start context stays) until prompt and text fit the window. The space for the text is
rounded up to a sixteenth of the window, so that texts of similar length see the same prompt and share it. A text that
is longer than the window is scored in steps: each further half window is scored with the half before it as context,
and the prompt keeps at most half a window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nlgauge.models.language.next_token import Drawing

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One row of a batch: `targets` are scored after `context`; `source` is what an encoder reads, if there is one.

    They are scored under the model's own distribution, or under that of `drawn`.
    """

    context: Ids
    targets: Ids
    source: Ids = ()
    drawn: Drawing | None = None

    @property
    def inputs(self) -> Ids:
        """What the model reads: the last target is predicted, never read."""
        return self.context + self.targets[:-1]


def pieces(window: int, stride: int, start: Ids, prompt: Ids, targets: Ids) -> Iterator[tuple[Ids, Ids]]:
    """Contexts and targets that fit the window, by the rule at the top of this file."""
    needed = len(targets) - 1
    if len(start) + len(prompt) + needed <= window:
        yield start + prompt, targets
        return
    if max(1, len(start)) + needed <= window:
        unit = max(1, window // 16)
        room = max(window - len(start) - -(-needed // unit) * unit, 1 - len(start))
        yield start + last_of(prompt, room), targets
        return
    before = window - stride
    context = start + last_of(prompt, before - len(start))
    first = window - len(context) + 1
    yield context, targets[:first]
    for place in range(first, len(targets), stride):
        yield last_of(context + targets[:place], before + 1), targets[place : place + stride]


def by_length(rows: Sequence[Row]) -> list[Row]:
    """Rows sorted by length, the longest first, so that memory runs out early or never."""
    return sorted(rows, key=lambda row: (-len(row.inputs), row.context, row.targets))


def last_of(ids: Ids, count: int) -> Ids:
    """The last tokens, at most so many."""
    return ids[max(0, len(ids) - max(0, count)) :]


def context_window(config: Any, tokenizer: Any) -> int:
    """The largest number of tokens: the number of positions, else the tokeniser's limit, else 2,048."""
    for source, name in (
        (config.get_text_config(), "max_position_embeddings"),
        (config, "n_positions"),
        (tokenizer, "model_max_length"),
    ):
        found = getattr(source, name, None)
        if isinstance(found, int) and 1 < found < 1_000_000_000:
            return found
    return 2048
