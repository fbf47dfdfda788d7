"""HUSE, its inputs, its intervals, its errors, and what is made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from nlgauge.data.columns import Reading
from nlgauge.data.reading import Source
from nlgauge.data.tables import Items, Ratings
from nlgauge.errors import DataError, OptionError
from nlgauge.models.language.base import Sampling, load_language_model
from nlgauge.models.language.ngram import NgramModel
from nlgauge.report.huse_page import render_huse
from nlgauge.studies.huse.charts import votes_at
from nlgauge.studies.huse.data import HuseData
from nlgauge.studies.huse.intervals import Ways
from nlgauge.studies.huse.judges import judge_texts
from nlgauge.studies.huse.score import ALIKE, DIVERSITY, QUALITY, Huse
from nlgauge.studies.huse.stability import HuseStability
from nlgauge.studies.huse.tradeoff import Tradeoff, dominating
from nlgauge.studies.huse.typicality import Typicality
from nlgauge.studies.registry import create_study
from tests.data.test_frames import Arrow
from tests.errors import raises
from tests.helpers import Outcome
from tests.helpers import nlgauge as command

CLEAN = ("--judgment", "HumanJudgement", "--logp", "ModelProbability", "--length", "LengthOfUtterance")


def run(folder: Path, *arguments: str) -> Outcome:
    return command("study", *arguments, cwd=folder, cache=folder / "cache")


def judged(count: int = 80, *, quality: float = 1.0, diversity: float = 1.0, seed: int = 0) -> pl.DataFrame:
    """Texts of model and reference that differ by so much in judgment and in log p."""
    rng = np.random.default_rng(seed)
    is_model = np.arange(count) % 2 == 0
    return pl.DataFrame(
        {
            "id": [f"t{i}" for i in range(count)],
            "is_model": is_model,
            "judgment": np.round(4 + rng.normal(size=count) - quality * is_model, 2),
            "logp": -20 + 5 * rng.normal(size=count) + 5 * diversity * is_model,
            "length": np.full(count, 10),
            "text": [f"text {i}" for i in range(count)],
            "context": [f"context {i // 2}" for i in range(count)],
        }
    )


def test_the_command_of_the_paper_from_the_clean_and_from_the_raw_file(research_data: Path, tmp_path: Path) -> None:
    clean = research_data / "huse" / "summary_clean.csv"
    printed = ("--is-model", "Label", "--ties", "computed", "--format", "json")
    done = run(tmp_path, "huse", str(clean), *CLEAN, *printed)
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["rows"]
    assert [round(row[key], 2) for key in ("huse", "huse_q", "huse_d")] == [0.53, 0.58, 0.95]
    assert all(row[f"{key}_ci"][0] <= row[key] <= row[f"{key}_ci"][1] for key in ("huse", "huse_q", "huse_d"))
    raw = Huse(ties="computed").run(str(research_data / "huse" / "summarization_raw_outputs.csv"))
    assert [raw.rows[0][key] for key in ("huse", "huse_q", "huse_d")] == [row[k] for k in ("huse", "huse_q", "huse_d")]
    assert any("depends on rounding" in note for note in raw.notes)
    exact = Huse().run(str(clean)).rows[0]
    assert (round(exact["huse"], 2), round(exact["huse_q"], 2)) == (0.53, 0.60)


def test_unnormalised_log_p_gives_what_it_is_known_to_give(research_data: Path) -> None:
    row = Huse(per_token=False, ties="computed").run(str(research_data / "huse" / "summary_clean.csv")).rows[0]
    assert [round(row[key], 2) for key in ("huse", "huse_q", "huse_d")] == [0.48, 0.58, 0.90]


def test_quality_and_diversity_are_told_apart() -> None:
    good = Huse().run(judged(400, quality=0, diversity=0)).rows[0]
    assert good["huse"] > 0.8
    assert good["huse_d"] == pytest.approx(1, abs=0.15)
    poor = Huse().run(judged(400, quality=4, diversity=0)).rows[0]
    assert poor["huse_q"] < 0.2
    assert poor["huse_d"] > 0.85
    narrow = Huse().run(judged(400, quality=0, diversity=4)).rows[0]
    assert narrow["huse_q"] > 0.8
    assert narrow["huse_d"] < 0.3


def test_texts_that_are_all_distinguished_have_intervals_with_width() -> None:
    ways: tuple[Ways, ...] = ("errors", "items", "halves")
    for way in ways:
        row = Huse(way=way, unit="set").run(judged(80, quality=100, diversity=0)).rows[0]
        assert (row["huse"], row["huse_q"], row["huse_d"]) == (0, 0, 1)
        assert row["huse_ci"] == row["huse_q_ci"] == pytest.approx([0, 0.09], abs=0.01)
        assert row["huse_d_ci"] == pytest.approx([0.91, 1.09], abs=0.01)


def test_token_logprobs_and_lengths_come_from_lists_and_texts() -> None:
    frame = judged()
    tokens = frame.with_columns(token_logprobs=pl.concat_list(pl.col("logp") / 2, pl.col("logp") / 2)).drop("logp")
    assert Huse().run(tokens).rows[0]["huse"] == Huse().run(frame).rows[0]["huse"]
    words = frame.drop("length").with_columns(text=pl.lit("one two three four five six seven eight nine ten"))
    assert Huse().run(words).rows[0]["huse"] == Huse().run(frame).rows[0]["huse"]


def test_order_does_not_matter() -> None:
    frame = judged()
    shuffled = frame[np.random.default_rng(1).permutation(len(frame))]
    ways: tuple[Ways, ...] = ("errors", "items", "halves")
    for way in ways:
        one, other = Huse(way=way).run(frame).rows[0], Huse(way=way).run(shuffled).rows[0]
        assert {k: v for k, v in one.items() if not k.endswith("_ci")} == {
            k: v for k, v in other.items() if not k.endswith("_ci")
        }
        for key in ("huse_ci", "huse_q_ci", "huse_d_ci"):
            assert one[key] == pytest.approx(other[key])


def test_ratings_give_judgments_and_their_raters_can_be_resampled() -> None:
    frame = judged(60)
    rng = np.random.default_rng(0)
    rows = [
        (row["id"], f"r{r}", "typicality", row["judgment"] + rng.normal()) for row in frame.to_dicts() for r in range(6)
    ]
    ratings = Ratings(pl.DataFrame(rows, schema=["item", "rater", "question", "value"], orient="row"))
    bare = frame.drop("judgment")
    fixed = Huse(ratings=ratings).run(bare)
    single = pl.DataFrame(rows, schema=["id", "rater", "question", "judgment"], orient="row")
    means = single.group_by("id").agg(pl.col("judgment").mean())
    assert fixed.rows[0]["huse_q"] == pytest.approx(Huse().run(bare.join(means, on="id")).rows[0]["huse_q"], abs=0.11)
    drawn = Huse(ratings=ratings, resample_raters=True, resamples=200).run(bare)
    assert "resample_raters:true" in str(drawn.signature)
    width = [s.rows[0]["huse_ci"][1] - s.rows[0]["huse_ci"][0] for s in (fixed, drawn)]
    assert width[1] > 0.8 * width[0]
    with pytest.raises(DataError) as error:
        Huse(resample_raters=True).run(frame)
    assert error.value.option == "resample_raters"
    with pytest.raises(OptionError) as refused:
        Huse(resample_raters=True, way="errors")
    assert refused.value.option == "way"


def test_a_model_supplies_log_p_and_a_scorer_judges_and_this_is_said(minilm: str, smollm2: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    contexts = [f"Do you like {thing}?" for thing in ("tea", "rain", "snow", "jazz", "chess", "soup", "cats", "trains")]
    replies = [
        "Yes, very much.",
        "No, not at all.",
        "It depends on the day.",
        "What a question!",
        "blue of of the seven",
    ]
    rows = [
        {"id": f"{c}-{i}", "context": context, "text": str(rng.choice(replies)), "source": kind}
        for c, context in enumerate(contexts)
        for i, kind in enumerate(("model", "reference", "model"))
    ]
    study = Huse(model=smollm2, judge=f"relevance:{minilm}", k=5).run(pl.DataFrame(rows))
    assert study.rows[0]["judge"] == "relevance:minilm"
    assert "judge:relevance:minilm@" in str(study.signature)
    assert "model:smollm2@" in str(study.signature)
    assert any("not by people" in note for note in study.notes)
    assert any("unequal classes" in note for note in study.notes)
    assert "not by people" in json.dumps(study.chart().to_dict())
    assert "not by people" in render_huse(study)
    asked = judge_texts(f"llm:{smollm2}", contexts, ["Yes, very much."] * 8)
    assert np.isfinite(asked).all()
    assert np.ptp(asked) > 0
    with pytest.raises(OptionError) as error:
        judge_texts("odd:x", contexts, ["a"] * 8)
    assert error.value.option == "judge"
    again = create_study(str(study.signature))
    assert again.signature == study.study.signature
    assert again.run(pl.DataFrame(rows)).rows[0]["huse_ci"] == study.rows[0]["huse_ci"]


def test_errors_have_texts_and_cannot_break_out(tmp_path: Path) -> None:
    frame = judged(120, quality=1.5, diversity=1.5)
    frame = frame.with_columns(
        text=pl.when(pl.col("id") == "t0").then(pl.lit("=1+1")).otherwise(pl.lit("</script><b>"))
    )
    frame.write_ndjson(tmp_path / "texts.jsonl")
    done = run(
        tmp_path, "huse", "texts.jsonl", "--report", "page.html", "--errors", "errors.csv", "--chart", "huse.html"
    )
    assert done.code == 0, done.err
    page = (tmp_path / "page.html").read_text()
    assert "&lt;/script&gt;&lt;b&gt;" in page
    assert "</script><b>" not in page + (tmp_path / "huse.html").read_text()
    for kind in (QUALITY, DIVERSITY, ALIKE):
        assert kind in page
    assert "=1+1" in pl.read_csv(tmp_path / "errors.csv")["text"].to_list()
    items = Huse().run(frame).tables["errors"]
    quality = items.filter(pl.col("verdict") == QUALITY)
    assert (quality["source"] == "model").all()
    assert quality["judgment"].to_numpy().mean() < items["judgment"].to_numpy().mean()


def test_regions_are_drawn_by_the_classifier_of_the_score() -> None:
    frame = judged(60)
    study = Huse(ties="equal").run(frame)
    (data,) = study.detail
    shares = votes_at(data, data.features(), 17)
    items = study.tables["errors"]
    counted = items["model_votes"].to_numpy()
    own = data.is_model.astype(float)
    assert shares == pytest.approx((counted + own) / (items["votes"].to_numpy() + 1), abs=1e-9)


def test_tradeoff_orders_systems_and_names_the_dominated() -> None:
    frames = [
        judged(200, quality=q, diversity=d, seed=i) for i, (q, d) in enumerate([(0.0, 0.0), (1.2, 3.0), (0.0, 3.0)])
    ]
    study = Tradeoff(tasks=["model @1.0", "bad", "model @0.7"]).run(frames)
    assert study.rows[0]["system"] == "model @1.0"
    assert study.row("bad")["dominated_by"]
    assert {row["group"] for row in study.rows} == {"model", "bad"}
    assert study.chart().to_dict()
    one = frames[0].with_columns(system=pl.lit("a"))
    both = pl.concat([one, frames[2].filter("is_model").with_columns(system=pl.lit("b"))])
    by = Tradeoff(by="system").run(both)
    assert {row["system"] for row in by.rows} == {"a", "b"}
    assert {row["n_reference"] for row in by.rows} == {100}
    scores = Huse(by="system").run(both)
    assert Tradeoff.of(scores).rows == by.rows
    with pytest.raises(DataError) as error:
        Tradeoff().run(frames[0])
    assert error.value.option == "by"


def plane(**points: tuple[float, float]) -> list[dict[str, Any]]:
    return [{"system": name, "huse_d": d, "huse_q": q, "huse": d + q - 1} for name, (d, q) in points.items()]


def test_dominated_is_a_worse_huse_at_the_same_proportion() -> None:
    """Figure 3 of the paper: annealing moves along a curve; what lies below the curve is dominated."""
    hot, warm, cold, inside = plane(hot=(1.0, 0.5), warm=(0.8, 0.8), cold=(0.4, 0.9), inside=(0.75, 0.6))
    beyond, same = plane(beyond=(1.0, 0.3), same=(0.4, 0.4))
    assert dominating(inside, [hot, warm, cold]) == ["hot", "warm"]
    assert dominating(same, [hot, warm, cold]) == ["warm"]
    assert dominating(beyond, [hot, warm, cold]) == []  # worse in both than hot, and no system has its proportion
    assert dominating(warm, [hot, cold, inside, same]) == []
    assert dominating(cold, [hot, warm, inside, same]) == []
    study = Tradeoff(tasks=["x @1", "y"]).run([judged(200, quality=0.0), judged(200, quality=3.0, seed=1)])
    assert [row["dominated_by"] for row in study.rows] == [[], []]
    assert study.chart().to_dict()


def of_system(name: str, references: pl.DataFrame, *, diversity: float, quality: float, seed: int) -> pl.DataFrame:
    """The same references and contexts with a system's texts, and references with log p under it."""
    own = judged(2 * len(references), quality=quality, diversity=diversity, seed=seed).filter("is_model")
    texts = own.with_columns(context=references["context"], system=pl.lit(name), id=f"{name} " + pl.col("id"))
    return pl.concat([texts, references.with_columns(system=pl.lit(name))])


