"""What is skipped for want of a package: nothing that the core needs, and every extra is known."""

from __future__ import annotations

import tomllib

import pytest

from nlgauge.errors import MissingExtra
from tests import optional
from tests.conftest import ROOT


def test_every_extra_has_a_package_to_look_for_and_no_dependency_of_the_core_is_optional() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(optional.EXTRAS) == set(project["optional-dependencies"]) - {"docs", "test", "lint"}
    assert set(optional.EXTRAS.values()) <= optional.OPTIONAL
    assert not any(one.partition(">")[0] in optional.OPTIONAL for one in project["dependencies"])


def test_only_an_absent_package_that_is_optional_is_behind_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional, "OPTIONAL", {"no_such_package", "pytest"})
    monkeypatch.setitem(optional.EXTRAS, "models", "no_such_package")
    optional.is_absent.cache_clear()
    try:
        wrapped = ValueError("wrapped")
        wrapped.__cause__ = MissingExtra.needs("a model", "models")
        assert optional.absent_package(wrapped) == "no_such_package"
        assert optional.absent_package(ModuleNotFoundError(name="no_such_package.inner")) == "no_such_package"
        for other in ("pytest", "numpy", "nlgauge.gone"):
            assert optional.absent_package(ModuleNotFoundError(name=other)) == ""
    finally:
        optional.is_absent.cache_clear()
