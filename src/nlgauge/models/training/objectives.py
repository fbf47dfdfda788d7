"""What models learn: texts after their prompts, as NLGauge scores them, or labels of real texts and negatives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from nlgauge.errors import DataError, ModelError, OptionError, argument
from nlgauge.models.language.causal import CausalModel
from nlgauge.models.language.prompting import Prompting
from nlgauge.models.language.seq2seq import Seq2SeqModel
from nlgauge.models.language.transformers_model import generation_config
from nlgauge.models.language.windows import Row
from nlgauge.models.training.data import PromptPair, TrainingCorpus
from nlgauge.models.training.steps import HeldOutLoss, Objective

_BLOCKS = {"self_attn", "attn", "attention", "mlp", "feed_forward"}


class LabelledRow(Protocol):
    """A row with one of two labels: real, or made worse."""

    @property
    def real(self) -> bool:
        """The label."""


Labelled = TypeVar("Labelled", bound=LabelledRow)


class LabelObjective(Objective[Labelled]):
    """Pairs of a real row and its negative, distinguished by one logit per row."""

    skipped = 0

    def units(self, row: Labelled) -> int:  # noqa: ARG002 - rows are alike
        """One label."""
        return 1

    @abstractmethod
    def logits(self, rows: Sequence[Labelled]) -> Any:
        """One logit per row, above 0 for a real one."""

    def loss(self, rows: Sequence[Labelled], label_smoothing: float) -> Any:
        """Cross entropy of the labels."""
        return self.entropy(self.logits(rows), rows, label_smoothing)

    def measure(self, rows: Sequence[Labelled]) -> HeldOutLoss:
        """Cross entropy and right labels."""
        logits = self.logits(rows)
        return HeldOutLoss(float(self.entropy(logits, rows, 0.0)), self.right(logits.tolist(), rows))

    def right(self, logits: Sequence[float], rows: Sequence[Labelled]) -> int:
        """How many logits are on the side of their label."""
        return sum((logit > 0) == row.real for logit, row in zip(logits, rows, strict=True))

    def entropy(self, logits: Any, rows: Sequence[Labelled], smoothing: float) -> Any:
        """Cross entropy of the labels, summed over rows."""
        import torch

        labels = torch.tensor([float(row.real) for row in rows], device=logits.device)
        labels = labels * (1 - smoothing) + smoothing / 2
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")

    def all_logits(self, rows: Sequence[Labelled], size: int) -> Any:
        """The logits of many rows, without gradients, so many at a time."""
        import torch

        with torch.no_grad():
            return torch.cat([self.logits(rows[start : start + size]) for start in range(0, len(rows), size)])

    def require(self, what: str, why: str, **fewest: int) -> None:
        """Raise an error for too few pairs of rows on a side of the split; `why` says what others lack."""
        for side, least in fewest.items():
            if (count := len(getattr(self, side)) // 2) < least:
                purpose = {"training": "train on", "validation": "hold out"}[side]
                found = f"{count} {what} to {purpose} can be used, {self.skipped} {why}"
                raise DataError(f"{found}; expected at least {least}; give more, or longer ones")

    def summary(self, what: str, why: str, empty: int) -> str:
        """How many pairs of rows there are on either side, and how many were left out."""
        sides = f"{len(self.training) // 2} {what} to train on, {len(self.validation) // 2} held out"
        return f"{sides}, one negative of each; {self.skipped} {why} and {empty} empty ones were dropped"


class TextObjective(Objective[Row]):
    """Texts with their ends, after the start context or after a prompt of their own; only texts are learnt."""

    def __init__(
        self,
        model: CausalModel | Seq2SeqModel,
        corpus: TrainingCorpus[Any],
        *,
        dropout: float | None = None,
        prompting: Prompting | None = None,
    ) -> None:
        self._whole, self.model = model, model.model
        self._prompting = prompting or Prompting()
        self.training, self.validation = self._rows(corpus.training), self._rows(corpus.validation)
        if dropout is not None:
            set_dropout(self.model, dropout)

    def units(self, row: Row) -> int:
        """Tokens to predict."""
        return len(row.targets)

    def save(self, folder: Path) -> None:
        """A folder as transformers saves it, tied weights once."""
        ends: dict[str, Any] = {"bos_token_id": self._whole._start[0], "eos_token_id": sorted(self._whole._end_ids)}
        if isinstance(self._whole, Seq2SeqModel):
            ends |= {"decoder_start_token_id": self._whole._id(self._whole.start_context)}
        self.model.generation_config = generation_config(**ends)
        self.model.save_pretrained(folder)
        self._whole.tokenizer.save_pretrained(folder)

    def _rows(self, examples: Sequence[str | PromptPair]) -> list[Row]:
        model = self._whole
        if model.end_token is None or not model.start_context:
            raise ModelError(f"{model.name} has no start or no end token; expected both to learn where texts end")
        end = (model._id(model.end_token),)
        pairs = [self._prompting.both(one) for one in examples]
        texts = model.encode([text for _, text in pairs])
        return [row for (prompt, _), ids in zip(pairs, texts, strict=True) for row in model._rows(prompt, ids + end)]

    def _places(self, rows: Sequence[Row], width: int) -> tuple[Any, Any]:
        """Where a padded batch predicts, counted over all its positions, and what."""
        import torch

        places = [i * width + j for i, row in enumerate(rows) for j in range(len(row.context) - 1, len(row.inputs))]
        targets = [token for row in rows for token in row.targets]
        device = self.model.device
        return torch.tensor(places, device=device), torch.tensor(targets, device=device)


class CausalObjective(TextObjective):
    """The objective of a causal model; at most `logits_at_once` scores of tokens are held at a time."""

    logits_at_once = 1 << 26

    def __init__(self, model: CausalModel, corpus: TrainingCorpus[Any], **options: Any) -> None:
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


class Seq2SeqObjective(TextObjective):
    """The objective of an encoder-decoder model: the encoder reads the prompt, the decoder learns the text."""

    def loss(self, rows: Sequence[Row], label_smoothing: float) -> Any:
        """Cross entropy of the decoder's tokens."""
        import torch

        sources, seen = self._whole._pad([row.source for row in rows])
        tokens, mask = self._whole._pad([row.inputs for row in rows])
        logits: Any = self.model(
            input_ids=sources,
            attention_mask=seen,
            decoder_input_ids=tokens,
            decoder_attention_mask=mask,
            use_cache=False,
        ).logits
        at, targets = self._places(rows, tokens.shape[1])
        scores = logits.flatten(0, 1)[at].float()
        return torch.nn.functional.cross_entropy(scores, targets, reduction="sum", label_smoothing=label_smoothing)


def set_dropout(model: Any, share: float) -> None:
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
        raise OptionError(f"{argument('dropout', share)}: {type(model).__name__} has nowhere to drop; leave it out")
    for block in [] if own or inner or not share else blocks:
        block.register_forward_hook(drop)
