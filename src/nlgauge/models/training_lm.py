"""Training causal language models, from scratch or from weights that exist.

A model learns what NLGauge scores: the start context, the text, the end token, one text a row; a text that is longer
than the window is cut as it is for scoring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nlgauge.errors import ModelError, OptionError
from nlgauge.models.causal import CausalModel
from nlgauge.models.fetch import resolve_model, weights_digest
from nlgauge.models.language import load_language_model
from nlgauge.models.runtime import import_torch
from nlgauge.models.training import Say, Task, train
from nlgauge.models.training_data import Corpus, read_texts
from nlgauge.models.training_run import RunFolder, TrainingCard, TrainingSettings
from nlgauge.models.transformers_model import Row

SCRATCH = "scratch"
END = "<|endoftext|>"

_BLOCKS = {"self_attn", "attn", "attention", "mlp", "feed_forward"}


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A model to train from scratch: of the Llama type, with a byte-level BPE vocabulary of its own."""

    layers: int = 4
    width: int = 192
    heads: int = 4
    vocabulary: int = 4096

    def __post_init__(self) -> None:
        if min(self.layers, self.heads) < 1 or self.width < 1 or self.width % (2 * self.heads):
            found = f"{self.layers} layers, width {self.width}, {self.heads} heads"
            raise OptionError(f"{found}; expected a layer or more and a width that is a multiple of twice the heads")
        if self.vocabulary < 300:
            raise OptionError(f"a vocabulary of {self.vocabulary}; expected at least 300: all bytes and some more")

    def create(self, folder: Path, texts: Sequence[str], window: int, seed: int) -> None:
        """Write the untrained model and a tokeniser that knows `texts` into a folder."""
        torch = import_torch("training")
        import transformers

        tokenizer = _byte_tokenizer(texts, self.vocabulary, window)
        config: Any = transformers.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=self.width,
            intermediate_size=-(-self.width * 8 // 3 // 32) * 32,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            max_position_embeddings=window,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            kind: Any = transformers.LlamaForCausalLM
            model = kind(config)
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)


def default_settings(start: str) -> TrainingSettings:
    """Settings that suit a small model from scratch, or the fine-tuning of a larger one."""
    if start == SCRATCH:
        return TrainingSettings(epochs=20, learning_rate=2e-3, dropout=0.1)
    return TrainingSettings()


def train_language_model(
    files: Sequence[str],
    out: Path,
    *,
    start: str = SCRATCH,
    settings: TrainingSettings | None = None,
    architecture: Architecture | None = None,
    field: str = "",
    validation: float = 0.1,
    limit: int = 0,
    window: int = 512,
    device: str = "cpu",
    threads: int = 0,
    fresh: bool = False,
    say: Say = lambda _line: None,
    progress: bool = False,
) -> TrainingCard:
    """Train a causal model on the texts of files, from scratch or from the weights that `start` names.

    The folder `out` becomes a model like any other. A killed run goes on from its last checkpoint when it is called
    again with the same arguments; a finished one is left as it is.
    """
    settings = settings or default_settings(start)
    if window < 16:
        raise OptionError(f"a window of {window} tokens; expected at least 16")
    if start != SCRATCH and architecture is not None:
        raise OptionError(f"an architecture and a model to start from ({start}); expected one of them")
    shape = architecture or Architecture()
    scratch = {"start": SCRATCH, **asdict(shape)}
    origin = scratch if start == SCRATCH else {"start": weights_digest(resolve_model(start))}
    corpus = Corpus.split(read_texts(files, field=field), validation=validation, limit=limit, seed=settings.seed)
    choices = {"validation": validation, "limit": limit, "window": window}
    run = {"task": "lm", **origin, "data": corpus.digest, **choices, **asdict(settings)}
    with RunFolder.open(out, run, fresh=fresh) as folder:
        if folder.card is not None:
            say(f"{out} is finished already; nothing was done (--fresh starts anew)")
            return folder.card
        counts = f"{len(corpus.training)} texts to train on, {len(corpus.validation)} held out"
        say(f"{counts}; {corpus.empty} empty ones were dropped")
        import_torch("training")
        untrained = folder.checkpoints / "untrained"
        if start == SCRATCH and not untrained.exists():
            folder.make("untrained", lambda place: shape.create(place, corpus.training, window, settings.seed))
        source = str(untrained) if start == SCRATCH else start
        model = load_language_model(source, device=device, threads=threads)
        if not isinstance(model, CausalModel):
            raise ModelError(f"{start} is not a causal language model; expected one to train on texts")
        model.window = min(model.window, window)
        task = CausalTask(model, corpus, dropout=settings.dropout)
        data = {"files": list(files), **corpus.facts()}
        return train(task, settings, folder, data=data, start=start, say=say, progress=progress)


