"""Length test: does a metric follow the length of responses rather than their diversity?"""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from nlgauge import extend as ng


@dataclass(frozen=True, kw_only=True)
class LengthTest(ng.Inference, ng.MetricOptions, ng.Study):
    """Length test: does a metric follow the mean length of the responses?"""

    name: ClassVar[str] = "length"
    aspect: ClassVar[str] = "length"
    layout: ClassVar[tuple[ng.Column, ...]] = (
        ng.Column("metric"),
        ng.Column("spearman", "rho"),
        ng.Column("spearman_ci"),
    )

    def compute(self, data: ng.StudyData) -> ng.Result:
        """Spearman's rho of every metric with the mean number of words."""
        rows = []
        for task in ng.tasks_of(self, data):
            if task.sets is None:
                raise ng.DataError("no responses; expected texts to measure", file=task.name)
            words = [len(text.split()) for text in task.sets.texts]
            lengths = np.array([np.mean(words[start:end]) for start, end in pairwise(task.sets.offsets)])
            rows += [ng.correlation_row(task, one, lengths, self) for one in task.measured]
        return ng.Result(self, rows)

    def sentence(self, result: ng.Result) -> str:
        """Which metrics follow length."""
        return ng.best_metrics(result, "the length of responses")
