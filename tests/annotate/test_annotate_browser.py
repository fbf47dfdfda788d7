"""The annotation site in Chromium: studies from the first link to the numbers, whoever answers, whatever texts say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from zlib import crc32

import krippendorff
import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import spearmanr

from nlgauge.annotate.database.records import Study
from nlgauge.annotate.pages.signing import entrance_address
from nlgauge.annotate.rules import parse_rules
from nlgauge.annotate.settings import StudySettings
from nlgauge.annotate.units import make_units
from nlgauge.cli.main import app
from nlgauge.data.human.forms import FormQuestion, form_names, load_form
from nlgauge.data.human.ratings import read_ratings
from nlgauge.data.reading import read
from nlgauge.data.tables import Items, ResponseSets
from tests.annotate.browser import (
    CASES,
    HONEST,
    HOSTILE,
    SECRET,
    SETS,
    TEXTS,
    THREE,
    TYPICAL,
    Case,
    Opinion,
    Press,
    Row,
    Site,
    answer_page,
    at_once,
    begin,
    careless,
    go,
    go_first,
    hand_in,
    log_in,
    make_links,
    opinion_of,
    picture,
    press_to_go,
    require_accessible,
    running_site,
    tab_to,
    with_the_mouse,
    work,
)
from tests.annotate.fixtures import from_table
from tests.annotate.fixtures import work as work_on_paper
from tests.annotate.test_annotate_written import CONTEXTS, DIFFERENT, REPHRASED
from tests.annotate.test_annotate_written import QUESTIONS as WRITING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route


Key = tuple[str, str, str]


def expected_ratings(case: Case) -> dict[Key, list[float]]:
    """What the three honest raters think of each item, by (item, question, pair), in order of size."""
    found: dict[Key, list[float]] = {}
    for rater in HONEST:
        for key, value in ratings_of(case, opinion_of(rater)):
            found.setdefault(key, []).append(float(value))
    return {key: sorted(values) for key, values in found.items()}


def ratings_of(case: Case, opinion: Opinion) -> Iterator[tuple[Key, float]]:
    texts = {row["id"]: tuple(row.get("responses") or [row["text"]]) for row in case.rows}
    groups = [list(group) for _, group in groupby(case.rows, key=lambda row: row["context"])]
    for question in (one for one in case.form.questions if one.export):
        if question.per == "pair":
            for id, several in texts.items():
                for i, j in combinations(range(len(several)), 2):
                    yield (id, question.id, f"{i}-{j}"), opinion(question, (several[i], several[j]))
        elif question.widget == "span":
            for id, several in texts.items():
                kinds = opinion(question, several)
                yield (id, question.id, ""), len(kinds)
                for kind in question.kinds:
                    yield (id, f"{question.id}.{kind.id}", ""), kinds.count(kind.id)
        elif question.per == "item":
            yield from (((id, question.id, ""), opinion(question, several)) for id, several in texts.items())
        else:
            for group in groups:
                order = sorted((row["id"] for row in group), key=lambda id: -opinion(question, texts[id]))
                if question.widget == "ranking":
                    yield from (((id, question.id, ""), order.index(id) + 1) for id in order)
                else:
                    yield (">".join(sorted(order)), question.id, ""), 1 if order[0] == min(order) else -1


@pytest.fixture(scope="module")
def sqlite_site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("site") / "annotate.db", browser) as site:
        yield site


@pytest.fixture
def postgres_site(browser: Browser, postgres_url: str) -> Iterator[Site]:
    with running_site(postgres_url, browser) as site:
        yield site


PLACES = """() => [...document.querySelectorAll("[data-field], .buttons button")]
  .map((one) => one.getBoundingClientRect().top + scrollY)"""


def write(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def create(site: Site, case: Case, folder: Path, name: str, **settings: Any) -> Study:
    """A study of the case, and its data beside it."""
    data = read(str(write(folder / "data.jsonl", case.rows)))
    known: dict[str, Any] = {case.rule: read(str(write(folder / "known.jsonl", case.known)))} if case.known else {}
    units = make_units(case.form, data, seed=1, **known)
    wanted = {"raters": 3, "gold_every": 2, "attention_every": 2, "quality": {case.rule: case.options}, **settings}
    return site.store.create_study(name, case.form, units, StudySettings(**wanted))


def study_numbers(*arguments: str) -> list[Row]:
    done = CliRunner().invoke(app, ["study", *arguments, "--format", "json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    rows: list[Row] = json.loads(done.stdout)["rows"]
    return rows


def rate_as(
    site: Site, page: Page, case: Case, link: str, opinion: Opinion, press: Press = at_once, *, at_ease: bool = True
) -> str:
    """Somebody without cookies does all that a link offers, taking their time if at ease; the last page's heading."""

    def pause() -> None:
        if case.rule == "min-time" and at_ease:
            page.clock.fast_forward(400_000)
            site.clock.ahead += 400

    page.context.clear_cookies()
    begin(page, link)
    assert work(page, case.form, opinion, press, pause) > 0
    return page.get_by_role("heading").first.inner_text()


