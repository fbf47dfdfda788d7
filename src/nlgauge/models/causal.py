"""Causal language models through transformers.

Scoring: prompt and text are tokenised separately and joined, so that log p(text | prompt) is about the same tokens
whatever the prompt; a marker such as `<|endoftext|>` inside either counts as the marker. The start context stands
before every prompt. Where several texts share a prompt, its keys and values are computed once; the output layer runs on
the text's positions only.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import ModelError
from nlgauge.models.language import (
    Sampling,
)
from nlgauge.models.transformers_model import (
    Decoding,
    Ids,
    Row,
    Tensor,
    TransformersModel,
    by_length,
    drop_rows,
    no_gradients,
)

_CHAT_MARKER = re.compile(r"im_start|im_end|turn|eot_id|header|user|assistant|system|^<\|end\|>$")
_DOCUMENT_ENDS = ("<|endoftext|>", "<|end_of_text|>")
_WORTH_SHARING = 32


class CausalModel(TransformersModel):
    """A decoder-only model.

    The start context is the model's own start token, unless that is missing or a chat marker such as `<|im_start|>`:
    text is measured as plain text, not as a turn of a chat, and chat markers give wrong rankings there. Then it is the
    vocabulary's document separator (`<|endoftext|>`, `<|end_of_text|>`), else the end token. The end token is chosen
    likewise. At most `logits_at_once` scores of the vocabulary are held at a time.
    """

    logits_at_once = 1 << 27

    @staticmethod
    def _auto_class() -> str:
        return "AutoModelForCausalLM"

    def _markers(self) -> tuple[str, str | None]:
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
            if len(self._prompts) > 10_000:
                self._prompts.clear()
            self._prompts[prompt] = self.encode([prompt])[0]
        return self._prompts[prompt]

    def _rows(self, prompt: str, targets: Ids) -> list[Row]:
        ids = self._prompt(prompt)
        if not self._start and not ids:
            raise ModelError(
                f"{self.name} has no start token, and a prompt is empty; expected something before a text; give a "
                "prompt or a start_context"
            )
        return self._pieces(self._start, ids, targets)

    def _score_rows(self, rows: list[Row]) -> dict[Row, Array]:
        groups: dict[Ids, list[Row]] = {}
        for row in rows:
            groups.setdefault(row.context, []).append(row)
        done: dict[Row, Array] = {}
        alone: list[Row] = []
        with no_gradients():
            for context, group in groups.items():
                worth = (len(group) - 1) * (len(context) - 1) >= _WORTH_SHARING
                past = self._in_batches([context[:-1]], self._read)[0] if worth else None
                if past is None:
                    alone += group
                    continue
                tails = {Row(context[-1:], row.targets): row for row in by_length(group)}
                forward = partial(self._forward, past=past, past_length=len(context) - 1)
                done.update(zip(tails.values(), self._in_batches(list(tails), forward), strict=True))
            alone = by_length(alone)
            done.update(zip(alone, self._in_batches(alone, self._forward), strict=True))
        return done

    def _read(self, contexts: Sequence[Ids]) -> list[Any]:
        """Keys and values of one context; None where they cannot be copied over rows (recurrent models)."""
        from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

        tokens, mask = self._pad(contexts)
        past = self._run(tokens, mask, None, wanted=1, use_cache=True).past_key_values
        layers = getattr(past, "layers", [None])
        return [past if all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers) else None]

    def _forward(self, rows: Sequence[Row], past: Any = None, past_length: int = 0) -> list[Array]:
        """Log-probabilities of rows, padded on the right; wide rectangles go through in several spans of columns."""
        import torch

        tokens, mask = self._pad([row.inputs for row in rows])
        width = tokens.shape[1]
        first = min(len(row.context) for row in rows) - 1
        columns = max(1, self.logits_at_once // (len(rows) * self._vocabulary))
        if past is not None:
            past = copy.deepcopy(past)
            past.batch_repeat_interleave(len(rows))
            mask = torch.cat([mask.new_ones((len(rows), past_length)), mask], dim=1)
        parts: list[list[Array]] = [[] for _ in rows]
        begin, end = 0, min(first + columns, width)
        while begin < width:
            wanted = end - max(begin, first)
            output = self._run(
                tokens[:, begin:end], mask[:, : past_length + end], past, wanted=wanted, use_cache=end < width
            )
            for i, row in enumerate(rows):
                parts[i].append(self._logprobs(output.logits[i, -wanted:], row, end - wanted))
            past = output.past_key_values
            begin, end = end, min(end + columns, width)
        return [np.concatenate(found) for found in parts]

    def _run(self, tokens: Tensor, mask: Tensor, past: Any, *, wanted: int, use_cache: bool, **more: Any) -> Any:
        if "logits_to_keep" in self._parameters:
            more["logits_to_keep"] = wanted
        return self.model(
            input_ids=tokens, attention_mask=mask, past_key_values=past, use_cache=use_cache or past is not None, **more
        )

    def _decoding(self, prompts: Sequence[str], sampling: Sampling) -> Decoding:
        return _CausalDecoding(self, *self._left_padded(prompts, sampling))

    def _left_padded(self, prompts: Sequence[str], sampling: Sampling) -> tuple[Tensor, Tensor]:
        rows = [self._cut_prompt(self._start, self._prompt(prompt), sampling) for prompt in prompts]
        if not all(rows):
            raise ModelError(f"{self.name} has no start token, and a prompt is empty; give a prompt or a start_context")
        return self._pad(rows, left=True)

    def _beam_search(self, prompts: Sequence[str], sampling: Sampling) -> list[str]:
        tokens, mask = self._left_padded(prompts, sampling)
        width = tokens.shape[1]
        found = self.model.generate(tokens, attention_mask=mask, **self._beam_options(sampling, width))
        return [sampling.cut(self._decode(row)) for row in found[:, width:].tolist()]


class _CausalDecoding:
    """Prompts padded on the left and continued in step, with keys and values kept."""

    def __init__(self, model: CausalModel, tokens: Tensor, mask: Tensor) -> None:
        self._model, self._tokens, self._mask = model, tokens, mask
        self._past: Any = None

    def logits(self, tokens: list[int] | None) -> Tensor:
        """Scores of the next token a row."""
        import torch

        if tokens is not None:
            self._tokens = torch.tensor(tokens, device=self._mask.device)[:, None]
            self._mask = torch.cat([self._mask, self._mask.new_ones((len(tokens), 1))], dim=1)
        more = {}
        if "position_ids" in self._model._parameters:
            positions = (self._mask.cumsum(1) - 1).clamp(min=0)
            more["position_ids"] = positions[:, -self._tokens.shape[1] :]
        output = self._model._run(self._tokens, self._mask, self._past, wanted=1, use_cache=True, **more)
        self._past = output.past_key_values
        return output.logits[:, -1].float().cpu().double()

    def keep(self, rows: list[int]) -> bool:
        """Drop the other rows."""
        if not drop_rows(self._past, rows, self._mask):
            return False
        self._mask = self._mask[rows]
        return True
