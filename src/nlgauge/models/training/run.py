"""What a training run keeps: how far it is, checkpoints, the final card, and the weights of a trained metric.

A run folder holds no weights outside `checkpoints/` until the run is done; a checkpoint is one safetensors file that is
replaced in one step.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from nlgauge.engine.cache import file_digest
from nlgauge.engine.checksums import CHECKSUM, Damaged, checksum, file_checksums, opened, sealed
from nlgauge.engine.files import atomic_path, write_text
from nlgauge.errors import ModelError, OutputError, argument
from nlgauge.models.fetch import model_identity

CARD, CURVE, CHECKPOINTS = "training.json", "loss.svg", "checkpoints"

HEAD = "model_head.safetensors"
_RUN, _STATE, _BEST = "run.json", "state.safetensors", "best-{step}.safetensors"


class Evaluation(msgspec.Struct, frozen=True):
    """The mean loss of a unit (a token or a label) of the held-out texts after so many steps.

    `accuracy` is the share of right labels, where labels are learnt.
    """

    step: int
    validation_loss: float
    seconds: float
    accuracy: float | msgspec.UnsetType = msgspec.UNSET

    @property
    def perplexity(self) -> float:
        """e to the loss."""
        return math.exp(min(self.validation_loss, 700.0))


class TrainingState(msgspec.Struct):
    """How far a run is: what a checkpoint says beside weights. `train_loss` is the objective of every step."""

    step: int
    seconds: float
    rows_at_once: int
    train_loss: list[float]
    evaluations: list[Evaluation]

    @property
    def best(self) -> Evaluation:
        """The evaluation with the lowest loss, the first of equals."""
        return min(self.evaluations, key=lambda evaluation: evaluation.validation_loss)

    @property
    def in_vain(self) -> int:
        """Evaluations since the best one."""
        return len(self.evaluations) - 1 - self.evaluations.index(self.best)


class TrainingCard(msgspec.Struct, kw_only=True):
    """What `training.json` says about the weights beside it; losses and perplexities are per token, or per label.

    A model that learns labels has `measures`: what it does on the held-out texts, and ranges of its scores. Among two
    labels, a perplexity of 2 is that of guessing. `files` are the checksums of what stands beside the card.
    """

    format: Literal["nlgauge-training-1"] = "nlgauge-training-1"
    run: dict[str, Any]
    data: dict[str, Any]
    model: dict[str, Any]
    versions: dict[str, str]
    threads: int
    stopped: str
    steps: int
    best_step: int
    seconds: float
    perplexity_before: float
    perplexity_after: float
    train_loss: list[float]
    evaluations: list[Evaluation]
    measures: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    files: dict[str, str] = {}


class TrainingFolder:
    """The output of one run, held by one process at a time."""

    def __init__(self, out: Path, run: Mapping[str, Any], card: TrainingCard | None) -> None:
        self.out, self.run, self.card = out, dict(run), card
        self.checkpoints = out / CHECKPOINTS

    @classmethod
    @contextmanager
    def open(cls, out: Path, run: Mapping[str, Any], *, fresh: bool = False) -> Iterator[TrainingFolder]:
        """A new folder, or that of the same run; `run` is all that decides the result, by name."""
        import fcntl

        try:
            out.mkdir(exist_ok=True)
            handle = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise OutputError(f"{out}: cannot be the folder of a run: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield cls(out, run, _begin(out, run, fresh))
        except BlockingIOError as error:
            raise OutputError(f"{out}: another process is training there; wait for it to end") from error
        finally:
            os.close(handle)

    def load(self, model: Any, optimiser: Any) -> TrainingState | None:
        """Put a checkpoint's weights and optimiser state in place; None when there is none yet."""
        file = self.checkpoints / _STATE
        if not file.exists():
            return None
        tensors, progress = _load_tensors(file)
        kept: dict[str, dict[str, Any]] = {}
        for key, value in tensors.items():
            part, _, name = key.partition("/")
            kept.setdefault(part, {})[name] = value
        _set_weights(model, kept.pop("weight", {}), file)
        for name, parameter in model.named_parameters():
            state = {part: values[name].clone() for part, values in kept.items() if name in values}
            optimiser.state[parameter] |= {k: v.to(parameter.device) if v.dim() else v for k, v in state.items()}
        return msgspec.json.decode(progress, type=TrainingState)

    def keep(self, model: Any, optimiser: Any, progress: TrainingState) -> None:
        """Write a checkpoint, and the weights apart if they are the best so far."""
        weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
        best = self.checkpoints / _BEST.format(step=progress.best.step)
        if progress.best.step == progress.step:
            _save_tensors(best, weights, "")
        tensors = {f"weight/{name}": value for name, value in weights.items()}
        for name, parameter in model.named_parameters():
            tensors |= {f"{key}/{name}": value for key, value in optimiser.state.get(parameter, {}).items()}
        _save_tensors(self.checkpoints / _STATE, tensors, msgspec.json.encode(progress).decode())
        for old in set(self.checkpoints.glob(_BEST.format(step="*"))) - {best}:
            old.unlink()

    def make(self, name: str, save: Callable[[Path], None]) -> Path:
        """A folder among the checkpoints that `save` fills, moved into place in one step."""
        made, work = self.checkpoints / name, self.checkpoints / f"{name}-unfinished"
        with _writing_errors(made):
            for folder in (made, work):
                shutil.rmtree(folder, ignore_errors=True)
            work.mkdir()
            save(work)
            return work.rename(made)

    def load_best(self, model: Any, step: int) -> None:
        """Give the model the weights of its best step."""
        file = self.checkpoints / _BEST.format(step=step)
        _set_weights(model, _load_tensors(file)[0], file)

    def finish(self, save: Callable[[Path], None], card: TrainingCard) -> TrainingCard:
        """Put the model and the card in place, the card with checksums last, and remove the checkpoints."""
        made = self.make("model", save)
        for part in sorted(made.iterdir(), key=lambda part: (part.suffix == ".safetensors", part.name)):
            with atomic_path(self.out / part.name) as temporary:
                shutil.copyfile(part, temporary)
        card = msgspec.structs.replace(card, files=file_checksums(made))
        _write_sealed(self.out / CARD, card)
        _clean(self.out)
        return card


