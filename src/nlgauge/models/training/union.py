"""Training UNION: an encoder learns to tell real stories from negatives (Guan & Huang 2020; paper 4, section 4.1).

UNION's authors tune BERT and add a loss that reconstructs the real story from the negative through BERT's own output
layer. That loss is off by default here (`reconstruction=0`): MiniLM has no trained output layer, so a linear layer
that begins at random is compared with the word embeddings, which are not trained, instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from nlgauge.configured import check_that, option
from nlgauge.data.columns import Reading
from nlgauge.engine.cache import file_digest
from nlgauge.models.encoders.encoding import padded, tokenised, window_of
from nlgauge.models.encoders.story_classifier import TASK
from nlgauge.models.fetch import resolve_model
from nlgauge.models.identity import folder_identity
from nlgauge.models.training.data import FEWEST_HELD_OUT, FEWEST_TEXTS, TrainingCorpus, read_texts
from nlgauge.models.training.negatives import TECHNIQUES, NegativeMaker, StoryPool, read_antonyms
from nlgauge.models.training.objectives import LabelObjective, set_dropout
from nlgauge.models.training.recipe import TrainingRecipe
from nlgauge.models.training.run import TrainingFolder, save_head
from nlgauge.models.training.settings import TrainingSettings
from nlgauge.models.training.steps import Say
from nlgauge.text.words import one_line


@dataclass(frozen=True)
class StoryRow:
    """A story or a negative as the encoder reads it; `original` are the tokens that a negative was made from."""

    tokens: dict[str, Any]
    real: bool
    techniques: tuple[str, ...] = ()
    original: tuple[int, ...] = ()


class UnionObjective(LabelObjective[StoryRow]):
    """Real stories and one negative of each; stories that no technique changes within the window are left out."""

    def __init__(
        self,
        tokenizer: Any,
        encoder: Any,
        corpus: TrainingCorpus[str],
        *,
        settings: TrainingSettings,
        window: int,
        reconstruction: float = 0.0,
        antonyms: dict[str, tuple[str, ...]] | None = None,
        scramble: bool = False,
    ) -> None:
        from nlgauge.models.encoders.networks import StoryNetwork, freeze_words

        self._tokenizer, self._window, self._reconstruction = tokenizer, window, reconstruction
        self._seed, self._antonyms, self._scramble = settings.seed, antonyms or {}, scramble
        self.training, self.validation = self._rows(corpus.training), self._rows(corpus.validation)
        why = "have no negative, since they have too few sentences"
        self.require("stories", why, training=FEWEST_TEXTS // 2, validation=FEWEST_HELD_OUT)
        self.model = StoryNetwork(encoder, seed=settings.seed, reconstruct=reconstruction > 0)
        freeze_words(encoder)
        if settings.dropout is not None:
            set_dropout(encoder, settings.dropout)

    def length(self, row: StoryRow) -> int:
        """Tokens."""
        return len(row.tokens["input_ids"])

    def loss(self, rows: Sequence[StoryRow], label_smoothing: float) -> Any:
        """Cross entropy of the labels and, while learning, the reconstruction of real stories from negatives."""
        logits, states = self._read(rows)
        loss = self.entropy(logits, rows, label_smoothing)
        return loss + self._reconstruction * self._rebuilt(rows, states) if self._reconstruction else loss

    def logits(self, rows: Sequence[StoryRow]) -> Any:
        """One logit per story."""
        return self._read(rows)[0]

    def measures(self) -> dict[str, Any] | msgspec.UnsetType:
        """Areas under the curve on the held-out stories, of all negatives and of those that one technique alone made.

        Chains of several say little about a technique: what a classifier sees there may be the others.
        """
        from scipy.stats import mannwhitneyu

        order = sorted(self.validation, key=self.length, reverse=True)
        logits: list[float] = self.all_logits(order, 16).tolist()
        real = [logit for logit, row in zip(logits, order, strict=True) if not row.techniques]

        def area(technique: str) -> float | None:
            worse = [
                logit
                for logit, row in zip(logits, order, strict=True)
                if row.techniques and all(name.startswith(technique) for name in row.techniques)
            ]
            if not worse:
                return None
            return round(float(mannwhitneyu(real, worse).statistic) / (len(real) * len(worse)), 4)

        return {
            "accuracy": round(self.right(logits, order) / len(order), 4),
            "auc": area(""),
            "auc_by_technique": {technique: area(technique) for technique in TECHNIQUES},
            "skipped": self.skipped,
        }

    def save(self, folder: Path) -> None:
        """The encoder and its tokeniser as transformers saves them, and the head apart."""
        self.model.encoder.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)
        save_head(folder, self.model.head.state_dict())

    def _rows(self, stories: Sequence[str]) -> list[StoryRow]:
        """Both sides of every story, cut to what the encoder sees before a negative is made of it."""
        lines = self._cut([one_line(story) for story in stories])
        maker = NegativeMaker(StoryPool.of(lines), self._seed, self._antonyms)
        pairs = [(line, negative) for line in lines if (negative := maker.make(line))]
        seen = self._tokens([line for line, _ in pairs])
        changed = self._tokens([negative.text for _, negative in pairs])
        rows: list[StoryRow] = []
        for (line, negative), real, fake in zip(pairs, seen, changed, strict=True):
            if real["input_ids"] != fake["input_ids"]:
                about = f"scramble {self._seed}\n{line}".encode("utf-8", "surrogatepass")
                swap = self._scramble and bool(hashlib.blake2b(about).digest()[0] & 1)
                rows.append(StoryRow(real, not swap))
                rows.append(StoryRow(fake, swap, negative.techniques, tuple(real["input_ids"])))
        self.skipped += len(stories) - len(rows) // 2
        return rows

    def _cut(self, lines: list[str]) -> list[str]:
        """What of each story the encoder sees."""
        if not self._tokenizer.is_fast:
            return lines
        found = self._tokenizer(lines, truncation=True, max_length=self._window, return_offsets_mapping=True)
        return [
            line[: max(end for _, end in spans)] for line, spans in zip(lines, found["offset_mapping"], strict=True)
        ]

    def _tokens(self, texts: list[str]) -> list[dict[str, Any]]:
        return tokenised(self._tokenizer, texts, self._window) if texts else []

    def _read(self, rows: Sequence[StoryRow]) -> tuple[Any, Any]:
        device = str(self.model.encoder.device)
        found: tuple[Any, Any] = self.model(padded(self._tokenizer, [row.tokens for row in rows], device))
        return found

    def _rebuilt(self, rows: Sequence[StoryRow], states: Any) -> Any:
        """Cross entropy of a real story's tokens at the places of its negative, one mean per row, summed over rows."""
        import torch

        total = torch.zeros((), device=states.device)
        for row, own in zip(rows, states, strict=True):
            if row.original:
                count = min(len(row.tokens["input_ids"]), len(row.original))
                wanted = torch.tensor(row.original[:count], device=states.device)
                total = total + torch.nn.functional.cross_entropy(self.model.words(own[:count]).float(), wanted)
        return total


