"""What every comparison needs: where to work, how much to do, and how to run both sides."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from peers_venv import PeersVenv
from programs import ProgramError, run_module


@dataclass(frozen=True)
class Peer:
    """A program under `peers/`, what it calls, and the package it needs, if any."""

    name: str
    module: str
    calls: str
    package: str = ""


@dataclass(frozen=True)
class Bench:
    """Settings of a run."""

    work: Path
    scale: float

    @cached_property
    def peers(self) -> PeersVenv:
        """Where the peers are installed."""
        return PeersVenv(self.work / "peers-venv")

    @cached_property
    def environment(self) -> dict[str, str]:
        """Keeps NLGauge's scratch files in the work folder too."""
        scratch = self.work / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        return {**os.environ, "NLGAUGE_SCRATCH": str(scratch)}

    def scaled(self, full: int, *, least: int = 1, multiple: int = 1) -> int:
        """A size at this scale."""
        return max(least, round(full * self.scale / multiple) * multiple)

    def run_ours(self, case: str, path: Path) -> dict[str, Any]:
        """NLGauge's report."""
        return run_module(Path(sys.executable), "ours", case, path, environment=self.environment)

    def run_beside(self, module: str, *arguments: str | Path, fresh_memory: bool = False) -> dict[str, Any]:
        """The report of a module where NLGauge is installed; `fresh_memory` forgets what was computed before."""
        environment = self.environment
        if fresh_memory:
            shutil.rmtree(self.work / "memory", ignore_errors=True)
            environment = {**environment, "NLGAUGE_CACHE": str(self.work / "memory")}
        return run_module(Path(sys.executable), module, *arguments, environment=environment)

    def run_peer(self, peer: Peer, *arguments: str | Path) -> dict[str, Any]:
        """A peer's report; when it cannot run, one that says why under `problem`."""
        try:
            version = self.peers.install(peer.package) if peer.package else ""
            return run_module(self.peers.python, f"peers.{peer.module}", *arguments, environment=self.environment) | {
                "version": version
            }
        except ProgramError as error:
            return {"problem": str(error)}