def read_trained(folder: Path, task: str) -> TrainingCard:
    """The card of a model that `nlgauge train TASK` made and finished; an error says what the folder is instead."""
    command = f"nlgauge train {task}"
    advice = f"expected a folder that `{command}` made; train one: {command} --data FILE --output DIR"
    card = folder / CARD
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such folder; {advice}")
    if not card.is_file() and (folder / CHECKPOINTS / _RUN).is_file():
        raise ModelError(f"{folder}: an unfinished training run; give its command again, and it resumes")
    if not card.is_file():
        raise ModelError(f"{folder}: has no {CARD}, so it was not trained for this; {advice}")
    found = _card(folder)
    if found.run.get("task") != task:
        raise ModelError(f"{folder}: a model of `nlgauge train {found.run.get('task')}`; {advice}")
    return found


def trained_identity(spec: str, task: str) -> str:
    """`folder@hash` of a model that `nlgauge train TASK` made; an error says what else it is."""
    folder = Path(spec.partition("@")[0])
    read_trained(folder, task)
    if not (folder / HEAD).is_file():
        raise ModelError(f"{folder}: has no {HEAD}; expected the weights that training wrote; train the model again")
    check_trained(folder)
    return model_identity(spec)


def check_trained(folder: Path) -> None:
    """Refuse a model that is not as training wrote it; a folder that NLGauge did not train passes."""
    card = folder / CARD
    if not card.is_file() or b"nlgauge" not in card.read_bytes():
        return
    for name, expected in _card(folder).files.items():
        if not (folder / name).is_file() or file_digest(str(folder / name)) != expected:
            raise ModelError(f"{folder / name}: damaged: it is not what {CARD} says; train the model again")


def _card(folder: Path) -> TrainingCard:
    try:
        found: TrainingCard = _read_sealed(folder / CARD, TrainingCard)
        return found
    except Damaged as error:
        raise ModelError(f"{folder / CARD}: damaged, or of another version ({error}); train the model again") from error


def save_head(folder: Path, weights: Mapping[str, Any]) -> None:
    """Write what a network has beside its encoder."""
    from safetensors.torch import save_file

    save_file({name: value.detach().cpu().contiguous() for name, value in weights.items()}, folder / HEAD)


