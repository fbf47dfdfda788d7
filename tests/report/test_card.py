"""What a report card says, and what it refuses."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from nlgauge.cli.main import app
from nlgauge.errors import DataError, MissingExtra, NLGaugeError, OptionError, OutputError
from nlgauge.report.card.questions import BY_KEY
from nlgauge.report.card.summary import summarise
from nlgauge.report.card.texts import clipped, visible
from nlgauge.report.printing import print_page
from nlgauge.report.results import read_result
from nlgauge.scoring.compared import Comparison, Evidence
from nlgauge.scoring.power import power_of
from nlgauge.stats.permutation import sign_tails
from nlgauge.studies.base import Result
from nlgauge.studies.huse.score import Huse
from tests import helpers
from tests.errors import raises
from tests.helpers import write_document

WORDS = tuple(f"word{i}" for i in range(300))


def write_sets(file: Path, rows: Sequence[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def make_sets(file: Path, *, contexts: int = 40, length: int = 8, breadth: int = 60, prefix: str = "q") -> Path:
    """Sets of five responses of random words."""
    draw = random.Random(f"{file.stem} {length} {breadth}")
    return write_sets(
        file,
        [
            {
                "id": f"{prefix}{i}",
                "context": f"{prefix} {i}?",
                "responses": [" ".join(draw.choices(WORDS[:breadth], k=length)) for _ in range(5)],
            }
            for i in range(contexts)
        ],
    )


def report(*arguments: str | Path, output: Path) -> str:
    done = CliRunner().invoke(app, ["report", *map(str, arguments), "-o", str(output)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stderr


def document(*arguments: str | Path, output: Path) -> dict[str, Any]:
    """The report as JSON."""
    report(*arguments, output=output)
    found: dict[str, Any] = json.loads(output.read_text())
    return found


def titles(found: dict[str, Any]) -> list[str]:
    return [advice["title"] for advice in found["advice"]]


def made(metric: str, difference: float, p: float, higher: str) -> Comparison:
    return Comparison(metric, metric, "a", "b", difference, (0, 0), p, 9, higher, "", p)  # type: ignore[arg-type]


def test_the_summary_says_what_the_tests_say() -> None:
    comparisons = [
        made("distinct", 0.2, 0.01, "more diverse"),
        made("self-bleu", 0.2, 0.01, "less diverse"),
        made("cos-sim", 0.2, 0.06, "more diverse"),
        made("ppl", -3.0, 0.01, "better"),
        made("content", 0.1, 0.06, "more diverse"),
    ]
    questions = {"distinct": "form", "self-bleu": "form", "cos-sim": "form", "ppl": "fluency", "content": "content"}
    names = {name: name for name in questions}
    found = summarise(comparisons, questions, names, ["a", "b"])
    assert [(verdict.kind, verdict.sentence) for verdict in found] == [
        (
            "mixed",
            "The metrics disagree: b is more varied in form than a by distinct, and less varied in form by self-bleu.",
        ),
        ("none", "No significant difference in content between b and a by content."),
        ("down", "b is less fluent than a by ppl."),
    ]
    assert found[0].detail == "no significant difference by cos-sim"


def test_a_system_does_not_differ_from_itself(tmp_path: Path) -> None:
    one = make_sets(tmp_path / "one.jsonl")
    two = tmp_path / "two.jsonl"
    two.write_text(one.read_text())
    found = document(one, two, "-m", "distinct", "-m", "ead", output=tmp_path / "report.json")
    assert [verdict["kind"] for verdict in found["summary"]] == ["none", "none"]


def test_contexts_that_differ_are_refused_with_a_reason_and_compared_unpaired(tmp_path: Path) -> None:
    one, two = make_sets(tmp_path / "one.jsonl"), make_sets(tmp_path / "two.jsonl", prefix="other", breadth=10)
    said = report(one, two, "-m", "distinct", output=tmp_path / "report.json")
    found = json.loads((tmp_path / "report.json").read_text())
    assert found["summary"] == []
    assert "0 ids in common" in found["refusal"]
    assert "--unpaired" in found["refusal"]
    assert "systems were not compared" in said
    assert "No paired test was made" in titles(found)
    unpaired = document(one, two, "-m", "distinct", "--unpaired", output=tmp_path / "unpaired.json")
    assert unpaired["summary"][0]["sentence"] == "two is less varied in form than one by distinct."
    assert "Unpaired tests" in titles(unpaired)


def test_sizes_and_families_are_said_on_the_page(tmp_path: Path) -> None:
    one = make_sets(tmp_path / "one.jsonl")
    rows = [json.loads(line) for line in one.read_text().splitlines()]
    two = write_sets(tmp_path / "two.jsonl", [{**row, "responses": row["responses"][:2]} for row in rows])
    own = document(one, two, "-m", "distinct", "-m", "entropy", "--size", "own", output=tmp_path / "own.json")
    assert {one["detail"] for one in own["summary"]} == {"measured at different sizes by distinct and entropy"}
    advice = next(one for one in own["advice"] if one["title"] == "Sizes")
    assert advice["kind"] == "warning"
    assert "'one' 5 responses per set, 'two' 2 responses per set" in advice["text"]
    report(one, two, "-m", "distinct", "-m", "entropy", output=tmp_path / "common.md")
    page = (tmp_path / "common.md").read_text()
    assert "Tests: 2 tests are one family, corrected by max-T" in page
    assert "measured at 2 responses per set" in page
    assert "measured at different sizes" not in page
    report(one, two, "-m", "distinct", output=tmp_path / "common.html")
    assert "Paired tests on the same contexts: one test" in (tmp_path / "common.html").read_text()


def test_skewed_values_are_pointed_out(tmp_path: Path) -> None:
    values = [0.0] * 38 + [5.0, 90.0]
    one, two = (make_sets(tmp_path / f"{name}.jsonl") for name in ("one", "two"))
    for file in (one, two):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        write_sets(file, [{**row, "hits": value} for row, value in zip(rows, values, strict=True)])
    found = document(one, two, "-m", "distinct", "--column", "hits", output=tmp_path / "report.json")
    assert "Skewed values of hits" in titles(found)
    assert "Skewed values of distinct" not in titles(found)


def test_a_metric_without_a_test_does_not_keep_others_from_theirs(tmp_path: Path) -> None:
    one, two = make_sets(tmp_path / "one.jsonl"), make_sets(tmp_path / "two.jsonl", breadth=20)
    found = document(one, two, "-m", "distinct", "-m", "entropy:over=corpus", output=tmp_path / "report.json")
    assert [verdict["question"] for verdict in found["summary"]] == ["form"]
    assert any("entropy:over=corpus" in missing["what"] for missing in found["not_measured"])


def test_one_context_has_no_interval_and_no_test(tmp_path: Path) -> None:
    one, two = (make_sets(tmp_path / f"{name}.jsonl", contexts=1) for name in ("one", "two"))
    found = document(one, two, "-m", "distinct", output=tmp_path / "report.json")
    assert found["advice"][0]["title"] == "No paired test was made"
    assert "One context" in titles(found)
    assert [score["ci"] for score in found["questions"][0]["metrics"][0]["scores"]] == [None, None]


def test_sets_of_one_context_are_not_counted_as_contexts(tmp_path: Path) -> None:
    for name in ("one", "two"):
        rows = [
            {"id": f"{i}", "context": f"c{i % 8}", "responses": [f"{name[: i % 3]} {i}", f"{i} {i % 4}"]}
            for i in range(80)
        ]
        write_sets(tmp_path / f"{name}.jsonl", rows)
    found = document(tmp_path / "one.jsonl", tmp_path / "two.jsonl", "-m", "entropy", output=tmp_path / "report.json")
    assert [(one["sets"], one["contexts"]) for one in found["texts"]] == [(80, 8)] * 2
    told = [advice["text"] for advice in found["advice"] if "contexts" in advice["text"]]
    assert any("8 contexts" in text for text in told)
    assert not any("80 contexts" in text for text in told)


def test_ids_that_stand_twice_are_named(tmp_path: Path) -> None:
    rows = [{"id": "same", "responses": [f"a {i}", f"b {i}"]} for i in range(6)]
    found = document(write_sets(tmp_path / "one.jsonl", rows), "-m", "distinct", output=tmp_path / "report.json")
    assert found["texts"][0]["duplicate_ids"] == 5
    assert "Duplicate ids" in titles(found)


def test_sets_in_one_file_and_texts_in_another_are_refused(tmp_path: Path) -> None:
    one = make_sets(tmp_path / "one.jsonl")
    two = write_sets(tmp_path / "two.jsonl", [{"id": "a", "text": "a text"}])
    with pytest.raises(DataError, match=r"one.jsonl holds sets of responses, .*two.jsonl single texts; expected"):
        report(one, two, output=tmp_path / "report.html")


def test_what_cannot_be_measured_is_named_and_the_rest_is_measured(tmp_path: Path) -> None:
    one = write_sets(tmp_path / "one.jsonl", [{"id": str(i), "responses": [f"text {i}"]} for i in range(9)])
    found = document(one, "-m", "distinct", "-m", "self-bleu", output=tmp_path / "report.json")
    assert [metric["metric"] for metric in found["questions"][0]["metrics"]] == ["distinct"]
    missing = {missing["what"]: missing["reason"] for missing in found["not_measured"]}
    assert "self-bleu needs at least 2 responses" in missing["self-bleu"]


def test_content_is_measured_by_default_or_its_model_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NLGAUGE_MODELS", str(tmp_path / "no models"))
    make_sets(tmp_path / "one.jsonl", contexts=6)
    done = helpers.nlgauge("report", "one.jsonl", "-o", "report.json", cwd=tmp_path, cache=tmp_path / "cache")
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "report.json").read_text())
    assert found["questions"][0]["question"] == "Is the wording varied?"
    missing = {missing["what"]: missing["reason"] for missing in found["not_measured"]}
    assert missing["content"] == "model 'minilm' is not on this machine; run: nlgauge models fetch minilm"
    assert {"sent-sim", "vendi"} < set(missing)
    assert missing["quality"].startswith("not requested: -m bleu")


def test_no_metric_computable_is_an_error(tmp_path: Path) -> None:
    one = write_sets(tmp_path / "one.jsonl", [{"id": "a", "responses": ["alone"]}])
    with pytest.raises(DataError, match=r"none of the metrics can be computed: cos-sim: .*; self-bleu: "):
        report(one, "-m", "cos-sim", "-m", "self-bleu", output=tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "name", "error", "said"),
    [
        ((), "folder", OutputError, "is a folder; expected the name of a file"),
        ((), "report.docx", OptionError, "expected a name in .html"),
        (("--format", "doc"), "report.html", OptionError, "format=doc; expected one of html, json, md, pdf"),
        (("--study", "missing.json"), "report.html", DataError, "no such file; expected the JSON"),
    ],
)
def test_bad_options_are_refused_before_any_work(
    tmp_path: Path, arguments: tuple[str, ...], name: str, error: type[NLGaugeError], said: str
) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(error, match=said):
        report(make_sets(tmp_path / "one.jsonl"), *arguments, output=tmp_path / name)


@pytest.mark.parametrize(("form", "name"), [("", "report.html"), ("json", "report.json"), ("md", "report.md")])
def test_a_report_without_a_name_is_called_as_its_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, name: str
) -> None:
    one = make_sets(tmp_path / "one.jsonl", contexts=3)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    options = ["--format", form] if form else []
    done = CliRunner().invoke(app, ["report", str(one), "-m", "distinct", *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert [path.name for path in Path().iterdir()] == [name]


def test_standard_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="save the texts to a file first"):
        report("-", output=tmp_path / "report.html")


def test_a_pdf_without_a_browser_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises(MissingExtra, option="format"):
        report(make_sets(tmp_path / "one.jsonl"), "-m", "distinct", output=tmp_path / "report.pdf")


def test_a_browser_that_fails_is_an_error_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho no display >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with raises(OutputError, option="format"):
        print_page("<p>page</p>")


@pytest.mark.usefixtures("browser")
def test_a_pdf_has_the_whole_report(examples: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.pdf"
    report(examples / "system_a.jsonl", "-m", "distinct", output=output)
    assert output.read_bytes().startswith(b"%PDF-")
    pages = output.read_bytes().count(b"/Type /Page\n")
    assert pages > 3
    plain = tmp_path / "plain.pdf"
    plain.write_bytes(print_page("<p>one page</p>"))
    assert plain.read_bytes().count(b"/Type /Page\n") == 1


def test_advice_about_lengths_and_content(tmp_path: Path) -> None:
    short, long = make_sets(tmp_path / "short.jsonl"), make_sets(tmp_path / "long.jsonl", length=20)
    measured = ("-m", "distinct:n=1,over=corpus")
    without = document(short, long, *measured, output=tmp_path / "report.json")
    lengths = next(advice for advice in without["advice"] if advice["title"] == "Lengths differ")
    assert lengths["kind"] == "warning"
    assert "long writes 20.0 words per response, short 8.0." in lengths["text"]
    assert "Measured on these texts, cut to 4 to 8 words" in lengths["text"]
    assert "EAD changes less with length here: add it, -m ead." in lengths["text"]
    assert "Form is not evidence of content" in titles(without)
    beside = document(short, long, *measured, "-m", "ead:vocab=60", output=tmp_path / "report.json")
    lengths = next(advice for advice in beside["advice"] if advice["title"] == "Lengths differ")
    assert lengths["kind"] == "note"
    assert "length speaks against distinct" in lengths["text"]


def test_ead_is_not_to_be_trusted_where_it_changes_more_with_length_than_distinct(tmp_path: Path) -> None:
    files = []
    for name, length in (("short", 6), ("long", 9)):
        rows = [
            {"id": str(i), "context": f"q {i}", "responses": [" ".join(f"w{i}-{j}-{k}" for k in range(length + i % 2))]}
            for i in range(50)
            for j in range(3)
        ]
        files.append(write_sets(tmp_path / f"{name}.jsonl", [{**row, "id": n} for n, row in enumerate(rows)]))
    measured = ("-m", "distinct:n=1,over=corpus", "-m", "ead:vocab=500")
    found = document(*files, *measured, output=tmp_path / "report.json")
    text = next(advice["text"] for advice in found["advice"] if advice["title"] == "Lengths differ")
    assert "distinct changes less with length here: where the two disagree, length speaks against EAD." in text
    assert "trust EAD" not in json.dumps(found["advice"])


def test_no_advice_about_length_where_texts_are_too_short_to_measure_it(tmp_path: Path) -> None:
    files = (make_sets(tmp_path / "one.jsonl", length=1), make_sets(tmp_path / "two.jsonl", length=2))
    found = document(*files, "-m", "distinct", "-m", "ead", output=tmp_path / "report.json")
    text = next(advice["text"] for advice in found["advice"] if advice["title"] == "Lengths differ")
    assert "is not known: too few texts" in text
    assert "against" not in text


def test_a_warning_where_ead_itself_declines_with_length(tmp_path: Path) -> None:
    """The longer a text is here, the fewer words it chooses from: EAD falls (paper 2, the Twitter case)."""
    draw = random.Random(1)
    rows = [
        {"id": f"{n}-{i}", "responses": [" ".join(draw.choices(WORDS[: 300 // n], k=n)) for _ in range(10)]}
        for n in range(2, 12)
        for i in range(8)
    ]
    declining = document(
        write_sets(tmp_path / "falling.jsonl", rows), "-m", "ead:vocab=300", output=tmp_path / "report.json"
    )
    assert "EAD declines with length here" in titles(declining)
    steady = [
        {"id": f"{n}-{i}", "responses": [" ".join(draw.choices(WORDS, k=n)) for _ in range(10)]}
        for n in range(2, 12)
        for i in range(8)
    ]
    flat = document(write_sets(tmp_path / "flat.jsonl", steady), "-m", "distinct", output=tmp_path / "report.json")
    assert "EAD declines with length here" not in titles(flat)


def test_too_few_contexts_are_said_to_be_too_few(tmp_path: Path) -> None:
    one = [{"id": str(i), "responses": [f"a{i} b", f"c{i} d"]} for i in range(3)]
    two = [{"id": str(i), "responses": ["same words", "same words"]} for i in range(3)]
    files = write_sets(tmp_path / "one.jsonl", one), write_sets(tmp_path / "two.jsonl", two)
    found = document(*files, "-m", "distinct", output=tmp_path / "report.json")
    (verdict,) = found["summary"]
    assert verdict["sentence"].startswith("Too few contexts to distinguish two and one in form by distinct: with 3 of")
    assert "What this many contexts could show" not in titles(found)
    assert "Few contexts" in titles(found)


def test_metrics_within_and_across_contexts_that_disagree_are_explained(tmp_path: Path) -> None:
    one = [{"id": str(i), "responses": ["a b c", "d e f", "g h i", "j k l"]} for i in range(40)]
    two = [{"id": str(i), "responses": [f"p{i} q{i} r{i}"] * 4} for i in range(40)]
    files = write_sets(tmp_path / "one.jsonl", one), write_sets(tmp_path / "two.jsonl", two)
    found = document(*files, "-m", "distinct", "-m", "ead", output=tmp_path / "report.json")
    assert "Within contexts and across them" in titles(found)
    text = next(one["text"] for one in found["advice"] if one["title"] == "Within contexts and across them")
    assert text.startswith("two is more varied across contexts than one, and less within them.")
    again = document(*files, "-m", "distinct", "-m", "self-bleu", output=tmp_path / "report.json")
    assert "Within contexts and across them" not in titles(again)


@pytest.mark.parametrize(("contexts", "alpha"), [(20, 0.05), (50, 0.05), (50, 0.005), (200, 0.001)])
def test_power_is_the_difference_that_four_of_five_experiments_show(contexts: int, alpha: float) -> None:
    """Differences of contexts, drawn anew with a mean of that size, are significant about so often."""
    rng = np.random.default_rng(contexts)
    promised, shown = [], []
    for seed in range(40):
        pilot = rng.normal(0.02, 0.1, contexts)
        evidence = Evidence(np.arange(contexts), pilot, np.ones(contexts))
        found = Comparison("m", "m", "a", "b", pilot.mean(), (0, 0), 0.5, contexts, "more diverse", "", 0.5,
                           units=contexts, error=0.01, alpha=alpha, evidence=evidence)  # fmt: skip
        power = power_of(found, seed)
        assert power is not None
        assert power.contexts == max(2, math.ceil(contexts * (power.smallest / pilot.mean()) ** 2))
        drawn = rng.normal(power.smallest, 0.1, (40, contexts))
        shown.append(np.mean(sign_tails(np.abs(drawn), np.abs(drawn.sum(axis=1))) <= alpha))
        promised.append(power.smallest)
    assert 0.75 <= np.mean(shown) <= 0.85
    assert power_of(replace(found, units=4, smallest_p=0.125)) is None
    assert power_of(replace(found, error=0.0)) is None


@pytest.mark.parametrize(
    ("second", "margin", "words"),
    [
        ("bdbdbdbdbd", 0.2, "two and one are equal within 0.2 in form by distinct."),
        ("ebdbdbdddd", 0.13, "two is not less varied in form than one by more than 0.13 by distinct."),
        ("bdbdbdbdbd", 0.01, "Cannot tell whether two and one differ by more than 0.01 in form by distinct."),
    ],
)
def test_a_margin_is_answered_in_words(tmp_path: Path, second: str, margin: float, words: str) -> None:
    responses = {"b": "a b c", "d": "a b d", "e": "d e f"}
    files = [
        write_sets(
            tmp_path / f"{system}.jsonl",
            [{"id": str(i), "responses": ["a b c", responses[each]]} for i, each in enumerate(letters)],
        )
        for system, letters in (("one", "dbdbdbdbdb"), ("two", second))
    ]
    found = document(*files, "-m", "distinct:n=1", f"--margin={margin}", output=tmp_path / "report.json")
    assert found["summary"][0]["sentence"] == words


def test_texts_with_references_are_compared_with_them(tmp_path: Path) -> None:
    rows = [
        {"id": str(i), "text": f"the cat {i} sat", "references": [f"the cat {i} sat down", "a dog"]} for i in range(30)
    ]
    worse = [{**row, "text": "no idea at all"} for row in rows]
    one, two = write_sets(tmp_path / "good.jsonl", rows), write_sets(tmp_path / "bad.jsonl", worse)
    found = document(one, two, output=tmp_path / "report.json")
    verdicts = {verdict["question"]: verdict["sentence"] for verdict in found["summary"]}
    assert verdicts["quality"] == "bad is worse in quality than good by bleu and rouge-l."
    assert {"quality", "repetition"} <= set(verdicts)


def huse_document() -> dict[str, Any]:
    row = {"system": "a", "n": 200, "k": 16, "huse": 0.53, "huse_ci": [0.4, 0.6], "huse_q": 0.58, "huse_d": 0.95}
    row |= {"huse_q_ci": None, "huse_d_ci": None, "n_model": 100, "n_reference": 100, "judge": "people"}
    return Result(Huse(), [row]).to_dict()


def test_results_of_studies_have_a_card(tmp_path: Path) -> None:
    study = tmp_path / "huse.json"
    write_document(study, huse_document())
    sets = make_sets(tmp_path / "one.jsonl")
    found = document(sets, "-m", "distinct", "--study", study, output=tmp_path / "report.json")
    (card,) = (question for question in found["questions"] if question["studies"])
    assert card["question"] == BY_KEY["people"].title
    assert card["studies"][0]["rows"][0][:4] == ["a", "200", "16", ".53"]
    assert card["studies"][0]["sentence"] == huse_document()["sentence"]
    assert "HUSE" not in [missing["what"] for missing in found["not_measured"]]


def test_a_study_that_answers_no_known_question_stands_under_studies(tmp_path: Path) -> None:
    study = tmp_path / "other.json"
    written = huse_document() | {"study": "own", "aspect": "colour", "sentence": "Found <b>much</b>."}
    write_document(study, written)
    sets = make_sets(tmp_path / "one.jsonl")
    found = document(sets, "-m", "distinct", "--study", study, output=tmp_path / "report.json")
    (card,) = (question for question in found["questions"] if question["studies"])
    assert card["question"] == BY_KEY["studies"].title
    report(sets, "-m", "distinct", "--study", study, output=tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Found &lt;b&gt;much&lt;/b&gt;." in page
    assert 'id="studies"' in page
    report(sets, "-m", "distinct", "--study", study, output=tmp_path / "report.md")
    assert "Found &lt;b&gt;much&lt;/b&gt;." in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "nlgauge.study/2"},
        {"schema": "nlgauge.scores/1"},
        {"schema": None},
        {"rows": []},
        {"signature": None},
        {"columns": None},
        {"columns": [{"key": "huse", "colour": "red"}]},
        {"rows": [{"machine": "a", "area": 0.5}]},
    ],
)
def test_what_is_not_the_whole_result_of_a_study_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    study = tmp_path / "huse.json"
    write_document(study, huse_document() | changes)
    with pytest.raises(DataError) as error:
        read_result(study)
    assert error.value.file == str(study)


def test_a_study_of_another_version_says_so(tmp_path: Path) -> None:
    study = tmp_path / "huse.json"
    write_document(study, huse_document() | {"signature": "huse|k:16|v:9.9.9"})
    assert any("computed by NLGauge 9.9.9" in note for note in read_result(study).notes)


def test_repeated_phrases_and_replies_are_counted(tmp_path: Path) -> None:
    rows = [
        {"id": str(i), "responses": ["I don't know.", *(f"{who}{i} went to the old market" for who in ("ann", "ben"))]}
        for i in range(4)
    ]
    found = document(write_sets(tmp_path / "one.jsonl", rows), "-m", "distinct", output=tmp_path / "report.json")
    repeats = found["repeats"]
    assert {"text": "went to the old market", "counts": [8]} in repeats["within"]
    assert {"text": "went to the old market", "counts": [4]} in repeats["across"]
    assert repeats["replies"] == [{"text": "i don't know", "counts": [4]}]
    assert found["texts"][0]["generic"] == pytest.approx(1 / 3)
    assert found["texts"][0]["elsewhere"] == pytest.approx(1 / 3)


def test_markdown_shows_hostile_text_as_text(tmp_path: Path) -> None:
    texts = ["<script>x</script> | `code` *bold*\n# heading", "[link](http://example.org) \x00 \u202e"]
    rows = [{"id": str(i), "system": "<i>|s", "responses": texts} for i in range(3)]
    report(write_sets(tmp_path / "one.jsonl", rows), "-m", "distinct", output=tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    assert "&lt;script&gt;x&lt;/script&gt; &#124; \\`code\\` \\*bold\\* \\# heading" in text
    assert "<script>" not in text
    assert "\u202e" not in text
    assert "| &lt;i&gt;&#124;s | 3 | 6 |" in text


def test_commands_in_markdown_are_code_and_the_rest_is_escaped(tmp_path: Path) -> None:
    report(make_sets(tmp_path / "one.jsonl", contexts=3), "-m", "distinct", output=tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    assert "`nlgauge study ruq … --format json > ruq.json`, then --study ruq.json" in text
    assert "(after `nlgauge models fetch smollm2`)" in text
    assert "\\`" not in text


def test_characters_that_steer_a_page_are_made_visible() -> None:
    assert visible("a\x00b\u202ec\nd\te\u05e9") == "a␀b⟨U+202E⟩c\nd\te\u05e9"
    assert clipped("x" * 30, 10) == "xxxxxxxxxx … (30 characters)"


def test_mostly_empty_responses_make_a_report_without_the_intervals_that_nobody_knows(tmp_path: Path) -> None:
    rows = [{"id": str(i), "responses": ["", "one text alone" if i == 1 else ""]} for i in range(3)]
    file = write_sets(tmp_path / "empty.jsonl", rows)
    found = document(file, "-m", "ead", "-m", "ttr", "-m", "distinct", output=tmp_path / "report.json")
    assert "NaN" not in (tmp_path / "report.json").read_text()
    intervals = {metric["metric"]: metric["scores"][0]["ci"] for one in found["questions"] for metric in one["metrics"]}
    assert intervals["ead"] is intervals["ttr"] is None
    assert intervals["distinct"] is not None
    report(file, "-m", "ead", "-m", "distinct", output=tmp_path / "report.html")


def test_a_metric_of_a_plugin_stands_under_its_own_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "politeness.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "import numpy as np\n"
        "from nlgauge import register_metric\n"
        "from nlgauge.metrics.base import SetMetric\n"
        "from nlgauge.metrics.score import Direction\n"
        "@register_metric\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Thanks(SetMetric):\n"
        '    """Words per set that end in 7."""\n'
        '    name: ClassVar[str] = "test-thanks"\n'
        '    paper: ClassVar[str] = "none: a test"\n'
        '    aspect: ClassVar[str] = "polite & kind"\n'
        "    direction: ClassVar[Direction] = Direction.BETTER\n"
        "    def per_set(self, batch):\n"
        '        ends = batch.sets.texts.str.count_matches("7( |$)").to_numpy()\n'
        "        return np.add.reduceat(ends, batch.sets.offsets[:-1])\n"
    )
    monkeypatch.setenv("NLGAUGE_PLUGINS", str(tmp_path / "politeness.py"))
    files = [make_sets(tmp_path / "a.jsonl", breadth=60), make_sets(tmp_path / "b.jsonl", breadth=8)]
    found = document(*files, "-m", "distinct", "-m", "test-thanks", output=tmp_path / "card.json")
    assert [(one["question"], [metric["metric"] for metric in one["metrics"]]) for one in found["questions"]] == [
        ("Is the wording varied?", ["distinct"]),
        ("Polite & kind", ["test-thanks"]),
    ]
    sentences = {verdict["question"]: verdict["sentence"] for verdict in found["summary"]}
    assert sentences["polite & kind"] == "b is higher in polite & kind than a by test-thanks."
    report(*files, "-m", "distinct", "-m", "test-thanks", output=tmp_path / "card.html")
    page = (tmp_path / "card.html").read_text()
    assert '<section id="polite-kind" class="card question">' in page
    assert '<div class="chart" id="chart-values-polite-kind">' in page
    assert "Words per set that end in 7." in page