def check_feeds_its_study(case: Case, data: Path, ratings: Path, expected: Mapping[Key, list[float]]) -> None:
    """The export, put into the study that its form is for, gives the numbers of a direct computation."""
    means = {item: float(np.mean(values)) for (item, _, _), values in expected.items()}
    scores = [means.get(row["id"], np.nan) for row in case.rows]
    if case.form.name == "abs-hds":
        row = study_numbers("content", str(data), "--label", "label", "--ratings", str(ratings), "--no-significance")[0]
        labels = [row["label"] for row in case.rows]
        assert (row["metric"], row["n"]) == ("diversity", 3)
        assert row["spearman"] == pytest.approx(spearmanr(scores, labels).statistic)
    elif case.form.name == "typicality":
        row = study_numbers("huse", str(data), "--ratings", str(ratings), "--resamples", "100")[0]
        assert (row["n"], row["huse"]) == (25, pytest.approx(slow_huse(case.rows, scores)))
    elif case.form.name == "story-quality":
        row = study_numbers(
            "correlation", str(data), "--truth", "words", "--ratings", str(ratings), "--no-significance"
        )[0]
        assert row["n"] == 10
        assert row["pearson"] == pytest.approx(np.corrcoef(scores, [row["words"] for row in case.rows])[0, 1])
    else:
        rows = study_numbers("agreement", str(ratings), "--resamples", "100")
        assert {row["question"] for row in rows} == {question for _, question, _ in expected}
        for row in rows:
            values = np.array([given for (_, question, _), given in expected.items() if question == row["question"]]).T
            direct = krippendorff.alpha(reliability_data=values, level_of_measurement="interval")
            assert row["alpha"] == pytest.approx(direct), row["question"]


def slow_huse(rows: Sequence[Row], judgments: Sequence[float], k: int = 16) -> float:
    """Paper 3, section 4: twice the leave-one-out error of nearest neighbours on judgments and log-probabilities."""
    places = np.array([(one, row["logp"] / len(row["text"].split())) for row, one in zip(rows, judgments, strict=True)])
    places /= places.std(axis=0)
    is_model, wrong = np.array([row["is_model"] for row in rows]), 0
    for at, place in enumerate(places):
        distances = np.delete(np.linalg.norm(places - place, axis=1), at)
        votes = np.delete(is_model, at)[distances <= np.sort(distances)[k - 1] + 1e-12]
        wrong += bool((votes.mean() > 0.5) != is_model[at])
    return 2 * wrong / len(rows)