class CausalTask(Task[Row]):
    """Texts after the start context, with their end; at most `logits_at_once` scores of tokens are held at a time."""

    logits_at_once = 1 << 26

    def __init__(self, model: CausalModel, corpus: Corpus, *, dropout: float | None = None) -> None:
        self._whole, self.model = model, model.model
        self.training, self.validation = self._rows(corpus.training), self._rows(corpus.validation)
        self._plain_head = self._head_is_plain()
        if dropout is not None:
            _set_dropout(self.model, dropout)

    def units(self, row: Row) -> int:
        """Tokens to predict."""
        return len(row.targets)

    def loss(self, rows: Sequence[Row], label_smoothing: float) -> Any:
        """Cross entropy; the output layer runs on real positions only, and in pieces where it is large."""
        import torch
        from torch.utils.checkpoint import checkpoint

        tokens, _ = self._whole._pad([row.inputs for row in rows])
        width = tokens.shape[1]
        places = [i * width + j for i, row in enumerate(rows) for j in range(len(row.context) - 1, len(row.inputs))]
        at = torch.tensor(places, device=tokens.device)
        targets: Any = torch.tensor([token for row in rows for token in row.targets], device=tokens.device)
        head: Any = self.model.get_output_embeddings() if self._plain_head else torch.nn.Identity()
        body = self.model.base_model if self._plain_head else self.model
        states: Any = body(input_ids=tokens, use_cache=False)[0].flatten(0, 1)[at]

        def entropy(some: Any, wanted: Any) -> Any:
            logits = head(some).float()
            return torch.nn.functional.cross_entropy(logits, wanted, reduction="sum", label_smoothing=label_smoothing)

        size = max(1, self.logits_at_once // self._whole._vocabulary)
        if len(places) <= size:
            return entropy(states, targets)
        pieces = zip(states.split(size), targets.split(size), strict=True)
        return sum(checkpoint(entropy, *piece, use_reentrant=False, preserve_rng_state=False) for piece in pieces)

    def save(self, folder: Path) -> None:
        """A folder as transformers saves it, tied weights once."""
        import transformers

        kind: Any = transformers.GenerationConfig
        ends = {"bos_token_id": self._whole._start[0], "eos_token_id": sorted(self._whole._end_ids)}
        self.model.generation_config = kind(**ends)
        self.model.save_pretrained(folder)
        self._whole.tokenizer.save_pretrained(folder)

    def _rows(self, texts: Sequence[str]) -> list[Row]:
        model = self._whole
        if model.end_token is None or not model.start_context:
            raise ModelError(f"{model.name} has no start or no end token; expected both to learn where texts end")
        end = (model._id(model.end_token),)
        return [row for ids in model.encode(texts) for row in model._rows("", ids + end)]

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


def _byte_tokenizer(texts: Sequence[str], size: int, window: int) -> Any:
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made: Any = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer: Any = trainers.BpeTrainer(
        vocab_size=size, min_frequency=2, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    kind: Any = transformers.PreTrainedTokenizerFast
    return kind(tokenizer_object=made, bos_token=END, eos_token=END, model_max_length=window)


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
    blocks = [module for name, module in model.named_modules() if name.rpartition(".")[2] in _BLOCKS]
    if not own and not blocks:
        raise OptionError(f"dropout is {share}, and {type(model).__name__} has nowhere to drop; leave it out")
    for block in [] if own or not share else blocks:
        block.register_forward_hook(drop)
