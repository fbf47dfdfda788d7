"""Other people's interfaces: the calls of `evaluate` and of scikit-learn, and trackers of experiments."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nlgauge.errors import DataError, MissingExtra, OutputError, UnknownName, argument
from nlgauge.schema import document_text

if TYPE_CHECKING:
    from nlgauge.data.reading import Table
    from nlgauge.metrics.base import Metric
    from nlgauge.metrics.score import Score

TRACKERS = ("mlflow", "wandb")
_NOT_IN_KEYS = re.compile(r"[^\w./ -]+")


@dataclass(frozen=True)
class Loaded:
    """A metric with the call that `evaluate` gave its metrics."""

    metric: Metric

    def compute(
        self,
        *,
        predictions: Sequence[str] | Sequence[Sequence[str]],
        references: Sequence[str] | Sequence[Sequence[str]] | None = None,
        contexts: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """The value under the metric's name, with `n` and `signature`.

        `predictions` are single texts, or lists of texts that answer one context each. `references[i]`, a text or a
        list of texts, belongs to `predictions[i]`.
        """
        score = self.score(predictions, references, contexts)
        return {score.name: score.value, "n": score.n, "signature": str(score.signature)}

    def score(
        self,
        predictions: Sequence[str] | Sequence[Sequence[str]],
        references: Sequence[str] | Sequence[Sequence[str]] | None = None,
        contexts: Sequence[str] | None = None,
    ) -> Score:
        """As `compute`, with all that a score holds."""
        from nlgauge.scoring.scoring import score

        return score(_table(predictions, references, contexts), [self.metric])[0]


def load(spec: str) -> Loaded:
    """A metric by name, as in `load("bleu:n=2").compute(predictions=..., references=...)`."""
    from nlgauge.metrics.registry import create_metric

    return Loaded(create_metric(spec))


def as_scorer(spec: str) -> Callable[..., float]:
    """A scorer for scikit-learn's `scoring=`: what `estimator.predict(X)` writes is scored, with `y` as its references.

    Greater is better there, so the sign of a metric that falls with diversity or quality is flipped.
    """
    metric = load(spec)
    sign = float(metric.metric.direction.sign)

    def scorer(estimator: Any, X: Any, y: Any = None) -> float:
        return sign * metric.score(_plain(estimator.predict(X)), None if y is None else _plain(y)).value

    return scorer


def _plain(values: Any) -> list[Any]:
    """Lists and strings from whatever array an estimator works with."""
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    return [value.tolist() if hasattr(value, "tolist") else value for value in listed]


def _table(predictions: Any, references: Any, contexts: Sequence[str] | None) -> Table:
    from nlgauge.data.tables import Items, ResponseSets

    texts = list(predictions)
    if texts and isinstance(texts[0], str):
        lists = None if references is None else [[one] if isinstance(one, str) else list(one) for one in references]
        return Items.of(texts, references=lists, contexts=contexts)
    if references is not None:
        raise DataError(
            "lists of predictions together with references; expected single texts as predictions, or no references: "
            "a measure of sets has none"
        )
    return ResponseSets.of(texts, contexts=contexts)


def check_tracker(tracker: str) -> None:
    """Fail before any work when a tracker is unknown or not installed."""
    if tracker not in TRACKERS:
        raise UnknownName.among("tracker", tracker, TRACKERS)
    if importlib.util.find_spec(tracker) is None:
        raise MissingExtra(
            f"{argument('log', tracker)} needs the package '{tracker}', which is not installed; run: pip install "
            f"{tracker}"
        )


def log_scores(scores: Sequence[Score], document: dict[str, Any], tracker: str) -> None:
    """Log every score as `SYSTEM/METRIC` (and `.low`, `.high`) to a new run, with the whole result beside them.

    Where the run goes is for the tracker's own settings to say, such as MLFLOW_TRACKING_URI or WANDB_MODE.
    """
    check_tracker(tracker)
    module = importlib.import_module(tracker)
    numbers = _tracked(scores)
    refused = module.exceptions.MlflowException if tracker == "mlflow" else module.Error
    try:
        if tracker == "mlflow":
            with module.start_run():
                module.log_metrics(numbers)
                module.log_text(document_text(document), "nlgauge.json")
        else:
            signatures = sorted({str(score.signature) for score in scores})
            with module.init(job_type="nlgauge", config={"signatures": signatures}) as run:
                run.log(numbers)
    except refused as error:
        raise OutputError(f"{argument('log', tracker)}: {error}") from error


def _tracked(scores: Sequence[Score]) -> dict[str, float]:
    """Numbers by names that trackers take: letters, digits and a few signs."""
    numbers: dict[str, float] = {}
    for score in scores:
        key = _NOT_IN_KEYS.sub("-", "/".join(part for part in (score.system, score.label) if part))
        if key in numbers:
            raise DataError(f"two scores would be logged as '{key}'; give the systems names that differ in letters")
        numbers[key] = score.value
        if score.ci is not None:
            numbers[f"{key}.low"], numbers[f"{key}.high"] = score.ci
    return numbers
