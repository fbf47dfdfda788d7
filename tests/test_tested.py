"""The versions in requirements/tested.txt fit what is asked for, and the check of them finds what does not."""

from __future__ import annotations

from packaging.version import Version
from scripts.tested import TESTED, installed, pinned, problems


def test_every_dependency_has_a_tested_version_in_its_range() -> None:
    pins = pinned(TESTED.read_text(encoding="utf-8"))
    assert problems(pins) == []
    assert str(pins["torch"]) == "2.13.0"


def test_a_missing_version_and_one_out_of_its_range_are_named() -> None:
    pins = pinned(TESTED.read_text(encoding="utf-8"))
    del pins["polars"]
    pins["click"], pins["torch"] = Version("7.0"), Version("2.12.0")
    found = problems(pins)
    assert [line.partition(":")[0] for line in found] == ["click>=8.2", "polars>=1.30", "torch==2.13.0"]


def test_what_is_installed_is_written_without_builds_and_places() -> None:
    found = installed()
    assert "nlgauge" not in found
    assert all(version.local is None for version in found.values())
    assert pinned("".join(f"{name}=={version}\n" for name, version in found.items())) == found
