"""The example of a plugin, which `make test` installs: each of its parts is where those of NLGauge are."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import nlgauge
from nlgauge import extend
from nlgauge.data.human.forms import load_form
from nlgauge.errors import NLGaugeError, PluginError, UnknownName
from nlgauge.metrics.registry import METRICS, create_metric
from nlgauge.perturb.registry import PERTURBATIONS, create_perturbation
from nlgauge.studies.registry import STUDIES, create_study
from tests.conftest import ROOT

PACKAGE = ROOT / "examples" / "plugin" / "src" / "nlgauge_example"
OWNER = f"nlgauge-example {version('nlgauge-example')}"
A, B = str(ROOT / "examples" / "system_a.jsonl"), str(ROOT / "examples" / "system_b.jsonl")


def command(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `nlgauge`, perhaps with a folder of installed packages more."""
    places = [*([str(path)] if path else []), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-c", "from nlgauge.cli.main import main; main()", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("metrics",), r"^openings +Different openings"),
        (("study", "--help"), r"^  length  +Length test"),
        (("study", "length", "--help"), r"--metric"),
        (("perturb", "list"), r"^wide-spaces \(robustness\)"),
        (("annotate", "forms"), rf"^surprise .*\({OWNER}\)"),
    ],
)
def test_each_part_is_listed(arguments: tuple[str, ...], expected: str) -> None:
    assert re.search(expected, command(*arguments).stdout, re.M)


def test_signatures_and_records_name_the_package_and_its_version() -> None:
    (score,) = nlgauge.score(A, ["openings:words=1"])
    result = create_study("length:metrics=openings+distinct").run(A)
    for signature in (score.signature, result.signature, create_perturbation("wide-spaces").signature):
        assert signature.plugin == OWNER
    assert create_metric(str(score.signature)) == create_metric("openings:words=1")
    assert [row["metric"] for row in result.rows] == ["openings", "distinct"]
    form = load_form("surprise")
    assert form.plugin == OWNER
    assert type(form).from_json(form.to_json()) == form


def test_the_report_has_the_metric_under_its_own_question(tmp_path: Path) -> None:
    done = command("report", A, B, "-m", "distinct", "-m", "openings", "-o", str(tmp_path / "report.html"))
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    own = page.partition("<h2>Openings</h2>")[2].partition("<h2>")[0]
    assert "openings" in own
    assert "distinct" not in own


def test_the_contract_tests_and_the_docs_have_each_part() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from hooks import metrics_page  # type: ignore[import-not-found,unused-ignore]
    finally:
        sys.path.remove(str(ROOT / "docs"))
    from tests.metrics.test_contract import VARIANTS
    from tests.perturb.test_perturb_properties import WHOLE
    from tests.studies.test_studies import STUDIES as STUDIED

    assert "openings" in VARIANTS
    assert "wide-spaces" in WHOLE.mark.args[1]
    assert "length" in STUDIED
    assert "\n## openings\n" in metrics_page()


def test_each_part_is_one_file_that_imports_only_extend() -> None:
    files = {file.name for file in PACKAGE.iterdir() if file.is_file()}
    assert files == {"__init__.py", "length.py", "openings.py", "surprise.toml", "wide_spaces.py"}
    for file in PACKAGE.glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        places = {node.module: [one.name for one in node.names] for node in froms}
        ours = {place: names for place, names in places.items() if (place or "").startswith("nlgauge")}
        assert not set(ours) - {"nlgauge", "nlgauge.extend"}, file
        assert ours.get("nlgauge", ["extend"]) == ["extend"], file
    assert len((PACKAGE / "length.py").read_text(encoding="utf-8").splitlines()) <= 40


def test_every_error_is_public_in_both_places() -> None:
    family: list[type[NLGaugeError]] = [NLGaugeError, *NLGaugeError.__subclasses__()]
    for kind in (one for one in family if one.__module__ == "nlgauge.errors"):
        assert getattr(nlgauge, kind.__name__) is kind
        assert getattr(extend, kind.__name__) is kind
    assert all(hasattr(extend, name) for name in extend.__all__)


def installed(folder: Path, name: str, **points: str) -> None:
    """Metadata of a package with entry points, as pip leaves it."""
    place = folder / f"{name}-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[nlgauge.{group}]\n{point}\n" for group, point in points.items()]
    (place / "entry_points.txt").write_text("".join(lines))


KINDS: list[tuple[str, Any]] = [("metrics", METRICS), ("studies", STUDIES), ("perturbations", PERTURBATIONS)]


@pytest.mark.parametrize(("group", "registry"), KINDS)
def test_two_packages_with_one_name_are_both_named(
    group: str, registry: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "first", **{group: "same = one:One"})
    installed(tmp_path, "second", **{group: "same = two:Two"})
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PluginError, match=r"(?s)(?=.*first 1\.0)(?=.*second 1\.0)"):
        registry.find("same")
    built_in = next(iter(registry.built_in))
    assert registry.find(built_in).name == built_in


def test_a_file_may_not_take_the_name_of_an_installed_metric() -> None:
    class Openings(METRICS.find("openings")):  # type: ignore[misc]
        """Another of the same name."""

    with pytest.raises(PluginError, match=OWNER):
        METRICS.register(Openings)
    assert METRICS.register(METRICS.find("openings")).name == "openings"


def test_packages_that_fail_are_named_and_the_others_work(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('out of order')\n")
    (tmp_path / "broken_package").mkdir()
    (tmp_path / "broken_package" / "__init__.py").write_text("raise ValueError('out of order')\n")
    installed(
        tmp_path,
        "broken",
        metrics="lost = broken:Lost",
        studies="lost = broken_package.study:Lost",
        perturbations="lost = broken:Lost",
        forms="lost = broken_package",
    )
    for arguments, works in (
        (("metrics",), "distinct"),
        (("perturb", "list"), "wide-spaces"),
        (("annotate", "forms"), "surprise"),
    ):
        done = command(*arguments, path=tmp_path)
        assert done.returncode == 0, done.stderr
        assert works in done.stdout
        assert re.search(r"'lost' of broken 1\.0 cannot .*ValueError: out of order", done.stderr)
    help = command("study", "--help", path=tmp_path)
    assert re.search(r"^  lost +\(cannot be imported: ValueError: out of order\)", help.stdout, re.M), help.stderr
    scored = command("score", A, "-m", "openings", "-f", "json", path=tmp_path)
    assert json.loads(scored.stdout)
    failed = command("score", A, "-m", "lost", path=tmp_path)
    assert failed.returncode == 2
    assert "broken 1.0" in failed.stderr


def test_an_unknown_option_of_a_plugin_suggests_the_nearest() -> None:
    for create, spec, near in (
        (create_metric, "openings:word=1", "words"),
        (create_study, "length:metric=distinct", "metrics"),
    ):
        with pytest.raises(UnknownName, match=f"did you mean '{near}'"):
            create(spec)
