"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "nlgauge",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,  # the same examples in every run there; new ones everywhere else
)
settings.load_profile("nlgauge")

ROOT = Path(__file__).parent.parent


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
