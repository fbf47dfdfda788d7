"""Flip bits in small files of every kind of store, and look for a number that changed without a word.

python -m tests.engine.flips [--times 3000 | --every] [--seed 0] [--only KIND]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

import nlgauge
from nlgauge import __version__
from nlgauge.cli.run import read_plan
from nlgauge.data.tables import ResponseSets
from nlgauge.engine import cache as caching
from nlgauge.engine.blobs import BlobStore
from nlgauge.engine.cache import Cache
from nlgauge.engine.running import Running, Workers
from nlgauge.errors import NLGaugeError
from nlgauge.metrics.diversity.ngram import Distinct
from nlgauge.models.encoders import encoding
from nlgauge.models.identity import (
    _SETTLED_NS,
    CONVERTED,
    _known,
    file_digest,
    folder_identity,
    write_manifest,
)
from nlgauge.models.language.endpoint_http import Connection
from nlgauge.models.language.ngram import NgramModel
from nlgauge.models.language.tester import GenerationPlan, ParameterSweep, generate_sets
from nlgauge.models.shared import score_texts
from nlgauge.models.training import run as training
from nlgauge.perturb.pairs import Original, load_pairs
from nlgauge.perturb.registry import create_perturbations
from nlgauge.perturb.resources.remembered import remembered
from nlgauge.perturb.suite import build_suite
from nlgauge.report.leaderboard import read_results
from nlgauge.report.results import read_result
from nlgauge.report.tables import score_sheet, write_sheet
from nlgauge.schema import document_text, stamped
from nlgauge.scoring.set_values import Table, set_values
from nlgauge.studies.base import Result
from nlgauge.studies.huse.score import Huse
from nlgauge.studies.story.suites import read_suites
from tests.engine.fixtures import write_sets

TEXTS = ("the cat sat on the mat", "the dog saw the cat", "a bird sang", "no fish can sing")
SETS = ResponseSets.of([[*TEXTS[:3]], [*TEXTS[1:]]])
FRAME = pl.DataFrame({"id": ["a", "b", "ç"], "value": [0.5, float("nan"), -1.0]})


@dataclass(frozen=True)
class Kind:
    """One kind of store: `use` makes it in an empty folder, and reads it, and what lacks is made again, in a full one.

    What `use` gives has to be the same whatever happens to the files, unless it raises an error that names them.
    """

    name: str
    use: Callable[[Path], Any]


def entry(folder: Path) -> Any:
    """A table in the cache: results of chunks, vocabularies."""
    cache, key = Cache(folder), Cache.key("x")
    found = cache.get(key)
    if found is None:
        cache.put(key, FRAME)
    return (FRAME if found is None else found).to_dicts()


def answers(folder: Path) -> Any:
    """Answers of endpoints and judges."""
    asked, answer = {"prompt": "2 + 2"}, {"choices": [{"text": "4"}], "usage": {"total_tokens": 3}}
    server = Connection(
        "http://localhost:1/v1", timeout=1, retries=0, pause=0, max_tokens=0, requests_at_once=1, cache=Cache(folder)
    )
    with closing(server):
        found = server.kept(asked)
        if found is None:
            server.keep(asked, answer)
        return found or answer


def embeddings(folder: Path) -> Any:
    """Numbers that encoders work out."""
    wanted = {bytes([number]) * 16: number for number in range(30)}

    def compute(some: list[int]) -> Iterable[Any]:
        return (np.linspace(number, -1, 64, dtype=np.float32) for number in some)

    return sorted(encoding.remembered(BlobStore("embeddings-0123", folder), wanted, compute).items())


def embeddings_of_a_killed_run(folder: Path) -> Any:
    """The same where a process died while it wrote: with a write-ahead log beside the file."""
    extra = bytes([7]) * 16

    def found_in(place: Path) -> Any:
        return [row for row in embeddings(place) if row[0] != extra]

    if any(folder.iterdir()):
        return found_in(folder)
    work = folder.with_name("work")
    embeddings(work)
    (file,) = (work / "stores").glob("*.sqlite")
    with closing(sqlite3.connect(file)) as reader:  # as long as one reads, the log is not merged into the file
        reader.execute("SELECT count(*) FROM entries").fetchone()
        BlobStore("embeddings-0123", work).put_many([(extra, b"more")])
        shutil.copytree(work, folder, dirs_exist_ok=True)
    return found_in(work)


def log_probabilities(folder: Path) -> Any:
    """Scores of language models."""
    os.environ["NLGAUGE_CACHE"] = str(folder)
    found = score_texts(NgramModel.train(TEXTS, order=2), ["the", "a"], [TEXTS[:2], TEXTS[2:]])
    return [[(one.tokens, one.logprobs.tolist()) for one in some] for some in found]


def parses(folder: Path) -> Any:
    """What parsers, grammars and translators make of texts."""
    os.environ["NLGAUGE_CACHE"] = str(folder)
    return remembered(
        "grammar-1",
        [f"{text} {number}" for text in TEXTS for number in range(40)],
        lambda some: [text.upper().encode() for text in some],
    )


def _scored(folder: Path, *metrics: str) -> Any:
    data = folder.with_name("sets.jsonl")
    if not data.exists():
        write_sets(data, 40)
    how = Running(run=folder, workers=1, part_mb=0.002, cache=False, progress=False)
    scores = nlgauge.score(str(data), metrics, confidence=True, resamples=100, **vars(how))
    return [(score.value, score.ci, score.n, dict(score.parts)) for score in scores]


def run_of_sets(folder: Path) -> Any:
    """The folder of `score --run`: manifest and pieces."""
    return _scored(folder, "distinct", "cos-sim")


def run_of_corpus(folder: Path) -> Any:
    """The same with what is spilled to disk and shared out."""
    return _scored(folder, "compression:over=corpus,blocks=2", "distinct:over=corpus,n=1")


def run_of_study(folder: Path) -> Any:
    """The folder of `study --run`."""
    found = set_values([Table("a", SETS)], [Distinct()], Workers(run=folder, workers=1, progress=False))
    return [[array.tolist() for array in some] for some in found]


def run_of_generation(folder: Path) -> Any:
    """The folder of `generate --run`."""
    model = NgramModel.train(TEXTS, order=2)
    plan = GenerationPlan(sweep=ParameterSweep("temperature=0.5,1"), responses_per_set=2, max_new_tokens=4)
    contexts = [(str(number), text) for number, text in enumerate(TEXTS)]
    return generate_sets(model, contexts, plan, folder.with_name("out.jsonl"), folder=folder).to_dicts()


def results(folder: Path) -> Any:
    """What `score -o results.json` writes for the leaderboard."""
    file = folder / "results.json"
    if not file.exists():
        write_sheet(score_sheet(nlgauge.score(SETS, ["distinct"], cache=False), [], values=True), "json", file)
    scores = read_results(file).scores
    return [(str(one.signature), one.value, None if (f := one.per_item) is None else f.to_dicts()) for one in scores]


def study(folder: Path) -> Any:
    """What `study -o` writes for the report."""
    file = folder / "huse.json"
    if not file.exists():
        row = {"system": "a", "n": 200, "k": 16, "huse": 0.53, "huse_ci": [0.4, 0.6], "huse_q": 0.58, "huse_d": 0.95}
        row |= {"huse_q_ci": None, "huse_d_ci": None, "n_model": 100, "n_reference": 100, "judge": "people"}
        file.write_text(Result(Huse(), [row]).to_json())
    return asdict(read_result(file))


def plan(folder: Path) -> Any:
    """The plan inside a result, for `nlgauge run`."""
    file = folder / "results.json"
    if not file.exists():
        steps = [{"command": "score", "files": ["-"], "metrics": ["distinct:n=2"], "seed": 3}]
        made = stamped("plan", {"version": __version__, "steps": steps})
        file.write_text(document_text(stamped("scores", {"scores": [], "plan": made})))
    return read_plan(file)


def suite(folder: Path) -> Any:
    """What `perturb build` writes for studies of stories."""
    if not any(folder.iterdir()):
        texts = [f"Ann {verb} the dog. Then the dog, which was old, slept. It did not bark." for verb in ("saw", "fed")]
        originals = [Original(str(number), text, None) for number, text in enumerate(texts)]
        aspects = create_perturbations(["typos", "lexical-repetition"], None)
        build_suite(originals, aspects, grammar="none").write(folder)
    parts = [read_suites([folder], part)[0] for part in ("discrimination", "invariance")]
    return [(one.name, one.made_by, one.digest) for one in parts], [asdict(pair) for pair in load_pairs(str(folder))]


def _network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Linear(6, 2)


def checkpoint(folder: Path) -> Any:
    """What a training run continues from."""
    network = _network()
    optimiser = torch.optim.AdamW(network.parameters())
    with training.TrainingFolder.open(folder, {"task": "test", "seed": 1}, fresh=not any(folder.iterdir())) as kept:
        if not any(kept.checkpoints.glob("*.safetensors")):
            network(torch.ones(6)).sum().backward()
            optimiser.step()
            progress = training.TrainingState(1, 0.5, 2, [0.25], [training.Evaluation(1, 0.125, 0.5)])
            kept.keep(network, optimiser, progress)
        network = _network()
        optimiser = torch.optim.AdamW(network.parameters())
        found = kept.load(network, optimiser)
        state = [{name: value.tolist() for name, value in optimiser.state[one].items()} for one in network.parameters()]
        weights = [one.tolist() for one in network.parameters()]
        kept.load_best(network, 1)
        return repr(found), state, weights, [one.tolist() for one in network.parameters()]


def trained(folder: Path) -> Any:
    """The folder that training leaves: card, weights and what else the model needs."""
    if not any(folder.iterdir()):
        evaluations = [training.Evaluation(1, 0.125, 0.5)]
        card = training.TrainingCard(
            run={"task": "test", "window": 8}, data={}, model={}, versions={"nlgauge": __version__}, threads=1,
            stopped="", steps=1, best_step=1, seconds=0.5, perplexity_before=2.0, perplexity_after=1.5,
            train_loss=[0.25], evaluations=evaluations, measures={"ranges": {"referenced": [0.1, 0.9]}},
        )  # fmt: skip

        def save(made: Path) -> None:
            training.save_head(made, _network().state_dict())
            (made / "config.json").write_text(json.dumps({"window": 8}))

        with training.TrainingFolder.open(folder, card.run) as kept:
            kept.finish(save, card)
    identity = training.trained_identity(str(folder), "test")
    network = torch.nn.Linear(6, 2)
    training.set_head(network, folder)
    weights = [one.tolist() for one in network.parameters()]
    return identity, repr(training.read_trained(folder, "test")), weights, (folder / "config.json").read_text()


def converted(folder: Path) -> Any:
    """A model that was converted once, in the folder of models."""
    os.environ["NLGAUGE_MODELS"] = str(folder)
    model = folder / f"{CONVERTED}0123456789ab"
    if not model.exists():
        model.mkdir()
        training.save_head(model, _network().state_dict())
        (model / "config.json").write_text(json.dumps({"window": 8}))
        write_manifest(model, {"name": "a model"})
    try:
        identity = folder_identity(model)
        network = torch.nn.Linear(6, 2)
        training.set_head(network, model)
        return identity, [one.tolist() for one in network.parameters()], (model / "config.json").read_text()
    finally:
        del os.environ["NLGAUGE_MODELS"]


def file_hashes(folder: Path) -> Any:
    """The memory of the hashes of models' files."""
    file = folder.with_name("weights.safetensors")
    if not file.exists():
        file.write_bytes(b"weights" * 100)
        time.sleep(_SETTLED_NS / 1e9)
    _known.clear()
    os.environ["NLGAUGE_CACHE"] = str(folder)
    return file_digest(file)


