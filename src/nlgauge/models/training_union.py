"""Training UNION: an encoder learns to tell real stories from negatives (Guan & Huang 2020; paper 4, section 4.1).

UNION's authors tune BERT and add a loss that reconstructs the real story from the negative through BERT's own output
layer. That loss is off by default here (`reconstruction=0`): MiniLM has no trained output layer, so a linear layer
that begins at random is compared with the word embeddings instead. Each place of a negative predicts the token that
the real story has at that place, as far as both reach. Word embeddings are not trained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from nlgauge.engine.cache import file_digest
from nlgauge.errors import DataError, OptionError
from nlgauge.models.encoding import padded, tokenised, window_of
from nlgauge.models.fetch import resolve_model, weights_digest
from nlgauge.models.negatives import TECHNIQUES, NegativeMaker, Pool, read_antonyms
from nlgauge.models.runtime import import_torch
from nlgauge.models.story_classifier import TASK
from nlgauge.models.trained import save_head
from nlgauge.models.training import Measured, Say, Task, train
from nlgauge.models.training_data import FEWEST_HELD_OUT, FEWEST_TEXTS, Corpus, read_texts
from nlgauge.models.training_run import RunFolder, TrainingCard, TrainingSettings
from nlgauge.models.training_tasks import _set_dropout
from nlgauge.text.words import one_line

UNION_SETTINGS = TrainingSettings(epochs=3, batch_size=16, learning_rate=1e-4, patience=3)
SHORTEST_WINDOW = 16


@dataclass(frozen=True)
class StoryRow:
    """A story or a negative as the encoder reads it; `original` are the tokens that a negative was made from."""

    tokens: dict[str, Any]
    real: bool
    techniques: tuple[str, ...] = ()
    original: tuple[int, ...] = ()


class UnionTask(Task[StoryRow]):
    """Real stories and one negative of each; stories that no technique changes within the window are left out."""

    def __init__(
        self,
        tokenizer: Any,
        encoder: Any,
        corpus: Corpus[str],
        *,
        settings: TrainingSettings,
        window: int,
        reconstruction: float = 0.0,
        antonyms: dict[str, tuple[str, ...]] | None = None,
        scramble: bool = False,
    ) -> None:
        from nlgauge.models.networks import StoryNetwork, freeze_words

        self._tokenizer, self._window, self._reconstruction = tokenizer, window, reconstruction
        self._seed, self._antonyms, self._scramble = settings.seed, antonyms or {}, scramble
        self.skipped = 0
        self.training = self._rows(corpus.training)
        self.validation = self._rows(corpus.validation)
        for rows, fewest, what in (
            (self.training, FEWEST_TEXTS // 2, "train on"),
            (self.validation, FEWEST_HELD_OUT, "hold out"),
        ):
            if len(rows) < 2 * fewest:
                raise DataError(
                    f"{len(rows) // 2} stories to {what} have a negative, and {self.skipped} have none; expected at "
                    f"least {fewest}, of several sentences each; give more stories, or longer ones"
                )
        self.model = StoryNetwork(encoder, seed=settings.seed, reconstruct=reconstruction > 0)
        freeze_words(encoder)
        if settings.dropout is not None:
            _set_dropout(encoder, settings.dropout)

    def units(self, row: StoryRow) -> int:  # noqa: ARG002 - rows are alike
        """One label."""
        return 1

    def length(self, row: StoryRow) -> int:
        """Tokens."""
        return len(row.tokens["input_ids"])

    def loss(self, rows: Sequence[StoryRow], label_smoothing: float) -> Any:
        """Cross entropy of the labels and, while learning, the reconstruction of real stories from negatives."""
        logits, states = self._read(rows)
        loss = self._entropy(logits, rows, label_smoothing)
        return loss + self._reconstruction * self._rebuilt(rows, states) if self._reconstruction else loss

    def measure(self, rows: Sequence[StoryRow]) -> Measured:
        """Cross entropy and right labels."""
        logits, _ = self._read(rows)
        right = sum((logit > 0) == row.real for logit, row in zip(logits.tolist(), rows, strict=True))
        return Measured(float(self._entropy(logits, rows, 0.0)), right)

    def measures(self) -> dict[str, Any] | msgspec.UnsetType:
        """Areas under the curve on the held-out stories, of all negatives and of those that one technique alone made.

        Chains of several say little about a technique: what a classifier sees there may be the others.
        """
        import torch
        from scipy.stats import mannwhitneyu

        order = sorted(self.validation, key=self.length, reverse=True)
        logits: list[float] = []
        with torch.no_grad():
            for start in range(0, len(order), 16):
                logits += self._read(order[start : start + 16])[0].tolist()
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

        right = sum((logit > 0) == row.real for logit, row in zip(logits, order, strict=True))
        return {
            "accuracy": round(right / len(order), 4),
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
        maker = NegativeMaker(Pool.of(lines), self._seed, self._antonyms)
        pairs = [(line, negative) for line in lines if (negative := maker.make(line))]
        seen = self._tokens([line for line, _ in pairs])
        changed = self._tokens([negative.text for _, negative in pairs])
        rows: list[StoryRow] = []
        for (line, negative), real, fake in zip(pairs, seen, changed, strict=True):
            if real["input_ids"] != fake["input_ids"]:
                swap = self._scramble and _coin(self._seed, line)
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

    def _entropy(self, logits: Any, rows: Sequence[StoryRow], smoothing: float) -> Any:
        import torch

        labels = torch.tensor([float(row.real) for row in rows], device=logits.device)
        labels = labels * (1 - smoothing) + smoothing / 2
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")

    def _rebuilt(self, rows: Sequence[StoryRow], states: Any) -> Any:
        """Cross entropy of a real story's tokens at the places of its negative, a mean a row, summed over rows."""
        import torch

        total = torch.zeros((), device=states.device)
        for row, own in zip(rows, states, strict=True):
            if row.original:
                count = min(len(row.tokens["input_ids"]), len(row.original))
                wanted = torch.tensor(row.original[:count], device=states.device)
                total = total + torch.nn.functional.cross_entropy(self.model.words(own[:count]).float(), wanted)
        return total