def test_systems_that_share_references_are_compared_in_pairs() -> None:
    references = judged(400, seed=9).filter(~pl.col("is_model"))
    good, alike = (of_system(n, references, diversity=0, quality=0, seed=s) for n, s in (("a", 1), ("b", 2)))
    narrow = of_system("c", references, diversity=4, quality=0, seed=3)
    study = Tradeoff(by="system", k=8, resamples=300).run(pl.concat([good, alike, narrow]))
    p = {(row["first"], row["second"], row["score"]): row["p"] for row in study.extra["pairs"]}
    assert len(p) == 9
    assert p["a", "c", "huse"] < 0.05
    assert p["a", "c", "huse_d"] < 0.05
    assert p["a", "c", "huse_q"] > 0.05
    assert all(p["a", "b", score] > 0.05 for score in ("huse", "huse_q", "huse_d"))
    assert "significantly different from it by paired tests: c" in study.sentence
    assert "tests:halves-max-t" in str(study.signature)
    assert study.tables["pairs"].height == 9
    for row in study.extra["pairs"]:
        assert row["difference_ci"][0] <= row["difference"] <= row["difference_ci"][1]
    alone = Tradeoff(by="system", k=8, resamples=300, correction="none").run(pl.concat([good, alike, narrow]))
    for one, other in zip(alone.extra["pairs"], study.extra["pairs"], strict=True):
        assert one["difference"] == other["difference"]
    others = judged(400, seed=10).filter(~pl.col("is_model")).with_columns(text=pl.lit("another"))
    apart = Tradeoff(tasks=["a", "b"], k=8).run([good, of_system("b", others, diversity=0, quality=0, seed=2)])
    assert not apart.extra["pairs"]
    assert any("do not share references" in note for note in apart.notes)
    assert "not tested against it" in apart.sentence


