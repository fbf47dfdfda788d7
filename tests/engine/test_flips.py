"""What is stored cannot lie: a flipped bit changes no number, and damage is named; `tests.engine.flips` tries more."""

from __future__ import annotations

import json
import random
import re
import resource
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest

from nlgauge.engine.blobs import BlobStore
from nlgauge.engine.checksums import Damaged, content_words, opened, sealed
from nlgauge.engine.run_folder import RunFolder
from nlgauge.errors import OutputError
from tests.conftest import ROOT
from tests.engine.flips import FINE, KINDS, Flipped, Kind

# Which kinds of `flips` a module writes; a reason where what it writes is not read again as numbers of NLGauge.
OUTPUT = "for people and other programs: read as any input"
SCRATCH = "lives as long as the run"
SITE = "the annotation site's own"
WRITERS = {
    "engine/cache.py": "entry, answers",
    "engine/blobs.py": "embeddings, embeddings of a killed run, log probabilities, parses",
    "engine/saving.py": "run of sets, run of corpus, run of study, run of generation",
    "engine/run_folder.py": "run of sets, run of corpus, run of study, run of generation",
    "report/tables.py": "results, study, plan",
    "report/writing.py": OUTPUT,
    "perturb/manifest.py": "suite",
    "perturb/suite.py": "suite",
    "models/training/run.py": "checkpoint, trained",
    "models/training/objectives.py": "trained",
    "models/training/union.py": "trained",
    "models/training/ruber.py": "trained",
    "models/training/language_model.py": "ngram model",
    "models/language/ngram.py": "ngram model",
    "models/language/tester.py": OUTPUT,
    **dict.fromkeys(("models/fetch.py", "models/identity.py"), "converted, file hashes"),
    **dict.fromkeys(
        ("cli/score.py", "cli/data.py", "cli/perturb.py", "cli/study.py", "data/writing.py", "drawing.py"), OUTPUT
    ),
    **dict.fromkeys(("cli/generate.py", "studies/testers/build.py"), OUTPUT),
    **dict.fromkeys(("perturb/pairs.py", "report/printing.py", "report/training.py", "engine/files.py"), OUTPUT),
    **dict.fromkeys(("text/census.py", "text/spilling.py", "scoring/planning.py"), SCRATCH),
    **dict.fromkeys(("data/sources/pipes.py", "data/sources/polars_files.py"), SCRATCH),
    **dict.fromkeys(
        (
            "annotate/platforms/exchange.py",
            "annotate/pages/researcher.py",
            "annotate/pages/signing.py",
            "cli/annotate.py",
        ),
        SITE,
    ),
}
WRITES = re.compile(
    r"sqlite3\.connect|(?<!formatter)\.(write|sink)_(parquet|ipc|text|bytes|ndjson|csv)\((?!None|\))|(?<!formatter\.)\bwrite_(text|table)\(|\bsave_file\("
    r"|open\([^)]*[\"'][wax]b?[\"']|os\.fdopen|save_pretrained|np\.save|tofile\(|copyfile"
)


def test_every_module_that_writes_is_known() -> None:
    package = ROOT / "src" / "nlgauge"
    found = {str(file.relative_to(package)) for file in package.rglob("*.py") if WRITES.search(file.read_text())}
    assert found == set(WRITERS), "add the module, and a kind to tests/engine/flips.py where NLGauge reads it again"
    kinds = {name for named in WRITERS.values() for name in named.split(", ") if name in {kind.name for kind in KINDS}}
    assert kinds == {kind.name for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_flipped_bit_is_named_or_changes_nothing(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "cache"))
    flipped = Flipped(kind, tmp_path)
    times = 8 if kind.name.startswith("run of") else 200
    outcomes = {flip: flipped.outcome(flip) for flip in flipped.some(random.Random(1), times)}
    assert {flip: outcome for flip, outcome in outcomes.items() if outcome not in FINE} == {}
    assert set(outcomes.values()) != {"same"}  # some flips hit what is checked


