"""Relatedness of sentences: equal to a slow version, with contexts, and without a value where there is one sentence."""

from __future__ import annotations

import numpy as np
import pytest

from nlgauge.data.tables import Items
from nlgauge.metrics.learned.fluency import Relatedness
from nlgauge.models.encoders.embedder import load_embedder

STORY = "The dog ran into the park. It chased a ball. A bus was late."


def cosines(lines: list[str], neighbours: bool) -> float:
    vectors = load_embedder("minilm").encode(lines).astype(np.float64)
    found = [
        float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        for i, a in enumerate(vectors)
        for b in (vectors[i + 1 : i + 2] if neighbours else vectors[i + 1 :])
    ]
    return sum(found) / len(found)


def measured(*texts: str) -> list[float]:
    rows = Relatedness().score(Items.of(list(texts))).per_item
    assert rows is not None
    return [float("nan") if value is None else value for value in rows["value"].to_list()]


@pytest.mark.parametrize("between", ["neighbours", "all"])
def test_it_is_the_mean_cosine_of_sentences_with_the_context_before_them(between: str) -> None:
    lines = ["Anna has a dog.", "The dog ran into the park.", "It chased a ball.", "A bus was late."]
    items = Items.of([STORY], contexts=["Anna has a dog."])
    score = Relatedness(between=between).score(items)  # type: ignore[arg-type]
    assert score.value == pytest.approx(cosines(lines, between == "neighbours"), abs=1e-6)


def test_a_foreign_sentence_lowers_it_and_a_repeated_one_raises_it() -> None:
    values = measured(
        "She baked bread. The bread was warm. Everyone ate the bread.",
        "She baked bread. The submarine dived. Everyone ate the bread.",
        "She baked bread. She baked bread. Everyone ate the bread.",
    )
    assert values[1] < values[0] < values[2]


def test_a_single_sentence_without_context_has_no_value() -> None:
    assert np.isfinite(measured(STORY, "One sentence only.", " ")).tolist() == [True, False, False]