def test_adding_a_number_to_every_rating_changes_no_score(research_data: Path) -> None:
    rng = np.random.default_rng(0)
    frame = judged(200).with_columns(judgment=np.round(20 * rng.normal(3, 1, 200)) / 20)
    found = Huse().run(frame).rows[0]
    for shift in (1, 0.1, 100):
        moved = Huse().run(frame.with_columns(pl.col("judgment") + shift)).rows[0]
        assert [moved[key] for key in ("huse", "huse_q", "huse_d")] == [found[k] for k in ("huse", "huse_q", "huse_d")]
    clean = pl.read_csv(research_data / "huse" / "summary_clean.csv").rename(str.strip)
    for study, changes in ((Huse(), False), (Huse(ties="computed"), True)):
        rows = [study.run(one).rows[0] for one in (clean, clean.with_columns(pl.col("HumanJudgement") + 1))]
        assert (rows[0]["huse_q"] != rows[1]["huse_q"]) == changes


def test_p_of_zero_counts_as_the_floor(tmp_path: Path) -> None:
    frame = judged(80)
    references = pl.col("is_model").not_()
    for zero in (float("-inf"), -1.7976931348623157e308):
        none = frame.with_columns(logp=pl.when(references).then(zero).otherwise(pl.col("logp")))
        study = Huse(floor=-15).run(none)
        row = study.rows[0]
        assert row["huse"] == 0
        assert "floor:-15" in str(study.signature)
        assert any("40 of 80 texts (0 of the model) have p = 0" in note and "-15" in note for note in study.notes)
        errors = study.tables["errors"]
        assert set(errors.filter(pl.col("source") == "reference")["logp"]) == {-15}
    lowest = frame.with_columns(logp=pl.when(references).then(-150.0).otherwise(pl.col("logp")))
    assert Huse(floor=-15).run(lowest).rows[0]["huse_ci"] == row["huse_ci"]
    assert "floor:-20" in str(Huse().run(frame).signature)
    assert not any("p = 0" in note for note in Huse().run(frame).notes)