def _coin(seed: int, text: str) -> bool:
    return bool(hashlib.blake2b(f"scramble {seed}\n{text}".encode("utf-8", "surrogatepass")).digest()[0] & 1)


def train_union(
    files: Sequence[str],
    out: Path,
    *,
    encoder: str = "minilm",
    settings: TrainingSettings = UNION_SETTINGS,
    field: str = "",
    validation: float = 0.1,
    held_out: Sequence[str] = (),
    limit: int = 0,
    window: int = 128,
    reconstruction: float = 0.0,
    antonyms: str = "",
    scramble_labels: bool = False,
    device: str = "cpu",
    threads: int = 0,
    fresh: bool = False,
    say: Say = lambda _line: None,
    progress: bool = False,
) -> TrainingCard:
    """Train UNION's classifier on the stories of files; the folder `out` works as `union:model=FOLDER`.

    Half of what it learns from are negatives of the stories (`nlgauge.models.negatives`). `scramble_labels` is a
    control: the two labels of a story and its negative are swapped for half of the stories, so that a held-out accuracy
    far from .5 would show a leak. A killed run goes on from its last checkpoint when it is called again with the same
    arguments.
    """
    if window < SHORTEST_WINDOW:
        raise OptionError(f"a window of {window} tokens; expected at least {SHORTEST_WINDOW}")
    if not 0 <= reconstruction < 1000:
        raise OptionError(f"reconstruction is {reconstruction:g}; expected a weight of at least 0, such as 0.1")
    table = read_antonyms(antonyms) if antonyms else {}
    place = resolve_model(encoder)
    corpus: Corpus[str] = Corpus.split(
        read_texts(files, field=field),
        validation=validation,
        limit=limit,
        seed=settings.seed,
        held_out=read_texts(held_out, field=field) if held_out else None,
    )
    choices = {
        "validation": "given" if held_out else validation,
        "limit": limit,
        "window": window,
        "reconstruction": reconstruction,
        "antonyms": file_digest(antonyms) if antonyms else "",
        "scramble_labels": scramble_labels,
    }
    run = {"task": TASK, "start": weights_digest(place), "data": corpus.digest, **choices, **asdict(settings)}
    with RunFolder.open(out, run, fresh=fresh) as folder:
        if folder.card is not None:
            say(f"{out} is finished already; nothing was done (--fresh starts anew)")
            return folder.card
        torch = import_torch("training")
        from nlgauge.models.networks import load_encoder

        if threads:
            torch.set_num_threads(threads)
        tokenizer, network = load_encoder(place, device)
        task = UnionTask(
            tokenizer,
            network,
            corpus,
            settings=settings,
            window=min(window, window_of(network, tokenizer)),
            reconstruction=reconstruction,
            antonyms=table,
            scramble=scramble_labels,
        )
        say(
            f"{len(task.training) // 2} stories to train on, {len(task.validation) // 2} held out, a negative of each; "
            f"{task.skipped} without a negative and {corpus.empty} empty ones were dropped"
        )
        data = {"files": list(files), **({"held_out": list(held_out)} if held_out else {}), **corpus.facts()}
        return train(task, settings, folder, data=data, start=encoder, say=say, progress=progress)
