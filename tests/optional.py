"""A test whose optional package is not installed is skipped and says so; where all are installed, this does nothing.

So the same suite runs with the core of NLGauge alone: `make test-core`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from nlgauge.errors import MissingExtra

# One package of each extra, without which the extra is not installed.
EXTRAS = {
    "models": "torch",
    "annotate": "sqlalchemy",
    "scale": "ray",
    "nlp": "spacy",
    "tokenizers": "tokenizers",
    "pandas": "pandas",
    "retrieval": "bm25s",
    "dialog": "pycocoevalcap",
}
OPTIONAL = {
    *(
        "torch",
        "transformers",
        "sentence_transformers",
        "tokenizers",
        "safetensors",
        "gguf",
        "sklearn",
        "faiss",
        "httpx",
    ),
    *("fastapi", "starlette", "uvicorn", "sqlalchemy", "alembic", "psycopg", "itsdangerous", "argon2", "multipart"),
    *("ray", "fsspec", "s3fs", "boto3", "moto", "spacy", "nltk", "lemminflect", "pandas", "bm25s", "pycocoevalcap"),
    *(
        "playwright",
        "axe_playwright_python",
        "schemathesis",
        "nbclient",
        "httpx2",
        "mkdocs",
        "vendi_score",
        "bert_score",
    ),
    *("mauve", "ot", "rouge_score", "sacrebleu", "statsmodels", "pingouin", "datasketches", "mlflow", "psutil"),
}
_INSTALL = re.compile(r"run: pip install 'nlgauge\[(\w+)\]'")


@cache
def is_absent(package: str) -> bool:
    """Whether this is an optional package that is not installed."""
    return package in OPTIONAL and find_spec(package) is None


def absent_package(error: BaseException | None) -> str:
    """The absent package behind an error, if there is one."""
    while error is not None:
        if isinstance(error, MissingExtra) and is_absent(EXTRAS.get(error.extra, "")):
            return EXTRAS[error.extra]
        if isinstance(error, ModuleNotFoundError) and is_absent(top := str(error.name).partition(".")[0]):
            return top
        error = error.__cause__ or error.__context__
    return ""


def skip_if_absent(package: str) -> None:
    """Skip where an optional package is not installed."""
    skip_without(package if is_absent(package) else "")


def skip_without(package: str) -> None:
    """Skip if a package is named: it is absent."""
    if package:
        pytest.skip(f"{package} is not installed", allow_module_level=True)


def skip_by_message(message: str) -> None:
    """Skip if a command says that it requires an extra that is absent."""
    found = _INSTALL.search(message)
    if found and is_absent(EXTRAS[found[1]]):
        skip_without(EXTRAS[found[1]])


class OptionalModule(pytest.Module):
    """A file of tests, skipped if it imports an absent package."""

    def collect(self) -> Any:
        """The tests of the file."""
        try:
            return super().collect()
        except self.CollectError as error:
            skip_without(absent_package(error))
            raise


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    """Files of tests are collected as `OptionalModule`."""
    made: pytest.Module = OptionalModule.from_parent(parent, path=module_path)
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    """Fixtures may require an absent package."""
    yield from _skipped()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Tests may require an absent package."""
    yield from _skipped()


def _skipped() -> Iterator[None]:
    try:
        return (yield)
    except Exception as error:
        skip_without(absent_package(error))
        raise
