"""Forms are read strictly, answers are checked, and tables become units as the papers' questionnaires ask."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nlgauge
from nlgauge.annotate.answers import Rated, check_answer, is_storable, missing_answers, questions_for, ratings_of
from nlgauge.annotate.units import Item, Unit, make_units, order_for
from nlgauge.data.human.forms import Form, Shape, form_names, load_form, load_forms
from nlgauge.data.tables import Items, Ratings, ResponseSets
from nlgauge.errors import DataError, PluginError, UnknownName
from nlgauge.studies.diversity.ranking import RankingTest
from nlgauge.studies.human import human_scores
from tests.conftest import ROOT
from tests.errors import raises

NAMES = [
    "abs-hds", "asp-hds", "rnk-hds", "set-diversity", "sim-hds", "story-errors", "story-quality", "typicality",
    "write-different", "write-rephrased",
]  # fmt: skip
STORY = "{0} found a map. {0} took a boat to the island. {0} dug there for three days. The box held a letter."
PEOPLE = ("Ana", "Ben", "Cleo", "Dan")


def unit_of(*texts: tuple[str, ...]) -> Unit:
    return Unit(items=tuple(Item(id=f"i{place}", texts=each) for place, each in enumerate(texts)), context="Hello?")


def sets(rows: int = 1, **columns: list[Any]) -> ResponseSets:
    texts = [["yes", f"no {row}", "perhaps"] for row in range(rows)]
    contexts = columns.pop("contexts", None)
    systems = columns.pop("systems", None)
    ids = [f"s{row}" for row in range(rows)]
    return ResponseSets.of(texts, ids=ids, contexts=contexts, systems=systems, columns=columns)


def stories(*, human_rows: bool = False, references: bool = True) -> Items:
    """Five systems for each of four inputs."""
    systems = ["a", "b", "c", "d", "e", *(["human"] if human_rows else [])]
    rows = [(name, system) for name in PEOPLE for system in systems]
    return Items.of(
        [STORY.format(name) if system == "human" else f"{name} sat down. So did {system}." for name, system in rows],
        ids=[f"{name}-{system}" for name, system in rows],
        contexts=[f"{name} likes treasure." for name, _ in rows],
        systems=[system for _, system in rows],
        references=[[STORY.format(name)] for name, _ in rows] if references else None,
    )


def tables(name: str) -> ResponseSets | Items:
    """Data that suits a form."""
    if name == "set-diversity":
        return sets(20, contexts=["queries 1"] * 10 + ["queries 2"] * 10, systems=list("abcdefghij") * 2)
    if name == "rnk-hds":
        return sets(6, contexts=["one"] * 3 + ["two"] * 3, temperature=[0.2, 1.2, 0.7] * 2)
    if name.startswith("write-"):
        return Items.of(["Hello?", "Who is there?", "My bus is late."])
    if name == "typicality":
        return Items.of([f"text {row}" for row in range(50)], contexts=[f"context {row}" for row in range(50)])
    if name == "story-errors":
        return Items.of([f"text {row}" for row in range(6)], contexts=["one"] * 3 + ["two"] * 3)
    return stories() if name == "story-quality" else sets(3, contexts=["one", "two", "three"])


def answer_for(form: Form, unit: Unit, item: str, id: str) -> Any:
    question = form.question(id)
    if question.widget == "choice":
        return unit.items[-1].id if question.among else question.values[0].value
    if question.widget == "ranking":
        return [one.id for one in unit.items]
    return {"scale": 2, "number": 7, "text": "my own words", "span": [[0, 2]]}[question.widget]


@pytest.fixture
def example() -> str:
    found = re.search(r"```toml\n(.*?)```", (ROOT / "docs" / "forms.md").read_text(), re.S)
    assert found
    return found[1]


@pytest.fixture
def headlines(example: str, tmp_path: Path) -> Form:
    (tmp_path / "headlines.toml").write_text(example)
    return load_form(tmp_path / "headlines.toml")


def test_the_ten_forms_are_there_and_use_every_widget_and_every_word_of_show() -> None:
    forms = [form for form in map(load_form, form_names()) if not form.plugin]
    assert [form.name for form in forms] == NAMES
    widgets = {question.widget for form in forms for question in form.questions}
    assert widgets == {"scale", "choice", "ranking", "text", "span", "number"}
    assert {word for form in forms for step in form.steps for word in step.show} == {
        "context", "first", "responses", "items", "pair"
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_form_survives_its_storage_unchanged(name: str) -> None:
    form = load_form(name)
    assert Form.from_json(form.to_json()) == form


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_is_complete_when_and_only_when_everything_required_is_answered(name: str) -> None:
    form = load_form(name)
    unit = make_units(form, tables(name), seed=1)[0]
    answers: dict[tuple[str, str], Any] = {}
    missing = missing_answers(form, unit, answers)
    asked = [pair for step in range(len(form.steps)) for pair in questions_for(form, unit, step)]
    assert missing == [(item, question.id) for item, question in asked if question.required]
    while missing:
        item, question = missing[0]
        value = answer_for(form, unit, item, question)
        answers[item, question] = check_answer(form, question, item, value, unit)
        missing = missing[1:]
        assert missing_answers(form, unit, answers) == missing


@pytest.mark.parametrize("name", ["abs-hds", "asp-hds", "rnk-hds", "sim-hds"])
def test_the_warm_up_comes_first_and_is_not_exported(name: str) -> None:
    first, *others = load_form(name).steps
    assert [question.id for question in first.questions] == ["own_response", "first_quality"]
    assert not any(question.export for question in first.questions)
    assert "first" in first.show
    for step in others:
        assert all(question.export for question in step.questions)
        assert "first" not in step.show


def test_content_and_form_are_asked_on_pages_of_their_own_or_on_one() -> None:
    apart = load_form("asp-hds")
    assert [[one.id for one in step.questions] for step in apart.steps[1:]] == [["content"], ["form"]]
    assert all(step.show == ("context", "responses") for step in apart.steps[1:])
    joined = apart.with_joined_pages()
    assert [[one.id for one in step.questions] for step in joined.steps[1:]] == [["content", "form"]]
    assert joined.questions == apart.questions
    assert joined.steps[1].instructions == apart.steps[1].instructions == apart.steps[2].instructions
    assert joined.steps[1].title == f"{apart.steps[1].title} {apart.steps[2].title}"
    with pytest.raises(DataError, match="no two pages of the form 'abs-hds'"):
        load_form("abs-hds").with_joined_pages()


def test_forms_have_the_numbers_of_their_papers() -> None:
    typicality = load_form("typicality")
    assert typicality.unit.size == 25
    assert [one.value for one in typicality.questions[0].values] == [5, 4, 3, 2, 1, 0]
    diversity = load_form("set-diversity")
    assert (diversity.unit.size, diversity.questions[0].min, diversity.questions[0].max) == (10, 1, 50)
    quality = load_form("story-quality")
    assert (quality.unit.size, quality.unit.add) == (7, ("human", "negative"))
    points = {one.id: one.points for one in quality.questions[0].deductions}
    assert points == {"repetition": (1, 2), "unrelated": (1, 2), "conflicting": (1, 2), "chaotic": (2,)}


def test_every_pair_of_a_set_is_asked_about_once() -> None:
    form = load_form("sim-hds")
    unit = unit_of(("a", "b", "c", "d", "e"))
    asked = [item for item, question in questions_for(form, unit, 1)]
    assert len(asked) == len(set(asked)) == 10
    assert asked[:3] == ["i0#0-1", "i0#0-2", "i0#0-3"]


def test_items_come_one_by_one_with_all_their_questions(headlines: Form) -> None:
    unit = unit_of(("a",), ("b",), ("c",))
    asked = [(item, question.id) for item, question in questions_for(headlines, unit, 0)]
    assert asked[:4] == [("i0", "fits"), ("i0", "tone"), ("i0", "unclear"), ("i1", "fits")]
    assert [item for item, _ in questions_for(headlines, unit, 1)] == ["", "", "", ""]


def test_the_documentation_names_every_key() -> None:
    text = (ROOT / "docs" / "forms.md").read_text()
    from nlgauge.data.human import forms

    for kind in (forms.Form, forms.FormQuestion, forms.Step, Shape, forms.Choice, forms.Deduction, forms.SpanKind):
        for key in set(kind.__dataclass_fields__) - {"plugin"}:
            assert f"`{key}`" in text, f"{kind.__name__}.{key}"


def broken(example: str, old: str, new: str) -> str:
    assert old in example
    return example.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('widget = "scale"', 'widget = "scal"', r"steps\[0\].questions\[0\].widget: found 'scal'; .*mean 'scale'"),
        ("minutes = 4", "minuts = 4", r"the key 'minuts'; .*mean 'minutes'"),
        ("minutes = 4", "", "the form: found no 'minutes'"),
        ("minutes = 4", 'minutes = "4"', "minutes: Expected `float`, got `str`"),
        ("minutes = 4", "minutes = nan", "minutes: found nan; expected a number above 0"),
        ('name = "headline-check"', 'name = "../x"', "name: found '../x'"),
        ('prompt = "What is its tone?"', "", r"questions\[1\]: found no 'prompt'"),
        ('id = "tone"', 'id = "fits"', "2 questions with the id 'fits'"),
        ('id = "tone"', 'id = "a.b"', "small letters, digits and underscores"),
        ('labels = { 1 = "not at all", 5 = "perfectly" }', 'labels = { 1 = "no" }', "no label for 5"),
        ('5 = "perfectly" }', '5 = "perfectly", 6 = "x" }', "found a label for 6; expected numbers from 1 to 5"),
        ("min = 1\nmax = 5", "min = 1", "a scale without its ends; expected min and max"),
        ("min = 1\nmax = 5", "min = 5\nmax = 1", "found 5 to 1; expected min below max"),
        ("min = 1\nmax = 5", "min = 1\nmax = 50", "scale of 50 points; expected at most 11: use the widget 'number'"),
        ("min = 1\nmax = 5", "min = true\nmax = 5", "Expected `int"),
        ('widget = "ranking"', 'widget = "ranking"\nmin = 1', "found 'min' with the widget 'ranking'"),
        ('widget = "ranking"', 'widget = "ranking"\nper = "item"', "compares items; expected per = 'unit'"),
        ('widget = "ranking"', 'widget = "ranking"\nper = "pair"', "per = 'pair' in a form without pairs"),
        ('among = "items"', "", "both or neither of 'values' and 'among'"),
        ("{ value = 1,", "{ value = 0,", "one twice; expected at least 2 that differ"),
        ('show = ["context", "items"]', 'show = ["context"]', "per = 'item' in a step that shows none"),
        ('show = ["context", "items"]', 'show = ["context", "pair"]', "'pair' in a form whose units are made of items"),
        ('show = ["context", "items"]', 'show = ["context", "item"]', r"show\[1\]: found 'item'; .*mean 'items'"),
        ("points = [1, 2]", "points = [2, 1]", r"points \[2, 1\] for 'wrong'; .*ascending"),
        ('id = "vague"', 'id = "wrong"', r"deductions \['wrong', 'wrong'\]; expected ids that differ"),
        (
            'id = "unclear"\nwidget = "span"\nper = "item"',
            'id = "unclear"\nwidget = "span"',
            "found spans; expected per",
        ),
        ("size = 3", "size = 0", "found size 0; expected 1 to 100"),
        ('group = "context"', 'add = ["human"]', "found 'add'; expected of = 'item', a column as group"),
        ('group = "context"', 'pairs = "all", group = "context"', "pairs = 'all' with size 3; expected size = 2"),
        ('title = "Which headline would you click?"', 'title = " "', "an empty title"),
        ('title = "Which headline', "title = Which", r"Invalid value .*expected a TOML file"),
    ],
)
def test_a_bad_form_is_refused_with_its_file_and_place(
    example: str, old: str, new: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(broken(example, old, new))
    with pytest.raises(DataError, match=said) as caught:
        load_form(file)
    assert str(caught.value).startswith(str(file))


def test_pairs_need_a_page_that_shows_them(tmp_path: Path) -> None:
    text = (ROOT / "src/nlgauge/data/human/forms/sim-hds.toml").read_text()
    for old, new, said in (
        ('show = ["context", "pair"]', 'show = ["context"]', "in a step that does not show pairs"),
        ('per = "pair"', 'per = "unit"', "found show 'pair' without a question about pairs"),
    ):
        (tmp_path / "sim.toml").write_text(broken(text, old, new))
        with pytest.raises(DataError, match=said):
            load_form(tmp_path / "sim.toml")


def test_a_form_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    with raises(UnknownName, name="abs-hsd", nearest="abs-hds"):
        load_form("abs-hsd")
    with raises(DataError, file="none.toml"):
        load_form(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b'name = "a"\ntitle = "\xff"')
    with raises(DataError, file="bytes.toml", line=2):
        load_form(tmp_path / "bytes.toml")


def test_a_stored_form_is_checked_as_a_file_is() -> None:
    raw = msgspec.json.decode(load_form("abs-hds").to_json())
    raw["steps"][1]["questions"][0]["widget"] = "slider"
    with raises(DataError, file="the stored form"):
        Form.from_json(msgspec.json.encode(raw).decode())


@pytest.mark.parametrize(("value", "stored"), [(3, 3), ("3", 3), (3.0, 3), (1, 1), (5, 5)])
def test_numbers_are_stored_as_whole_numbers(headlines: Form, value: Any, stored: int) -> None:
    found = check_answer(headlines, "fits", "i0", value, unit_of(("a",)))
    assert found == stored
    assert type(found) is int


IMPOSSIBLE: dict[str, list[Any]] = {
    "fits": [0, 6, 2.5, True, None, "", " 3", "３", "1e0", float("nan"), float("inf"), [3], {}, 10**400],
    "tone": [2, "sober", None, False, [0]],
    "fits.wrong": [3, -1, None],
    "unclear": [
        None, "x", {"0": 1}, [1], [[0]], [[0, 1, "jargon", 2]], [[1, 1]], [[2, 1]], [[0, 99]], [[-1, 2]],
        [[0, 1, "odd"]], [[0, 1, ["jargon"]]], [[0, 3], [2, 4]], [[0.0, 1.0]], [[True, 2]],
    ],
}  # fmt: skip


@pytest.mark.parametrize(("question", "value"), [(name, value) for name, bad in IMPOSSIBLE.items() for value in bad])
def test_an_impossible_answer_about_an_item_is_refused(headlines: Form, question: str, value: Any) -> None:
    with pytest.raises(DataError, match=f"question '{question}': found .*; expected"):
        check_answer(headlines, question, "i0", value, unit_of(("a text",), ("b",)))


@pytest.mark.parametrize(
    ("question", "value"),
    [
        *(("order", value) for value in (["i0"], ["i0", "i0"], ["i0", "i1", "i2"], "i0", None, [["i0"], "i1"])),
        *(("click", value) for value in ("i2", "", None, 0, ["i0"])),
        *(("own", value) for value in ("a\0b", "\ud800", 5, None, "x" * 121)),
    ],
)
def test_an_impossible_answer_about_the_unit_is_refused(headlines: Form, question: str, value: Any) -> None:
    with pytest.raises(DataError, match=f"question '{question}': found .*; expected"):
        check_answer(headlines, question, "", value, unit_of(("a text",), ("b",)))


def test_answers_about_something_else_are_refused(headlines: Form) -> None:
    unit = unit_of(("a",), ("b",))
    for question, item in (("fits", ""), ("fits", "i9"), ("order", "i0"), ("fits", "i0#0-1")):
        with pytest.raises(DataError, match="expected an item of this assignment"):
            check_answer(headlines, question, item, 3, unit)
    with pytest.raises(DataError, match=r"no question 'fit' in the form .*mean 'fits'"):
        check_answer(headlines, "fit", "i0", 3, unit)


def test_text_is_tidied_and_measured_in_characters(headlines: Form) -> None:
    unit = unit_of(("a",))
    assert check_answer(headlines, "own", "", "  e\u0301a\r\nb  ", unit) == "\u00e9a\nb"
    assert len(check_answer(headlines, "own", "", "\U0001f600" * 120, unit)) == 120
    assert check_answer(headlines, "own", "", "", unit) == ""
    with pytest.raises(DataError, match="expected 2 to 500 characters, not 0"):
        check_answer(load_form("abs-hds"), "own_response", "", " \n ", unit)


def test_spans_are_sorted_and_count_characters_not_code_units(headlines: Form) -> None:
    unit = unit_of(("\U0001f600 ok",))
    found = check_answer(headlines, "unclear", "i0", [[2, 4, "jargon"], [0, 2]], unit)
    assert found == [[0, 2], [2, 4, "jargon"]]
    assert check_answer(headlines, "unclear", "i0", [], unit) == []
    with pytest.raises(DataError, match="end <= 4, in characters"):
        check_answer(headlines, "unclear", "i0", [[2, 5]], unit)


@given(st.one_of(st.none(), st.text(), st.integers(), st.floats(), st.lists(st.lists(st.integers(-3, 9)))))
def test_any_answer_is_stored_so_that_it_can_be_checked_again_or_refused(value: Any) -> None:
    unit = unit_of(("a text",), ("b",))
    for name in ("story-errors", "story-quality", "rnk-hds", "abs-hds"):
        form = load_form(name)
        for question in form.questions:
            item = "" if question.per == "unit" else "i0"
            try:
                stored = check_answer(form, question.id, item, value, unit)
            except DataError:
                continue
            assert (
                check_answer(form, question.id, item, msgspec.json.decode(msgspec.json.encode(stored)), unit) == stored
            )


def test_answers_become_the_ratings_that_studies_read(headlines: Form) -> None:
    two, three = unit_of(("a",), ("b",)), unit_of(("a",), ("b",), ("c",))
    rank, similar = load_form("rnk-hds"), load_form("sim-hds")
    assert ratings_of(rank, "more_diverse", "", "i0", two) == [Rated("i0>i1", "more_diverse", 1.0)]
    assert ratings_of(rank, "more_diverse", "", "i1", two) == [Rated("i0>i1", "more_diverse", -1.0)]
    assert ratings_of(similar, "similarity", "a#b#0-2", 4, two) == [Rated("a#b", "similarity", 4.0, "0-2")]
    assert [one.value for one in ratings_of(headlines, "click", "", "i1", three)] == [0.0, 1.0, 0.0]
    assert [one.value for one in ratings_of(headlines, "order", "", ["i2", "i0", "i1"], three)] == [2.0, 3.0, 1.0]
    assert ratings_of(headlines, "own", "", "words", three) == []
    spans = ratings_of(headlines, "unclear", "i0", [[0, 1, "jargon"], [1, 2]], three)
    assert [(one.question, one.value) for one in spans] == [
        ("unclear", 2.0), ("unclear.jargon", 1.0), ("unclear.ambiguous", 0.0)
    ]  # fmt: skip
    assert ratings_of(headlines, "fits.wrong", "i0", 2, three) == [Rated("i0", "fits.wrong", 2.0)]


def as_table(rows: list[Rated]) -> Ratings:
    shown = [{"item": row.item, "rater": "r", "question": row.question, "value": row.value} for row in rows]
    pairs = [row.pair or None for row in rows]
    return Ratings(pl.DataFrame(shown).with_columns(pl.Series("pair", pairs, dtype=pl.String)))


def test_comparisons_feed_the_ranking_test() -> None:
    form, table = load_form("rnk-hds"), tables("rnk-hds")
    assert isinstance(table, ResponseSets)
    warmth = dict(zip(table.ids, table.frame["temperature"], strict=True))
    rows = []
    for unit in make_units(form, table, seed=1):
        seen = order_for(unit, 8)
        warmer = max(unit.items, key=lambda item: float(warmth[item.id])).id
        rows += ratings_of(form, "more_diverse", "", warmer, seen)
    found = RankingTest(comparisons=as_table(rows), parameter="temperature").run(table).rows
    (row,) = [row for row in found if row["metric"] == "rnkHDS"]
    assert (row["n"], row["accuracy"]) == (6, 1.0)


def test_similarities_of_pairs_feed_the_human_score() -> None:
    form = load_form("sim-hds")
    unit = unit_of(("a", "b", "c"))
    answers = zip(unit.targets("pair"), (1, 2, 3), strict=True)
    rows = [row for item, value in answers for row in ratings_of(form, "similarity", item, value, unit)]
    ((name, scores, _),) = human_scores(as_table(rows), ["i0"])
    assert (name, scores.tolist()) == ("similarity", [-2.0])


@pytest.mark.parametrize("name", NAMES)
def test_units_depend_on_the_seed_and_nothing_else(name: str) -> None:
    form = load_form(name)
    assert make_units(form, tables(name), seed=3) == make_units(form, tables(name), seed=3)
    everything = {item.id for unit in make_units(form, tables(name), seed=3) for item in unit.items}
    assert everything == {item.id for unit in make_units(form, tables(name), seed=4) for item in unit.items}


def test_sets_are_units_of_their_own_with_their_context() -> None:
    units = make_units(load_form("abs-hds"), sets(2, contexts=["one", "two"]), seed=1)
    assert [(unit.context, unit.items[0].id, unit.items[0].texts) for unit in units] == [
        ("one", "s0", ("yes", "no 0", "perhaps")),
        ("two", "s1", ("yes", "no 1", "perhaps")),
    ]


def test_ten_sets_of_one_query_set_stand_side_by_side() -> None:
    units = make_units(load_form("set-diversity"), tables("set-diversity"), seed=1)
    assert [unit.context for unit in units] == ["queries 1", "queries 2"]
    assert [sorted(item.system for item in unit.items) for unit in units] == [list("abcdefghij")] * 2


def test_twenty_five_items_are_dealt_at_random_and_keep_their_own_context() -> None:
    form, table = load_form("typicality"), tables("typicality")
    first, second = make_units(form, table, seed=1)
    assert len(first.items) == len(second.items) == 25
    assert first.context == ""
    assert all(item.context == item.texts[0].replace("text", "context") for item in first.items)
    assert {item.id for item in first.items} != {str(row) for row in range(25)}
    assert make_units(form, table, seed=2) != [first, second]


def test_a_smaller_last_unit_must_be_asked_for() -> None:
    form = load_form("typicality")
    table = Items.of([f"text {row}" for row in range(30)])
    with pytest.raises(DataError, match="found 30 items; expected units of 25"):
        make_units(form, table, seed=1)
    assert [len(unit.items) for unit in make_units(form, table, seed=1, smaller_last=True)] == [25, 5]
    with pytest.raises(DataError, match="found 24 items; expected units of 25"):
        make_units(form, Items.of([str(row) for row in range(24)]), seed=1, smaller_last=True)


def test_two_sets_of_a_context_are_compared_all_or_neighbours_only() -> None:
    form, table = load_form("rnk-hds"), tables("rnk-hds")
    pairs = [tuple(item.id for item in unit.items) for unit in make_units(form, table, seed=1)]
    assert pairs == [("s0", "s1"), ("s0", "s2"), ("s1", "s2"), ("s3", "s4"), ("s3", "s5"), ("s4", "s5")]
    near = make_units(form, table, seed=1, shape=Shape(of="set", size=2, group="context", pairs="neighbours"))
    assert [tuple(item.id for item in unit.items) for unit in near] == [
        ("s0", "s2"), ("s2", "s1"), ("s3", "s5"), ("s5", "s4")
    ]  # fmt: skip


def test_sets_that_cannot_be_told_apart_are_not_compared() -> None:
    form = load_form("rnk-hds")
    with raises(DataError, column="system"):
        make_units(form, sets(2, contexts=["one", "one"], systems=["a", "a"]), seed=1)
    with raises(DataError, option="apart"):
        make_units(form, sets(2, contexts=["one", "one"]), seed=1)
    odd = ResponseSets.of([["a"], ["b"]], ids=["x>y", "z"], contexts=["one", "one"], systems=["a", "b"])
    with raises(DataError, column="id"):
        make_units(form, odd, seed=1)


def test_seven_stories_are_five_systems_a_human_and_a_negative() -> None:
    for table in (stories(), stories(human_rows=True, references=False)):
        units = make_units(load_form("story-quality"), table, seed=1)
        assert len(units) == len(PEOPLE)
        for name, unit in zip(PEOPLE, units, strict=True):
            assert [item.role for item in unit.items] == ["system"] * 5 + ["human", "negative"]
            human, negative = unit.items[-2:]
            assert human.texts == (STORY.format(name),)
            assert name not in negative.texts[0]
            assert negative.texts[0] not in {STORY.format(other) for other in PEOPLE}
            assert unit.context == f"{name} likes treasure."
    assert make_units(load_form("story-quality"), stories(), seed=1) != make_units(
        load_form("story-quality"), stories(), seed=2
    )


def test_a_negative_says_something_twice_and_has_its_sentences_in_another_order() -> None:
    units = make_units(load_form("story-quality"), stories(), seed=5)
    for unit in units:
        text = unit.items[-1].texts[0]
        owner = next(name for name in PEOPLE if name in text)
        lines = STORY.format(owner).split(". ")
        assert len(text) > len(STORY.format(owner))
        places = [text.find(line.rstrip(".")) for line in lines]
        assert places != sorted(places)


def test_stories_without_what_they_need_are_refused() -> None:
    form = load_form("story-quality")
    with raises(DataError, column="references"):
        make_units(form, stories(references=False), seed=1)
    plain = Items.of(["a"], contexts=["one"])
    with raises(DataError, column="system"):
        make_units(form, plain, seed=1)
    with raises(DataError, column="context"):
        make_units(form, Items.of(["a"]), seed=1)
    short = Items(stories().frame.filter(stories().frame["system"] != "e"))
    with raises(DataError, column="system"):
        make_units(form, short, seed=1)
    alone = Items(stories().frame.head(5))
    with pytest.raises(DataError, match="no human text of another group that can be made worse"):
        make_units(form, alone, seed=1)
    assert [len(unit.items) for unit in make_units(form, alone, seed=1, negatives=False)] == [6]


def test_the_wrong_kind_of_table_is_refused() -> None:
    with pytest.raises(DataError, match="found single texts; expected sets of responses"):
        make_units(load_form("abs-hds"), Items.of(["a"]), seed=1)
    with pytest.raises(DataError, match="found sets of responses; expected single texts"):
        make_units(load_form("typicality"), sets(25), seed=1)
    twice = ResponseSets.of([["a"], ["b"]], ids=["x", "x"])
    with raises(DataError, option="id"):
        make_units(load_form("abs-hds"), twice, seed=1)


def test_texts_stay_as_they_are_but_for_what_no_database_keeps() -> None:
    hostile = "<script>alert(1)</script> {{ 7 * 7 }} '; DROP TABLE unit; --"
    table = ResponseSets.of([[hostile, "a\0b"]], ids=["x"], contexts=["\0"])
    (unit,) = make_units(load_form("abs-hds"), table, seed=1)
    assert unit.items[0].texts == (hostile, "a\N{REPLACEMENT CHARACTER}b")
    assert unit.context == "\N{REPLACEMENT CHARACTER}"
    with raises(DataError, column="id"):
        make_units(load_form("abs-hds"), ResponseSets.of([["a"]], ids=["x\0"]), seed=1)


@given(st.text(st.characters()))
def test_what_is_storable_can_be_encoded_and_has_no_nul(text: str) -> None:
    encodable = "\0" not in text and text.encode("utf-8", "replace").decode() == text
    assert is_storable(text) == encodable


def test_known_answers_come_with_their_units() -> None:
    form = load_form("abs-hds")
    gold = sets(2, contexts=["one", "two"], expected_diversity=[1, None])
    units = make_units(form, sets(1, contexts=["x"]), seed=1, gold=gold, qualification=gold)
    assert [(unit.kind, unit.items[0].id, unit.items[0].role) for unit in units] == [
        ("normal", "s0", ""),
        ("gold", "gold:s0", "gold"),
        ("gold", "gold:s1", "gold"),
        ("qualification", "qualification:s0", ""),
        ("qualification", "qualification:s1", ""),
    ]
    assert units[1].expected == {"gold:s0": {"diversity": 1}}
    assert units[2].expected == {}


def test_known_answers_can_be_choices_and_orders(headlines: Form) -> None:
    rank = load_form("rnk-hds")
    known = sets(2, contexts=["one", "one"], expected_more_diverse=[0, 1])
    (unit,) = [unit for unit in make_units(rank, tables("rnk-hds"), seed=1, attention=known) if unit.kind != "normal"]
    assert (unit.kind, unit.expected) == ("attention", {"": {"more_diverse": "attention:s1"}})
    places = Items.of(["a", "b", "c"], ids=list("xyz"), contexts=["q"] * 3, columns={"expected_order": [2, 3, 1]})
    table = Items.of(["a", "b", "c"], contexts=["q"] * 3)
    *_, unit = make_units(headlines, table, seed=1, gold=places)
    assert unit.expected == {"": {"order": ["gold:z", "gold:x", "gold:y"]}}


@pytest.mark.parametrize(
    ("column", "cells", "said"),
    [
        (
            "expected_diversity",
            [9],
            "column 'expected_diversity': question 'diversity': found 9; expected a whole number",
        ),
        ("answer", [1], "the table for gold: no known answers; found .*; expected expected_own_response or"),
    ],
)
def test_known_answers_that_cannot_be_are_refused(column: str, cells: list[Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        make_units(load_form("abs-hds"), sets(1), seed=1, gold=sets(1, **{column: cells}))


def test_known_answers_about_pairs_and_spans_are_refused() -> None:
    with raises(DataError, file="the table for gold", column="expected_similarity"):
        make_units(load_form("sim-hds"), sets(1), seed=1, gold=sets(1, expected_similarity=[1]))


def test_each_rater_has_an_order_of_their_own_that_stays() -> None:
    unit = unit_of(*((str(place),) for place in range(7)))
    orders = [[item.id for item in order_for(unit, seed).items] for seed in range(50)]
    assert all(sorted(order) == unit.targets("item") for order in orders)
    assert len({tuple(order) for order in orders}) > 40
    assert {order[0] for order in orders} == set(unit.targets("item"))
    again = order_for(order_for(unit, 3), 7)
    assert [item.id for item in again.items] == orders[7]


def test_the_shape_of_units_is_checked_where_it_is_given() -> None:
    with pytest.raises(DataError, match="the shape of a unit: found size 0"):
        make_units(load_form("abs-hds"), sets(1), seed=1, shape=Shape(of="set", size=0))
    four = Shape(of="item", size=4, group="context")
    table = Items.of(list("abcd"), contexts=["x"] * 4)
    assert [len(unit.items) for unit in make_units(load_form("story-errors"), table, seed=1, shape=four)] == [4]


def test_released_stories_become_the_assignments_of_the_paper(research_data: Path) -> None:
    raw = msgspec.json.decode((research_data / "openmeva" / "mans_roc.json").read_bytes())
    rows = [(key, entry, system) for key, entry in raw.items() for system in entry["gen"]]
    table = Items.of(
        [entry["gen"][system]["text"] for _, entry, system in rows],
        ids=[f"{key}-{system}" for key, _, system in rows],
        contexts=[entry["prompt"] for _, entry, _ in rows],
        systems=[system for _, _, system in rows],
        references=[[entry["gold_response"]] for _, entry, _ in rows],
    )
    units = make_units(load_form("story-quality"), table, seed=1)
    assert len(units) == 200
    assert all(len(unit.items) == 7 for unit in units)
    humans = {unit.items[5].texts[0] for unit in units}
    assert not humans & {unit.items[6].texts[0] for unit in units}


def installed(folder: Path, name: str, points: str) -> None:
    """Metadata of a package, as pip leaves it."""
    place = folder / f"{name}-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (place / "entry_points.txt").write_text(f"[nlgauge.forms]\n{points}\n")


def test_a_package_brings_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "examples" / "plugin" / "src" / "nlgauge_example" / "surprise.toml").read_text()
    package = tmp_path / "own_forms"
    package.mkdir()
    (package / "__init__.py").write_text("from pathlib import Path\nPLACE = Path(__file__).with_name('wonder.toml')\n")
    (package / "wonder.toml").write_text(text)
    installed(tmp_path, "own-forms", "wonder = own_forms\nastonishment = own_forms:PLACE\nlost = own_forms")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {"abs-hds", "wonder", "astonishment"} <= set(form_names())
    form = load_form("wonder")
    assert form == load_form("astonishment") == replace(load_form(package / "wonder.toml"), plugin="own-forms 1.0")
    assert Form.from_json(form.to_json()).plugin == "own-forms 1.0"
    with pytest.raises(PluginError, match="the form 'lost' of own-forms"):
        load_form("lost")
    with pytest.warns(UserWarning, match="'lost'"):
        assert form in load_forms()
    installed(tmp_path, "taken", "abs-hds = own_forms")
    with pytest.raises(PluginError, match="two packages define a form 'abs-hds'"):
        form_names()


def test_the_released_sets_of_paper_1_make_units_as_they_are_and_their_ratings_reach_the_study(
    research_data: Path,
) -> None:
    path = research_data / "diversity_eval/conTest/con_test_200_with_hds_resp_gen.csv"
    sets = nlgauge.read(str(path), system="")
    units = make_units(load_form("abs-hds"), sets, seed=1)
    ids = [unit.items[0].id for unit in units]
    assert len(set(ids)) == len(ids) == 220
    labels = dict(zip(ids, sets.frame["label_value"].to_list(), strict=True))
    ratings = Ratings(
        pl.DataFrame(
            {"item": ids, "rater": "one", "question": "diversity", "value": [float(labels[one]) for one in ids]}
        )
    )
    study = nlgauge.ContentTest(ratings=ratings, resamples=100, significance=False)
    row = study.run(str(path)).rows[0]
    assert (row["n"], row["oca"]) == (220, 1.0)
