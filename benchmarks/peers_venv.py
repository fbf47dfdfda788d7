"""The peers' own virtual environment: their pins must not decide what NLGauge is installed with."""

from __future__ import annotations

import subprocess
import sys
import venv
from functools import cached_property
from pathlib import Path

from programs import ProgramError, last_line

# `diversity` imports spacy and openai without asking for them, and brings torch: this version, before it picks another.
PACKAGES = {
    "diversity": (("torch==2.13.0",), ("diversity==0.3.1", "spacy", "openai")),
    "fast-bleu": (("fast-bleu==0.0.90",),),
    "nltk": (("nltk",),),
}


class PeersVenv:
    """Made on first use; packages are installed when a comparison asks for them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def python(self) -> Path:
        """Its interpreter."""
        python = self._folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        if not python.exists():
            venv.create(self._folder, with_pip=True)
        return python

    def install(self, peer: str) -> str:
        """Install a peer unless it is there, and return its version; `ProgramError` when that cannot be done."""
        for requirements in PACKAGES[peer]:
            self._run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
        return self._run("-c", f"from importlib.metadata import version; print(version({peer!r}))").strip()

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([self.python, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
            raise ProgramError(f"cannot be installed: {errors[0] if errors else last_line(done.stderr)}")
        return done.stdout
