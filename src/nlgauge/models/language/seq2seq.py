"""Encoder-decoder language models (T5, BART and similar) through transformers.

The encoder reads a prompt once, with the special tokens of its tokeniser; the decoder scores or generates texts. A
decoder begins with its start token and with the tokens that the tokeniser puts before a text (BART's `<s>`); none of
these is scored. What is too long is cut or slides as in a causal model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from nlgauge.arrays import Array
from nlgauge.errors import ModelError
from nlgauge.models.language.base import Sampling
from nlgauge.models.language.next_token import Drawing, Tensor
from nlgauge.models.language.transformers_model import Decoding, TransformersModel, no_gradients, select_rows
from nlgauge.models.language.windows import Ids, Row, by_length


class Seq2SeqModel(TransformersModel):
    """A model with an encoder for the prompt and a decoder for the text."""

    auto_class = "AutoModelForSeq2SeqLM"

    def _markers(self) -> tuple[str, str | None]:
        config = self.model.config
        start = getattr(config, "decoder_start_token_id", None)
        start = self.model.generation_config.decoder_start_token_id if start is None else start
        start = self.tokenizer.bos_token_id if start is None else start
        if start is None:
            raise ModelError(f"{self.folder}: no decoder_start_token_id; expected one in config.json")
        return str(self.tokenizer.convert_ids_to_tokens(start)), self.tokenizer.eos_token

    @cached_property
    def _around(self) -> tuple[Ids, Ids]:
        """What the tokeniser puts before and after a text."""
        bare = list(self.encode(["a"])[0])
        whole = self.tokenizer(["a"], verbose=False)["input_ids"][0]
        for place in range(len(whole) - len(bare) + 1):
            if whole[place : place + len(bare)] == bare:
                return tuple(whole[:place]), tuple(whole[place + len(bare) :])
        return (), ()

    @cached_property
    def _start(self) -> Ids:
        start = (self._id(self.start_context),)
        before, _ = self._around
        return start if before == start else start + before

    def _source(self, prompt: str) -> Ids:
        before, after = self._around
        ids = self.encode([prompt])[0]
        room = max(0, self.window - len(before) - len(after))
        source = before + ids[max(0, len(ids) - room) :] + after
        return source or self._start

    def _rows(self, prompt: str, targets: Ids, drawn: Drawing | None = None) -> list[Row]:
        return self._pieces(self._start, (), targets, self._source(prompt), drawn)

    def _score_rows(self, rows: list[Row]) -> dict[Row, Array]:
        sources: dict[Ids, list[Row]] = {}
        for row in rows:
            sources.setdefault(row.source, []).append(row)
        done: dict[Row, Array] = {}
        prompts = sorted(sources, key=lambda source: (-len(source), source))
        with no_gradients():
            at_once = self.batch_size
            for place in range(0, len(prompts), at_once):
                some = prompts[place : place + at_once]
                states = dict(zip(some, self._in_batches(some, self._encode), strict=True))

                def run(batch: Sequence[Row], states: dict[Ids, Tensor] = states) -> list[Array]:
                    return self._forward(batch, [states[row.source] for row in batch])

                group = by_length([row for source in some for row in sources[source]])
                done.update(zip(group, self._in_batches(group, run), strict=True))
        return done

    def _encode(self, sources: Sequence[Ids]) -> list[Tensor]:
        """The encoder's states of prompts, without padding."""
        tokens, mask = self._pad(sources)
        states = self.model.get_encoder()(input_ids=tokens, attention_mask=mask).last_hidden_state
        return [states[i, : len(source)] for i, source in enumerate(sources)]

    def _forward(self, rows: Sequence[Row], states: Sequence[Tensor]) -> list[Array]:
        tokens, mask = self._pad([row.inputs for row in rows])
        output = self.model(
            **self._seen(states), decoder_input_ids=tokens, decoder_attention_mask=mask, use_cache=False
        )
        return [self._logprobs(output.logits[i], row, 0) for i, row in enumerate(rows)]

    def _seen(self, states: Sequence[Tensor]) -> dict[str, Any]:
        """The encoder's states of several rows, as arguments of the decoder."""
        from torch.nn.utils.rnn import pad_sequence
        from transformers.modeling_outputs import BaseModelOutput

        hidden: Tensor = pad_sequence(list(states), batch_first=True)
        _, mask = self._pad([(0,) * len(state) for state in states])
        return {"encoder_outputs": BaseModelOutput(last_hidden_state=hidden), "attention_mask": mask}

    def _to_continue(self, prompt: str, sampling: Sampling) -> Ids:
        self._cut_prompt(self._start, (), sampling)
        return self._source(prompt)

    def _decoding(self, prompts: Sequence[Ids]) -> Decoding:
        distinct = list(dict.fromkeys(prompts))
        states = dict(zip(distinct, self._encode(distinct), strict=True))
        return _Seq2SeqDecoding(self, self._seen([states[row] for row in prompts]), [self._start] * len(prompts))

    def _to_search(self, prompts: Sequence[Ids]) -> tuple[dict[str, Tensor], int]:
        tokens, mask = self._pad(prompts)
        start, _ = self._pad([self._start] * len(prompts))
        return {"inputs": tokens, "attention_mask": mask, "decoder_input_ids": start}, start.shape[1]


class _Seq2SeqDecoding:
    """Texts generated in parallel; all begin with the same tokens, so that no padding is needed."""

    def __init__(self, model: Seq2SeqModel, seen: dict[str, Any], start: list[Ids]) -> None:
        self._model, self._seen = model, seen
        self._tokens, _ = model._pad(start)
        self._past: Any = None

    def logits(self, tokens: list[int] | None) -> Tensor:
        """Logits of the next token, one row per prompt."""
        import torch

        if tokens is not None:
            self._tokens = torch.tensor(tokens, device=self._tokens.device)[:, None]
        output = self._model.model(
            **self._seen, decoder_input_ids=self._tokens, past_key_values=self._past, use_cache=True
        )
        self._past = output.past_key_values
        return output.logits[:, -1].float().cpu().double()

    def keep(self, rows: list[int]) -> bool:
        """Drop the other rows."""
        from transformers.modeling_outputs import BaseModelOutput

        if not select_rows(self._past, rows, self._tokens):
            return False
        hidden = self._seen["encoder_outputs"].last_hidden_state[rows]
        mask = self._seen["attention_mask"][rows]
        self._seen = {"encoder_outputs": BaseModelOutput(last_hidden_state=hidden), "attention_mask": mask}
        return True