def run_study(site: Site, case: Case, folder: Path) -> None:
    """A study from its making to its numbers: the researcher and four raters, one of whom is careless.

    The first rater uses the mouse.
    """
    study = create(site, case, folder, f"walk {case.form.name}")
    ann, ben, dora = map(opinion_of, HONEST)
    with site.researcher() as desk, site.visitor() as page:
        if case.rule == "min-time":
            page.clock.install()
        links = make_links(desk, study, 4)
        ends = [rate_as(site, page, case, links[0], ann, with_the_mouse), rate_as(site, page, case, links[1], ben)]
        careless_end = rate_as(site, page, case, links[2], careless(case), at_ease=False)
        ends.append(rate_as(site, page, case, links[3], dora))
        assert ends == ["Thank you!"] * 3
        assert careless_end == ("Your work was not accepted" if case.rejects_raters else "Thank you!")
        desk.goto(f"/studies/{study.id}")
        units = sum(unit.unit.kind == "normal" for unit in site.store.snapshot(study).units)
        assert desk.locator("#progress .facts div", has_text="Units done").locator("dd").inner_text() == (
            f"{units} of {units}"
        )
        assert f"{case.rule} " in desk.locator("#raters").inner_text()
        assert case.rule in desk.locator("#rejections tbody").inner_text()
        with desk.expect_download() as download:
            desk.get_by_role("link", name="csv", exact=True).click()
        download.value.save_as(folder / "ratings.csv")
    found: dict[Key, list[float]] = {}
    for row in read_ratings(folder / "ratings.csv").frame.iter_rows(named=True):
        found.setdefault((row["item"], row["question"], row.get("pair") or ""), []).append(row["value"])
    expected = expected_ratings(case)
    assert {key: sorted(values) for key, values in found.items()} == expected
    check_feeds_its_study(case, folder / "data.jsonl", folder / "ratings.csv", expected)


def test_every_form_has_a_study_here() -> None:
    assert sorted([*CASES, *WRITING]) == [name for name in form_names() if not load_form(name).plugin]


@pytest.mark.parametrize("form", CASES)
def test_a_study_goes_from_links_to_numbers(sqlite_site: Site, tmp_path: Path, form: str) -> None:
    run_study(sqlite_site, CASES[form], tmp_path)


@pytest.mark.parametrize("form", CASES)
def test_a_study_goes_from_links_to_numbers_on_postgres(postgres_site: Site, tmp_path: Path, form: str) -> None:
    run_study(postgres_site, CASES[form], tmp_path)


def written_by(who: str) -> Opinion:
    """What somebody writes to a context: five different responses, five wordings, or copies."""

    def opinion(question: FormQuestion, texts: tuple[str, ...]) -> str:
        number = [one for ids in WRITING.values() for one in ids].index(question.id) % 5
        if who == "copycat":
            return f"Oh no, what a pity about that, {'really' * (number % 2)} sorry."
        said = (DIFFERENT if question.id.startswith("response_") else REPHRASED)[number]
        return f"{said} {who.capitalize()} {crc32(texts[0].encode()) % 1000}." if who else said

    return opinion


def writing_study(site: Site, form: str, name: str, contexts: Sequence[str] = CONTEXTS) -> Study:
    """A study in which people write to contexts."""
    chosen = load_form(form)
    table = Items.of(list(contexts), ids=[f"c{number}" for number in range(len(contexts))])
    made = StudySettings(raters=1, quality=parse_rules(chosen.rules))
    return site.store.create_study(name, chosen, make_units(chosen, table, seed=1), made)


