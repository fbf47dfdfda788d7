"""`nlgauge annotate` as a researcher meets it: from a file of outputs to human scores in the studies."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import polars as pl
import pytest
import sqlalchemy as sa

from nlgauge.annotate.database.records import NotExpected
from nlgauge.annotate.database.schema import connect, migrate
from nlgauge.data.human.ratings import read_ratings
from nlgauge.stats.correlation import correlation
from nlgauge.studies.diversity.content import ContentTest
from nlgauge.studies.huse.score import Huse
from tests.annotate.fixtures import Clock, Rule, opened, work
from tests.helpers import COMMAND, Outcome, environment, nlgauge

NAMES = ("ann", "ben", "eve")
READ: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": pl.read_csv,
    ".jsonl": pl.read_ndjson,
    ".parquet": pl.read_parquet,
}

FORM = """
name = "x"
title = "A title"
minutes = 1
instructions = ["Read."]
unit = { of = "set", size = 1 }
[[steps]]
title = "Rate"
show = ["responses"]
[[steps.questions]]
id = "x"
prompt = "How?"
per = "item"
widget = "slider"
"""


class Site:
    """A folder with a database, and the command run in it."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self.cache, self.clock = folder, cache, Clock()

    def run(self, *arguments: str, stdin: bytes = b"") -> Outcome:
        return nlgauge("annotate", *arguments, cwd=self.folder, cache=self.cache, stdin=stdin)

    def does(self, *arguments: str, stdin: bytes = b"") -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.code == 0, done.err
        return done.out

    def fails(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.code == 2
        assert "Traceback" not in done.err
        return done.err

    def study(self, *arguments: str) -> Any:
        done = nlgauge("study", *arguments, "--format", "json", cwd=self.folder, cache=self.cache)
        assert done.code == 0, done.err
        return json.loads(done.out)

    def write(self, name: str, rows: list[dict[str, Any]]) -> None:
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def rate(self, study: str, rule: Rule, names: tuple[str, ...] = NAMES) -> None:
        with opened(self.folder / "annotate.db", self.clock) as store:
            for name in names:
                work(store, store.study(study), name, rule, self.clock)

    def ratings(self, name: str) -> dict[str, list[float]]:
        """The exported values by item, in the order of raters' names in the file."""
        found: dict[str, list[float]] = {}
        for item, value in read_ratings(self.folder / name).frame.sort("rater").select("item", "value").iter_rows():
            found.setdefault(item, []).append(value)
        return found


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.delenv("NLGAUGE_DATABASE", raising=False)
    folder = tmp_path / "site"
    folder.mkdir()
    return Site(folder, tmp_path / "cache")


def noisy(seed: int, low: int, high: int) -> Rule:
    """Answers that depend on the item mostly and on the rater a little, the same in every run."""

    def rule(rater: str, item: str, question: str) -> int:
        base = np.random.default_rng([seed, *item.encode()]).integers(low, high + 1)
        return int(
            np.clip(base + np.random.default_rng([seed, *item.encode(), *rater.encode()]).integers(-1, 2), low, high)
        )

    return rule


def sets(count: int, contexts: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"set-{n}", "context": f"context {n % contexts}", "label": n % 2,
            "responses": [f"reply {n}", f"reply {n} again", "yes"],
        }
        for n in range(count)
    ]  # fmt: skip


def test_scores_of_sets_feed_the_content_test(site: Site) -> None:
    site.write("sets.jsonl", sets(12, 12))
    site.does("new", "pilot", "--form", "abs-hds", "--data", "sets.jsonl", "--raters", "3")
    site.rate("pilot", noisy(1, 1, 5))
    assert site.does("export", "pilot", "-o", "ratings.csv") == "36 ratings written to ratings.csv\n"
    row = site.study("content", "sets.jsonl", "--label", "label", "--ratings", "ratings.csv", "--no-significance")[
        "rows"
    ][0]
    means = {item: float(np.mean(values)) for item, values in site.ratings("ratings.csv").items()}
    scores, labels = np.array([means[f"set-{n}"] for n in range(12)]), np.array([n % 2 for n in range(12)])
    expected = {
        f"set-{n}": np.mean([noisy(1, 1, 5)(name, f"set-{n}", "diversity") for name in NAMES]) for n in range(12)
    }
    assert means == pytest.approx(expected)
    assert row["metric"] == "diversity"
    assert row["spearman"] == pytest.approx(correlation(scores, labels, "spearman"))
    direct = ContentTest(label="label", ratings=site.folder / "ratings.csv", significance=False).run(
        str(site.folder / "sets.jsonl")
    )
    assert direct.rows[0]["oca"] == row["oca"]


