"""What all tests share."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

from tests.optional import pytest_pycollect_makemodule, pytest_runtest_call, pytest_runtest_setup
from tests.postgres import postgres_port, postgres_url

__all__ = [
    "postgres_port",
    "postgres_url",
    "pytest_pycollect_makemodule",
    "pytest_runtest_call",
    "pytest_runtest_setup",
]

settings.register_profile(
    "nlgauge",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,  # the same examples in every run there; new ones everywhere else
)
settings.load_profile("nlgauge")

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def own_registries() -> Iterator[None]:
    """What a test registers is gone after it."""
    from nlgauge.metrics.registry import METRICS
    from nlgauge.perturb.registry import PERTURBATIONS
    from nlgauge.studies.registry import STUDIES

    held: list[dict[str, Any]] = [METRICS.registered, PERTURBATIONS.registered, STUDIES.registered]
    before = [dict(one) for one in held]
    yield
    for one, kept in zip(held, before, strict=True):
        one.clear()
        one.update(kept)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither read nor leave anything in the user's cache."""
    before = os.environ.get("NLGAUGE_CACHE")
    os.environ["NLGAUGE_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["NLGAUGE_CACHE"]
    else:
        os.environ["NLGAUGE_CACHE"] = before


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real browser."""
    place = shutil.which("chromium")
    if place is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def examples() -> Path:
    return ROOT / "examples"


@pytest.fixture(scope="session")
def research_data() -> Path:
    """The folder of public research data that `NLGAUGE_DATA` names; tests that need it are skipped without it."""
    place = os.environ.get("NLGAUGE_DATA")
    if not place:
        pytest.skip("NLGAUGE_DATA is not set: no research data to check against")
    folder = Path(place)
    if not folder.is_dir():
        pytest.fail(f"NLGAUGE_DATA names {folder}, which is not a folder")
    return folder


@pytest.fixture(scope="session")
def minilm() -> str:
    """The small embedding model; `make test` fetches it."""
    from nlgauge.models.fetch import resolve_model

    resolve_model("minilm")
    return "minilm"


@pytest.fixture(scope="session")
def smollm2() -> str:
    """The small language model; `make test` fetches it."""
    from nlgauge.models.fetch import resolve_model

    resolve_model("smollm2")
    return "smollm2"


@pytest.fixture(scope="session")
def glove() -> str:
    """The small word vectors; `make test` fetches them."""
    from nlgauge.models.fetch import resolve_model

    resolve_model("glove-50d")
    return "glove-50d"


@pytest.fixture(scope="session")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny cross-encoder with one output and random weights."""
    return make_cross_encoder(tmp_path_factory.mktemp("models") / "cross-encoder")


@pytest.fixture(scope="session")
def metric_models(cross_encoder: Path, examples: Path) -> Path:
    """A folder with all that metrics want to be given: `cross-encoder`, `vectors.txt`, and `union` and `ruber`.

    Word vectors are random, and the trained ones have seen a few steps of training: what they say varies, and that is
    all that is asked of them.
    """
    from nlgauge.models.training.ruber import RuberRecipe
    from nlgauge.models.training.union import UnionRecipe

    folder, stories = cross_encoder.parent, str(examples / "stories.jsonl")
    texts = [(examples / name).read_text().lower() for name in ("system_a.jsonl", "system_b.jsonl", "stories.jsonl")]
    rng = np.random.default_rng(3)
    words = sorted({word for text in texts for word in text.split()})
    vectors = folder / "vectors.txt"
    vectors.write_text("".join(f"{word} {' '.join(map(str, rng.normal(size=4)))}\n" for word in words))
    encoder = str(make_encoder(folder / "encoder", texts))
    UnionRecipe(data=[stories], encoder=encoder, max_steps=2).run(folder / "union")
    RuberRecipe(data=[stories], vectors=str(vectors), max_steps=20).run(folder / "ruber")
    return folder


@pytest.fixture(scope="session")
def judge() -> Iterator[str]:
    """The address of a chat server on this machine, whose answers depend on what it is asked and on nothing else."""
    from nlgauge.models.judge.asking import load_judge
    from tests.metrics.test_llm_judge import judge_server

    with judge_server("by content") as server:
        yield server.spec
        load_judge(server.spec).close()


def make_cross_encoder(folder: Path, labels: Sequence[str] = ("LABEL_0",)) -> Path:
    """A BERT-like sequence classifier of a few thousand weights that reads letters, at most 96 tokens of them."""
    import torch
    import transformers

    characters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *(f"##{letter}" for letter in characters)]
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    settings = {"tokenizer_class": "BertTokenizer", "model_max_length": 96, "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config: Any = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=96,
        initializer_range=0.5,
        id2label=dict(enumerate(labels)),
        label2id={label: place for place, label in enumerate(labels)},
    )
    kind: Any = transformers.BertForSequenceClassification
    with torch.random.fork_rng():
        torch.manual_seed(5)
        kind(config).save_pretrained(folder)
    return folder


def make_encoder(folder: Path, texts: Sequence[str], window: int = 128) -> Path:
    """A BERT-like encoder of a few thousand weights that reads whole words, and begins at random."""
    import torch
    import transformers

    words = sorted(
        {word for text in texts for word in text.lower().replace(".", " .").split()} | {"not", "n", "t", "'"}
    )
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    about = {"tokenizer_class": "BertTokenizer", "model_max_length": window, "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    config: Any = transformers.BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=window, hidden_dropout_prob=0.05, attention_probs_dropout_prob=0.05,
    )  # fmt: skip
    kind: Any = transformers.BertModel
    with torch.random.fork_rng():
        torch.manual_seed(3)
        kind(config).save_pretrained(folder)
    return folder
