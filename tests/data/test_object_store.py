"""Objects of a real S3 server and of a web server are read as files are, and their failures are told."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import nlgauge
from nlgauge.data import Source, read
from nlgauge.data.sources.parts import parts_of
from nlgauge.errors import DataError, OptionError
from nlgauge.studies.diversity.content import ContentTest
from tests.data.test_parts import as_rows, joined
from tests.helpers import packed

BUCKET = "shards-of-systems"
LINES = [json.dumps({"text": f"text number {i}", "n": i}).encode() + b"\n" for i in range(200)]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A moto server on loopback in a process of its own."""
    code = (
        "from moto.server import ThreadedMotoServer\n"
        "server = ThreadedMotoServer('127.0.0.1', 0, verbose=False)\n"
        "server.start()\n"
        "print(server.get_host_and_port()[1], flush=True)\n"
        "import sys; sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        port = int(process.stdout.readline())
        yield f"http://127.0.0.1:{port}"
        process.stdin.close()
        process.wait(20)


@pytest.fixture
def store(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A bucket with a client that writes to it; credentials and address are in the environment."""
    import boto3

    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server,
    }.items():
        monkeypatch.setenv(name, value)
    forget_connections()
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    yield client
    forget_connections()
    tell(server, "reset")


def tell(server: str, what: str, body: bytes = b"") -> None:
    """Change how the server behaves."""
    connection = http.client.HTTPConnection(server.removeprefix("http://"))
    connection.request("POST", f"/moto-api/{what}", body)
    assert connection.getresponse().status == 200
    connection.close()


def forget_connections() -> None:
    """Stores remember connections by their settings, not by the environment."""
    import s3fs

    from nlgauge.data.sources import object_stores as stores

    s3fs.S3FileSystem.clear_instance_cache()
    stores._remembered.cache_clear()


def put(store: Any, key: str, data: bytes, **rights: str) -> str:
    store.put_object(Bucket=BUCKET, Key=key, Body=data, **rights)
    return f"s3://{BUCKET}/{key}"


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
def test_an_object_reads_as_a_file_does(store: Any, packing: str) -> None:
    address = put(store, f"a.jsonl{packing}", packed(b"".join(LINES), packing))
    source = Source(path=address)
    assert source.read().texts.to_list() == [f"text number {i}" for i in range(200)]
    parts = check_some(source)
    assert len(parts) == (1 if packing else 8)


def check_some(source: Source) -> list[Any]:
    parts = parts_of([source], 1000)
    assert as_rows(joined(parts, 500)) == as_rows(source.read())
    return parts


@pytest.mark.parametrize("pattern", ["folder/*.jsonl.gz", "folder/", "folder", "folder/s{0..3}.jsonl.gz"])
def test_a_pattern_of_objects_is_one_system(store: Any, pattern: str) -> None:
    for shard in range(4):
        put(store, f"folder/s{shard}.jsonl.gz", packed(b"".join(LINES[shard * 50 : shard * 50 + 50]), ".gz"))
    put(store, "folder/_SUCCESS", b"")
    source = Source(path=f"s3://{BUCKET}/{pattern}")
    assert source.read().texts.to_list() == [f"text number {i}" for i in range(200)]
    assert len(check_some(source)) == 4


def test_parquet_in_a_store(store: Any, tmp_path: Path) -> None:
    pl.DataFrame({"text": [f"text number {i}" for i in range(200)]}).write_parquet(tmp_path / "a.parquet")
    source = Source(path=put(store, "a.parquet", (tmp_path / "a.parquet").read_bytes()))
    assert source.read().texts.to_list() == [f"text number {i}" for i in range(200)]
    assert len(parts_of([source], 500)) > 1
    check_some(source)


def test_ranges_are_read_and_never_the_whole_object(store: Any) -> None:
    """A part of 1 MB near the end of 64 MB of lines costs a few blocks of memory."""
    address = put(store, "large.txt", b"some words of a line\n" * ((64 << 20) // 21))
    code = f"""
import resource
from nlgauge.data.sources.parts import parts_of
from nlgauge.data.reading import Source
source = Source(path={address!r})
first = next(source.chunks(1 << 20))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
parts = parts_of([source], 8 << 20)
print(len(parts), sum(chunk.payload.count(b"\\n") for part in parts for chunk in part.chunks(1 << 20)))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    counts, growth = done.stdout.splitlines()
    assert counts == f"8 {(64 << 20) // 21}"
    assert int(growth) < 32


def test_a_changed_object_is_noticed(store: Any) -> None:
    address = put(store, "a.jsonl", b"".join(LINES))
    part = parts_of([Source(path=address)], 1000)[-1]
    part.check_unchanged()
    put(store, "a.jsonl", b"".join(reversed(LINES)))
    with pytest.raises(DataError, match="as when the run began"):
        part.check_unchanged()
    put(store, "a.jsonl", LINES[0])
    with pytest.raises(DataError, match=r"a\.jsonl: (ends at byte|cannot be read)"):
        list(part.chunks())
    store.delete_object(Bucket=BUCKET, Key="a.jsonl")
    with pytest.raises(DataError, match="no such bucket or object"):
        part.check_unchanged()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        (f"s3://{BUCKET}/none.jsonl", "no such bucket or object"),
        ("s3://no-such-bucket-here/a.jsonl", "no such bucket or object"),
        (f"s3://{BUCKET}/none/*.jsonl", "matches no object"),
    ],
)
def test_what_is_not_there(store: Any, address: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        read(address)


def test_denied_access(store: Any, monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    """The server checks signatures from now on, and nobody has a right."""
    address = put(store, "a.jsonl", LINES[0])
    tell(server, "reset-auth", b"0")
    try:
        with pytest.raises(DataError, match=r"access is denied .*credentials"):
            read(address)
    finally:
        tell(server, "reset-auth", b"inf")


def test_a_server_that_is_not_there(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    forget_connections()
    with pytest.raises(DataError, match="check the address and the network"):
        read(f"s3://{BUCKET}/a.jsonl")


@pytest.mark.parametrize(
    "address",
    [
        "file::s3://bucket/a.jsonl",
        "simplecache::s3://bucket/a.jsonl",
        "s3://bucket/a.zip::zip://a.jsonl",
        "reference://a.jsonl",
        "dask://a.jsonl",
        "file:///etc/passwd",
        "local:///etc/passwd",
        "github://owner:name@/a.jsonl",
        "ftp://host/a.jsonl",
    ],
)
def test_protocols_that_chain_cache_or_run_are_refused(address: str) -> None:
    with pytest.raises(OptionError, match=r"is a chain of protocols|expected one of s3"):
        read(address)


def test_a_store_without_its_package_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from nlgauge.errors import MissingExtra

    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtra, match=r"pip install 'nlgauge\[scale\]'"):
        read("s3://bucket/a.jsonl")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that gives no ranges."""

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


class Ranged(Quiet):
    """A server that gives ranges, and says so."""

    def end_headers(self) -> None:
        """Say so."""
        self.send_header("Accept-Ranges", "bytes")
        super().end_headers()

    def do_GET(self) -> None:
        """The bytes that are asked for."""
        if "Range" not in self.headers:
            super().do_GET()
            return
        data = Path(self.translate_path(self.path)).read_bytes()
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        part = data[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)


class TestWeb:
    @pytest.fixture
    def site(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
        handler = partial(getattr(request, "param", Quiet), directory=str(tmp_path))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            yield f"http://127.0.0.1:{server.server_address[1]}", tmp_path
            server.shutdown()
            thread.join()

    @pytest.mark.parametrize("packing", ["", ".gz"])
    def test_a_page_reads_as_a_file_does(self, site: tuple[str, Path], packing: str) -> None:
        address, folder = site
        (folder / f"a.jsonl{packing}").write_bytes(packed(b"".join(LINES), packing))
        source = Source(path=f"{address}/a.jsonl{packing}")
        assert source.read().texts.to_list() == [f"text number {i}" for i in range(200)]
        assert len(check_some(source)) == 1

    def test_a_public_object(self, store: Any, server: str) -> None:
        put(store, "a.jsonl", b"".join(LINES), ACL="public-read")
        check_some(Source(path=f"{server}/{BUCKET}/a.jsonl"))

    def test_what_is_not_there(self, site: tuple[str, Path]) -> None:
        with pytest.raises(DataError, match="no such bucket or object"):
            read(f"{site[0]}/none.jsonl")

    def test_what_is_not_public(self, store: Any, server: str) -> None:
        put(store, "a.jsonl", LINES[0])
        with pytest.raises(DataError, match="access is denied"):
            read(f"{server}/{BUCKET}/a.jsonl")

    def test_a_server_that_is_not_there(self) -> None:
        with pytest.raises(DataError, match="check the address and the network"):
            read("http://127.0.0.1:9/a.jsonl")

    @pytest.mark.parametrize("site", [Ranged], indirect=True)
    def test_a_server_of_ranges_is_asked_for_ranges(self, site: tuple[str, Path]) -> None:
        (site[1] / "a.jsonl").write_bytes(b"".join(LINES))
        assert len(check_some(Source(path=f"{site[0]}/a.jsonl"))) == 8


@pytest.mark.parametrize("metrics", [["distinct"], ["distinct", "sent-sim"]], ids=["words", "model"])
@pytest.mark.parametrize("form", ["object", "pattern"])
def test_an_object_is_opened_at_most_twice(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, metrics: list[str]
) -> None:
    import s3fs

    opened: Counter[str] = Counter()
    plain_open = s3fs.S3FileSystem.open

    def counting_open(system: Any, path: str, *arguments: Any, **options: Any) -> Any:
        opened[path] += 1
        return plain_open(system, path, *arguments, **options)

    monkeypatch.setattr(s3fs.S3FileSystem, "open", counting_open)
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "cache"))
    rows = [
        {"context": f"day {i}", "responses": [f"sun {i}", f"rain {i} or snow", f"fog {i % 3}"], "label": i // 2 % 2}
        for i in range(40)
    ]
    lines = [json.dumps(row).encode() + b"\n" for row in rows]
    names = []
    for system in "ab":
        objects = [put(store, f"{system}/{k}.jsonl", b"".join(lines[k::2])) for k in range(2)]
        names.append(objects[0] if form == "object" else f"s3://{BUCKET}/{system}/*.jsonl")
    scores = nlgauge.score(names, metrics)
    assert len(scores) == 2 * len(metrics)
    assert len(opened) == (2 if form == "object" else 4)
    assert max(opened.values()) <= 2, opened
    opened.clear()
    nlgauge.report(names, metrics, output=tmp_path / "card.html")
    assert max(opened.values()) <= 2, opened
    opened.clear()
    ContentTest(label="label", metrics=metrics).run(names[:1])
    assert max(opened.values()) <= 2, opened