def test_typicality_feeds_huse(site: Site) -> None:
    rng = np.random.default_rng(7)
    rows: list[dict[str, Any]] = [
        {
            "id": f"t{n}",
            "context": f"c{n}",
            "text": f"a text of {n} words",
            "is_model": n % 2 == 0,
            "logp": float(rng.normal(-20, 4)),
        }
        for n in range(50)
    ]
    site.write("texts.jsonl", rows)
    site.does("new", "typical", "--form", "typicality", "--data", "texts.jsonl", "--raters", "3")
    site.rate("typical", noisy(2, 0, 5))
    site.does("export", "typical", "-o", "ratings.jsonl")
    found = site.study("huse", "texts.jsonl", "--ratings", "ratings.jsonl", "--resamples", "100")["rows"][0]
    judgment = [float(np.mean([noisy(2, 0, 5)(name, row["id"], "") for name in NAMES])) for row in rows]
    direct = Huse().run(pl.DataFrame(rows).with_columns(judgment=pl.Series(judgment))).rows[0]
    assert [found[key] for key in ("huse", "huse_q", "huse_d", "n")] == [
        direct[key] for key in ("huse", "huse_q", "huse_d", "n")
    ]


def test_story_quality_feeds_the_correlation_study(site: Site) -> None:
    rows: list[dict[str, Any]] = [
        {
            "id": f"s{c}-{s}", "context": f"begin {c}", "system": f"m{s}", "text": f"Story {c} by {s}. It ends.",
            "references": [f"Context {c} began well. A dog barked loudly. Then all of them slept."],
            "length": c * 7 + s * s,
        }
        for c in range(4)
        for s in range(5)
    ]  # fmt: skip
    site.write("stories.jsonl", rows)
    site.does("new", "stories", "--form", "story-quality", "--data", "stories.jsonl", "--raters", "3", "--rule", "mans")

    def rule(rater: str, item: str, question: str) -> int:
        return (
            5 if item.endswith("#human") else 1 if item.endswith("#negative") else noisy(3, 1, 5)(rater, item, question)
        )

    site.rate("stories", rule)
    told = site.does("export", "stories", "-o", "ratings.parquet")
    assert told == "60 ratings written to ratings.parquet\n"
    found = site.study(
        "correlation", "stories.jsonl", "--truth", "length", "--ratings", "ratings.parquet", "--no-significance"
    )["rows"][0]  # fmt: skip
    means = np.array([np.mean([rule(name, row["id"], "quality") for name in NAMES]) for row in rows])
    lengths = np.array([float(row["length"]) for row in rows])
    assert found["pearson"] == pytest.approx(np.corrcoef(means, lengths)[0, 1])
    assert found["n"] == 20


def test_set_diversity_feeds_the_agreement_study(site: Site) -> None:
    site.write("sets.jsonl", sets(20, 1))
    site.does("new", "ead", "--form", "set-diversity", "--data", "sets.jsonl", "--raters", "3")
    site.rate("ead", noisy(4, 1, 50))
    site.does("export", "ead", "-o", "ratings.csv")
    found = site.study("agreement", "ratings.csv", "--scale", "1:50", "--resamples", "100")["rows"][0]
    table = [[noisy(4, 1, 50)(name, f"set-{n}", "") for n in range(20)] for name in NAMES]
    assert found["alpha"] == pytest.approx(krippendorff.alpha(reliability_data=table, level_of_measurement="interval"))
    assert (found["raters"], found["items"]) == (3, 20)