@dataclass(frozen=True, kw_only=True)
class UnionRecipe(TrainingRecipe):
    """Train UNION: a classifier that tells real stories from stories made worse on purpose.

    Each story gets one negative: words or sentences repeated, replaced or put in another order, negation altered
    (`models/training/negatives.py`). The folder works as union:model=DIR. On two cores, 4,000 stories take some minutes
    per epoch. Resumes after a kill. The defaults are 3 epochs, 16 texts per step, a learning rate of 0.0001 and a
    patience of 3. `scramble_labels` is a control: the two labels of a story and its negative are swapped for half of
    the stories, so that a held-out accuracy far from .5 would show a leak.
    """

    name: ClassVar[str] = TASK
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge train union --data stories.jsonl --encoder minilm -o my-union",
        "nlgauge score written.jsonl -m union:model=my-union",
        "nlgauge train union --data stories.jsonl --scramble-labels -o control",
    )

    encoder: str = option("minilm", "Encoder: catalogue name, folder or hub name.", metavar="NAME|FOLDER")
    antonyms: str = option(
        "",
        "Antonyms for substitution, in lines such as hot|||/r/Antonym|||cold; else words of a like class.",
        metavar="FILE",
    )
    reconstruction: float = option(0.0, "Weight of the reconstruction loss.", metavar="WEIGHT")
    scramble_labels: bool = option(False, "Control: labels by chance; held-out accuracy must be near .5.")

    def __post_init__(self) -> None:
        super().__post_init__()
        is_weight = 0 <= self.reconstruction < 1000
        check_that(is_weight, "reconstruction", self.reconstruction, "a weight of at least 0, such as 0.1")

    @property
    def origin(self) -> str:
        """The encoder."""
        return self.encoder

    def usual(self) -> Mapping[str, Any]:
        """Settings that suit a small encoder."""
        return {"epochs": 3, "batch_size": 16, "learning_rate": 1e-4, "patience": 3}

    def record(self) -> dict[str, Any]:
        """The encoder's hash, and how negatives are made and learnt."""
        if self.antonyms:
            read_antonyms(self.antonyms)
        return {
            "start": folder_identity(resolve_model(self.encoder)),
            "reconstruction": self.reconstruction,
            "antonyms": file_digest(self.antonyms) if self.antonyms else "",
            "scramble_labels": self.scramble_labels,
        }

    def read(self, paths: Sequence[str], reading: Reading) -> tuple[list[Any], dict[str, Any]]:
        """Stories."""
        return read_texts(paths, reading), {}

    def objective(self, corpus: TrainingCorpus[str], folder: TrainingFolder, device: str, say: Say) -> UnionObjective:
        """Real stories against negatives."""
        from nlgauge.models.encoders.networks import load_encoder

        del folder
        tokenizer, network = load_encoder(resolve_model(self.encoder), device)
        made = UnionObjective(
            tokenizer,
            network,
            corpus,
            settings=self.settings,
            window=min(self.window, window_of(network, tokenizer)),
            reconstruction=self.reconstruction,
            antonyms=read_antonyms(self.antonyms) if self.antonyms else {},
            scramble=self.scramble_labels,
        )
        say(made.summary("stories", "without a negative", corpus.empty))
        return made
