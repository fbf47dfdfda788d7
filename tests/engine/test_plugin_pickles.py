"""What a user's file registers goes to worker processes by name, whatever its kind."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from nlgauge.annotate.rules import RULES
from nlgauge.errors import PluginError
from nlgauge.metrics.registry import METRICS
from nlgauge.perturb.registry import PERTURBATIONS

PLUGIN = '''
from dataclasses import dataclass
from nlgauge.annotate.quality import AssignmentRule
from nlgauge.annotate.rules import register_rule
from nlgauge.configured import option
from nlgauge.metrics.diversity.ngram import Distinct
from nlgauge.metrics.registry import register_metric
from nlgauge.perturb import Perturbation, Unchanged, register_perturbation

@register_perturbation
@dataclass(frozen=True, kw_only=True)
class Own(Perturbation):
    """Nothing changes."""
    name, kind = "own-change", "robustness"
    share: float = option(0.5, "Not used.")
    def perturb(self, story, draw, corpus):
        return Unchanged("never")

@register_metric
@dataclass(frozen=True, kw_only=True)
class OwnDistinct(Distinct):
    """Distinct under another name."""
    name = "own-distinct"

@register_rule
@dataclass(frozen=True, kw_only=True)
class OwnRule(AssignmentRule):
    """Nothing is rejected."""
    name = "own-rule"
    least: int = option(3, "Not used.")
    def find(self, work):
        return None
'''
UNPICKLE = "import pickle, sys; made = pickle.load(open(sys.argv[1], 'rb')); print(*(one.spec for one in made))"


def test_objects_of_a_users_file_reach_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pickled_things.py"
    file.write_text(PLUGIN)
    monkeypatch.setenv("NLGAUGE_PLUGINS", str(file))
    made = (
        PERTURBATIONS.create("own-change:share=0.25"),
        METRICS.create("own-distinct:n=2"),
        RULES.create("own-rule:least=4"),
        PERTURBATIONS.create("typos:share=0.1"),
    )
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301 - made above
    (tmp_path / "made.pickle").write_bytes(pickle.dumps(made))
    command = [sys.executable, "-c", UNPICKLE, str(tmp_path / "made.pickle")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["own-change:share=0.25", "own-distinct:n=2", "own-rule:least=4", "typos:share=0.1"]
    monkeypatch.delenv("NLGAUGE_PLUGINS")
    assert PluginError.__name__ in subprocess.run(command, capture_output=True, text=True, check=False).stderr
