"""The outcome of training: the curve of the loss, and lines for readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nlgauge.drawing import inline
from nlgauge.engine.files import write_text
from nlgauge.models.training.run import CURVE, TrainingCard


def draw_loss(card: TrainingCard, folder: Path) -> None:
    """Draw the loss curve beside the weights, unless it is there."""
    if not (folder / CURVE).exists():
        validation = [(evaluation.step, evaluation.validation_loss) for evaluation in card.evaluations]
        write_text(folder / CURVE, loss_curve(card.train_loss, validation, card.best_step))


def training_lines(card: TrainingCard, folder: Path) -> Iterator[str]:
    """What was trained, and how good it is."""
    yield f"model             {folder}"
    yield f"stopped           {card.stopped}, after {card.steps} steps and {card.seconds:.0f} s"
    yield f"kept              the weights of step {card.best_step}"
    if isinstance(card.measures, dict):
        yield from _measures(card.measures)
        return
    yield f"perplexity        {card.perplexity_before:.2f} before, {card.perplexity_after:.2f} after"
    tokens, texts = card.data["validation_units"], card.data["validation_texts"]
    yield f"                  (per token, ends included; {tokens:,} tokens of {texts:,} held-out texts)"


def _measures(measures: dict[str, Any]) -> Iterator[str]:
    yield f"accuracy          {measures['accuracy']:.3f} on held-out texts; guessing gives .5"
    if "auc" in measures:
        yield f"area under curve  {measures['auc']:.3f}; of negatives that one technique alone made:"
        for technique, area in measures["auc_by_technique"].items():
            yield f"  {technique:<16}{'none held out' if area is None else format(area, '.3f')}"
    for part, (low, high) in measures.get("ranges", {}).items():
        yield f"{part:<18}{low:.3f} to {high:.3f}"


def loss_curve(training: Sequence[float], validation: Sequence[tuple[int, float]], best: int) -> str:
    """Training and validation loss over steps, as SVG."""
    import altair as alt
    import vl_convert

    rows: list[dict[str, Any]] = [
        {"step": step, "loss": loss, "texts": "training"} for step, loss in enumerate(training, 1)
    ]
    rows += [{"step": step, "loss": loss, "texts": "validation"} for step, loss in validation]
    colour = alt.Color(
        "texts:N",
        scale=alt.Scale(domain=["training", "validation"], range=["#aabbdd", "#dd7733"]),
        legend=alt.Legend(orient="top", title=None),
    )
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("step:Q", title=f"step (best: {best})"),
        y=alt.Y("loss:Q", title="loss per token (nats)", scale=alt.Scale(zero=False)),
        color=colour,
    )
    points = base.transform_filter("datum.texts == 'validation'").mark_point(filled=True, size=40, opacity=1)
    svg: str = vl_convert.vegalite_to_svg(
        alt.layer(base.mark_line(), points).properties(width=560, height=320).to_dict()
    )
    return svg
