"""Training RUBER's unreferenced part: texts that belong to a context against texts of others (Tao et al. 2018).

Vectors of contexts and texts are pooled from word vectors, or from the token states of an encoder, as in RUBER-BERT
(Ghazarian et al. 2019); the encoder stays as it is, or is tuned. The loss is cross entropy, as in RUBER-BERT (RUBER
has a margin). Word vectors are pooled, where RUBER has a recurrent network.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np

from nlgauge.data.files import detect_format
from nlgauge.data.plain_tables import read_table
from nlgauge.errors import DataError, ModelError, OptionError
from nlgauge.models.encoding import window_of
from nlgauge.models.fetch import resolve_model
from nlgauge.models.pooled_reader import PooledReader, Pooling
from nlgauge.models.ruber_model import FIRST_SENTENCE, GIVEN, TASK, PairReading, story_pair
from nlgauge.models.runtime import import_torch
from nlgauge.models.trained import save_head
from nlgauge.models.training import Measured, Say, Task, train
from nlgauge.models.training_data import FEWEST_HELD_OUT, Corpus, Pair, read_texts, read_training_pairs
from nlgauge.models.training_run import RunFolder, TrainingCard, TrainingSettings
from nlgauge.models.training_tasks import _set_dropout

RUBER_SETTINGS = TrainingSettings(epochs=20, batch_size=32, learning_rate=2e-3, patience=6)
TUNED_SETTINGS = TrainingSettings(epochs=3, batch_size=16, learning_rate=5e-5, patience=3)
HIDDEN = 128
_ENDS = (0.01, 0.99)  # of the scores that training texts and their negatives have
_TRIES = 20


@dataclass(frozen=True)
class PairRow:
    """A context and a text as the network reads them, and whether they belong together."""

    context: Any
    text: Any
    real: bool
    size: int


class RuberTask(Task[PairRow]):
    """Pairs and, for each, the same context with a text of another context of the same side of the split."""

    def __init__(self, reading: PairReading, corpus: Corpus[Pair], *, seed: int) -> None:
        self._reading, self.model = reading, reading.network
        self._unrelated: list[tuple[str, str]] = []
        self.skipped = 0
        self.training = self._rows(corpus.training, seed)
        self.validation = self._rows(corpus.validation, seed)
        for rows, what in ((self.training, "train on"), (self.validation, "hold out")):
            if len(rows) < 2 * FEWEST_HELD_OUT:
                raise DataError(
                    f"{len(rows) // 2} pairs to {what} are of use, {self.skipped} have no word that the model knows "
                    f"or no text of another context beside them; expected at least {FEWEST_HELD_OUT}; give more pairs"
                )

    def units(self, row: PairRow) -> int:  # noqa: ARG002 - rows are alike
        """One label."""
        return 1

    def length(self, row: PairRow) -> int:
        """Tokens of the text, where there are tokens."""
        return row.size

    def loss(self, rows: Sequence[PairRow], label_smoothing: float) -> Any:
        """Cross entropy of the labels."""
        return self._entropy(self._logits(rows), rows, label_smoothing)

    def measure(self, rows: Sequence[PairRow]) -> Measured:
        """Cross entropy and right labels."""
        logits = self._logits(rows)
        right = sum((logit > 0) == row.real for logit, row in zip(logits.tolist(), rows, strict=True))
        return Measured(float(self._entropy(logits, rows, 0.0)), right)

    def measures(self) -> dict[str, Any] | msgspec.UnsetType:
        """Accuracy on held-out pairs, and the ranges of both parts, from training pairs and their negatives.

        The referenced part begins where texts of different contexts lie (the same quantile) and ends at 1, a text that
        equals its reference.
        """
        scores = self._probabilities(self.training)
        held_out = self._probabilities(self.validation)
        right = sum((score > 0.5) == row.real for score, row in zip(held_out, self.validation, strict=True))
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
            self._reading.save_tokenizer(folder)
        save_head(folder, weights)

    def _rows(self, pairs: Sequence[Pair], seed: int) -> list[PairRow]:
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

    def _logits(self, rows: Sequence[PairRow]) -> Any:
        return self._reading.logits([row.context for row in rows], [row.text for row in rows])

    def _probabilities(self, rows: Sequence[PairRow]) -> list[float]:
        import torch

        found: list[float] = []
        with torch.no_grad():
            for start in range(0, len(rows), 32):
                found += self._logits(rows[start : start + 32]).double().sigmoid().tolist()
        return found

    def _entropy(self, logits: Any, rows: Sequence[PairRow], smoothing: float) -> Any:
        import torch

        labels = torch.tensor([float(row.real) for row in rows], device=logits.device)
        labels = labels * (1 - smoothing) + smoothing / 2
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")


def _other_text(pair: Pair, pairs: Sequence[Pair], seed: int) -> str | None:
    """A text of another context, drawn by a hash of the pair; None where there is none."""
    about = f"ruber {seed}\n{pair.context}\n{pair.text}".encode("utf-8", "surrogatepass")
    draw = random.Random(int.from_bytes(hashlib.blake2b(about, digest_size=8).digest()))
    drawn = (pairs[draw.randrange(len(pairs))] for _ in range(_TRIES))
    return next((one.text for one in drawn if one.context != pair.context and one.text != pair.text), None)


def _has_contexts(path: str) -> bool:
    if path.lower().removesuffix(".gz").removesuffix(".zst").endswith((".json", ".txt")):
        return False
    return detect_format(path) != "text" and "context" in read_table(path).columns


def read_ruber_pairs(files: Sequence[str], *, field: str = "", pairs: bool = False) -> tuple[list[Pair], str]:
    """Pairs of context and text, and where contexts came from.

    Tables with a column `context` have pairs, and so have all files if `pairs` says so; otherwise a story's first
    sentence is the context of the rest.
    """
    given = [pairs or (not field and _has_contexts(path)) for path in files]
    if files and all(given):
        return read_training_pairs(files), GIVEN
    if any(given):
        raise DataError(
            f"{files[given.index(True)]} has contexts and {files[given.index(False)]} has none; expected files of one "
            "kind; train on one of them"
        )
    return [story_pair(story) for story in read_texts(files, field=field)], FIRST_SENTENCE


def train_ruber(
    files: Sequence[str],
    out: Path,
    *,
    reader: str = "minilm",
    pooling: Pooling = "mean",
    tune: bool = False,
    settings: TrainingSettings | None = None,
    pairs: bool = False,
    field: str = "",
    validation: float = 0.1,
    held_out: Sequence[str] = (),
    limit: int = 0,
    window: int = 128,
    device: str = "cpu",
    threads: int = 0,
    fresh: bool = False,
    say: Say = lambda _line: None,
    progress: bool = False,
) -> TrainingCard:
    """Train RUBER on pairs of context and text, or on stories; the folder `out` works as `ruber:model=FOLDER`.

    `reader` is an encoder (a catalogue name, a folder) or word vectors (`glove-50d`, a file). `tune` trains the
    encoder, too, on rows of at most `window` tokens. A killed run goes on from its last checkpoint when it is called
    again with the same arguments.
    """
    settings = settings or (TUNED_SETTINGS if tune else RUBER_SETTINGS)
    if pooling not in get_args(Pooling):
        raise OptionError(f"pooling is '{pooling}'; expected one of {', '.join(get_args(Pooling))}")
    if window < 16:
        raise OptionError(f"a window of {window} tokens; expected at least 16")
    if settings.dropout is not None and not tune:
        raise OptionError(f"dropout is {settings.dropout}, and the encoder is not tuned; leave it out, or use tune")
    read = PooledReader(reader, pooling)
    if tune and read.words:
        raise OptionError(f"{reader} are word vectors, which are not tuned; expected an encoder, such as minilm")
    examples, contexts = read_ruber_pairs(files, field=field, pairs=pairs)
    corpus: Corpus[Pair] = Corpus.split(
        examples,
        validation=validation,
        limit=limit,
        seed=settings.seed,
        held_out=read_ruber_pairs(held_out, field=field, pairs=pairs)[0] if held_out else None,
    )
    size = read.read(["a"]).shape[1]
    run = {
        "task": TASK,
        "reader": read.identity,
        "pooling": pooling,
        "tune": tune,
        "size": size,
        "hidden": HIDDEN,
        "contexts": contexts,
        "data": corpus.digest,
        "validation": "given" if held_out else validation,
        "limit": limit,
        "window": window,
        **asdict(settings),
    }
    with RunFolder.open(out, run, fresh=fresh) as folder:
        if folder.card is not None:
            say(f"{out} is finished already; nothing was done (--fresh starts anew)")
            return folder.card
        torch = import_torch("training")
        from nlgauge.models.networks import PairNetwork, freeze_words, load_encoder

        if threads:
            torch.set_num_threads(threads)
        tokenizer, encoder = load_encoder(resolve_model(reader), device) if tune else (None, None)
        network = PairNetwork(size, hidden=HIDDEN, seed=settings.seed, encoder=encoder).to(device)
        if encoder is not None:
            freeze_words(encoder)
            window = min(window, window_of(encoder, tokenizer))
            if settings.dropout is not None:
                _set_dropout(encoder, settings.dropout)
        task = RuberTask(PairReading(read, network, tokenizer, window), corpus, seed=settings.seed)
        say(
            f"{len(task.training) // 2} pairs to train on, {len(task.validation) // 2} held out, a negative of each; "
            f"{task.skipped} without words or without a negative and {corpus.empty} empty ones were dropped"
        )
        data = {"files": list(files), **({"held_out": list(held_out)} if held_out else {}), **corpus.facts()}
        return train(task, settings, folder, data=data, start=reader, say=say, progress=progress)