def test_people_write_a_content_test_from_links_to_the_study(sqlite_site: Site, tmp_path: Path) -> None:
    """Five different responses and one response in five wordings; somebody who copies; the researcher rejects a set."""
    for form, label in (("write-different", 1), ("write-rephrased", 0)):
        study, chosen = writing_study(sqlite_site, form, f"walk {form}"), load_form(form)
        with sqlite_site.researcher() as desk, sqlite_site.visitor() as page:
            links = make_links(desk, study, 3)
            begin(page, links[0])
            hand_in(page, chosen, written_by("copycat"))
            assert "not accepted. Two texts that you wrote are nearly equal" in page.inner_text("main")
            sqlite_site.clock.ahead += 2 * study.lease_seconds  # what the first one holds is free again
            page.context.clear_cookies()
            begin(page, links[1])
            assert work(page, chosen, written_by("ann"), at_once) == 3
            desk.goto(f"/studies/{study.id}")
            desk.get_by_role("link", name="Texts").click()
            assert desk.locator("section.card").count() == 4
            assert "Rejected by near-copy" in desk.inner_text("main")
            desk.get_by_label("Reason to reject").first.fill("not a response")
            go_first(desk, "Reject")
            assert "not a response" in desk.inner_text("main")
            page.context.clear_cookies()
            begin(page, links[2])
            assert work(page, chosen, written_by("ben"), at_once) == 1
            desk.goto(f"/studies/{study.id}")
            assert "3 of 3" in desk.inner_text("#progress")
            with desk.expect_download() as download:
                desk.get_by_role("link", name="jsonl", exact=True).click()
            assert download.value.suggested_filename.endswith("-sets.jsonl")
            download.value.save_as(tmp_path / f"{label}.jsonl")
    rows = [json.loads(line) for name in "10" for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
    assert [row["content_diversity"] for row in rows] == [1, 1, 1, 0, 0, 0]
    assert {row["tester"] for row in rows} == {"people"}
    sets = write(tmp_path / "sets.jsonl", rows)
    numbers = study_numbers("content", str(sets), "-m", "distinct", "--no-significance")
    assert [(row["metric"], row["n"]) for row in numbers] == [("distinct", 6)]


@pytest.mark.parametrize("form", WRITING)
def test_pages_to_write_on_and_the_review_are_accessible_and_fit_a_phone(
    sqlite_site: Site, tmp_path: Path, form: str
) -> None:
    study, chosen = writing_study(sqlite_site, form, form, CONTEXTS[:1]), load_form(form)
    with sqlite_site.visitor() as page:
        begin(page, sqlite_site.link(study))
        answer_page(page, chosen, written_by(""))
        page.get_by_text("All answers are saved.").wait_for()
        require_accessible(page)
        picture(page, form, tmp_path)
        go(page, "Hand in this task")
    with sqlite_site.researcher() as desk:
        desk.goto(f"/studies/{study.id}/texts")
        require_accessible(desk)
        if form == "write-different":
            picture(desk, "texts", tmp_path)


@pytest.mark.parametrize("form", CASES)
def test_every_step_is_accessible_and_fits_a_phone(sqlite_site: Site, tmp_path: Path, form: str) -> None:
    case, opinion = CASES[form], opinion_of("ann")
    study = create(sqlite_site, case, tmp_path, f"steps {form}", quality={}, gold_every=99, attention_every=99)
    with sqlite_site.visitor() as page:
        page.goto(sqlite_site.link(study))
        require_accessible(page)
        go(page, "I have read this and want to begin")
        for step in range(1, len(case.form.steps) + 1):
            places = page.evaluate(PLACES)
            answer_page(page, case.form, opinion)
            page.get_by_text("All answers are saved.").wait_for()
            if "span" not in {question.widget for question in case.form.questions}:
                assert page.evaluate(PLACES) == places, "something moved while answers were saved"
            require_accessible(page)
            if step == (1 if form == "story-errors" else len(case.form.steps)):
                picture(page, form, tmp_path)
            if step < len(case.form.steps):
                go(page, "Save and go on")


def busy_study(site: Site) -> Study:
    """A study of twelve sets about which three raters mostly agree; a fourth was too fast, and one has just begun."""
    form, names = load_form("abs-hds"), [f"set-{number}" for number in range(12)]
    data = ResponseSets.of([SETS[number % 3]["responses"] for number in range(12)], ids=names, contexts=TEXTS[:12])
    rules = {"min-time": {"seconds": 20}}
    settings = StudySettings(raters=4, pay=0.2, quality=rules)
    study = site.store.create_study("pilot", form, make_units(form, data, seed=1), settings)
    values = {
        name: [1 + (crc32(one.encode()) % 4 + crc32(f"{name}{one}".encode()) % 2) for one in names] for name in HONEST
    }
    for name in HONEST:
        work_on_paper(site.store, study, name, from_table(values, names), site.clock, 90)
    work_on_paper(site.store, study, "carl", lambda *_: 3, site.clock, 5, most=2)
    site.store.lease(study, site.store.join(study, "direct", "eva"))
    return study


def test_researchers_pages_and_ends_are_accessible_and_fit_a_phone(sqlite_site: Site, tmp_path: Path) -> None:
    case, study = CASES["set-diversity"], busy_study(sqlite_site)
    rated = create(sqlite_site, case, tmp_path, "ten sets")
    with sqlite_site.visitor() as desk, sqlite_site.visitor() as page:
        desk.goto("/login")
        require_accessible(desk)
        log_in(desk)
        links = make_links(desk, rated, 4)
        require_accessible(desk)
        for name, end in (("ann", "Thank you!"), ("ben", "Thank you!"), ("carl", "Your work was not accepted")):
            opinion = careless(case) if name == "carl" else opinion_of(name)
            assert rate_as(sqlite_site, page, case, links.pop(), opinion) == end
            require_accessible(page)
        for path in ("/studies", f"/studies/{study.id}", f"/studies/{study.id}/disagreement", "/audit"):
            desk.goto(path)
            require_accessible(desk)
            if path == f"/studies/{study.id}":
                picture(desk, "dashboard", tmp_path)


@pytest.mark.parametrize("problem", ["no such page", "a wrong password", "a page without answers", "a closed study"])
def test_pages_about_problems_are_accessible_and_fit_a_phone(sqlite_site: Site, tmp_path: Path, problem: str) -> None:
    study = create(sqlite_site, CASES["abs-hds"], tmp_path, problem)
    with sqlite_site.visitor(may_fail=True) as page:
        if problem == "a closed study":
            sqlite_site.store.close_study(study.name, "test")
            page.goto(sqlite_site.link(study))
            assert page.get_by_role("heading", name="The study is closed").is_visible()
        elif problem == "a page without answers":
            begin(page, sqlite_site.link(study))
            go(page, "Save and go on")
            assert page.get_by_role("alert").inner_text().startswith("2 things need your attention")
            assert page.evaluate("document.activeElement.matches('[data-problems]')")
        elif problem == "a wrong password":
            page.goto("/login")
            page.get_by_label("Name").fill("nobody")
            page.get_by_label("Password").fill("a wrong password")
            go(page, "Log in")
            assert page.get_by_role("alert").inner_text() == "The name or the password is wrong."
        else:
            page.goto("/nowhere")
            assert page.get_by_role("heading", name="Nothing here").is_visible()
        require_accessible(page)


def answers_of(site: Site, study: Study) -> dict[tuple[str, str], Any]:
    """What the one rater of a study has answered."""
    return {(answer.item, answer.question): answer.value for answer in site.store.snapshot(study).answers}


def test_the_keyboard_is_enough_for_scales_and_text(sqlite_site: Site, tmp_path: Path) -> None:
    case = Case(load_form("abs-hds"), SETS[:1], "gold")
    study = create(sqlite_site, case, tmp_path, "keys for scales")
    with sqlite_site.visitor() as page:
        page.goto(sqlite_site.link(study))
        press_to_go(page, "button.main")
        tab_to(page, "textarea")
        page.keyboard.type("I would have walked.")
        tab_to(page, "#q1 input")
        page.keyboard.press("Space")
        tab_to(page, "#q1 input[value='4']", key="ArrowRight")
        press_to_go(page, "button[value=next]")
        tab_to(page, "#q0 input")
        page.keyboard.press("Space")
        tab_to(page, "#q0 input[value='5']", key="ArrowRight")
        press_to_go(page, "button[value=submit]")
        assert page.get_by_role("heading", name="Thank you!").is_visible()
    assert answers_of(sqlite_site, study) == {
        ("", "own_response"): "I would have walked.", ("", "first_quality"): 4, ("bus", "diversity"): 5
    }  # fmt: skip


def test_the_keyboard_is_enough_for_spans_and_rankings(sqlite_site: Site, tmp_path: Path) -> None:
    case = Case(load_form("story-errors"), THREE[:3], "duplicate-text")
    study = create(sqlite_site, case, tmp_path, "keys for spans")
    with sqlite_site.visitor() as page:
        page.goto(sqlite_site.link(study))
        press_to_go(page, "button.main")
        first = page.locator("#q0 .span-text").text_content() or ""
        tab_to(page, "#q0 .word input")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Shift+ArrowRight")
        tab_to(page, "#q0 .kinds input")
        page.keyboard.press("Space")
        tab_to(page, "#q0 .kinds input[value=conflicting]", key="ArrowDown")
        tab_to(page, "#q0 [data-mark]")
        page.keyboard.press("Enter")
        page.locator("#q0 [data-marks] li").wait_for()
        for name in ("q1", "q2"):
            tab_to(page, f"#{name} [data-none]")
            page.keyboard.press("Space")
        press_to_go(page, "button[value=next]")
        labels = page.locator("[data-ranking] b").all_text_contents()
        tab_to(page, f"[aria-label='Move {labels[0]} down']")
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        assert page.locator("[data-ranking] b").all_text_contents() == [*labels[1:], labels[0]]
        press_to_go(page, "button[value=submit]")
        assert page.get_by_role("heading", name="Thank you!").is_visible()
    found, ids = answers_of(sqlite_site, study), {row["text"]: row["id"] for row in THREE}
    start = first.index(" ") + 1
    end = first.index(" ", first.index(" ", start) + 1)
    spans = {item: value for (item, question), value in found.items() if question == "errors"}
    assert spans == {row["id"]: [] for row in THREE[:3]} | {ids[first]: [[start, end, "conflicting"]]}
    assert found["", "order"][-1] == ids[first]


def test_typicality_works_without_scripts(sqlite_site: Site, tmp_path: Path) -> None:
    case = CASES["typicality"]
    study = create(sqlite_site, case, tmp_path, "no scripts", quality={})
    opinion = opinion_of("ann")
    with sqlite_site.visitor(java_script_enabled=False) as page:
        begin(page, sqlite_site.link(study))
        assert page.locator("[data-status]").inner_text() == "Press a button below to save your answers."
        hand_in(page, case.form, opinion)
        assert page.get_by_role("heading", name="Thank you!").is_visible()
    question = case.form.questions[0]
    assert answers_of(sqlite_site, study) == {
        (row["id"], "typicality"): opinion(question, (row["text"],)) for row in TYPICAL
    }


def test_hostile_texts_are_shown_as_texts(sqlite_site: Site, tmp_path: Path) -> None:
    """Contexts, responses, names of studies and of people, free text and reasons."""
    sets = [{"id": f"{at} {text}", "context": text, "responses": list(HOSTILE)} for at, text in enumerate(HOSTILE[:2])]
    case = Case(load_form("abs-hds"), sets, "duplicate-text", {"words": 1})
    study = create(sqlite_site, case, tmp_path, HOSTILE[2], raters=2)
    create(sqlite_site, case, tmp_path, "from elsewhere", completion_code="DONE")
    with sqlite_site.researcher() as desk:
        links = make_links(desk, study, 2)
        for at, link in enumerate(links):
            with sqlite_site.visitor() as page:
                begin(page, link)
                while page.locator("textarea").count():
                    assert page.locator(".context").first.inner_text() in HOSTILE
                    page.locator("textarea").fill(HOSTILE[1])
                    page.locator("input[value='3']").check()
                    page.get_by_text("All answers are saved.").wait_for()
                    page.reload()
                    assert page.locator("textarea").input_value() == HOSTILE[1]
                    go(page, "Save and go on")
                    assert page.locator(".text").all_inner_texts() == list(HOSTILE)
                    page.locator(f"input[value='{4 * at + 1}']").check()
                    go(page, "Hand in this task")
        desk.goto(f"/studies/{study.id}")
        assert desk.get_by_role("heading", level=1).inner_text() == HOSTILE[2]
        assert HOSTILE[1] in desk.locator("#rejections .reason").first.inner_text()
        desk.locator("#rejections summary").first.click()
        desk.locator("#rejections input[name=reason]").first.fill(HOSTILE[3])
        go(desk, "Overrule")
        assert HOSTILE[3] in desk.locator("#rejections").inner_text()
        desk.locator("#raters summary").first.click()
        desk.locator("#raters input[name=reason]").first.fill(HOSTILE[4])
        go(desk, "Reject with all work")
        assert HOSTILE[4] in desk.locator("#rejections").inner_text()
        desk.goto(f"/studies/{study.id}/disagreement")
        desk.goto("/audit")
        assert HOSTILE[2] in desk.locator("table").inner_text()
    with sqlite_site.visitor(may_fail=True) as page:
        page.goto("/login")
        page.get_by_label("Name").fill(HOSTILE[2])
        page.get_by_label("Password").fill(HOSTILE[0])
        go(page, "Log in")
        assert page.get_by_label("Name").input_value() == HOSTILE[2]
        people = {"PROLIFIC_PID": HOSTILE[0], "STUDY_ID": HOSTILE[1], "SESSION_ID": HOSTILE[2]}
        page.goto(f"{entrance_address('', 'from elsewhere', 'prolific', SECRET)}?{urlencode(people)}")
        assert page.get_by_role("heading", name="Not understood").is_visible()


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("document.body.append(Object.assign(document.createElement('script'), {textContent: '1'}))", "policy: script"),
        (
            "document.body.append(Object.assign(new Image(), {alt: '', src: 'https://example.org/x.png'}))",
            "policy: img-src",
        ),
        ("setTimeout(() => alert('here'))", "dialog: here"),
        ("setTimeout(() => { throw new Error('broken') })", "broken"),
        ("document.querySelector('h1').style.color = '#bbb'", "color-contrast"),
        ("document.querySelector('label').remove()", "label"),
        ("document.querySelector('h1').style.width = '500px'", "is 5.. wide"),
    ],
)
def test_what_should_not_be_is_noticed(sqlite_site: Site, script: str, told: str) -> None:
    """The checks of this file find what they look for."""

    def spoil_and_check() -> None:
        with sqlite_site.visitor() as page:
            page.goto("/login")
            page.evaluate(f"() => {{ {script} }}")
            page.wait_for_timeout(100)
            require_accessible(page)

    with pytest.raises(AssertionError, match=told):
        spoil_and_check()


