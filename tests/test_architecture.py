"""The house keeps its shape."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

PACKAGE = ROOT / "src" / "nlgauge"
MAY_IMPORT = {
    "engine": set[str](),
    "stats": {"engine"},
    "data": {"engine"},
    "text": {"data", "engine"},
    "models": {"data", "text", "engine"},
    "metrics": {"data", "text", "models", "stats", "engine"},
    "scoring": {"data", "text", "models", "metrics", "stats", "engine"},
    "perturb": {"data", "text", "models", "metrics", "engine"},
    "studies": {"data", "text", "models", "metrics", "scoring", "perturb", "stats", "engine"},
    "report": {"data", "text", "models", "metrics", "scoring", "perturb", "stats", "studies", "engine"},
    "annotate": {"data", "text", "models", "metrics", "scoring", "perturb", "stats", "studies", "engine"},
    "cli": {
        *("annotate", "data", "text", "models", "metrics", "scoring"),
        *("perturb", "stats", "studies", "report", "engine"),
    },
}


def imports_of(file: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        rooms |= {name.split(".")[1] for name in names if name.startswith("nlgauge.")}
    return rooms & set(MAY_IMPORT)


def test_every_room_is_known_and_documented() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms == set(MAY_IMPORT)
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert all(f"`{room}/`" in text for room in rooms)


def test_a_room_imports_only_from_rooms_to_its_left() -> None:
    for room, allowed in MAY_IMPORT.items():
        for file in (PACKAGE / room).rglob("*.py"):
            assert imports_of(file) <= allowed | {room}, file


def test_no_folder_is_crowded_and_each_says_what_lives_there() -> None:
    for folder in {file.parent for file in PACKAGE.rglob("*.py")} - {PACKAGE / "cli"}:
        files = list(folder.glob("*.py"))
        assert len(files) <= 16, folder
        if (folder / "__init__.py").exists():
            assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text())), folder


def test_importing_nlgauge_loads_nothing_heavy() -> None:
    code = (
        "import sys, nlgauge, nlgauge.cli.main\n"
        "heavy = {'torch', 'scipy.stats', 'scipy', 'numba', 'pandas', 'polars', 'numpy', 'altair'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_scoring_loads_no_torch_no_pandas_and_no_scipy_stats(examples: Path) -> None:
    code = (
        "import sys, nlgauge\n"
        f"nlgauge.score({str(examples / 'system_a.jsonl')!r}, ['distinct', 'self-bleu'])\n"
        "print(sorted({'torch', 'scipy.stats', 'pandas', 'altair'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_exist_and_unknown_ones_do_not() -> None:
    import nlgauge

    for name in nlgauge.__all__:
        assert getattr(nlgauge, name) is not None
    assert not hasattr(nlgauge, "no_such_name")
