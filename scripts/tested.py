"""Writes requirements/tested.txt: the versions with which the suite passed, as constraints for pip.

Run it with the Python of the environment in which the suite passed (`make tested` does both). `--check` compares the
file with what pyproject.toml and the Makefile ask for; a test does the same.
"""

from __future__ import annotations

import platform
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
TESTED = ROOT / "requirements" / "tested.txt"
_LEFT_OUT = ("pip", "setuptools", "wheel", "nlgauge", "nlgauge-example")
_HEAD = f"""# Versions with which the whole suite passed (Python {platform.python_version()}, {platform.system()}).
# `make test TESTED=1` installs these; `make tested` writes them; `python -m scripts.tested --check` checks them.
"""


def installed() -> dict[str, Version]:
    """What is installed here, without this project; a build's own mark, such as +cpu, is left out."""
    found = {canonicalize_name(one.metadata["Name"]): Version(Version(one.version).public) for one in distributions()}
    return {name: version for name, version in sorted(found.items()) if name not in _LEFT_OUT}


def pinned(text: str) -> dict[str, Version]:
    """The versions in the text of a file of constraints: nothing but names and versions may be in it."""
    pins = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            found = re.fullmatch(r"([a-z0-9-]+)==([0-9a-z.]+)", line)
            if found is None:
                raise ValueError(f"{TESTED.name}: found {line!r}; expected name==version")
            pins[found[1]] = Version(found[2])
    return pins


def asked() -> Iterator[Requirement]:
    """What pyproject.toml asks for, extras included, and the Makefile."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    yield from map(Requirement, [*project["dependencies"], *(one for extra in extras for one in extra)])
    yield from map(
        Requirement, re.findall(r"[a-z][a-z0-9-]*==[0-9.]+", (ROOT / "Makefile").read_text(encoding="utf-8"))
    )


def problems(pins: dict[str, Version]) -> list[str]:
    """What is asked for and has no version, or one out of its range."""
    found = []
    for one in asked():
        pin = pins.get(canonicalize_name(one.name))
        if one.marker is not None and not one.marker.evaluate():
            continue
        if pin is None:
            found.append(f"{one}: has no tested version")
        elif not one.specifier.contains(pin, prereleases=True):
            found.append(f"{one}: the tested version is {pin}")
    return sorted(set(found))


def main(arguments: list[str]) -> int:
    """Write the file, or check it; 1 where it does not fit."""
    if arguments == ["--check"]:
        pins = pinned(TESTED.read_text(encoding="utf-8"))
    else:
        pins = installed()
        TESTED.write_text(_HEAD + "".join(f"{name}=={version}\n" for name, version in pins.items()), encoding="utf-8")
    wrong = problems(pins)
    print("\n".join(wrong) or f"{len(pins)} tested versions fit pyproject.toml and the Makefile")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