def test_texts_that_were_cut_are_counted() -> None:
    cut = judged(80).with_columns(truncated=pl.Series([i in (0, 2, 3) for i in range(80)]))
    assert any("2 of 40 texts of the model were cut at the largest length" in note for note in Huse().run(cut).notes)


def test_where_every_system_has_references_of_its_name_it_has_these() -> None:
    references = judged(200, seed=9).filter(~pl.col("is_model"))
    systems = [of_system(name, references, diversity=1, quality=1, seed=s) for name, s in (("a", 1), ("b", 2))]
    lower = systems[1].with_columns(logp=pl.when(~pl.col("is_model")).then(-190.0).otherwise(pl.col("logp")))
    study = Huse(by="system").run(pl.concat([systems[0], lower]))
    assert [row["n_reference"] for row in study.rows] == [100, 100]
    assert study.row("a")["huse"] == Huse().run(systems[0]).rows[0]["huse"]
    assert study.row("b")["huse"] == Huse().run(lower).rows[0]["huse"] == 0
    with raises(DataError, option="by"):
        Huse().run(pl.concat([systems[0], lower]))


@pytest.fixture
def counted(tmp_path: Path) -> str:
    texts = [
        f"{who} {does} {what}" for who in ("we", "they", "you") for does in ("see", "hear") for what in ("it", "me")
    ]
    NgramModel.train(texts, order=2).save(tmp_path / "ngram")
    return f"ngram:{tmp_path / 'ngram'}"