def ngram_model(folder: Path) -> Any:
    """The folder that `train ngram` leaves."""
    if not any(folder.iterdir()):
        NgramModel.train(TEXTS, order=2).save(folder)
    model = NgramModel.load(folder)
    return model.fingerprint, model.min_count, [one.logprobs.tolist() for [one] in model.score([""], [TEXTS[:1]])]


KINDS = tuple(
    Kind(use.__name__.replace("_", " "), use)
    for use in (
        *(entry, answers, embeddings, embeddings_of_a_killed_run, log_probabilities, parses),
        *(run_of_sets, run_of_corpus, run_of_study, run_of_generation),
        *(results, study, plan, suite, checkpoint, trained, ngram_model, converted, file_hashes),
    )
)
FINE = ("same", "same, and damage named", "error that names the file")


@dataclass(frozen=True)
class Flip:
    """One bit of one file of a store."""

    file: str
    byte: int
    bit: int


class Flipped:
    """A store in `folder`, its files as they were made, and the value that has to come out of them."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.kind, self.store = kind, folder / "store"
        self.store.mkdir(parents=True)
        kind.use(self.store)
        self._made = folder / "made"
        shutil.copytree(self.store, self._made)
        self.files = {str(one.relative_to(self._made)): one.stat().st_size for one in self._files()}
        self.expected = repr(kind.use(self.store))

    def _files(self) -> list[Path]:
        return sorted(one for one in self._made.rglob("*") if one.is_file() and one.stat().st_size)

    def some(self, draws: random.Random, times: int) -> Iterator[Flip]:
        """Flips of random files, so that small ones have their share."""
        for _ in range(times):
            name = draws.choice(list(self.files))
            yield Flip(name, draws.randrange(self.files[name]), draws.randrange(8))

    def every(self, draws: random.Random) -> Iterator[Flip]:
        """A flip in every byte of every file."""
        return (Flip(name, byte, draws.randrange(8)) for name, size in self.files.items() for byte in range(size))

    def outcome(self, flip: Flip) -> str:
        """What reading the store comes to after this flip."""
        shutil.rmtree(self.store)
        shutil.copytree(self._made, self.store)
        file = self.store / flip.file
        content = bytearray(file.read_bytes())
        content[flip.byte] ^= 1 << flip.bit
        file.write_bytes(content)
        caching._digest_of.cache_clear()  # which trusts the clock of the disk, and flips are faster
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = repr(self.kind.use(self.store))
            except NLGaugeError as error:
                return "error that names the file" if str(self.store) in str(error) else f"unnamed error: {error}"
            except BaseException:  # noqa: BLE001 - all that is no error of ours is looked for; panics are no Exception
                return f"trace: {traceback.format_exc()}"
        if found != self.expected:
            return f"CHANGED: {found} instead of {self.expected}"
        named = any(str(self.store) in str(one.message) for one in said)
        return "same, and damage named" if named else "same"


def main() -> None:
    """Count what becomes of flips of every kind; exit with 1 where one is not as it has to be."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--times", type=int, default=3000, help="flips over all kinds")
    asked.add_argument("--every", action="store_true", help="flip a bit in every byte instead")
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--only", default="", help="kinds with this in their name")
    options = asked.parse_args()
    draws, bad = random.Random(options.seed), 0
    kinds = [kind for kind in KINDS if options.only in kind.name]
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            flipped = Flipped(kind, Path(folder))
            flips = flipped.every(draws) if options.every else flipped.some(draws, -(-options.times // len(kinds)))
            found = Counter[str]()
            for flip in flips:
                outcome = flipped.outcome(flip)
                found[outcome.partition(":")[0]] += 1
                if outcome not in FINE:
                    bad += 1
                    print(f"{kind.name}, {flip}: {outcome[:2000]}")
            counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(found.items()))
            print(f"{kind.name} ({len(flipped.files)} files): {found.total()} flips: {counts}", flush=True)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
