"""The content metric sees what responses say rather than what they are about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from papers.content_metric import FILES, measure

import nlgauge
from nlgauge.data.tables import ResponseSets
from nlgauge.errors import OptionError
from nlgauge.metrics.diversity.content import given_away, split_context, without
from nlgauge.models.language.base import load_language_model


def test_contexts_are_taken_whole_and_by_sentence() -> None:
    assert split_context("") == []
    assert split_context("Just one sentence.") == ["Just one sentence."]
    assert split_context("One. Two! ") == ["One. Two!", "One.", "Two!"]


def test_residuals_are_orthogonal_to_what_was_taken_out() -> None:
    rng = np.random.default_rng(0)
    vectors, basis = rng.normal(size=(5, 12)), rng.normal(size=(3, 12))
    assert np.abs(without(vectors, basis, 0.0) @ basis.T).max() < 1e-9
    assert np.array_equal(without(vectors, np.empty((0, 12)), 0.3), vectors)
    twice = np.vstack([basis, basis])
    assert np.allclose(without(vectors, twice, 0.0), without(vectors, basis, 0.0))


def test_a_penalty_takes_out_less() -> None:
    rng = np.random.default_rng(1)
    vectors, basis = rng.normal(size=(5, 12)), rng.normal(size=(2, 12))
    lengths = [np.linalg.norm(without(vectors, basis, ridge)) for ridge in (0.0, 1.0, 100.0)]
    assert lengths == sorted(lengths)
    with pytest.raises(OptionError, match="0 or more"):
        nlgauge.create_metric("content:ridge=-1")


def test_without_a_context_content_is_sentence_similarity(minilm: str) -> None:
    sets = [["It rained all day.", "We stayed in."], ["Yes.", "No.", "Perhaps."]]
    with pytest.warns(UserWarning, match="the data has none: it is sent-sim here"):
        content, plain = nlgauge.score(sets, ["content", "sent-sim"])
    assert content.value == pytest.approx(plain.value, abs=1e-12)
    assert content.signature.facts == {"context": "none"}
    tables = ResponseSets.of(sets, contexts=["What was the weather like?", "Did you like it?"])
    assert nlgauge.score(tables, ["content"])[0].signature.facts == {}


def test_a_language_model_adds_what_responses_give_away(minilm: str, smollm2: str) -> None:
    context = "Tom baked a cake for the party. The oven was far too hot."
    same = ["The cake burned to a crisp.", "His cake was burnt black.", "So the cake got burned."]
    other = ["The cake burned to a crisp.", "He opened all the windows.", "A neighbour called the firemen."]
    alike, unlike = given_away(smollm2, [context, context], [same, other])
    assert alike > unlike
    model = load_language_model("smollm2")
    alone = model.score([context], [[f" {text}" for text in same]])[0]
    saved = []
    for i, one in enumerate(same):
        for j, text in enumerate(same):
            if i != j:
                after = model.score([f"{context} {one}\n\n{context}"], [[f" {text}"]])[0][0]
                saved.append(after.total - alone[j].total)
    assert alike == pytest.approx(float(np.mean(saved)), abs=1e-3)
    sets = ResponseSets.of([same, other], contexts=[context, context])
    plain, both = (nlgauge.score(sets, [spec])[0].per_item for spec in ("content", "content:lm=smollm2,nats=50"))
    assert plain is not None
    assert both is not None
    gap = plain["value"].to_numpy() - both["value"].to_numpy()
    assert gap == pytest.approx([alike / 50, unlike / 50], abs=1e-9)


def test_content_tells_the_example_classes_apart_better_than_form_does(minilm: str, examples: Path) -> None:
    sets = nlgauge.read(str(examples / "content_sets.jsonl"))
    assert isinstance(sets, ResponseSets)
    rho = correlations(sets, "content_diversity", ["content", "sent-sim", "distinct"])
    assert rho["content"] > rho["sent-sim"] > rho["distinct"]


@pytest.mark.parametrize(
    ("file", "least", "margin"),
    [
        ("McDiv_nuggets/mcdiv_nuggets_200_with_hds_story_gen", 0.58, 0.15),
        ("conTest/con_test_200_with_hds_resp_gen", 0.56, 0.08),
        ("conTest/con_test_200_with_hds_story_gen", 0.69, 0.06),
    ],
)
def test_content_beats_sentence_similarity_on_the_content_test(
    minilm: str, research_data: Path, file: str, least: float, margin: float
) -> None:
    sets = nlgauge.read(str(research_data / "diversity_eval" / f"{file}.csv"))
    assert isinstance(sets, ResponseSets)
    rho = correlations(sets, "label_value", ["content", "sent-sim"])
    assert rho["content"] > least
    assert rho["content"] > rho["sent-sim"] + margin


def test_the_page_reproduces_the_published_columns(minilm: str, research_data: Path) -> None:
    """Rho and OCA of the authors' sent-BERT and of people, as the paper prints them for conTest resp (Table 4)."""
    lines = measure(research_data / "diversity_eval" / FILES["conTest resp"], ("distinct", "content"))
    found = {line.metric: (round(line.rho, 2), round(line.oca, 2)) for line in lines}
    assert found["authors' sent-BERT"] == (0.59, 0.79)
    assert found["people (absHDS)"] == (0.63, 0.81)
    for line in lines:
        assert line.rho_ci[0] < line.rho < line.rho_ci[1]
        assert line.oca_ci[0] <= line.oca <= line.oca_ci[1]


def correlations(sets: ResponseSets, label: str, metrics: list[str]) -> dict[str, float]:
    """Spearman's rho of each metric with a column of the data."""
    found = {}
    for score in nlgauge.score(sets, metrics):
        assert score.per_item is not None
        table = pl.DataFrame({"value": score.per_item["value"], "label": sets.frame[label]})
        found[score.name] = table.select(pl.corr("value", "label", method="spearman")).item()
    return found
