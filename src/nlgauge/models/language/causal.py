"""Causal language models through transformers.

Scoring: prompt and text are tokenised separately and joined, so that log p(text | prompt) is about the same tokens
whatever the prompt; a marker such as `<|endoftext|>` inside either counts as the marker. The start context
precedes every prompt. Texts are packed into one sequence, in which a shared prompt occurs once and a mask lets each
token see its own prompt and text only; the output layer runs on the texts' positions only. Models that cannot be masked
this way get padded rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import ModelError
from nlgauge.models.language.base import DTYPES, Sampling
from nlgauge.models.language.next_token import Drawing, Tensor
from nlgauge.models.language.transformers_model import Decoding, TransformersModel, no_gradients, select_rows
from nlgauge.models.language.windows import Ids, Row, by_length

_CHAT_MARKER = re.compile(r"im_start|im_end|turn|eot_id|header|user|assistant|system|^<\|end\|>$")
_DOCUMENT_ENDS = ("<|endoftext|>", "<|end_of_text|>")
_TOKENS_PER_ROW = 32
_PROMPTS_KEPT = 10_000


class CausalModel(TransformersModel):
    """A decoder-only model.

    The start context is the model's own start token, unless that is missing or a chat marker such as `<|im_start|>`:
    text is scored as plain text, not as a turn of a chat, and chat markers give wrong rankings. Then it is the
    vocabulary's document separator (`<|endoftext|>`, `<|end_of_text|>`), else the end token. The end token is chosen
    likewise. At most `logits_at_once` scores of the vocabulary are held at a time.
    """

    auto_class = "AutoModelForCausalLM"
    logits_at_once = 1 << 27

    def _markers(self) -> tuple[str, str | None]:
        if "past_key_values" not in self._parameters:
            raise ModelError(
                f"{self.folder}: a recurrent model; expected one with attention, whose keys and values can be cached"
            )
        start, end = self.tokenizer.bos_token, self.tokenizer.eos_token
        vocabulary = self.tokenizer.get_vocab()
        separator = next((token for token in _DOCUMENT_ENDS if token in vocabulary), None)
        if end is None or (_CHAT_MARKER.search(end) and separator):
            end = separator
        if start is None or _CHAT_MARKER.search(start):
            start = separator or end or start
        return start or "", end

    @cached_property
    def _start(self) -> Ids:
        return self.encode([self.start_context])[0] if self.start_context else ()

    @cached_property
    def _prompts(self) -> dict[str, Ids]:
        return {}

    def _prompt(self, prompt: str) -> Ids:
        if prompt not in self._prompts:
            if len(self._prompts) > _PROMPTS_KEPT:
                self._prompts.clear()
            self._prompts[prompt] = self.encode([prompt])[0]
        return self._prompts[prompt]

    def _rows(self, prompt: str, targets: Ids, drawn: Drawing | None = None) -> list[Row]:
        ids = self._prompt(prompt)
        if not self._start and not ids:
            raise ModelError(
                f"{self.name} has no start token, and a prompt is empty; expected a context before the text; give a "
                "prompt or a start_context"
            )
        return self._pieces(self._start, ids, targets, drawn=drawn)

    def _score_rows(self, rows: list[Row]) -> dict[Row, Array]:
        with no_gradients():
            if len(rows) > 1 and self._packs:
                ordered = sorted(rows, key=lambda row: (-len(row.context), row.context, -len(row.targets), row.targets))
                return dict(zip(ordered, self._in_batches(ordered, self._packed, self._how_many), strict=True))
            ordered = by_length(rows)
            return dict(zip(ordered, self._in_batches(ordered, self._forward), strict=True))

    @cached_property
    def _packs(self) -> bool:
        """Whether the model obeys a packing mask; tested on a few tokens, since no setting says so.

        Models with own position counts, recurrence or limited attention windows do not.
        """
        settings = self.model.config.get_text_config()
        limited = getattr(settings, "sliding_window", None) and getattr(settings, "use_sliding_window", True)
        kinds = set(getattr(settings, "layer_types", None) or ["full_attention"])
        if limited or kinds != {"full_attention"} or "position_ids" not in self._parameters or self.window < 32:
            return False
        ids = tuple(i % self._vocabulary for i in range(23))
        rows = [Row(ids[:9], ids[9:16]), Row(ids[:9], ids[12:23]), Row(ids[3:8], ids[:6])]
        with no_gradients():
            apart = [self._forward([row])[0] for row in rows]
            try:
                packed = self._packed(rows)
            except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
                return False
        slack = 1e-3 if self.dtype == DTYPES[0] else 0.2
        return bool(np.abs(np.concatenate(packed) - np.concatenate(apart)).max() < slack)

    def _how_many(self, rows: Sequence[Row], start: int) -> int:
        """The number of rows from `start` on in one batch; texts of one prompt stay together if possible."""
        if self.batch_size == 1:
            return 1
        room = min(_TOKENS_PER_ROW * self.batch_size, self.window, self.logits_at_once // self._vocabulary)
        used, first = 0, start
        for place in range(start, len(rows)):
            row = rows[place]
            if place == start or row.context != rows[place - 1].context:
                first = place
                used += len(row.context)
            used += len(row.targets)
            if used > room:
                return first - start or max(1, place - start)
        return len(rows) - start

    def _packed(self, rows: Sequence[Row]) -> list[Array]:
        """Log-probabilities of rows packed into one sequence, contexts once; each token sees its own row only."""
        import torch

        if len(rows) == 1:
            return self._forward(rows)
        tokens: list[int] = []
        places: list[int] = []
        prompts: list[int] = []
        texts: list[int] = []
        read: list[int] = []
        held: Ids = ()
        for i, row in enumerate(rows):
            inside = row.targets[:-1]
            if row.context != held:
                held = row.context
                tokens += held
                places += range(len(held))
                prompts += [i] * len(held)
                texts += [-1] * len(held)
                last = len(tokens) - 1
            read += [last, *range(len(tokens), len(tokens) + len(inside))]
            tokens += inside
            places += range(len(held), len(held) + len(inside))
            prompts += [prompts[last]] * len(inside)
            texts += [i] * len(inside)
        at, prompt, text = (torch.tensor(values, device=self.device) for values in (places, prompts, texts))
        seen = (prompt[:, None] == prompt) & ((text == -1) | (text[:, None] == text)) & (at <= at[:, None])
        numbers = self.model.dtype
        mask = torch.zeros(seen.shape, dtype=numbers, device=self.device).masked_fill(~seen, torch.finfo(numbers).min)
        logits = self._run(
            torch.tensor([tokens], device=self.device),
            mask[None, None],
            None,
            wanted=torch.tensor(read, device=self.device),
            use_cache=False,
            position_ids=at[None],
        ).logits[0]
        logits = logits if len(logits) == len(read) else logits[read]
        ends = np.cumsum([len(row.targets) for row in rows])
        return [
            self._logprobs(logits[end - len(row.targets) : end], row, len(row.context) - 1)
            for row, end in zip(rows, ends.tolist(), strict=True)
        ]

    def _forward(self, rows: Sequence[Row]) -> list[Array]:
        """Log-probabilities of rows, padded on the right; wide batches run in several spans of columns."""
        tokens, mask = self._pad([row.inputs for row in rows])
        width = tokens.shape[1]
        first = min(len(row.context) for row in rows) - 1
        columns = max(1, self.logits_at_once // (len(rows) * self._vocabulary))
        past: Any = None
        parts: list[list[Array]] = [[] for _ in rows]
        begin, end = 0, min(first + columns, width)
        while begin < width:
            wanted = end - max(begin, first)
            output = self._run(tokens[:, begin:end], mask[:, :end], past, wanted=wanted, use_cache=end < width)
            for i, row in enumerate(rows):
                parts[i].append(self._logprobs(output.logits[i, -wanted:], row, end - wanted))
            past = output.past_key_values
            begin, end = end, min(end + columns, width)
        return [np.concatenate(found) for found in parts]

    def _run(self, tokens: Tensor, mask: Tensor, past: Any, *, wanted: Any, use_cache: bool, **more: Any) -> Any:
        if "logits_to_keep" in self._parameters:
            more["logits_to_keep"] = wanted
        return self.model(
            input_ids=tokens, attention_mask=mask, past_key_values=past, use_cache=use_cache or past is not None, **more
        )

    def _to_continue(self, prompt: str, sampling: Sampling) -> Ids:
        row = self._cut_prompt(self._start, self._prompt(prompt), sampling)
        if not row:
            raise ModelError(f"{self.name} has no start token, and a prompt is empty; give a prompt or a start_context")
        return row

    def _decoding(self, prompts: Sequence[Ids]) -> Decoding:
        return _CausalDecoding(self, prompts)

    def _to_search(self, prompts: Sequence[Ids]) -> tuple[dict[str, Tensor], int]:
        tokens, mask = self._pad(prompts, left=True)
        return {"inputs": tokens, "attention_mask": mask}, tokens.shape[1]


class _CausalDecoding:
    """Prompts padded on the left and continued in parallel, with cached keys and values."""

    def __init__(self, model: CausalModel, prompts: Sequence[Ids]) -> None:
        self._model, self._prompts = model, prompts
        self._tokens: Tensor = None
        self._mask: Tensor = None
        self._past: Any = None

    def logits(self, tokens: list[int] | None) -> Tensor:
        """Logits of the next token, one row per prompt."""
        import torch

        if tokens is None:
            return self._read_prompts()
        self._tokens = torch.tensor(tokens, device=self._mask.device)[:, None]
        self._mask = torch.cat([self._mask, self._mask.new_ones((len(tokens), 1))], dim=1)
        return self._step()

    def _read_prompts(self) -> Tensor:
        """Read each prompt once and share its keys and values among its rows, if the model can."""
        places = {prompt: place for place, prompt in enumerate(dict.fromkeys(self._prompts))}
        self._tokens, self._mask = self._model._pad(list(places), left=True)
        logits = self._step()
        rows = [places[prompt] for prompt in self._prompts]
        if rows == list(places.values()):
            return logits
        if self.keep(rows):
            return logits[rows]
        self._tokens, self._mask, self._past = *self._model._pad(self._prompts, left=True), None
        return self._step()

    def _step(self) -> Tensor:
        more = {}
        if "position_ids" in self._model._parameters:
            positions = (self._mask.cumsum(1) - 1).clamp(min=0)
            more["position_ids"] = positions[:, -self._tokens.shape[1] :]
        output = self._model._run(self._tokens, self._mask, self._past, wanted=1, use_cache=True, **more)
        self._past = output.past_key_values
        return output.logits[:, -1].float().cpu().double()

    def keep(self, rows: list[int]) -> bool:
        """Drop the other rows."""
        if not select_rows(self._past, rows, self._mask):
            return False
        self._mask = self._mask[rows]
        return True