def test_raters_with_other_numbers_in_every_set_of_ten_stay_from_the_site_to_the_study(site: Site) -> None:
    site.write("sets.jsonl", sets(40, 4))
    site.does(
        "new", "ead", "--form", "set-diversity", "--data", "sets.jsonl", "--raters", "3",
        "--rule", "correlation:raters=3",
    )  # fmt: skip

    def offset(rater: str, item: str, question: str) -> int:
        context = int(item.removeprefix("set-")) % 4
        lowest = int(np.random.default_rng([5, context, *rater.encode()]).integers(1, 41))
        return lowest + int(noisy(4, 1, 8)("", item, question))

    site.rate("ead", offset)
    status = json.loads(site.does("status", "ead", "--format", "json"))
    assert [one["state"] for one in status["raters"]] == ["finished"] * 3
    site.does("export", "ead", "-o", "ratings.csv")
    exported = pl.read_csv(site.folder / "ratings.csv")
    contexts = exported["item"].str.extract(r"(\d+)$").cast(pl.Int64) % 4
    pairs = exported.with_columns(context=contexts).select("assignment", "context").unique()
    assert len(pairs) == exported["assignment"].n_unique() == 4
    filtered = ("agreement", "ratings.csv", "--drop-below", "0.65", "--rescale", "0:10", "--resamples", "100")
    found = site.study(*filtered)["rows"][0]
    assert (found["dropped"], found["alpha"]) == ([], pytest.approx(1))
    pooled = site.study(*filtered, "--assignment", "")
    assert pooled["rows"][0]["dropped"] != []
    assert any("no assignments" in note for note in pooled["notes"])


@pytest.fixture
def pilot(site: Site) -> Site:
    site.write("sets.jsonl", sets(6, 6))
    told = site.does(
        "new", "pilot", "--form", "abs-hds", "--data", "sets.jsonl", "--raters", "2", "--pay", "0.20",
        "--rule", "min-time:seconds=50", "--rule", "duplicate-text:words=3,across=false",
    )  # fmt: skip
    rules = "min-time:seconds=50.0; duplicate-text:words=3,across=false"
    assert told == (
        "study 'pilot': 6 units, 2 ratings each; next: nlgauge annotate serve\n"
        f"quality rules: {rules}; `nlgauge annotate rules` explains them\n"
    )
    return site


def test_rejecting_and_overruling_show_in_the_status(pilot: Site) -> None:
    pilot.rate("pilot", noisy(1, 1, 5), ("ann", "ben"))
    status = pilot.does("status", "pilot", "--fees", "0.5")
    assert status.startswith("pilot (open): 100%, 6 of 6 units done\nassignments: 12 valid, 0 open, 0 rejected")
    assert "cost: 3.60 USD so far, 0.00 to finish" in status
    found = json.loads(pilot.does("status", "pilot", "--format", "json"))
    name = found["raters"][0]["pseudonym"]
    assert "verdict 1; to take it back" in pilot.does("reject", "pilot", "--rater", name, "--reason", "spam")
    assert "6 of 6" not in pilot.does("status", "pilot")
    assert f"{name} (rejected): 6 handed in, 0 valid; rejected by manual 1 (verdicts 1)" in pilot.does(
        "status", "pilot"
    )
    pilot.does("overrule", "pilot", "1", "--reason", "not spam")
    assert pilot.does("status", "pilot").startswith("pilot (open): 100%")
    assert "is already overruled" in pilot.fails("overrule", "pilot", "1", "--reason", "again")


@pytest.mark.parametrize("ending", READ)
def test_exports_hold_the_same_ratings_in_every_format(pilot: Site, ending: str) -> None:
    pilot.rate("pilot", noisy(1, 1, 5), ("ann", "ben"))
    pilot.does("export", "pilot", "-o", f"ratings{ending}")
    frame = READ[ending](pilot.folder / f"ratings{ending}")
    assert frame.columns == ["item", "rater", "question", "value", "time"]
    expected = sorted((f"set-{n}", noisy(1, 1, 5)(name, f"set-{n}", "")) for n in range(6) for name in ("ann", "ben"))
    assert sorted(frame.select("item", "value").rows()) == expected


def test_rejected_work_is_exported_on_request_only(pilot: Site) -> None:
    with opened(pilot.folder / "annotate.db", pilot.clock) as store:
        work(store, store.study("pilot"), "ann", noisy(1, 1, 5), pilot.clock)
        work(store, store.study("pilot"), "hasty", noisy(1, 1, 5), pilot.clock, seconds=5)
    assert pilot.does("export", "pilot", "-o", "r.csv").startswith("6 ratings")
    assert pilot.does("export", "pilot", "-o", "r.csv", "--include", "all").startswith("12 ratings")
    assert pilot.does("export", "pilot", "-o", "r.csv", "--question", "first_quality").startswith("6 ratings")
    assert "no question 'style'" in pilot.fails("export", "pilot", "-o", "r.csv", "--question", "style")
    assert "expected one of valid, all" in pilot.fails("export", "pilot", "-o", "r.csv", "--include", "some")