class TestBlobs:
    """A database that is damaged, old, shared with a process that is killed, or on a full disk."""

    ITEMS: ClassVar[dict[bytes, bytes]] = {bytes([number]) * 16: bytes([number]) * 1500 for number in range(60)}

    @pytest.fixture
    def store(self, tmp_path: Path) -> BlobStore:
        store = BlobStore("numbers", tmp_path)
        store.put_many(self.ITEMS.items())
        return store

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "stores" / "numbers.sqlite"

    def test_a_damaged_database_is_made_again_once_with_what_can_be_read(self, store: BlobStore, file: Path) -> None:
        content = bytearray(file.read_bytes())
        place = next(place for place in range(4096, len(content), 4096) if content[place] == 10)  # a leaf of the tree
        content[place : place + 4096] = bytes(4096)
        file.write_bytes(content)
        with pytest.warns(
            UserWarning, match=r"numbers\.sqlite: damaged \(.*\): made again with the \d+ entries"
        ) as said:
            found = store.get_many(list(self.ITEMS))
        assert len(said) == 1
        assert 0.8 * len(self.ITEMS) < len(found) < len(self.ITEMS)
        assert found.items() <= self.ITEMS.items()
        assert store.get_many(list(self.ITEMS)) == found
        store.put_many(self.ITEMS.items())
        assert store.get_many(list(self.ITEMS)) == self.ITEMS
        assert [one.name for one in file.parent.iterdir()] == [file.name]

    def test_what_is_no_database_is_replaced(self, store: BlobStore, file: Path) -> None:
        file.write_bytes(b"no database at all" * 1000)
        with pytest.warns(UserWarning, match="made again with the 0 entries"):
            store.put_many(self.ITEMS.items())
        assert store.get_many(list(self.ITEMS)) == self.ITEMS

    def test_entries_of_another_store_are_not_used(self, store: BlobStore, file: Path, tmp_path: Path) -> None:
        file.rename(file.with_name("others.sqlite"))
        with pytest.warns(UserWarning, match=f"damaged and computed again: {len(self.ITEMS)}"):
            assert BlobStore("others", tmp_path).get_many(list(self.ITEMS)) == {}

    def test_entries_of_an_older_version_are_dropped(self, tmp_path: Path, file: Path) -> None:
        file.parent.mkdir()
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("CREATE TABLE blobs (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
            database.executemany("INSERT INTO blobs VALUES (?, ?)", self.ITEMS.items())
        store = BlobStore("numbers", tmp_path)
        assert store.get_many(list(self.ITEMS)) == {}
        store.put_many(self.ITEMS.items())
        assert store.get_many(list(self.ITEMS)) == self.ITEMS

    def test_a_full_disk_harms_nothing_that_is_there(self, store: BlobStore, tmp_path: Path) -> None:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            with pytest.warns(UserWarning, match=r"numbers\.sqlite: cannot be written"):
                store.put_many([(b"more", b"x" * 100_000)])
            (tmp_path / "run" / "pieces").mkdir(parents=True)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
            with pytest.raises(OutputError, match="free some space"), RunFolder(tmp_path / "run").held():
                pass
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert store.get_many(list(self.ITEMS)) == self.ITEMS

    def test_a_process_that_is_killed_while_it_writes_harms_no_other(self, store: BlobStore, tmp_path: Path) -> None:
        program = (
            "import sys\nfrom pathlib import Path\nfrom nlgauge.engine.blobs import BlobStore\n"
            "store = BlobStore('numbers', Path(sys.argv[1]))\nprint('ready', flush=True)\n"
            "while True:\n    store.put_many((bytes([n, 251]) * 8, bytes([n]) * 3000) for n in range(200))\n"
        )
        for _ in range(2):
            with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as writer:
                assert writer.stdout is not None
                writer.stdout.readline()
                for number in range(20):
                    store.put_many([(bytes([number, 252]) * 8, bytes([number]) * 100)])
                writer.kill()
            assert store.get_many(list(self.ITEMS)) == self.ITEMS
            theirs = store.get_many([bytes([number, 251]) * 8 for number in range(200)])
            assert all(value == key[:1] * 3000 for key, value in theirs.items())
            assert len(store.get_many([bytes([number, 252]) * 8 for number in range(20)])) == 20


def test_documents_keep_their_checksum_however_they_are_laid_out() -> None:
    document = {"b": [1.5, None, {"ç": "x"}], "a": {3: 0.1}}
    text = json.dumps(sealed(document), indent=3)
    assert opened(text.encode()) == {"b": [1.5, None, {"ç": "x"}], "a": {"3": 0.1}}
    for wrong in (text.replace("1.5", "1.6"), text.replace("checksum", "sum"), "[1]", "{", "[" * 100_000, "\ud800"):
        with pytest.raises(Damaged):
            opened(wrong.encode("utf-8", "surrogatepass"))


def test_huge_files_are_known_by_samples_and_say_so(tmp_path: Path) -> None:
    file = tmp_path / "huge"
    with file.open("wb") as sparse:
        sparse.truncate((256 << 20) + 1)
    words = content_words(file)
    assert words.startswith("268435457 bytes, SHA-256 of 256 samples of 256 KB ")
    with file.open("r+b") as sparse:
        sparse.seek(-1, 2)
        sparse.write(b"x")
    assert content_words(file) != words
    file.write_bytes(b"abc")
    assert content_words(file) == "3 bytes, SHA-256 ba7816bf8f01cfea414140de5dae2223"