def set_head(module: Any, folder: Path) -> None:
    """Read what `save_head` wrote into a module."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        module.load_state_dict(load_file(folder / HEAD))
    except (SafetensorError, OSError, RuntimeError) as error:
        raise ModelError(
            f"{folder / HEAD}: cannot be loaded ({str(error).splitlines()[0]}); expected what training wrote; train "
            "the model again"
        ) from error


def _begin(out: Path, run: Mapping[str, Any], fresh: bool) -> TrainingCard | None:
    """Make a folder ready for this run, at every moment known for what it is; the card if the run is done."""
    checkpoints, card = out / CHECKPOINTS, out / CARD
    record = checkpoints / _RUN
    others = [*checkpoints.glob("[!.]*"), *(path for path in out.iterdir() if path != checkpoints)]
    if others and not record.exists() and not card.exists():
        raise OutputError(f"{out}: holds something else than a training run; choose a new folder")
    if not fresh and (card.exists() or record.exists()):
        done: TrainingCard | None = _read(card, TrainingCard) if card.exists() else None
        before = done.run if done else _read(record, dict[str, Any])
        if differing := [name for name in {**before, **run} if before.get(name) != run.get(name)]:
            what = ", ".join(f"{name} (was {before.get(name)}, is {run.get(name)})" for name in differing)
            raise OutputError(
                f"{out}: belongs to a run with another {what}; choose another folder, repeat that run's options, or "
                f"start again with {argument('fresh')}"
            )
        if done:
            if not any(out.glob("*.safetensors")):
                raise OutputError(f"{out}: has a card but no weights; start again with {argument('fresh')}")
            _clean(out)
            return done
    checkpoints.mkdir(exist_ok=True)
    _empty(checkpoints, "*" if fresh else ".*")
    _write_sealed(record, run)
    for file in [*out.glob("model*.safetensors*"), out / CURVE, card] if fresh else []:
        file.unlink(missing_ok=True)
    return None


def _read(path: Path, kind: Any) -> Any:
    try:
        return _read_sealed(path, kind)
    except Damaged as error:
        raise OutputError(
            f"{path}: damaged, or of another version ({error}); start again with {argument('fresh')}, or choose "
            "another folder"
        ) from error


def _write_sealed(path: Path, document: Any) -> None:
    plain = json.loads(msgspec.json.encode(document))
    write_text(path, json.dumps(sealed(plain), indent=2, ensure_ascii=False) + "\n")


def _read_sealed(path: Path, kind: Any) -> Any:
    try:
        return msgspec.convert(opened(path.read_bytes()), kind)
    except msgspec.ValidationError as error:
        raise Damaged(str(error)) from error


def _clean(out: Path) -> None:
    """Remove what a run needs only while it lasts, and what a kill left."""
    _empty(out / CHECKPOINTS, "*")
    shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)
    _empty(out, ".*.safetensors")


def _empty(folder: Path, pattern: str) -> None:
    """Remove all that matches, but not the record of the run."""
    for part in folder.glob(pattern):
        if part.is_dir():
            shutil.rmtree(part)
        elif part.name != _RUN:
            part.unlink()


@contextmanager
def _writing_errors(path: Path) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        yield
    except (SafetensorError, OSError) as error:
        raise OutputError(f"{path}: cannot be written: {error}") from error


def _save_tensors(path: Path, tensors: Mapping[str, Any], note: str) -> None:
    from safetensors.torch import save_file

    with atomic_path(path) as temporary, _writing_errors(path):
        kept = {name: value.cpu().contiguous() for name, value in tensors.items()}
        save_file(kept, temporary, metadata={"nlgauge": note, CHECKSUM: _of_tensors(kept, note)})


def _of_tensors(tensors: Mapping[str, Any], note: str) -> str:
    """The checksum of a checkpoint: of its note and of each tensor with its name, type and shape."""
    import torch

    parts: list[bytes | memoryview] = [note.encode()]
    for name, value in sorted(tensors.items()):
        parts += [f"{name} {value.dtype} {tuple(value.shape)}".encode()]
        parts += [memoryview(value.reshape(-1).view(torch.uint8).numpy())]
    return checksum(*parts).hex()


def _load_tensors(path: Path) -> tuple[dict[str, Any], str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            about = file.metadata() or {}
        if about.get(CHECKSUM) != _of_tensors(tensors, about.get("nlgauge", "")):
            raise Damaged("its checksum does not match its content")
        return tensors, about["nlgauge"]
    except (SafetensorError, Damaged, OSError, KeyError) as error:
        raise ModelError(f"{path}: damaged checkpoint ({error}); start again with {argument('fresh')}") from error


def _set_weights(model: Any, tensors: Mapping[str, Any], file: Path) -> None:
    """Copy into the model's own memory, which is aligned as in an undisturbed run."""
    for name, parameter in model.named_parameters():
        if name not in tensors or tensors[name].shape != parameter.shape:
            raise ModelError(f"{file}: damaged checkpoint ({name} is missing); start again with {argument('fresh')}")
        parameter.data.copy_(tensors[name])
