"""HUSE, its inputs, its intervals, its errors, and what is made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import nlgauge
from nlgauge.data.tables import Items, Ratings
from nlgauge.errors import DataError, OptionError
from nlgauge.report.huse_page import render_huse
from nlgauge.studies.huse import ALIKE, DIVERSITY, QUALITY, huse, votes_at
from nlgauge.studies.huse_data import HuseData, HuseOptions
from nlgauge.studies.huse_intervals import Ways
from nlgauge.studies.huse_stability import huse_stability
from nlgauge.studies.judges import judge_texts
from nlgauge.studies.tradeoff import tradeoff
from nlgauge.studies.typicality import typicality
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
    done = run(tmp_path, "huse", str(clean), *CLEAN, "--is-model", "Label", "--format", "json")
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["rows"]
    assert [round(row[key], 2) for key in ("huse", "huse_q", "huse_d")] == [0.53, 0.58, 0.95]
    assert all(row[f"{key}_ci"][0] <= row[key] <= row[f"{key}_ci"][1] for key in ("huse", "huse_q", "huse_d"))
    raw = huse(str(research_data / "huse" / "summarization_raw_outputs.csv"))
    assert [raw.rows[0][key] for key in ("huse", "huse_q", "huse_d")] == [row[k] for k in ("huse", "huse_q", "huse_d")]
    assert any("hangs on rounding" in note for note in raw.notes)
    exact = huse(str(clean), ties="equal").rows[0]
    assert (round(exact["huse"], 2), round(exact["huse_q"], 2)) == (0.53, 0.60)


def test_unnormalised_log_p_gives_what_it_is_known_to_give(research_data: Path) -> None:
    row = huse(str(research_data / "huse" / "summary_clean.csv"), normalise=False).rows[0]
    assert [round(row[key], 2) for key in ("huse", "huse_q", "huse_d")] == [0.48, 0.58, 0.90]


def test_quality_and_diversity_are_told_apart() -> None:
    good = huse(judged(400, quality=0, diversity=0)).rows[0]
    assert good["huse"] > 0.8
    assert good["huse_d"] == pytest.approx(1, abs=0.15)
    poor = huse(judged(400, quality=4, diversity=0)).rows[0]
    assert poor["huse_q"] < 0.2
    assert poor["huse_d"] > 0.85
    narrow = huse(judged(400, quality=0, diversity=4)).rows[0]
    assert narrow["huse_q"] > 0.8
    assert narrow["huse_d"] < 0.3


def test_token_logprobs_and_lengths_come_from_lists_and_texts() -> None:
    frame = judged()
    tokens = frame.with_columns(token_logprobs=pl.concat_list(pl.col("logp") / 2, pl.col("logp") / 2)).drop("logp")
    assert huse(tokens).rows[0]["huse"] == huse(frame).rows[0]["huse"]
    words = frame.drop("length").with_columns(text=pl.lit("one two three four five six seven eight nine ten"))
    assert huse(words).rows[0]["huse"] == huse(frame).rows[0]["huse"]


def test_order_does_not_matter() -> None:
    frame = judged()
    shuffled = frame[np.random.default_rng(1).permutation(len(frame))]
    ways: tuple[Ways, ...] = ("errors", "items", "halves")
    for way in ways:
        one, other = huse(frame, way=way).rows[0], huse(shuffled, way=way).rows[0]
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
    fixed = huse(bare, ratings=ratings)
    means = pl.DataFrame(rows, schema=["id", "rater", "question", "judgment"], orient="row").group_by("id").agg(
        pl.col("judgment").mean()
    )  # fmt: skip
    assert fixed.rows[0]["huse_q"] == pytest.approx(huse(bare.join(means, on="id")).rows[0]["huse_q"], abs=0.11)
    drawn = huse(bare, ratings=ratings, raters=True, interval=nlgauge.Interval(resamples=200))
    assert "raters:resampled" in str(drawn.signature)
    width = [s.rows[0]["huse_ci"][1] - s.rows[0]["huse_ci"][0] for s in (fixed, drawn)]
    assert width[1] > 0.8 * width[0]
    with pytest.raises(DataError, match="no single ratings"):
        huse(frame, raters=True)


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
    study = huse(pl.DataFrame(rows), model=smollm2, judge=f"relevance:{minilm}", k=5)
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
    with pytest.raises(OptionError, match="judge 'odd:x'"):
        judge_texts("odd:x", contexts, ["a"] * 8)


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
    assert "'=1+1" in (tmp_path / "errors.csv").read_text()
    items = huse(frame).items
    quality = items.filter(pl.col("verdict") == QUALITY)
    assert (quality["source"] == "model").all()
    assert quality["judgment"].to_numpy().mean() < items["judgment"].to_numpy().mean()


def test_regions_are_drawn_by_the_classifier_of_the_score() -> None:
    frame = judged(60)
    study = huse(frame, ties="equal")
    (data,) = study.data
    shares = votes_at(data, data.features(), 17)
    items = study.items
    counted = items["model_votes"].to_numpy()
    own = data.is_model.astype(float)
    assert shares == pytest.approx((counted + own) / (items["votes"].to_numpy() + 1), abs=1e-9)


def test_tradeoff_orders_systems_and_names_the_dominated() -> None:
    frames = [
        judged(200, quality=q, diversity=d, seed=i) for i, (q, d) in enumerate([(0.0, 0.0), (1.2, 3.0), (0.0, 3.0)])
    ]
    study = tradeoff(frames, names=["model @1.0", "bad", "model @0.7"])
    assert study.rows[0]["system"] == "model @1.0"
    assert study.row("bad")["dominated_by"]
    assert {row["group"] for row in study.rows} == {"model", "bad"}
    assert study.chart().to_dict()
    one = frames[0].with_columns(system=pl.lit("a"))
    both = pl.concat([one, frames[2].filter("is_model").with_columns(system=pl.lit("b"))])
    by = tradeoff(both, by="system")
    assert {row["system"] for row in by.rows} == {"a", "b"}
    assert {row["n_reference"] for row in by.rows} == {100}
    with pytest.raises(DataError, match="one system"):
        tradeoff(frames[0])


def test_stability_from_the_raw_crowd_file(research_data: Path) -> None:
    raw = str(research_data / "huse" / "summarization_raw_outputs.csv")
    study = huse_stability(raw, items=[20, 100, 200], raters=[2, 10, 20], repeats=20)
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
    study = typicality(frame, corpus)
    assert study.pearson is not None
    assert study.pearson > 0.95
    assert study.rows[0]["bin"] == "never"
    means = [row["judgment"] for row in study.rows[1:]]
    assert means == sorted(means)
    (tmp_path / "corpus.txt").write_text("\n".join(corpus) + "\n")
    assert typicality(frame, str(tmp_path / "corpus.txt")).rows == study.rows
    assert study.chart().to_dict()
    with pytest.raises(DataError, match="0 of 41 texts occur"):
        typicality(frame, ["something else"])


BAD: list[tuple[dict[str, Any], list[str], str]] = [
    ({"logp": float("-inf")}, [], "the log p of 't0' is -inf"),
    ({"logp": None}, [], "the log p of 't0' is none"),
    ({"length": 0}, [], "'t0' has length 0"),
    ({"is_model": "perhaps"}, [], "row 1 has 'perhaps'"),
    ({}, ["-k", "80"], "80 items"),
    ({}, ["-k", "0"], "k is 0"),
    ({}, ["--way", "odd"], "way 'odd'"),
    ({}, ["--judgment", "nothing"], "no such column"),
    ({}, ["--raters"], "no single ratings"),
    ({}, ["--report", "x.txt"], "ending in .html"),
]


@pytest.mark.parametrize(("changes", "arguments", "message"), BAD)
def test_bad_input_is_an_error_that_says_what_to_do(
    tmp_path: Path, changes: dict[str, Any], arguments: list[str], message: str
) -> None:
    rows = [{**row, **(changes if place == 0 else {})} for place, row in enumerate(judged().to_dicts())]
    if "is_model" in changes:
        rows = [{**row, "is_model": str(row["is_model"])} for row in rows]
    lines = [json.dumps(row).replace("-Infinity", '"-inf"') for row in rows]
    if "-inf" in lines[0]:
        lines = [json.dumps({**json.loads(line), "logp": str(json.loads(line)["logp"])}) for line in lines]
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    done = run(tmp_path, "huse", "t.jsonl", *arguments)
    assert done.code == 2
    assert done.out == ""
    assert message in done.err
    assert "Traceback" not in done.err


def test_one_source_or_constant_judgments_are_refused() -> None:
    with pytest.raises(DataError, match="from the model"):
        huse(judged().with_columns(is_model=pl.lit(True)))
    with pytest.raises(DataError, match="all judgments are 3"):
        huse(judged().with_columns(judgment=pl.lit(3.0)))
    with pytest.raises(DataError, match="no judgments"):
        huse(judged().drop("judgment"))
    with pytest.raises(DataError, match="no logp"):
        huse(judged().drop("logp"))
    with pytest.raises(OptionError, match="both options"):
        huse(judged(), options=HuseOptions(), judgment="x")


def test_raters_who_share_no_text_are_no_obstacle() -> None:
    frame = judged(40)
    rows = [(row["id"], f"rater of {row['id']}", "q", row["judgment"]) for row in frame.to_dicts()]
    ratings = Ratings(pl.DataFrame(rows, schema=["item", "rater", "question", "value"], orient="row"))
    study = huse(frame.drop("judgment"), ratings=ratings)
    assert study.rows[0]["huse"] == huse(frame).rows[0]["huse"]
    with pytest.raises(DataError, match="has one rating"):
        huse(frame.drop("judgment"), ratings=ratings, raters=True)


def test_items_and_data_in_memory_are_taken() -> None:
    frame = judged()
    items = Items.of(
        frame["text"].to_list(), contexts=frame["context"].to_list(), ids=frame["id"].to_list(),
        columns={name: frame[name] for name in ("is_model", "judgment", "logp", "length")},
    )  # fmt: skip
    assert huse(items).rows[0]["huse"] == huse(frame).rows[0]["huse"]
    made = HuseData(
        "x", frame["id"].to_list(), frame["is_model"].to_numpy(), frame["judgment"].to_numpy(),
        frame["logp"].to_numpy(), frame["length"].to_numpy().astype(float), [""] * 80, [""] * 80,
    )  # fmt: skip
    assert huse(made).rows[0]["huse"] == huse(frame).rows[0]["huse"]