def test_handing_in_waits_for_answers_that_are_on_their_way(sqlite_site: Site, tmp_path: Path) -> None:
    case = Case(load_form("story-errors"), THREE[:3], "duplicate-text")
    study = create(sqlite_site, case, tmp_path, "in haste")

    def slowly(route: Route) -> None:
        page.wait_for_timeout(300)
        route.continue_()

    with sqlite_site.visitor() as page:
        begin(page, sqlite_site.link(study))
        answer_page(page, case.form, lambda question, texts: ["chaotic"])
        page.get_by_text("All answers are saved.").wait_for()
        page.route("**/api/raters/**", slowly)
        page.locator("#q0").get_by_role("button", name="Take away").click()
        go(page, "Save and go on")
    counts = sorted(
        len(value) for (_, question), value in answers_of(sqlite_site, study).items() if question == "errors"
    )
    assert counts == [0, 1, 1]


def test_an_answer_that_was_refused_is_not_called_saved(sqlite_site: Site, tmp_path: Path) -> None:
    study = create(sqlite_site, CASES["set-diversity"], tmp_path, "out of range")
    with sqlite_site.visitor(may_fail=True) as page:
        begin(page, sqlite_site.link(study))
        page.locator("#q0 input").fill("51")
        page.locator("#q0").get_by_text("Not saved. Expected a whole number from 1 to 50.").wait_for()
        assert page.locator("[data-status]").inner_text() == "Not everything is saved. The questions above say why."
        page.locator("#q0 input").fill("50")
        page.get_by_text("All answers are saved.").wait_for()
        sqlite_site.store.close_study(study.name, "test")
        page.locator("#q1 input").fill("7")
        page.locator("#q1").get_by_text("has expired").wait_for()
        assert page.locator("[data-status]").inner_text() == "Not everything is saved. The questions above say why."
    assert list(answers_of(sqlite_site, study).values()) == [50]


def test_a_number_is_saved_while_it_has_the_focus(sqlite_site: Site, tmp_path: Path) -> None:
    study = create(sqlite_site, CASES["set-diversity"], tmp_path, "one number")
    with sqlite_site.visitor() as page:
        begin(page, sqlite_site.link(study))
        page.locator("#q0 input").fill("17")
        page.locator("#q0").get_by_text("Saved").wait_for()
        assert page.locator("[data-missing]").inner_text() == "9"
    assert list(answers_of(sqlite_site, study).values()) == [17]
