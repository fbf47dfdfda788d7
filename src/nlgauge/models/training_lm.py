"""Training language models, from scratch or from weights that exist.

A model learns what NLGauge scores: a text with its end token, after the start context or after a prompt. A text or
prompt that is longer than the window is cut as it is for scoring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from nlgauge.errors import ModelError, OptionError
from nlgauge.models.causal import CausalModel
from nlgauge.models.fetch import resolve_model, weights_digest
from nlgauge.models.language import load_language_model
from nlgauge.models.prompting import Prompting
from nlgauge.models.runtime import import_torch
from nlgauge.models.seq2seq import Seq2SeqModel
from nlgauge.models.training import Say, train
from nlgauge.models.training_data import Corpus, Pair, read_texts, read_training_pairs
from nlgauge.models.training_run import RunFolder, TrainingCard, TrainingSettings
from nlgauge.models.training_tasks import CausalTask, Seq2SeqTask, TextTask

Kind = Literal["lm", "seq2seq"]
SCRATCH = "scratch"
END = "<|endoftext|>"
_EMBEDDING_SPREAD = 0.05  # a small T5 that begins with its usual 1 learns far more slowly


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A model to train from scratch, with a byte-level BPE vocabulary of its own.

    A causal one is of the Llama type; one with an encoder of the T5 type, with so many layers on either side.
    """

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

    def create(self, folder: Path, texts: Sequence[str], window: int, seed: int, kind: Kind = "lm") -> None:
        """Write the untrained model and a tokeniser that knows `texts` into a folder."""
        torch = import_torch("training")

        tokenizer = _byte_tokenizer(texts, self.vocabulary, window)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = (self._llama if kind == "lm" else self._t5)(tokenizer, window)
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)

    @property
    def _inner(self) -> int:
        """The width of feed-forward layers, which are gated."""
        return -(-self.width * 8 // 3 // 32) * 32

    def _llama(self, tokenizer: Any, window: int) -> Any:
        import transformers

        config: Any = transformers.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=self.width,
            intermediate_size=self._inner,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            max_position_embeddings=window,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
        kind: Any = transformers.LlamaForCausalLM
        return kind(config)

    def _t5(self, tokenizer: Any, window: int) -> Any:
        import transformers

        configured: Any = transformers.T5Config
        config = configured(
            vocab_size=len(tokenizer),
            d_model=self.width,
            d_kv=self.width // self.heads,
            d_ff=self._inner,
            num_layers=self.layers,
            num_heads=self.heads,
            feed_forward_proj="gated-gelu",
            n_positions=window,
            tie_word_embeddings=True,
            scale_decoder_outputs=False,
            pad_token_id=tokenizer.eos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.bos_token_id,
        )
        kind: Any = transformers.T5ForConditionalGeneration
        model = kind(config)
        model.shared.weight.data.normal_(std=_EMBEDDING_SPREAD)
        return model


def default_settings(start: str) -> TrainingSettings:
    """Settings that suit a small model from scratch, or the fine-tuning of a larger one."""
    if start == SCRATCH:
        return TrainingSettings(epochs=20, learning_rate=2e-3, dropout=0.1)
    return TrainingSettings()


def train_language_model(
    files: Sequence[str],
    out: Path,
    *,
    kind: Kind = "lm",
    pairs: bool = False,
    prompting: Prompting | None = None,
    context_turns: int = 1,
    start: str = SCRATCH,
    settings: TrainingSettings | None = None,
    architecture: Architecture | None = None,
    field: str = "",
    validation: float = 0.1,
    held_out: Sequence[str] = (),
    limit: int = 0,
    window: int = 512,
    device: str = "cpu",
    threads: int = 0,
    fresh: bool = False,
    say: Say = lambda _line: None,
    progress: bool = False,
) -> TrainingCard:
    """Train a model on the examples of files, from scratch or from the weights that `start` names.

    A causal model (`kind="lm"`) learns texts or, with `pairs`, responses after their prompts; an encoder-decoder model
    (`"seq2seq"`) learns pairs. Only responses are learnt, not prompts. Examples are held out from the files, or are
    those of the files `held_out`.

    The folder `out` becomes a model like any other. A killed run goes on from its last checkpoint when it is called
    again with the same arguments; a finished one is left as it is.
    """
    settings = settings or default_settings(start)
    if kind not in get_args(Kind):
        raise OptionError(f"a model of the kind '{kind}'; expected one of {', '.join(get_args(Kind))}")
    if window < 16:
        raise OptionError(f"a window of {window} tokens; expected at least 16")
    if start != SCRATCH and architecture is not None:
        raise OptionError(f"an architecture and a model to start from ({start}); expected one of them")
    paired = pairs or kind == "seq2seq"
    if not paired and (prompting is not None or context_turns != 1):
        raise OptionError("a template or a number of turns goes with prompts; expected pairs")
    if paired and field:
        raise OptionError(f"field '{field}' goes with single texts; pairs stand in 'context' and 'text'")
    shape = architecture or Architecture()
    scratch = {"start": SCRATCH, **asdict(shape)}
    origin = scratch if start == SCRATCH else {"start": weights_digest(resolve_model(start))}

    def read(paths: Sequence[str]) -> list[Any]:
        return read_training_pairs(paths, context_turns=context_turns) if paired else read_texts(paths, field=field)

    corpus: Corpus[Any] = Corpus.split(
        read(files),
        validation=validation,
        limit=limit,
        seed=settings.seed,
        held_out=read(held_out) if held_out else None,
    )
    how = prompting or Prompting()
    choices = {"validation": "given" if held_out else validation, "limit": limit, "window": window}
    choices |= {"template": how.template, "join": how.between} if paired else {}
    run = {"task": kind, **origin, "data": corpus.digest, **choices, **asdict(settings)}
    with RunFolder.open(out, run, fresh=fresh) as folder:
        if folder.card is not None:
            say(f"{out} is finished already; nothing was done (--fresh starts anew)")
            return folder.card
        what = "pairs" if paired else "texts"
        counts = f"{len(corpus.training)} {what} to train on, {len(corpus.validation)} held out"
        say(f"{counts}; {corpus.empty} empty ones were dropped")
        import_torch("training")
        untrained = folder.checkpoints / "untrained"
        if start == SCRATCH and not untrained.exists():
            texts = _as_written(corpus.training, how)
            folder.make("untrained", lambda place: shape.create(place, texts, window, settings.seed, kind))
        source = str(untrained) if start == SCRATCH else start
        model = load_language_model(source, device=device, threads=threads)
        if not isinstance(model, CausalModel | Seq2SeqModel) or isinstance(model, CausalModel) != (kind == "lm"):
            expected = "a causal language model" if kind == "lm" else "a model with encoder and decoder"
            raise ModelError(f"{start} is not {expected}; expected one to train on {what}")
        model.window = min(model.window, window)
        options: dict[str, Any] = {"dropout": settings.dropout, "prompting": how}
        task: TextTask = (
            CausalTask(model, corpus, **options)
            if isinstance(model, CausalModel)
            else Seq2SeqTask(model, corpus, **options)
        )
        data = {"files": list(files), **({"held_out": list(held_out)} if held_out else {}), **corpus.facts()}
        return train(task, settings, folder, data=data, start=start, say=say, progress=progress)


def _as_written(examples: Sequence[str | Pair], how: Prompting) -> list[str]:
    """Examples as a tokeniser meets them."""
    return [one if isinstance(one, str) else f"{how.prompt(one.context)}{how.text(one.text)}" for one in examples]


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
