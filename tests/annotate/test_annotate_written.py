"""People as testers of content: the two forms, the rules about what is written, the review, and the labelled sets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from nlgauge.annotate.database.records import Lease, Rater, Study, SubmitOutcome
from nlgauge.annotate.database.store import Store
from nlgauge.annotate.exporting import exported, ratings, response_sets
from nlgauge.annotate.quality import AssignmentRule, Work
from nlgauge.annotate.rules import parse_rules, read_rules
from nlgauge.annotate.settings import StudySettings
from nlgauge.annotate.units import make_units
from nlgauge.annotate.writing import Language, NearCopy, TextLength
from nlgauge.annotate.written import work_lines, written_work
from nlgauge.data.human.forms import Form, load_form
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.studies.diversity.content import ContentTest
from tests.annotate.fixtures import Clock, opened
from tests.errors import raises
from tests.helpers import nlgauge

QUESTIONS = {
    "write-different": [f"response_{number}" for number in range(1, 6)],
    "write-rephrased": ["response", *(f"rephrased_{number}" for number in range(1, 5))],
}
CONTEXTS = ["Do you want to go for a swim this afternoon?", "I can't find my keys anywhere.", "Where should we eat?"]
DIFFERENT = [
    "I never learned how, so I'd rather not.",
    "Sure, meet me at the lake around three.",
    "Isn't the pool closed for repairs until Monday?",
    "Only if we can stop for ice cream afterwards.",
    "My doctor told me to keep this bandage dry.",
]
REPHRASED = [
    "Sure, a dip in the water sounds lovely.",
    "Count me in, that would be great.",
    "Absolutely, nothing would please me more.",
    "Yes please, I'd be happy to join you.",
    "I'm up for it, good idea.",
]
COPIES = {
    "one word changed": ["I really liked the ending a lot.", "I really loved the ending a lot."],
    "case and marks": ["The keys are on the table.", "the KEYS are on the table!!"],
}
OTHER_LANGUAGES = {
    "de": "Ich habe keine Lust, weil das Wasser noch sehr kalt ist und ich nicht schwimmen kann.",
    "fr": "Je ne sais pas nager, mais je peux vous attendre sur la plage avec un livre.",
    "es": "No me gusta el agua fría, pero puedo ir con los niños a la playa por la tarde.",
    "it": "Non mi piace il mare, ma posso aspettare sulla spiaggia con un libro e gli amici.",
    "nl": "Ik heb geen zin, want het water is nog te koud en ik kan niet zwemmen.",
    "pt": "Não gosto de água fria, mas posso ir com os meus filhos para a praia.",
    "cyrillic": "Я не люблю холодную воду, но могу подождать тебя на берегу с книгой.",
    "cjk": "我不喜欢冷水但是可以在岸边等你们回来一起吃饭",
}


def written(texts: Sequence[str], context: str = CONTEXTS[0]) -> Work:
    answers = {("", f"t{number}"): text for number, text in enumerate(texts)}
    names = {name for _, name in answers}
    return Work(answers=answers, texts=names, written=[list(texts)], context=context)


def reason(rule: AssignmentRule, work: Work) -> str:
    found = rule.find(work)
    return "" if found is None else found.reason


@pytest.mark.parametrize("texts", [DIFFERENT, REPHRASED])
def test_honest_work_breaks_no_rule(texts: list[str]) -> None:
    rules = read_rules(parse_rules(load_form("write-different").rules))
    assert [rule.name for rule in rules.on_assignments if rule.name in ("near-copy", "text-length", "language")] == [
        "near-copy", "text-length", "language"
    ]  # fmt: skip
    assert rules.find(written(texts)) == []


def test_no_set_of_the_examples_breaks_a_rule(examples: Path) -> None:
    rules = read_rules(parse_rules(load_form("write-different").rules))
    rows = [json.loads(line) for line in (examples / "content_sets.jsonl").read_text().splitlines()]
    assert len(rows) == 90
    assert [row["id"] for row in rows if rules.find(written(row["responses"], row["context"]))] == []


@pytest.mark.parametrize("name", COPIES)
def test_near_copies_are_found_and_named(name: str) -> None:
    found = reason(NearCopy(), written([*DIFFERENT[:3], *COPIES[name]]))
    assert COPIES[name][0] in found
    assert "of their characters" in found


def test_the_context_handed_in_as_a_response_is_found() -> None:
    found = reason(NearCopy(), written([*DIFFERENT[:4], "Do you want to go for a swim this afternoon"]))
    assert found == "'Do you want to go for a swim this afternoon' shares 100% of its characters with the context"


def test_near_copies_are_looked_for_within_a_set_and_not_between_sets() -> None:
    answers = {("", f"t{number}"): text for number, text in enumerate([*DIFFERENT, *DIFFERENT])}
    work = Work(answers=answers, texts={name for _, name in answers}, written=[DIFFERENT, DIFFERENT])
    assert NearCopy().find(work) is None


@pytest.mark.parametrize("language", OTHER_LANGUAGES)
def test_another_language_is_found(language: str) -> None:
    work = written([OTHER_LANGUAGES[language]])
    assert reason(Language(), work).startswith(f"the texts read as '{language}'; expected 'en' (")
    assert reason(Language(expected=language), work) == ""
    assert reason(Language(expected="any"), work) == ""


def test_words_of_no_language_are_found_and_few_words_are_not_judged() -> None:
    assert "no common word" in reason(Language(), written(["asdf qwer zxcv lkjh", "poiu mnbv gfds trew hjkl"]))
    assert reason(Language(), written(["Bonjour, madame."])) == ""


def test_short_texts_are_counted_in_words_of_their_script() -> None:
    assert reason(TextLength(), written(["Absolutely!"])) == "'Absolutely!' has 1 word, fewer than 2"
    assert reason(TextLength(words=4), written(["我不喜欢"])) == ""
    assert reason(TextLength(words=0), written(["Yes"])) == ""


@pytest.mark.parametrize(
    ("spec", "option"),
    [("near-copy:share=1.5", "share"), ("text-length:words=-1", "words"), ("language:expected=E N", None)],
)
def test_options_that_make_no_sense_are_refused(spec: str, option: str | None) -> None:
    with pytest.raises(OptionError) as error:
        parse_rules([spec])
    assert option is None or error.value.option == option


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('of = "context"', 'of = "item"', "found 'writes' or of = 'context' alone"),
        ("size = 1", "size = 2", "people write to one context at a time"),
        ('"response_5"]', '"response_6"]', "found 'response_6'; expected questions with the widget 'text'"),
        ('"response_5"]', '"response_1"]', "expected at least 2, each once"),
        ("label = 1", "label = 2", "label"),
        ('show = ["context"]', 'show = ["context", "items"]', "found show 'items' in a form whose units"),
    ],
)
def test_a_form_that_cannot_be_written_to_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    from nlgauge.data.human import forms

    text = (Path(forms.__file__).parent / "forms" / "write-different.toml").read_text()
    assert old in text
    (tmp_path / "own.toml").write_text(text.replace(old, new))
    with pytest.raises(DataError) as error:
        load_form(tmp_path / "own.toml")
    assert said in str(error.value)


def test_a_rule_of_a_form_that_is_not_there_is_named_with_the_nearest() -> None:
    with raises(UnknownName, name="near-copies", nearest="near-copy"):
        parse_rules(["near-copies"])


def test_units_are_contexts_each_once_whatever_the_table_has() -> None:
    form = load_form("write-different")
    sets = ResponseSets.of([["a b"], ["c d"], ["e f"]], ids=["s1", "s2", "s3"], contexts=["one", "two", "one"])
    for table in (sets, Items.of(["one", "two", "one"], ids=["s1", "s2", "s3"])):
        units = make_units(form, table, seed=1)
        assert [(unit.context, unit.items[0].id, unit.items[0].texts) for unit in units] == [
            ("one", "s1", ()), ("two", "s2", ())
        ]  # fmt: skip


def test_tables_without_contexts_and_known_answers_are_refused() -> None:
    form = load_form("write-different")
    with raises(DataError, column="context"):
        make_units(form, ResponseSets.of([["a"], ["b"]]), seed=1)
    with pytest.raises(DataError, match="what people write has no known answers"):
        make_units(form, Items.of(CONTEXTS), seed=1, gold=Items.of(CONTEXTS))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Store, Clock]]:
    clock = Clock()
    with opened(tmp_path / "annotate.db", clock) as store:
        yield store, clock


def create(store: Store, form: Form, contexts: Sequence[str] = CONTEXTS, **settings: Any) -> Study:
    units = make_units(form, Items.of(list(contexts), ids=[f"c{n}" for n in range(len(contexts))]), seed=1)
    quality = parse_rules(form.rules)
    return store.create_study(form.name, form, units, StudySettings(raters=1, quality=quality, **settings))


def hand_in(store: Store, study: Study, rater: Rater, texts: Sequence[str], clock: Clock) -> SubmitOutcome:
    lease = store.lease(study, rater)
    assert isinstance(lease, Lease)
    answers = dict(zip((("", id) for id in QUESTIONS[study.form.name]), texts, strict=True))
    store.save_all(lease.assignment.id, rater.id, answers)
    clock.time += 100
    return store.submit(lease.assignment.id, rater.id, 100)


def test_a_tester_who_copies_is_rejected_and_somebody_else_gets_the_context(site: tuple[Store, Clock]) -> None:
    store, clock = site
    study = create(store, load_form("write-different"), CONTEXTS[:1])
    carl, ann = store.join(study, "direct", "carl"), store.join(study, "direct", "ann")
    outcome = hand_in(store, study, carl, ["I would go if I had a towel with me today."] * 5, clock)
    assert outcome.state == "rejected"
    assert {verdict.rule for verdict in outcome.verdicts} == {"near-copy", "duplicate-text"}
    with pytest.raises(DataError, match="has no valid sets; expected submitted work"):
        response_sets(store.snapshot(study))
    assert hand_in(store, study, ann, DIFFERENT, clock).state == "valid"
    assert len(response_sets(store.snapshot(study))) == 1
    assert len(response_sets(store.snapshot(study), include="all")) == 2


def test_the_researcher_rejects_and_accepts_what_was_written(site: tuple[Store, Clock]) -> None:
    store, clock = site
    study = create(store, load_form("write-rephrased"), CONTEXTS[:2])
    ann = store.join(study, "direct", "ann")
    hand_in(store, study, ann, REPHRASED, clock)
    hand_in(store, study, ann, COPIES["one word changed"] + DIFFERENT[:3], clock)
    copied, honest = written_work(store.snapshot(study))
    assert (honest.state, copied.state) == ("valid", "rejected")
    store.reject(assignment_id=honest.assignment, reason="five different answers", who="maria")
    store.overrule(copied.open_verdicts[0].id, "a wording of its own", "maria")
    table = response_sets(store.snapshot(study))
    assert table.to_polars()["responses"].to_list() == [COPIES["one word changed"] + DIFFERENT[:3]]
    lines = "\n".join(work_lines(written_work(store.snapshot(study))))
    assert "rejected by manual (verdict 2): 'five different answers'" in lines
    assert "one response in several wordings (content_diversity 0)" in lines


def test_both_tasks_make_a_content_test(site: tuple[Store, Clock], tmp_path: Path) -> None:
    store, clock = site
    frames = []
    for name, texts in (("write-different", DIFFERENT), ("write-rephrased", REPHRASED)):
        study = create(store, load_form(name))
        rater = store.join(study, "direct", "ann")
        for number in range(len(CONTEXTS)):
            hand_in(store, study, rater, [f"{text} {'Well, well.' * number}" for text in texts], clock)
        frames.append(exported(store.snapshot(study)))
    sets = ResponseSets.concat([frame for frame in frames if isinstance(frame, ResponseSets)])
    frame = sets.to_polars()
    assert frame["content_diversity"].to_list() == [1, 1, 1, 0, 0, 0]
    assert frame["id"].n_unique() == 6
    assert set(frame["tester"]) == {"people"}
    assert sorted(set(frame["context_id"])) == ["c0", "c1", "c2"]
    result = ContentTest(metrics=("distinct",), significance=False).run(sets)
    assert result.row("distinct")["n"] == 6


def test_a_study_of_written_sets_has_no_ratings(site: tuple[Store, Clock]) -> None:
    store, _ = site
    study = create(store, load_form("write-different"))
    with pytest.raises(DataError, match="has no ratings: its form 'write-different' asks people to write sets"):
        ratings(store.snapshot(study))


def command(folder: Path, *arguments: str, fails: bool = False) -> str:
    """What `nlgauge annotate` prints in a folder, or what it says when it refuses."""
    done = nlgauge("annotate", *arguments, cwd=folder, cache=folder / "cache")
    assert done.code == (2 if fails else 0), done.err
    assert "Traceback" not in done.err
    return done.err if fails else done.out


def test_the_commands_go_from_contexts_over_a_review_to_the_content_study(tmp_path: Path, examples: Path) -> None:
    made = command(
        tmp_path, "new", "different", "--form", "write-different", "--data", str(examples / "system_a.jsonl"),
        "--raters", "1", "--rule", "min-time:seconds=0",
    )  # fmt: skip
    assert "45 units, 1 sets each" in made
    assert "near-copy; text-length; language" in made
    assert command(tmp_path, "texts", "different") == "nobody has handed anything in yet\n"
    clock = Clock()
    with opened(tmp_path / "annotate.db", clock) as store:
        study = store.study("different")
        hand_in(store, study, store.join(study, "direct", "ann"), DIFFERENT, clock)
        hand_in(store, study, store.join(study, "direct", "ben"), ["I \x1b[31mreally like it."] * 5, clock)
    shown = command(tmp_path, "texts", "different")
    assert 'different responses (content_diversity 1):\n    1. "I never learned how, so I\'d rather not."' in shown
    assert "rejected by near-copy" in shown
    assert "\x1b" not in shown
    assert len(json.loads(command(tmp_path, "texts", "different", "--format", "json"))["texts"]) == 2
    assert command(tmp_path, "export", "different", "-o", "high.jsonl") == "1 sets written to high.jsonl\n"
    row = json.loads((tmp_path / "high.jsonl").read_text())
    assert (row["responses"], row["content_diversity"], row["tester"]) == (DIFFERENT, 1, "people")
    number = next(line.split()[1] for line in shown.splitlines() if "(valid" in line)
    command(tmp_path, "reject", "different", "--assignment", number, "--reason", "no replies")
    assert "has no valid sets" in command(tmp_path, "export", "different", "-o", "high.jsonl", fails=True)


def test_what_makes_no_sense_for_written_sets_is_refused(tmp_path: Path, examples: Path) -> None:
    sets = str(examples / "content_sets.jsonl")
    command(tmp_path, "new", "rated", "--form", "abs-hds", "--data", sets)
    assert "asks for ratings (form 'abs-hds')" in command(tmp_path, "texts", "rated", fails=True)
    command(tmp_path, "new", "written", "--form", "write-rephrased", "--data", sets)
    said = command(tmp_path, "export", "written", "-o", "x.jsonl", "--question", "response", fails=True)
    assert "--question has no meaning for a form that asks people to write sets" in said
    (tmp_path / "none.jsonl").write_text('{"responses": ["a", "b"]}\n')
    said = command(tmp_path, "new", "none", "--form", "write-different", "--data", "none.jsonl", fails=True)
    assert "contexts are missing; expected a column 'context', or plain text with one per line" in said
    said = command(
        tmp_path, "new", "gold", "--form", "write-different", "--data", sets, "--gold", sets, fails=True
    )  # fmt: skip
    assert "what people write has no known answers" in said
