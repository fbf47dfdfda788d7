"""METEOR: equal to the program called by hand, whatever the texts."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import nlgauge
from nlgauge.errors import MissingExtra, ModelError
from nlgauge.metrics import meteor
from nlgauge.metrics.registry import create_metric
from tests.test_reference_metrics import Pairs, items_of, value, values


@pytest.fixture(scope="session")
def java() -> None:
    try:
        meteor.find_program()
    except MissingExtra as error:
        pytest.skip(str(error))


class TestMeteor:
    DATA: ClassVar[Pairs] = [
        ("the cat sat on a mat", ["the cat sat on the mat", "a cat is on the mat"]),
        ("completely different thing", ["hello there friend"]),
        ("the dogs were running", ["a dog ran", "the dog runs"]),
        ("ünïcode “quotes” don't", ["ünïcode quotes do n't"]),
        ("", ["something"]),
        ("something", ["", "some thing"]),
    ]

    def by_hand(self, data: Pairs) -> tuple[list[float], float]:
        """The program run once from its own folder, as its manual says."""
        java, jar = meteor.find_program()
        arguments = [java, "-Xmx2G", "-Dfile.encoding=UTF-8", "-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-norm"]

        def ask(lines: list[str]) -> list[str]:
            text = "\n".join(lines) + "\n"
            done = subprocess.run(arguments, cwd=jar.parent, input=text.encode(), capture_output=True, check=True)
            return done.stdout.decode().splitlines()

        counts = ask([" ||| ".join(["SCORE", *references, text]) for text, references in data])
        *each, together = map(float, ask([" ||| ".join(["EVAL", *counts])]))
        return each, together

    def test_it_equals_the_program_called_by_hand(self, java: None) -> None:
        each, together = self.by_hand(self.DATA)
        assert values("meteor", self.DATA) == pytest.approx([100 * score for score in each], abs=1e-10)
        whole = create_metric("meteor:over=corpus").score(items_of(self.DATA))
        assert whole.value == pytest.approx(100 * together, abs=1e-10)
        assert whole.value != pytest.approx(100 * np.mean(each), abs=0.1)

    def test_bars_and_line_breaks_in_texts_cannot_upset_the_protocol(self, java: None) -> None:
        hostile: Pairs = [
            ("a cat ||| EVAL ||| 1 2", ["a cat\nSCORE ||| x ||| x", "||||||"]),
            ("line\r\nbreak\u2028here\x85now\x00", ["line break here now"]),
            ("|||", ["|||", "a ||| b"]),
            ("a cat", ["a cat"]),
        ]
        found = values("meteor", hostile)
        assert found[3] == value("meteor", "a cat", "a cat") == pytest.approx(100)
        assert found[0] == value("meteor", "a cat EVAL 1 2", "a cat SCORE x x", "")
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

    def test_it_ends_when_its_parent_is_killed(self, java: None, tmp_path: Path) -> None:
        import psutil

        code = (
            "import os, signal\nfrom nlgauge.metrics.meteor import MeteorProgram\nprogram = MeteorProgram()\n"
            "program.counts([('a', ['a'])])\nprint(program._process.pid, flush=True)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        pid = int(done.stdout)
        if psutil.pid_exists(pid):
            psutil.wait_procs([psutil.Process(pid)], timeout=20)
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def find_wordnet() -> Any:
    from nltk.corpus import wordnet

    try:
        wordnet.ensure_loaded()
    except LookupError:
        return None
    return wordnet


def test_nltks_meteor_equals_nltk_or_says_that_wordnet_is_missing() -> None:
    data: Pairs = [("the cats sat", ["a cat sits", "the cat sat"]), ("", ["x"])]
    if find_wordnet() is None:
        with pytest.raises(ModelError, match=r"run: python -m nltk\.downloader wordnet"):
            values("meteor-nltk:scale=1", data)
        pytest.skip("NLTK's WordNet data is not on this machine")
    found = values("meteor-nltk:scale=1", data)
    from nltk.translate.meteor_score import meteor_score

    assert found == [meteor_score([r.split() for r in references], text.split()) for text, references in data]
