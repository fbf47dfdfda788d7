"""Training RUBER's unreferenced part: texts that belong to a context against texts of others (Tao et al. 2018).

Vectors of contexts and texts are pooled from word vectors (RUBER has a recurrent network), or from the token states of
an encoder, tuned or not, as in RUBER-BERT (Ghazarian et al. 2019). The loss is its cross entropy (RUBER has a margin).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np

from nlgauge.configured import option
from nlgauge.data.columns import Reading
from nlgauge.data.plain_tables import read_table
from nlgauge.data.sources.files import detect_format
from nlgauge.errors import DataError, ModelError, OptionError, argument
from nlgauge.models.encoders.encoding import window_of
from nlgauge.models.encoders.pooled_reader import PooledReader, Pooling
from nlgauge.models.encoders.ruber_model import FIRST_SENTENCE, GIVEN, TASK, PairReading, story_pair
from nlgauge.models.fetch import resolve_model
from nlgauge.models.training.data import (
    FEWEST_HELD_OUT,
    PromptPair,
    TrainingCorpus,
    hashed,
    read_texts,
    read_training_pairs,
)
from nlgauge.models.training.objectives import LabelObjective, set_dropout
from nlgauge.models.training.recipe import TrainingRecipe
from nlgauge.models.training.run import TrainingFolder, save_head
from nlgauge.models.training.steps import Say

HIDDEN = 128
_ENDS = (0.01, 0.99)  # of the scores that training texts and their negatives have
_TRIES = 20
_AT_ONCE = 32


@dataclass(frozen=True)
class PairRow:
    """A context and a text as the network reads them, and whether they belong together."""

    context: Any
    text: Any
    real: bool
    size: int


class RuberObjective(LabelObjective[PairRow]):
    """Pairs and, for each, the same context with a text of another context of the same side of the split."""

    def __init__(self, reading: PairReading, corpus: TrainingCorpus[PromptPair], *, seed: int) -> None:
        self._reading, self.model = reading, reading.network
        self._unrelated: list[tuple[str, str]] = []
        self.training, self.validation = self._rows(corpus.training, seed), self._rows(corpus.validation, seed)
        why = "have no word that the model knows, or no text of another context beside them"
        self.require("pairs", why, training=FEWEST_HELD_OUT, validation=FEWEST_HELD_OUT)

    def length(self, row: PairRow) -> int:
        """Tokens of the text, where there are tokens."""
        return row.size

    def logits(self, rows: Sequence[PairRow]) -> Any:
        """One logit per pair."""
        return self._reading.logits([row.context for row in rows], [row.text for row in rows])

    def measures(self) -> dict[str, Any] | msgspec.UnsetType:
        """Accuracy on held-out pairs, and the ranges of both parts, from training pairs and their negatives.

        The referenced part begins where texts of different contexts lie (the same quantile) and ends at 1, a text that
        equals its reference.
        """
        scores = self.all_logits(self.training, _AT_ONCE).double().sigmoid().tolist()
        right = self.right(self.all_logits(self.validation, _AT_ONCE).tolist(), self.validation)
        low, high = (float(end) for end in np.quantile(scores, _ENDS))
        one, other = (
            self._reading.reader.read(list(side)).astype(np.float64) for side in zip(*self._unrelated, strict=True)
        )
        cosines = (one * other).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
        floor = float(np.quantile(cosines, _ENDS[0]))
        if not low < high or not floor < 1:
            raise ModelError(
                f"all scores of the training texts lie between {low:g} and {high:g}; expected a range; train longer or "
                "on more pairs"
            )
        return {
            "accuracy": round(right / len(self.validation), 4),
            "ranges": {"referenced": [floor, 1.0], "unreferenced": [low, high]},
            "skipped": self.skipped,
        }

    def save(self, folder: Path) -> None:
        """The network and, if it was tuned, the encoder with its tokeniser as transformers saves them."""
        weights = {n: w for n, w in self.model.state_dict().items() if not n.startswith("encoder.")}
        if self.model.encoder is not None:
            self.model.encoder.save_pretrained(folder)
            self._reading.tokenizer.save_pretrained(folder)
        save_head(folder, weights)

    def _rows(self, pairs: Sequence[PromptPair], seed: int) -> list[PairRow]:
        others = [_other_text(pair, pairs, seed) for pair in pairs]
        contexts = self._reading.read([pair.context for pair in pairs])
        texts = self._reading.read([pair.text for pair in pairs])
        negatives = self._reading.read([other or "" for other in others])
        rows: list[PairRow] = []
        for i, pair in enumerate(pairs):
            if contexts[i] is not None and texts[i] is not None and negatives[i] is not None:
                for text, real in ((texts[i], True), (negatives[i], False)):
                    size = len(text["input_ids"]) if isinstance(text, dict) else 1
                    rows.append(PairRow(contexts[i], text, real, size))
                self._unrelated.append((pair.text, others[i] or ""))
        self.skipped += len(pairs) - len(rows) // 2
        return rows


def _other_text(pair: PromptPair, pairs: Sequence[PromptPair], seed: int) -> str | None:
    """A text of another context, drawn by a hash of the pair; None where there is none."""
    draw = random.Random(hashed(f"ruber {seed}\n{pair.context}\n{pair.text}"))
    drawn = (pairs[draw.randrange(len(pairs))] for _ in range(_TRIES))
    return next((one.text for one in drawn if one.context != pair.context and one.text != pair.text), None)


def _has_contexts(path: str, column: str | None) -> bool:
    if path.lower().removesuffix(".gz").removesuffix(".zst").endswith((".json", ".txt")):
        return False
    return detect_format(path) != "text" and (column or "context") in read_table(path).columns


def read_ruber_pairs(
    files: Sequence[str], reading: Reading | None = None, *, pairs: bool = False
) -> tuple[list[PromptPair], str]:
    """Pairs of context and text, and where contexts came from.

    Tables with a column `context` have pairs, and so have all files if `pairs` says so; otherwise a story's first
    sentence is the context of the rest.
    """
    how = reading or Reading()
    stories = bool(how.text) and not how.context
    given = [pairs or (not stories and _has_contexts(path, how.context)) for path in files]
    if files and all(given):
        return read_training_pairs(files, how), GIVEN
    if any(given):
        raise DataError(
            f"{files[given.index(True)]} has contexts and {files[given.index(False)]} has none; expected files of one "
            "kind; train on one of them"
        )
    return [story_pair(story) for story in read_texts(files, how)], FIRST_SENTENCE


@dataclass(frozen=True, kw_only=True)
class RuberRecipe(TrainingRecipe):
    """Train RUBER: how well a text fits its context, against texts of other contexts.

    Pairs come from tables with columns context and text; of a story without a context, the first sentence is the
    context of the rest. The folder works as ruber:model=DIR, with part=hybrid, referenced or unreferenced. Resumes
    after a kill. The defaults are 20 epochs, 32 pairs per step, a learning rate of 0.002 and a patience of 6; with
    `tune`, 3, 16, 0.00005 and 3.
    """

    name: ClassVar[str] = TASK
    examples: ClassVar[tuple[str, ...]] = (
        "nlgauge train ruber --data stories.jsonl --encoder minilm -o my-ruber",
        "nlgauge train ruber --data pairs.jsonl --vectors glove-50d --pooling minmax -o word-ruber",
        "nlgauge score written.jsonl -m ruber:model=my-ruber,part=unreferenced",
    )

    encoder: str | None = option(None, "Encoder that reads texts. Default: minilm.", metavar="NAME|FOLDER")
    vectors: str | None = option(None, "Word vectors instead of an encoder, such as glove-50d.", metavar="NAME|FILE")
    pooling: Pooling = option("mean", "How words or tokens become one vector.")
    tune: bool = option(False, "Train the encoder, too.")
    pairs: bool = option(False, "Files are pairs or dialogs, whatever their kind.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder is not None and self.vectors is not None:
            found = f"{argument('encoder', self.encoder)} and {argument('vectors', self.vectors)}"
            raise OptionError(f"{found}; expected one of them")
        if self.dropout is not None and not self.tune:
            raise OptionError(f"{argument('dropout', self.dropout)} requires {argument('tune')}")

    @property
    def origin(self) -> str:
        """The encoder or the word vectors."""
        return self.vectors or self.encoder or "minilm"

    @property
    def _reader(self) -> PooledReader:
        return PooledReader(self.origin, self.pooling)

    def usual(self) -> Mapping[str, Any]:
        """Settings that suit a small network, or the tuning of an encoder."""
        if self.tune:
            return {"epochs": 3, "batch_size": 16, "learning_rate": 5e-5, "patience": 3}
        return {"epochs": 20, "batch_size": 32, "learning_rate": 2e-3, "patience": 6}

    def record(self) -> dict[str, Any]:
        """The reader of texts and the shape of the network."""
        reader = self._reader
        if self.tune and reader.words:
            raise OptionError(
                f"{self.origin} are word vectors, which are not tuned; expected an encoder, such as minilm",
                option="tune",
            )
        return {
            "reader": reader.identity,
            "pooling": self.pooling,
            "tune": self.tune,
            "size": reader.read(["a"]).shape[1],
            "hidden": HIDDEN,
        }

    def read(self, paths: Sequence[str], reading: Reading) -> tuple[list[Any], dict[str, Any]]:
        """Pairs, and where contexts came from."""
        found, contexts = read_ruber_pairs(paths, reading, pairs=self.pairs)
        return list(found), {"contexts": contexts}

    def objective(
        self, corpus: TrainingCorpus[PromptPair], folder: TrainingFolder, device: str, say: Say
    ) -> RuberObjective:
        """Pairs against texts of other contexts."""
        from nlgauge.models.encoders.networks import PairNetwork, freeze_words, load_encoder

        del folder
        reader, window = self._reader, self.window
        tokenizer, encoder = load_encoder(resolve_model(self.origin), device) if self.tune else (None, None)
        size = reader.read(["a"]).shape[1]
        network = PairNetwork(size, hidden=HIDDEN, seed=self.seed, encoder=encoder).to(device)
        if encoder is not None:
            freeze_words(encoder)
            window = min(window, window_of(encoder, tokenizer))
            if self.dropout is not None:
                set_dropout(encoder, self.dropout)
        made = RuberObjective(PairReading(reader, network, tokenizer, window), corpus, seed=self.seed)
        say(made.summary("pairs", "without words or without a negative", corpus.empty))
        return made