def test_a_model_scores_texts_as_they_were_sampled(counted: str) -> None:
    rng = np.random.default_rng(0)
    model = load_language_model(counted)
    contexts = [f"what now {i}" for i in range(40)]
    written = model.generate(contexts[:20], Sampling(top_k=2), range(20))
    texts = [text or "we" for text in written] + ["they hear me", "it see we"] * 10
    frame = pl.DataFrame(
        {"text": texts, "context": contexts, "is_model": np.arange(40) < 20, "judgment": rng.normal(size=40)}
    )
    for given, sampling in (
        ({}, Sampling()),
        ({"temperature": 0.5}, Sampling(temperature=0.5)),
        ({"temperature": 0.7, "top_k": 4}, Sampling(temperature=0.7, top_k=4)),
        ({"top_p": 0.9}, Sampling(top_p=0.9)),
    ):
        options: dict[str, Any] = given
        (data,) = Huse(model=counted, k=5, **options).run(frame).detail
        expected = model.score_sampled(frame["context"].to_list(), [[f" {text}"] for text in texts], sampling)
        assert data.logp.tolist() == [one[0].total for one in expected]
        columns = frame.with_columns(**{name: pl.lit(value) for name, value in given.items()})
        study = Huse(model=counted, k=5).run(columns)
        assert study.detail[0].logp.tolist() == data.logp.tolist()
        assert f"temperature={sampling.temperature:g}%2Ctop_p={sampling.top_p:g}" in str(study.signature)
    several = frame.with_columns(temperature=pl.Series([0.5, 0.5, 1.0, 1.0] * 10))
    with raises(DataError, option="temperature", column="temperature"):
        Huse(model=counted, k=5).run(several)