def test_mechanical_turk_goes_out_and_comes_back(pilot: Site) -> None:
    out = pilot.does("mturk", "pilot", "-o", "hits").split()
    assert [Path(path).name for path in out] == ["hits.csv", "template.html"]
    hits = pl.read_csv(pilot.folder / "hits" / "hits.csv")
    results = hits.rename({name: f"Input.{name}" for name in hits.columns}).with_columns(
        pl.lit("A1").alias("WorkerId"), pl.lit("Approved").alias("AssignmentStatus"),
        pl.lit(90).alias("WorkTimeInSeconds"), pl.lit(4).alias("Answer.diversity-1"),
        pl.lit(2).alias("Answer.first_quality-1"),
        pl.format("my reply to {} is this", hits["unit"]).alias("Answer.own_response-1"),
    )  # fmt: skip
    results.write_csv(pilot.folder / "results.csv")
    assert pilot.does("import", "pilot", "results.csv", "--from", "mturk").startswith(
        "1 raters: 6 new assignments, 0 known before; 0 rejected"
    )
    pilot.does("export", "pilot", "-o", "ratings.csv")
    assert pilot.ratings("ratings.csv") == {f"set-{n}": [4.0] for n in range(6)}
    assert "'--from': expected one of mturk, prolific, huse" in pilot.fails(
        "import", "pilot", "results.csv", "--from", "papers"
    )


def test_links_are_signed_and_different(pilot: Site) -> None:
    from nlgauge.annotate.pages.signing import Link, read, read_secret

    links = pilot.does("links", "pilot", "--n", "3", "--url", "https://rate.example.org/", "--days", "2").split()
    secret = read_secret(pilot.folder / "annotate.db.secret")
    read_back = [read(secret, "link", Link, link.rpartition("/r/")[2], time.time()) for link in links]
    assert {link.study for link in read_back} == {"pilot"}
    assert len({link.nonce for link in read_back}) == 3
    assert all(0 < link.expires_at - time.time() <= 2 * 86400 for link in read_back)
    assert (pilot.folder / "annotate.db.secret").stat().st_mode & 0o077 == 0
    assert "0 links" in pilot.fails("links", "pilot", "--n", "0")
    for command in (("links", "pilot"), ("mturk", "pilot", "-o", "hits"), ("prolific", "pilot")):
        assert "the address 'rate'; expected http:// or https:// and a host" in pilot.fails(*command, "--url", "rate")


def test_prolific_gets_its_addresses(site: Site) -> None:
    site.write("sets.jsonl", sets(3, 3))
    site.does("new", "p", "--form", "abs-hds", "--data", "sets.jsonl", "--completion-code", "XYZ")
    told = site.does("prolific", "p", "--url", "https://rate.example.org")
    assert re.search(r"https://rate\.example\.org/s/p/prolific/[\w-]{27}\?PROLIFIC_PID={{%PROLIFIC_PID%}}", told)
    assert "cc=XYZ" in told


def test_only_listed_ids_come_in_and_the_list_is_checked(site: Site) -> None:
    site.write("sets.jsonl", sets(3, 3))
    new = ("new", "p", "--form", "abs-hds", "--data", "sets.jsonl", "--completion-code", "XYZ", "--ids")
    (site.folder / "ids.txt").write_text("P1\n\n  P2 \nP1\n")
    (site.folder / "wrong.txt").write_text("P1\nann@example.org\n")
    (site.folder / "empty.txt").write_text("\n")
    for file, message in (
        ("wrong.txt", "wrong.txt, line 2: found 'ann@example.org'; expected an id"),
        ("empty.txt", "empty.txt: found no id"),
        ("none.txt", "none.txt: No such file or directory; expected"),
    ):
        assert message in site.fails(*new, file)
    assert "expected mturk or prolific" in site.fails(*new, "ids.txt", "--platform", "direct")
    site.does(*new, "ids.txt", "--joins-per-minute", "7")
    with opened(site.folder / "annotate.db") as store:
        study = store.study("p")
        assert study.settings.joins_per_minute == 7
        assert store.claim(study, "P2", "browser", platform="prolific") is not None
        with pytest.raises(NotExpected):
            store.claim(study, "P3", "browser", platform="prolific")


