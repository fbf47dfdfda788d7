"""Training language models, from scratch or from weights that exist; long texts are cut as they are for scoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from nlgauge.configured import Options, check_that, option, options_of
from nlgauge.data.columns import Reading
from nlgauge.errors import ModelError, OptionError, argument
from nlgauge.models.fetch import resolve_model
from nlgauge.models.identity import folder_identity
from nlgauge.models.language.base import load_language_model
from nlgauge.models.language.causal import CausalModel
from nlgauge.models.language.prompting import Prompting
from nlgauge.models.language.seq2seq import Seq2SeqModel
from nlgauge.models.runtime import import_torch
from nlgauge.models.training.data import TrainingCorpus, read_texts, read_training_pairs
from nlgauge.models.training.objectives import CausalObjective, Seq2SeqObjective, TextObjective
from nlgauge.models.training.recipe import TrainingRecipe
from nlgauge.models.training.run import TrainingFolder
from nlgauge.models.training.steps import Say

SCRATCH = "scratch"
END = "<|endoftext|>"
_EMBEDDING_SPREAD = 0.05  # a small T5 that begins with its usual 1 learns far more slowly


@dataclass(frozen=True, kw_only=True)
class Architecture(Options):
    """A model to train from scratch, with a byte-level BPE vocabulary of its own.

    A causal one is of the Llama type; one with an encoder of the T5 type, with so many layers on either side.
    """

    layers: int = option(4, "From scratch: layers.", metavar="N")
    width: int = option(192, "From scratch: size of a layer.", metavar="N")
    heads: int = option(4, "From scratch: attention heads.", metavar="N")
    vocabulary: int = option(4096, "From scratch: most tokens there are.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.layers >= 1, "layers", self.layers, "at least 1")
        check_that(self.heads >= 1, "heads", self.heads, "at least 1")
        fits = self.width >= 1 and self.width % (2 * self.heads) == 0
        check_that(fits, "width", self.width, f"a multiple of twice the heads, which are {self.heads}")
        check_that(self.vocabulary >= 300, "vocabulary", self.vocabulary, "at least 300: all bytes and some more")

    @property
    def feed_forward_width(self) -> int:
        """The width of feed-forward layers, which are gated."""
        return -(-self.width * 8 // 3 // 32) * 32


@dataclass(frozen=True, kw_only=True)
class LanguageModelRecipe(Architecture, TrainingRecipe):
    """Train a causal language model from scratch, or fine-tune one.

    With `pairs` it learns responses after their prompts, and not the prompts. Keeps the weights with the best
    validation loss. A killed run resumes from its last checkpoint when the same command is given again, and ends with
    the same weights. The folder works wherever a model is named. From scratch, the defaults are 20 epochs, a learning
    rate of 0.002 and a dropout of 0.1, else 3 epochs, 0.00005 and the model's own dropout; 16 texts per step.
    """

    name: ClassVar[str] = "lm"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge train lm --data stories.txt --from scratch -o stories-lm --minutes 10",
        "nlgauge train lm --data stories.jsonl --text story --from smollm2 -o tuned --epochs 1",
        r"nlgauge train lm --pairs --data dialogs.txt --template '{context}\n' -o chat --label-smoothing 0.2",
        "nlgauge generate prompts.txt --model stories-lm -o sets.jsonl",
    )
    expected: ClassVar[str] = "a causal language model"
    kind: ClassVar[type[CausalModel] | type[Seq2SeqModel]] = CausalModel
    learnt: ClassVar[type[TextObjective]] = CausalObjective

    start: str = option(
        SCRATCH, "Catalogue name, folder, hub name, or scratch.", metavar="NAME|FOLDER|scratch", flags=("--from",)
    )
    pairs: bool = option(False, "Learn responses after their prompts; train seq2seq always does.")
    template: str | None = option(
        None,
        r"Pairs: what comes before a response; {context} is replaced, and \n is a line break.",
        metavar="TEXT",
        escapes=True,
    )
    join: str | None = option(
        None,
        "Pairs: between prompt and response; default: a space, unless the template ends in white space.",
        metavar="TEXT",
        escapes=True,
    )
    context_turns: int = option(1, "Dialogs: turns before a response, at most.", metavar="N")
    window: int = option(512, "Longest row of tokens; longer texts are cut.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        changed = [one.name for one in options_of(type(self)) if getattr(self, one.name) != one.default]
        shaped = [one.name for one in options_of(Architecture) if one.name in changed]
        if self.start != SCRATCH and shaped:
            found = f"{argument(shaped[0], getattr(self, shaped[0]))} requires {argument('start', SCRATCH)}"
            raise OptionError(f"{found}; {self.start} has a shape already")
        for name in ("template", "join", "context_turns"):
            if name in changed and not self.is_paired:
                raise OptionError(f"{argument(name)} requires {argument('pairs')}")
        self.prompting.prompt("")

    @property
    def is_paired(self) -> bool:
        """Whether examples are prompts with responses."""
        return self.pairs

    @property
    def prompting(self) -> Prompting:
        """How a context becomes a prompt."""
        return Prompting(self.template or "{context}", self.join)

    @property
    def origin(self) -> str:
        """The model that training starts from."""
        return self.start

    def usual(self) -> Mapping[str, Any]:
        """Settings that suit a small model from scratch, or the fine-tuning of a larger one."""
        return {"epochs": 20, "learning_rate": 2e-3, "dropout": 0.1} if self.start == SCRATCH else {}

    def record(self) -> dict[str, Any]:
        """The hash of the model or the shape, and how prompts are made."""
        shape = {one.name: getattr(self, one.name) for one in options_of(Architecture)}
        scratch = {"start": SCRATCH, **shape}
        found = scratch if self.start == SCRATCH else {"start": folder_identity(resolve_model(self.start))}
        how = self.prompting
        return found | ({"template": how.template, "join": how.between} if self.is_paired else {})

    def read(self, paths: Sequence[str], reading: Reading) -> tuple[list[Any], dict[str, Any]]:
        """Texts, or pairs."""
        if self.is_paired:
            return read_training_pairs(paths, reading, context_turns=self.context_turns), {}
        return read_texts(paths, reading), {}

    def objective(self, corpus: TrainingCorpus[Any], folder: TrainingFolder, device: str, say: Say) -> TextObjective:
        """Texts after their prompts, of a model that is made first where it starts from scratch."""
        what = "pairs" if self.is_paired else "texts"
        counts = f"{len(corpus.training)} {what} to train on, {len(corpus.validation)} held out"
        say(f"{counts}; {corpus.empty} empty ones were dropped")
        untrained = folder.checkpoints / "untrained"
        if self.start == SCRATCH and not untrained.exists():
            texts = ["".join(self.prompting.both(one)) for one in corpus.training]
            folder.make("untrained", lambda place: self.create(place, texts))
        model = load_language_model(str(untrained) if self.start == SCRATCH else self.start, device=device)
        if not isinstance(model, self.kind):
            raise ModelError(f"{self.start} is not {self.expected}; expected one to train on {what}")
        model.window = min(model.window, self.window)
        return self.learnt(model, corpus, dropout=self.settings.dropout, prompting=self.prompting)

    def create(self, folder: Path, texts: Sequence[str]) -> None:
        """Write the untrained model and a tokeniser that knows `texts` into a folder."""
        torch = import_torch("training")
        tokenizer = _byte_tokenizer(texts, self.vocabulary, self.window)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = self._untrained(tokenizer)
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)

    def _untrained(self, tokenizer: Any) -> Any:
        return _initialised(
            "LlamaForCausalLM",
            "LlamaConfig",
            vocab_size=len(tokenizer),
            hidden_size=self.width,
            intermediate_size=self.feed_forward_width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            max_position_embeddings=self.window,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )


@dataclass(frozen=True, kw_only=True)
class Seq2SeqRecipe(LanguageModelRecipe):
    """Train a model with encoder and decoder on prompts and responses, from scratch, or fine-tune one.

    Pairs come from tables with columns context and text, or from dialogs, where every turn but the first is a response.
    All else is as with train lm.
    """

    name: ClassVar[str] = "seq2seq"
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge train seq2seq --data train.jsonl --held-out valid.jsonl -o chat --label-smoothing 0.2 --dropout 0.4",
        "nlgauge study ruq --model chat --train train.jsonl --test test.jsonl",
    )
    expected: ClassVar[str] = "a model with encoder and decoder"
    kind: ClassVar[type[CausalModel] | type[Seq2SeqModel]] = Seq2SeqModel
    learnt: ClassVar[type[TextObjective]] = Seq2SeqObjective

    @property
    def is_paired(self) -> bool:
        """Always."""
        return True

    def _untrained(self, tokenizer: Any) -> Any:
        model = _initialised(
            "T5ForConditionalGeneration",
            "T5Config",
            vocab_size=len(tokenizer),
            d_model=self.width,
            d_kv=self.width // self.heads,
            d_ff=self.feed_forward_width,
            num_layers=self.layers,
            num_heads=self.heads,
            feed_forward_proj="gated-gelu",
            n_positions=self.window,
            tie_word_embeddings=True,
            scale_decoder_outputs=False,
            pad_token_id=tokenizer.eos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.bos_token_id,
        )
        model.shared.weight.data.normal_(std=_EMBEDDING_SPREAD)
        return model


def _initialised(model: str, config: str, **shape: Any) -> Any:
    """An untrained model of transformers."""
    import transformers

    return getattr(transformers, model)(getattr(transformers, config)(**shape))


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