def test_what_generate_writes_is_scored_without_another_pass(counted: str, tmp_path: Path) -> None:
    """Retrieval writes one text with p = 1 and cannot write references: low HUSE and low HUSE-D, as in Table 1."""
    rng = np.random.default_rng(1)
    words = ["red", "blue", "green", "old", "new", "big"]
    pairs = [
        {"context": f"the {rng.choice(words)} {rng.choice(words)} house {i}", "response": f"we see it {i}"}
        for i in range(60)
    ]
    contexts = [
        {
            "id": f"c{i}",
            "context": f"the {rng.choice(words)} house",
            "text": str(rng.choice(["we see it", "you hear me"])),
        }
        for i in range(60)
    ]
    for name, rows in (("pairs", pairs), ("contexts", contexts)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = {}
    for name, model, value in (("bm25", "bm25:pairs.jsonl", "0"), ("ngram", counted, "1.0")):
        how = [
            "--sweep",
            f"temperature={value}",
            "--responses-per-set",
            "1",
            "--texts",
            f"{name}.jsonl",
            "--no-progress",
        ]
        folders: dict[str, Any] = {"cwd": tmp_path, "cache": tmp_path / "cache"}
        done = command("generate", "contexts.jsonl", "-o", f"{name}-sets.jsonl", "--model", model, *how, **folders)
        assert done.code == 0, done.err
        texts = pl.read_ndjson(tmp_path / f"{name}.jsonl")
        assert texts.group_by("source").len().sort("source")["len"].to_list()[1] == 60
        judged_texts = texts.with_columns(judgment=np.random.default_rng(2).normal(size=len(texts)))
        found[name] = Huse(by="system", k=8).run(judged_texts).rows[0]
    texts = pl.read_ndjson(tmp_path / "bm25.jsonl")
    assert set(texts.filter(pl.col("source") == "model")["logp"]) == {0.0}
    assert max(texts.filter(pl.col("source") == "reference")["logp"].to_list()) < -1e300
    assert found["bm25"]["huse"] < 0.1 < found["ngram"]["huse"]
    assert found["bm25"]["huse_d"] < found["ngram"]["huse_d"]
    (tmp_path / "bare.jsonl").write_text('{"context": "the red house"}\n')
    done = command("generate", "bare.jsonl", "-o", "x.jsonl", "--model", counted, "--texts", "y.jsonl", **folders)
    assert done.code == 2
    assert "has no reference" in done.err
    assert not (tmp_path / "x.jsonl").exists()


def test_stability_from_the_raw_crowd_file(research_data: Path) -> None:
    raw = str(research_data / "huse" / "summarization_raw_outputs.csv")
    study = HuseStability(items=[20, 100, 200], raters=[2, 10, 20], repeats=20).run(raw)
    found = {(row["varied"], row["items"], row["raters"]): row for row in study.rows}
    assert round(found["items", 200, 20]["huse"], 2) == round(found["raters", 200, 20]["huse"], 2) == 0.53
    assert found["raters", 200, 2]["huse"] > found["raters", 200, 10]["huse"] > found["raters", 200, 20]["huse"] - 0.05
    assert found["items", 20, 20]["huse_sd"] > found["items", 100, 20]["huse_sd"]
    assert study.chart().to_dict()


def test_judgment_follows_frequency_where_it_was_made_from_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = [f"text {i}" for i in range(40)]
    times = rng.integers(1, 200, 40)
    corpus = [text for text, count in zip(texts, times, strict=True) for _ in range(int(count))]
    frame = pl.DataFrame(
        {"text": [*texts, "never seen"], "judgment": [*(np.log(times) + 0.1 * rng.normal(size=40)), 0.0]}
    )
    study = Typicality(corpus=corpus).run(frame)
    assert study.detail.value > 0.95
    assert float(study.facts["pearson"]) == pytest.approx(study.detail.value, abs=1e-4)
    assert study.sentence.startswith("Judgments rise with log frequency")
    assert study.rows[0]["bin"] == "never"
    means = [row["judgment"] for row in study.rows[1:]]
    assert means == sorted(means)
    (tmp_path / "corpus.txt").write_text("\n".join(corpus) + "\n")
    assert Typicality(corpus=str(tmp_path / "corpus.txt")).run(frame).rows == study.rows
    assert study.chart().to_dict()
    renamed = frame.rename({"text": "words", "judgment": "score"})
    assert Typicality(corpus=corpus, judgment="score").run(renamed, text="words").rows == study.rows
    with pytest.raises(DataError) as error:
        Typicality(corpus=["something else"]).run(frame)
    assert error.value.option == "corpus"
    for option, changed in (("text", renamed), ("judgment", frame.rename({"judgment": "score"}))):
        with pytest.raises(DataError) as missing:
            Typicality(corpus=corpus).run(changed)
        assert missing.value.option == option


BAD: list[tuple[dict[str, Any], list[str], str]] = [
    ({"logp": float("inf")}, [], "the log p of 't0' is inf"),
    ({"logp": None}, [], "a system without probabilities has no HUSE"),
    ({"id": "t1"}, [], "the id 't1' is a duplicate"),
    ({}, ["--floor", "0"], "--floor 0"),
    ({}, ["--temperature", "0.7"], "--temperature requires --model"),
    ({"length": 0}, [], "'t0' has length 0"),
    ({"is_model": "perhaps"}, [], "row 1 has 'perhaps'"),
    ({}, ["-k", "80"], "80 items"),
    ({}, ["-k", "0"], "-k 0"),
    ({}, ["--way", "odd"], "--way"),
    ({}, ["--responses", "text"], "--responses text has no effect"),
    ({}, ["--judgment", "judgment", "--ratings", "r.csv"], "both --judgment and --ratings"),
    ({}, ["--template", "{context}:"], "--template requires --model"),
    ({}, ["--question", "typicality"], "--question typicality requires --ratings"),
    ({}, ["--judgment", "nothing"], "no such column"),
    ({}, ["--resample-raters"], "no single ratings"),
    ({}, ["--report", "x.txt"], "ending in .html"),
]


@pytest.mark.parametrize(("changes", "arguments", "message"), BAD)
def test_bad_input_is_an_error_that_says_what_to_do(
    tmp_path: Path, changes: dict[str, Any], arguments: list[str], message: str
) -> None:
    rows = [{**row, **(changes if place == 0 else {})} for place, row in enumerate(judged().to_dicts())]
    if "is_model" in changes:
        rows = [{**row, "is_model": str(row["is_model"])} for row in rows]
    lines = [json.dumps(row).replace("Infinity", '"inf"') for row in rows]
    if '"inf"' in lines[0]:
        lines = [json.dumps({**json.loads(line), "logp": str(json.loads(line)["logp"])}) for line in lines]
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    done = run(tmp_path, "huse", "t.jsonl", *arguments)
    assert done.code == 2
    assert done.out == ""
    assert message in done.err
    assert "Traceback" not in done.err


def test_one_source_or_constant_judgments_are_refused() -> None:
    with pytest.raises(DataError, match="from the model"):
        Huse().run(judged().with_columns(is_model=pl.lit(True)))
    with pytest.raises(DataError, match="all judgments are 3"):
        Huse().run(judged().with_columns(judgment=pl.lit(3.0)))
    for missing, option in (("judgment", "judgment"), ("logp", "logp"), ("is_model", "is_model")):
        with pytest.raises(DataError) as error:
            Huse().run(judged().drop(missing))
        assert error.value.option == option
    with pytest.raises(DataError) as found:
        Huse(judgment="x").run(judged())
    assert (found.value.option, found.value.column) == ("judgment", "x")


def test_raters_who_share_no_text_are_no_obstacle() -> None:
    frame = judged(40)
    rows = [(row["id"], f"rater of {row['id']}", "q", row["judgment"]) for row in frame.to_dicts()]
    ratings = Ratings(pl.DataFrame(rows, schema=["item", "rater", "question", "value"], orient="row"))
    study = Huse(ratings=ratings).run(frame.drop("judgment"))
    assert study.rows[0]["huse"] == Huse().run(frame).rows[0]["huse"]
    with raises(DataError, option="resample_raters"):
        Huse(ratings=ratings, resample_raters=True).run(frame.drop("judgment"))


def test_items_frames_sources_and_data_in_memory_are_taken(tmp_path: Path) -> None:
    frame = judged()
    expected = Huse().run(frame).rows[0]["huse"]
    items = Items.of(
        frame["text"].to_list(),
        contexts=frame["context"].to_list(),
        ids=frame["id"].to_list(),
        columns={name: frame[name] for name in ("is_model", "judgment", "logp", "length")},
    )
    made = HuseData(
        "x",
        frame["id"].to_list(),
        frame["is_model"].to_numpy(),
        frame["judgment"].to_numpy(),
        frame["logp"].to_numpy(),
        frame["length"].to_numpy().astype(float),
        [""] * 80,
        [""] * 80,
    )
    frame.write_csv(tmp_path / "t.txt")
    source = Source(path=str(tmp_path / "t.txt"), reading=Reading(input_format="csv"))
    for data in (items, made, frame.lazy(), Arrow(frame), source, [frame]):
        assert Huse().run(data).rows[0]["huse"] == expected
    assert Huse().run(str(tmp_path / "t.txt"), input_format="csv").rows[0]["huse"] == expected
    with pytest.raises(DataError, match="cannot study a int"):
        Huse().run(3)
    with pytest.raises(OptionError) as refused:
        Huse().run(frame, input_format="csv")
    assert refused.value.option == "input_format"


def test_a_pandas_frame_is_taken() -> None:
    pandas = pytest.importorskip("pandas")
    frame = judged()
    assert Huse().run(pandas.DataFrame(frame.to_dict(as_series=False))).rows == Huse().run(frame).rows


def test_columns_of_texts_contexts_and_ids_have_the_names_of_every_reader() -> None:
    frame = judged()
    renamed = frame.rename({"text": "t", "context": "c", "id": "i"})
    found, plain = Huse().run(renamed, text="t", context="c", id="i"), Huse().run(frame)
    assert found.rows == plain.rows
    assert found.tables["errors"].equals(plain.tables["errors"])


def test_a_sentence_says_what_the_intervals_show() -> None:
    good = Huse().run(judged(400, quality=0, diversity=0)).sentence
    assert "are not shown to differ from references" in good
    poor = Huse().run(judged(400, quality=4, diversity=0)).sentence
    assert "its texts differ from references; quality (HUSE-Q" in poor
    narrow = Huse().run(judged(400, quality=0, diversity=4)).sentence
    assert "its texts differ from references; diversity (HUSE-D" in narrow


def test_all_three_studies_take_the_same_columns_and_the_same_judges(tmp_path: Path) -> None:
    helps = [run(tmp_path, name, "--help").out for name in ("huse", "tradeoff", "huse-stability")]
    for option in ("--judge ", "--context ", "--model ", "--template ", "--token-logprobs ", "--by ", "--ties "):
        assert all(option in help for help in helps)


def test_stability_takes_systems_and_says_how_many_are_enough() -> None:
    one = judged(60).with_columns(system=pl.lit("a"))
    both = pl.concat([one, judged(60, seed=1).filter("is_model").with_columns(system=pl.lit("b"))])
    study = HuseStability(by="system", items=[30, 60], repeats=3).run(both)
    assert {row["system"] for row in study.rows} == {"a", "b"}
    assert "HUSE of a is" in study.sentence
    with pytest.raises(OptionError) as error:
        HuseStability(items=[61]).run(one)
    assert error.value.option == "items"
    with pytest.raises(DataError) as unrated:
        HuseStability(raters=[2]).run(one)
    assert unrated.value.option == "raters"
