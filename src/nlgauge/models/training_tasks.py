"""What language models learn: texts after their prompts, with their ends, as NLGauge scores them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nlgauge.errors import ModelError, OptionError
from nlgauge.models.causal import CausalModel
from nlgauge.models.prompting import Prompting
from nlgauge.models.seq2seq import Seq2SeqModel
from nlgauge.models.training import Task
from nlgauge.models.training_data import Corpus, Pair
from nlgauge.models.transformers_model import Row

_BLOCKS = {"self_attn", "attn", "attention", "mlp", "feed_forward"}


class TextTask(Task[Row]):
    """Texts with their ends, after the start context or after a prompt of their own; only texts are learnt."""

    def __init__(
        self,
        model: CausalModel | Seq2SeqModel,
        corpus: Corpus[Any],
        *,
        dropout: float | None = None,
        prompting: Prompting | None = None,
    ) -> None:
        self._whole, self.model = model, model.model
        self._prompting = prompting or Prompting()
        self.training, self.validation = self._rows(corpus.training), self._rows(corpus.validation)
        if dropout is not None:
            _set_dropout(self.model, dropout)

    def units(self, row: Row) -> int:
        """Tokens to predict."""
        return len(row.targets)

    def save(self, folder: Path) -> None:
        """A folder as transformers saves it, tied weights once."""
        import transformers

        kind: Any = transformers.GenerationConfig
        ends: dict[str, Any] = {"bos_token_id": self._whole._start[0], "eos_token_id": sorted(self._whole._end_ids)}
        if isinstance(self._whole, Seq2SeqModel):
            ends |= {"decoder_start_token_id": self._whole._id(self._whole.start_context)}
        self.model.generation_config = kind(**ends)
        self.model.save_pretrained(folder)
        self._whole.tokenizer.save_pretrained(folder)

    def _rows(self, examples: Sequence[str | Pair]) -> list[Row]:
        model, how = self._whole, self._prompting
        if model.end_token is None or not model.start_context:
            raise ModelError(f"{model.name} has no start or no end token; expected both to learn where texts end")
        end = (model._id(model.end_token),)
        pairs = [
            ("", one) if isinstance(one, str) else (how.prompt(one.context), how.text(one.text)) for one in examples
        ]
        texts = model.encode([text for _, text in pairs])
        return [row for (prompt, _), ids in zip(pairs, texts, strict=True) for row in model._rows(prompt, ids + end)]

    def _places(self, rows: Sequence[Row], width: int) -> tuple[Any, Any]:
        """Where a padded batch predicts, counted over all its positions, and what."""
        import torch

        places = [i * width + j for i, row in enumerate(rows) for j in range(len(row.context) - 1, len(row.inputs))]
        targets = [token for row in rows for token in row.targets]
        device = self.model.device
        return torch.tensor(places, device=device), torch.tensor(targets, device=device)


class CausalTask(TextTask):
    """The task of a causal model; at most `logits_at_once` scores of tokens are held at a time."""

    logits_at_once = 1 << 26

    def __init__(self, model: CausalModel, corpus: Corpus[Any], **options: Any) -> None:
        super().__init__(model, corpus, **options)
        self._plain_head = self._head_is_plain()

    def loss(self, rows: Sequence[Row], label_smoothing: float) -> Any:
        """Cross entropy; the output layer runs on real positions only, and in pieces where it is large."""
        import torch
        from torch.utils.checkpoint import checkpoint

        tokens, _ = self._whole._pad([row.inputs for row in rows])
        at, targets = self._places(rows, tokens.shape[1])
        head: Any = self.model.get_output_embeddings() if self._plain_head else torch.nn.Identity()
        body = self.model.base_model if self._plain_head else self.model
        states: Any = body(input_ids=tokens, use_cache=False)[0].flatten(0, 1)[at]

        def entropy(some: Any, wanted: Any) -> Any:
            logits = head(some).float()
            return torch.nn.functional.cross_entropy(logits, wanted, reduction="sum", label_smoothing=label_smoothing)

        size = max(1, self.logits_at_once // self._whole._vocabulary)
        if len(at) <= size:
            return entropy(states, targets)
        pieces = zip(states.split(size), targets.split(size), strict=True)
        return sum(checkpoint(entropy, *piece, use_reentrant=False, preserve_rng_state=False) for piece in pieces)

    def _head_is_plain(self) -> bool:
        """Whether scores are the output layer on the last states and nothing else (Gemma, say, bends them)."""
        import torch

        head = self.model.get_output_embeddings()
        if getattr(self.model.config.get_text_config(), "final_logit_softcapping", None):
            return False
        tokens, _ = self._whole._pad([self.validation[0].inputs[:16]])
        with torch.no_grad():
            states = self.model.base_model(input_ids=tokens, use_cache=False)[0]
            if not isinstance(head, torch.nn.Linear) or states.shape[-1] != head.in_features:
                return False
            return torch.allclose(head(states), self.model(input_ids=tokens, use_cache=False)[0], rtol=1e-4, atol=1e-4)


class Seq2SeqTask(TextTask):
    """The task of an encoder-decoder model: the encoder reads the prompt, the decoder learns the text."""

    def __init__(self, model: Seq2SeqModel, corpus: Corpus[Any], **options: Any) -> None:
        super().__init__(model, corpus, **options)

    def loss(self, rows: Sequence[Row], label_smoothing: float) -> Any:
        """Cross entropy of the decoder's tokens."""
        import torch

        sources, seen = self._whole._pad([row.source for row in rows])
        tokens, mask = self._whole._pad([row.inputs for row in rows])
        logits: Any = self.model(
            input_ids=sources, attention_mask=seen, decoder_input_ids=tokens, decoder_attention_mask=mask,
            use_cache=False,
        ).logits  # fmt: skip
        at, targets = self._places(rows, tokens.shape[1])
        scores = logits.flatten(0, 1)[at].float()
        return torch.nn.functional.cross_entropy(scores, targets, reduction="sum", label_smoothing=label_smoothing)


def _set_dropout(model: Any, share: float) -> None:
    """Set the model's own dropout; where it has none, drop what attention and feed-forward blocks give."""
    import torch

    def drop(module: Any, _inputs: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return drop(module, _inputs, output[0]), *output[1:]
        return torch.nn.functional.dropout(output, share, module.training)

    own = [module for module in model.modules() if isinstance(module, torch.nn.Dropout)]
    for module in own:
        module.p = share
    inner = [module for module in model.modules() if isinstance(getattr(module, "dropout", None), float)]
    for module in inner:
        module.dropout = share
    blocks = [module for name, module in model.named_modules() if name.rpartition(".")[2] in _BLOCKS]
    if not own and not inner and not blocks:
        raise OptionError(f"dropout is {share}, and {type(model).__name__} has nowhere to drop; leave it out")
    for block in [] if own or inner or not share else blocks:
        block.register_forward_hook(drop)