def test_a_study_has_a_least_time_per_item_unless_it_is_switched_off(site: Site) -> None:
    site.write("texts.jsonl", [{"id": f"t{n}", "text": f"text {n}", "context": "c"} for n in range(5)])
    new = ("--form", "typicality", "--data", "texts.jsonl", "--per-unit", "5", "--raters", "1")
    for name, rules, seconds, is_valid in (
        ("usual", (), 11, False),  # 10 minutes for 25 items: a tenth of them for 5 items are 12 seconds
        ("slower", (), 13, True),
        ("off", ("--rule", "min-time:seconds=0"), 0, True),
        ("both", ("--rule", "straight-lining:answers=9"), 11, False),
    ):
        assert "quality rules: min-time" in site.does("new", name, *new, *rules)
        with opened(site.folder / "annotate.db", site.clock) as store:
            study = store.study(name)
            work(store, study, "ann", noisy(1, 0, 5), site.clock, seconds=seconds, most=1)
            (done,) = store.snapshot(study).assignments
            assert (done.state == "valid") == is_valid, name


def test_known_answers_come_as_often_as_asked(site: Site) -> None:
    site.write("sets.jsonl", sets(6, 6))
    site.write("known.jsonl", [{**row, "expected_diversity": 3} for row in sets(3, 3)])
    new = ("new", "pilot", "--form", "abs-hds", "--data", "sets.jsonl")
    every = ("--gold-every", "2", "--attention-every", "4", "--qualification-tries", "5")
    files = ("--gold", "known.jsonl", "--attention", "known.jsonl", "--qualification", "known.jsonl")
    told = site.does(*new, *files, *every)
    assert told.startswith("study 'pilot': 6 units and 9 with known answers, 3 ratings each; next: nlgauge")
    with opened(site.folder / "annotate.db") as store:
        settings = store.study("pilot").settings
        assert (settings.gold_every, settings.attention_every, settings.qualification_tries) == (2, 4, 5)
    site.does("new", "usual", *new[2:], *files)
    with opened(site.folder / "annotate.db") as store:
        settings = store.study("usual").settings
        assert (settings.gold_every, settings.attention_every, settings.qualification_tries) == (10, 10, 3)
    for options, message in (
        (("--gold-every", "2"), "--gold-every 2 without --gold; expected a file of known answers"),
        (("--qualification-tries", "2"), "--qualification-tries 2 without --qualification; expected a file"),
        (("--rule", "attention:tolerance=1"), "--rule attention without --attention; expected a file"),
        (("--gold", "known.jsonl", "--gold-every", "1"), "--gold-every 1; expected 2 or more"),
    ):
        assert message in site.fails(*new, *options), options


def test_a_study_takes_raters_from_the_platforms_that_were_named(site: Site) -> None:
    site.write("sets.jsonl", sets(3, 3))
    new, url = ("--form", "abs-hds", "--data", "sets.jsonl"), ("--url", "https://rate.example.org")
    site.does("new", "p", *new, "--platform", "prolific", "--completion-code", "XYZ")
    site.does("new", "two", *new, "--platform", "direct", "--platform", "mturk")
    with opened(site.folder / "annotate.db") as store:
        assert [store.study(name).settings.platforms for name in ("p", "two")] == [("prolific",), ("direct", "mturk")]
    assert "/s/p/prolific/" in site.does("prolific", "p", *url)
    assert "/r/" in site.does("links", "two", *url)
    assert "study 'p' takes raters from prolific only; expected direct" in site.fails("links", "p", *url)
    assert "study 'two' takes raters from direct and mturk only" in site.fails("prolific", "two", *url)
    assert "study 'two' has no --post-back-url; expected one" in site.fails("mturk", "two", "-o", "hits", *url)
    site.does("new", "framed", *new, "--post-back-url", "https://www.mturk.com/mturk/externalSubmit")
    assert "external_question.xml" in site.does("mturk", "framed", "-o", "hits", *url)
    for options, message in (
        (("--platform", "turk"), "expected one of direct, mturk, prolific"),
        (("--platform", "prolific"), "--platform prolific without --completion-code; expected the code"),
        (("--post-back-url", "https://x.org/"), "--post-back-url https://x.org/; expected an address at https://www"),
    ):
        assert message in site.fails("new", "x", *new, *options), options


