"""Shared by causal and encoder-decoder models: loading, tokens, batches, scoring and sampling with transformers.

`windows.py` says how texts are cut to the window, `next_token.py` what the next token is drawn from.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from nlgauge.arrays import Array
from nlgauge.errors import ModelError, OptionError
from nlgauge.models.identity import check_unchanged, folder_identity
from nlgauge.models.language.base import (
    DTYPES,
    Continuation,
    LanguageModel,
    Sampling,
    TokenLogprobs,
    cannot_write,
    check_finite,
    check_to_generate,
    check_to_score,
    check_to_score_sampled,
)
from nlgauge.models.language.next_token import END, END_OF_NOTHING, Drawing, Tensor, draw_token
from nlgauge.models.language.windows import Ids, Row, context_window, last_of, pieces
from nlgauge.models.runtime import load_folder, out_of_memory

_SHORT_TOKENS = 512
_MOST_SHORT_ROWS = 8
T = TypeVar("T")
R = TypeVar("R")


class Decoding(Protocol):
    """Rows that are being continued together."""

    def logits(self, tokens: list[int] | None) -> Tensor:
        """Logits of the next token of each row, after one more token each (None: after the prompts)."""

    def keep(self, rows: list[int]) -> bool:
        """Continue with these rows only; False if the model cannot drop rows."""


class TransformersModel(LanguageModel):
    """A model folder as transformers saves it, with weights in safetensors; nothing in it is run as code."""

    auto_class: str  # of transformers

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "",
        device: str = "cpu",
        dtype: str = "float32",
        batch_size: int = 16,
        start_context: str | None = None,
    ) -> None:
        self.folder, self.name, self.dtype, self.batch_size = folder, name or folder.name, dtype, batch_size
        self._identity = folder_identity(folder)
        self.tokenizer, self.model = load_folder(folder, self.auto_class, "a language model", device, dtype)
        self.device = self.model.device
        self.window = context_window(self.model.config, self.tokenizer)
        self._vocabulary = int(self.model.get_input_embeddings().weight.shape[0])
        self._parameters = set(inspect.signature(self.model.forward).parameters)
        self._warned = False
        self._drawings: dict[Sampling, Drawing] = {}
        self._shown: dict[int, str] = {}
        start, end = self._markers()
        self.start_context = start if start_context is None else start_context
        self._own = (start, self.window)
        self.end_token = end
        self._end_ids = _end_ids(self.tokenizer, self.model, end)
        self.model.generation_config = generation_config(decoder_start_token_id=self._id(start) if start else None)

    @abstractmethod
    def _markers(self) -> tuple[str, str | None]:
        """The start context and the end token."""

    @abstractmethod
    def _rows(self, prompt: str, targets: Ids, drawn: Drawing | None = None) -> list[Row]:
        """The rows needed to score a text: one, or several if it is longer than the window."""

    @abstractmethod
    def _score_rows(self, rows: list[Row]) -> dict[Row, Array]:
        """Log-probabilities of each row's targets."""

    @abstractmethod
    def _to_continue(self, prompt: str, sampling: Sampling) -> Ids:
        """The tokens of a prompt to continue."""

    @abstractmethod
    def _decoding(self, prompts: Sequence[Ids]) -> Decoding:
        """Start to continue some prompts; equal ones are read once."""

    @abstractmethod
    def _to_search(self, prompts: Sequence[Ids]) -> tuple[dict[str, Tensor], int]:
        """What beam search reads, and the number of tokens before a continuation."""

    @property
    def fingerprint(self) -> str:
        """The hash that the folder had when it was loaded, and what changes results beside it.

        That is a dtype other than float32, a start context that is not the model's own, and a smaller window.
        """
        found = self._identity if self.dtype == DTYPES[0] else f"{self._identity}-{self.dtype}"
        given = (self.start_context, self.window)
        if given == self._own:
            return found
        return f"{found}-{hashlib.blake2b(repr(given).encode(), digest_size=4).hexdigest()}"

    @property
    def stride(self) -> int:
        """How far the window slides over a text that is longer than it."""
        return max(1, self.window // 2)

    def score(
        self, prompts: Sequence[str], texts: Sequence[Sequence[str]], *, with_end: bool = False
    ) -> list[list[TokenLogprobs]]:
        """Log-probabilities of the texts `texts[i]` under `prompts[i]`; equal texts are computed once."""
        check_to_score(self, prompts, texts, with_end=with_end)
        end = (self._id(self.end_token),) if with_end and self.end_token is not None else ()
        distinct = list(dict.fromkeys(text for group in texts for text in group))
        tokens = dict(zip(distinct, self.encode(distinct), strict=True))
        return self._scored(prompts, texts, {text: ids + end for text, ids in tokens.items()}, None)

    def score_sampled(
        self, prompts: Sequence[str], texts: Sequence[Sequence[str]], sampling: Sampling
    ) -> list[list[TokenLogprobs]]:
        """Log-probabilities of drawing the tokens of `texts[i]` after `prompts[i]`, and then the end.

        The end has the probability of all tokens that end a text there: the end tokens, and those that begin with a
        stop string but for white space. A text of `max_new_tokens` tokens has none, since it is cut there. A longer
        one, and one with a stop string or an end token inside, cannot be written.
        """
        check_to_score_sampled(self, prompts, texts, sampling)
        distinct = list(dict.fromkeys(text for group in texts for text in group))
        drawn = self._drawing(sampling)
        targets: dict[str, Ids] = {}
        for text, ids in zip(distinct, self.encode(distinct), strict=True):
            impossible = sampling.stops(text) or len(ids) > sampling.max_new_tokens or not drawn.ends.isdisjoint(ids)
            if not impossible:
                end = (END,) if ids else (END_OF_NOTHING,)
                targets[text] = ids if len(ids) == sampling.max_new_tokens else ids + end
        return self._scored(prompts, texts, targets, drawn)

    def _drawing(self, sampling: Sampling) -> Drawing:
        """A sampling with the tokens that end a text."""
        if sampling not in self._drawings:
            self._drawings[sampling] = Drawing.of(sampling, self._end_ids, self.tokenizer)
        return self._drawings[sampling]

    def _scored(
        self,
        prompts: Sequence[str],
        texts: Sequence[Sequence[str]],
        targets: Mapping[str, Ids],
        drawn: Drawing | None,
    ) -> list[list[TokenLogprobs]]:
        """Scores of texts as these tokens; a text without any entry cannot be written."""
        pairs = dict.fromkeys((prompt, text) for prompt, group in zip(prompts, texts, strict=True) for text in group)
        possible = [(prompt, text) for prompt, text in pairs if text in targets]
        work = {
            (prompt, text): self._rows(prompt, targets[text], drawn) if targets[text] else []
            for prompt, text in possible
        }
        values = self._score_rows(list(dict.fromkeys(row for rows in work.values() for row in rows)))
        done = {
            (prompt, text): TokenLogprobs(
                tuple(map(self._show, targets[text])), np.concatenate([np.empty(0), *(values[row] for row in rows)])
            )
            for (prompt, text), rows in work.items()
        }
        check_finite(self.name, done, sampling=None if drawn is None else drawn.sampling)
        check_unchanged(self.folder, self._identity)
        return [
            [done[prompt, text] if text in targets else cannot_write(text) for text in group]
            for prompt, group in zip(prompts, texts, strict=True)
        ]

    def sample(self, prompts: Sequence[str], sampling: Sampling, seeds: Sequence[int]) -> list[Continuation]:
        """One continuation for each prompt and its seed; equal pairs are computed once."""
        check_to_generate(prompts, seeds)
        read = {prompt: self._to_continue(prompt, sampling) for prompt in dict.fromkeys(prompts)}
        used = [0 if sampling.deterministic else int(seed) for seed in seeds]
        keys = [(read[prompt], seed) for prompt, seed in zip(prompts, used, strict=True)]
        jobs = sorted(dict.fromkeys(keys), key=lambda job: (-len(job[0]), job))

        def run(batch: Sequence[tuple[Ids, int]]) -> list[Continuation]:
            rows = [prompt for prompt, _ in batch]
            if sampling.beams > 1:  # the only text that it writes
                return [Continuation(text, 0.0) for text in self._beam_search(rows, sampling)]
            return self._continue(self._decoding(rows), sampling, [seed for _, seed in batch])

        def how_many(jobs: Sequence[tuple[Ids, int]], start: int) -> int:
            return self._rows_at_once(sampling.beams * (len(jobs[start][0]) + sampling.max_new_tokens))

        with no_gradients():
            done = dict(zip(jobs, self._in_batches(jobs, run, how_many), strict=True))
        check_unchanged(self.folder, self._identity)
        return [done[key] for key in keys]

    def _rows_at_once(self, length: int) -> int:
        """The number of rows of at most `length` tokens in a batch: more if they are shorter.

        A step with few rows takes about as long as one with many: reading the weights dominates.
        """
        if self.batch_size == 1:
            return 1
        return self.batch_size * min(_MOST_SHORT_ROWS, max(1, _SHORT_TOKENS // length))

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Tokens of texts, without any that the tokeniser would add."""
        if not texts:
            return []
        found = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [tuple(ids) for ids in found]

    def _continue(self, decoding: Decoding, sampling: Sampling, seeds: Sequence[int]) -> list[Continuation]:
        """Draw token after token for every row; rows that have ended leave the batch."""
        drawing = self._drawing(sampling)
        draws = [np.random.default_rng(seed) for seed in seeds]
        chosen: list[list[int]] = [[] for _ in seeds]
        values: list[list[float]] = [[] for _ in seeds]
        texts = [""] * len(seeds)
        ended = [False] * len(seeds)
        active = list(range(len(seeds)))
        logits = self._check_numbers(decoding.logits(None))
        for step in range(sampling.max_new_tokens):
            for place, row in enumerate(active):
                if ended[row]:
                    continue
                kept = drawing.kept(logits[place])
                token = draw_token(kept, draws[row])
                begun = bool(texts[row].strip())
                if token in drawing.ends or (begun and token in drawing.stops):
                    values[row].append(drawing.logprob(kept, END if begun else END_OF_NOTHING))
                    ended[row] = True
                    continue
                values[row].append(drawing.logprob(kept, token))
                chosen[row].append(token)
                texts[row] = self._decode(chosen[row])
                ended[row] = sampling.stops(texts[row])
            going = [place for place, row in enumerate(active) if not ended[row]]
            if not going or step + 1 == sampling.max_new_tokens:
                break
            if 8 * len(going) <= 7 * len(active) and decoding.keep(going):
                active = [active[place] for place in going]
            last = [chosen[row][-1] if chosen[row] else 0 for row in active]
            logits = self._check_numbers(decoding.logits(last))
        return [
            Continuation(sampling.cut(text), math.fsum(found), len(found), truncated=not done)
            for text, found, done in zip(texts, values, ended, strict=True)
        ]

    def _check_numbers(self, values: Any) -> Any:
        if bool((values != values).any()):
            raise ModelError(f"{self.name} gives values that are not numbers; expected numbers; use dtype float32")
        return values

    def _in_batches(
        self,
        items: Sequence[T],
        run: Callable[[Sequence[T]], list[R]],
        how_many: Callable[[Sequence[T], int], int] | None = None,
    ) -> list[R]:
        """Run over batches; if memory runs out, halve them, warn once and continue."""
        results: list[R] = []
        while len(results) < len(items):
            start = len(results)
            batch = items[start : start + (how_many(items, start) if how_many else self.batch_size)]
            try:
                results += run(batch)
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                if len(batch) == 1:
                    raise ModelError(
                        f"{self.name}: out of memory with a single text; expected memory for one; use a smaller model, "
                        "another device or shorter texts"
                    ) from error
                self.batch_size = max(1, min(len(batch), self.batch_size) // 2)
                if not self._warned:
                    self._warned = True
                    warnings.warn(
                        f"{self.name}: out of memory with {len(batch)} texts at once; continuing with half as many, "
                        "and fewer if necessary",
                        stacklevel=2,
                    )
        return results

    def _logprobs(self, logits: Tensor, row: Row, start: int) -> Array:
        """Log-probabilities of the targets that `logits`, a row's scores from position `start` on, predict."""
        import torch

        first = len(row.context) - 1
        low, high = max(start, first), min(start + logits.shape[0], first + len(row.targets))
        if low >= high:
            return np.empty(0)
        scores = logits[low - start : high - start].float()
        wanted = row.targets[low - first : high - first]
        if row.drawn is not None:
            how = row.drawn
            return np.array([how.logprob(how.kept(one), token) for one, token in zip(scores, wanted, strict=True)])
        targets = torch.tensor(wanted, device=scores.device)
        found = scores.gather(1, targets[:, None])[:, 0] - scores.logsumexp(1)
        values: Array = found.cpu().numpy().astype(np.float64)
        return values

    def _pieces(
        self, start: Ids, prompt: Ids, targets: Ids, source: Ids = (), drawn: Drawing | None = None
    ) -> list[Row]:
        """Rows that fit the window."""
        cut = pieces(self.window, self.stride, start, prompt, targets)
        return [Row(context, part, source, drawn) for context, part in cut]

    def _cut_prompt(self, start: Ids, prompt: Ids, sampling: Sampling) -> Ids:
        """A prompt cut to leave space for its continuation."""
        room = self.window - sampling.max_new_tokens - len(start)
        if room < 1:
            raise OptionError(
                f"max_new_tokens is {sampling.max_new_tokens}, and {self.name} sees {self.window} tokens; expected "
                "space for a prompt as well; lower max_new_tokens"
            )
        return start + last_of(prompt, room)

    def _pad(self, rows: Sequence[Ids], *, left: bool = False) -> tuple[Tensor, Tensor]:
        """Rows of tokens as a padded tensor, and its mask."""
        import torch

        width = max(map(len, rows))
        tokens = torch.zeros((len(rows), width), dtype=torch.long)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for i, row in enumerate(rows):
            place = slice(width - len(row), width) if left else slice(0, len(row))
            tokens[i, place] = torch.tensor(row, dtype=torch.long)
            mask[i, place] = 1
        return tokens.to(self.device), mask.to(self.device)

    def _beam_search(self, prompts: Sequence[Ids], sampling: Sampling) -> list[str]:
        """The best continuation that beam search finds for each prompt."""
        import torch

        inputs, start = self._to_search(prompts)

        def stopped(tokens: Tensor, scores: Tensor, **_: Any) -> Tensor:  # noqa: ARG001 - the expected signature
            ended = [sampling.stops(self._decode(row)) for row in tokens[:, start:].tolist()]
            return torch.tensor(ended, device=tokens.device)

        found = self.model.generate(
            **inputs,
            num_beams=sampling.beams,
            do_sample=False,
            max_new_tokens=sampling.max_new_tokens,
            eos_token_id=sorted(self._end_ids) or None,
            pad_token_id=min(self._end_ids, default=0),
            stopping_criteria=[stopped] if sampling.stop else None,
        )
        return [sampling.cut(self._decode(row)) for row in found[:, start:].tolist()]

    def _decode(self, tokens: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def _id(self, token: str) -> int:
        return int(self.tokenizer.convert_tokens_to_ids(token))

    def _show(self, token: int) -> str:
        if token in (END, END_OF_NOTHING):
            return self.end_token or ""
        if token not in self._shown:
            raw = self.tokenizer.convert_ids_to_tokens(token)
            spaced = raw is not None and raw.startswith("▁")
            self._shown[token] = raw.replace("▁", " ") if spaced else self.tokenizer.decode([token])
        return self._shown[token]


def select_rows(past: Any, rows: list[int], like: Tensor) -> bool:
    """Select the cached keys and values of these rows, dropped or repeated; False if the model cannot."""
    import torch

    try:
        past.batch_select_indices(torch.tensor(rows, device=like.device))
    except (AttributeError, TypeError, NotImplementedError):
        return False
    return True


def no_gradients() -> AbstractContextManager[Any]:
    """Disable gradients."""
    import torch

    mode: AbstractContextManager[Any] = torch.inference_mode()
    return mode


def _end_ids(tokenizer: Any, model: Any, end: str | None) -> frozenset[int]:
    """Every token that ends a continuation."""
    found: set[int] = set()
    for ids in (
        model.generation_config.eos_token_id,
        getattr(model.config, "eos_token_id", None),
        tokenizer.eos_token_id,
    ):
        found |= set(ids) if isinstance(ids, list) else {ids} if ids is not None else set()
    if end is not None:
        found.add(int(tokenizer.convert_tokens_to_ids(end)))
    return frozenset(found)


def generation_config(**settings: Any) -> Any:
    """Generation settings without penalties and filters, whatever the folder suggests; `Sampling` sets them."""
    import transformers

    kind: Any = transformers.GenerationConfig
    return kind(**settings)