def test_the_first_id_that_stands_twice_is_named_and_other_ids_can_be(site: Site) -> None:
    rows = [
        {"sample_id": twice, **{("key" if name == "id" else name): value for name, value in row.items()}}
        for row, twice in zip(sets(6, 6), "abcbcc", strict=True)
    ]
    site.write("sets.jsonl", rows)
    new = ("new", "pilot", "--form", "abs-hds", "--data", "sets.jsonl")
    told = site.fails(*new)
    assert "error: sets.jsonl: the id 'b' is a duplicate (2 times in the table, in rows 2 and 4); expected" in told
    assert len(told.splitlines()) == 1
    site.write("known.jsonl", [{**row, "key": "g", "label": 1, "expected_diversity": 3} for row in rows])
    message = "the table for gold: the id 'g' is a duplicate (6 times in the table, in rows 1 and 2)"
    assert message in site.fails(*new, "--id", "key", "--gold", "known.jsonl")
    site.does(*new, "--id", "key")
    site.rate("pilot", noisy(1, 1, 5))
    site.does("export", "pilot", "-o", "ratings.csv")
    found = site.study(
        "content", "sets.jsonl", "--id", "key", "--label", "label", "--ratings", "ratings.csv", "--no-significance"
    )  # fmt: skip
    assert found["rows"][0]["n"] == 6
    assert sorted(site.ratings("ratings.csv")) == [f"set-{n}" for n in range(6)]


def test_closing_ends_open_leases(pilot: Site) -> None:
    with opened(pilot.folder / "annotate.db") as store:
        study = store.study("pilot")
        store.lease(study, store.join(study, "direct", "ann"))
    assert pilot.does("close", "pilot") == "study 'pilot' is closed; 1 open assignments ended\n"
    assert pilot.does("status", "pilot").startswith("pilot (closed)")
    assert "study 'pilot' is closed; expected an open one" in pilot.fails("links", "pilot")


def test_a_password_is_set_from_standard_input(pilot: Site) -> None:
    pilot.does("password", "maria", stdin=b"correct horse battery\n")
    with opened(pilot.folder / "annotate.db") as store:
        assert store.check_login("maria", "correct horse battery", "here").passed
        assert not store.check_login("maria", "wrong horse battery", "here").passed
    assert "expected 10 to" in pilot.run("password", "maria", stdin=b"short\n").err


def test_forms_are_listed_and_shown(site: Site) -> None:
    assert {line.split()[0] for line in site.does("forms").splitlines() if "nlgauge-example" not in line} == {
        "abs-hds", "asp-hds", "rnk-hds", "set-diversity", "sim-hds", "story-errors", "story-quality", "typicality",
        "write-different", "write-rephrased",
    }  # fmt: skip
    assert "diversity: How different" in site.does("forms", "show", "abs-hds")
    assert "did you mean 'abs-hds'" in site.fails("forms", "show", "abs-hd")


def test_bad_studies_are_refused_before_a_database_is_made(site: Site) -> None:
    site.write("sets.jsonl", sets(6, 6))
    site.write("texts.jsonl", [{"id": str(n), "text": f"text {n}"} for n in range(6)])
    site.write("columns.jsonl", [{"name": "x", "words": "y"}])
    (site.folder / "form.toml").write_text(FORM)
    new = ("new", "pilot", "--data", "sets.jsonl", "--form")
    for arguments, message in (
        (
            ("new", "pilot", "--form", "abs-hds", "--data", "texts.jsonl"),
            "found single texts; expected sets of responses",
        ),
        (("new", "pilot", "--form", "abs-hds", "--data", "columns.jsonl"), "found columns name, words; expected"),
        (
            ("new", "pilot", "--form", "typicality", "--data", "texts.jsonl"),
            "texts.jsonl: found 6 items; expected units of 25",
        ),
        ((*new, "form.toml"), "widget: found 'slider'; expected one of scale, choice"),
        ((*new, "abs-hds", "--rule", "mintime"), "did you mean 'min-time'?"),
        ((*new, "abs-hds", "--rule", "min-time:seconds=soon"), "min-time:seconds=soon; expected a number"),
        ((*new, "abs-hds", "--raters", "0"), "--raters 0; expected at least 1"),
        ((*new, "abs-hds", "--gold", "sets.jsonl"), "the table for gold: no known answers"),
        ((*new, "abs-hds", "--database", "mysql://x/y"), "a database of the kind 'mysql'; expected sqlite:///FILE or"),
    ):
        assert message in site.fails(*arguments), arguments
    assert not (site.folder / "annotate.db").exists()


def test_what_is_not_there_is_named(pilot: Site) -> None:
    assert "no study named 'other'; found pilot" in pilot.fails("status", "other")
    assert "a study named 'pilot' exists" in pilot.fails("new", "pilot", "--form", "abs-hds", "--data", "sets.jsonl")
    assert "no database nowhere.db; expected one that `nlgauge annotate new`" in pilot.fails(
        "status", "pilot", "--database", "nowhere.db"
    )
    assert "no rater 'nobody' in study 'pilot'; found none" in pilot.fails(
        "reject", "pilot", "--rater", "nobody", "--reason", "x"
    )
    assert "no assignment 5 in study 'pilot'" in pilot.fails("reject", "pilot", "--assignment", "5", "--reason", "x")
    assert "no verdict 5 in study 'pilot'" in pilot.fails("overrule", "pilot", "5", "--reason", "x")
    assert "expected either an assignment or a rater" in pilot.fails("reject", "pilot", "--reason", "x")


def test_the_environment_names_the_database(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLGAUGE_DATABASE", "elsewhere.db")
    site.write("sets.jsonl", sets(3, 3))
    site.does("new", "pilot", "--form", "abs-hds", "--data", "sets.jsonl")
    assert (site.folder / "elsewhere.db").exists()
    assert not (site.folder / "annotate.db").exists()


class TestServe:
    def test_a_port_in_use_is_said_before_anything_starts(self, pilot: Site) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            assert f"port {port} is in use; stop the other program" in pilot.fails("serve", "--port", port)
        assert "port 99999; expected 1 to 65535" in pilot.fails("serve", "--port", "99999")
        assert "'192.0.2.1' is not an address of this machine" in pilot.fails("serve", "--host", "192.0.2.1")

    def test_databases_that_cannot_be_used_are_said_before_anything_starts(self, pilot: Site) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        unreachable = f"postgresql://nobody@127.0.0.1:{port}/nothing"
        assert "expected a PostgreSQL server that answers" in pilot.fails("serve", "--database", unreachable)
        read_only = f"sqlite:///file:{pilot.folder / 'annotate.db'}?mode=ro&uri=true"
        assert "expected to write: check the permissions" in pilot.fails("serve", "--database", read_only)
        (pilot.folder / "text.db").write_text("this is no database " * 100)
        assert "expected a SQLite file that NLGauge made" in pilot.fails("serve", "--database", "text.db")
        assert "no database no/such.db; expected one that" in pilot.fails("serve", "--database", "no/such.db")
        new = ("new", "x", "--form", "abs-hds", "--data", "sets.jsonl")
        assert "expected a file in a folder that exists" in pilot.fails(*new, "--database", "no/such.db")

    def test_a_newer_database_is_refused(self, pilot: Site) -> None:
        engine = connect(str(pilot.folder / "annotate.db"))
        migrate(engine)
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
        engine.dispose()
        assert "install the newer NLGauge" in pilot.fails("serve")
        assert "install the newer NLGauge" in pilot.fails("status", "pilot")

    @pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
    def test_it_answers_until_it_is_told_to_stop(self, pilot: Site, ending: signal.Signals) -> None:
        process = subprocess.Popen(
            [*COMMAND, "annotate", "serve", "--port", "0"], cwd=pilot.folder, env=environment(pilot.cache),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            address = first.removeprefix("for researchers: ").strip()
            assert address.startswith("http://127.0.0.1:"), first
            assert "nlgauge annotate links pilot" in process.stdout.readline()
            with urllib.request.urlopen(address, timeout=20) as answer:  # noqa: S310 - an address of this test
                assert answer.status == 200
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            process.send_signal(ending)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, err
        assert out == "stopped; every answer that was acknowledged is in the database\n"
        assert err == ""


def test_help_has_examples_and_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "sys.argv = ['nlgauge', 'annotate', '--help']\n"
        "from nlgauge.cli.main import app\n"
        "try:\n    app()\nexcept SystemExit:\n    pass\n"
        "heavy = {'sqlalchemy', 'fastapi', 'uvicorn', 'alembic', 'argon2', 'itsdangerous', 'polars', 'numpy'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert "nlgauge annotate new pilot --form abs-hds" in done.stdout
    assert done.stdout.endswith("loaded: []\n")
