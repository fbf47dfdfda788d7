"""All that the author of a plugin imports: contracts, registries, option helpers, results and errors.

Names that are here, and those of `nlgauge`, are public; everything else is private. docs/extend/public.md says how
public names change. A form needs none of them: it is a TOML file.
"""

from nlgauge.annotate.quality import AssignmentRule, Finding, Work
from nlgauge.annotate.rules import register_rule
from nlgauge.arrays import Array
from nlgauge.configured import Configured, Options, check_that, option, required
from nlgauge.data.columns import Reading
from nlgauge.data.tables import Items, Ratings, ResponseSets, TokenScores
from nlgauge.engine.running import Running
from nlgauge.errors import (
    DataError,
    MissingExtra,
    ModelError,
    NLGaugeError,
    OptionError,
    OutputError,
    PluginError,
    UnknownName,
    argument,
)
from nlgauge.metrics.base import Metric, PooledMetric, SetMetric, Stats
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.diversity.reduction import register_similarity
from nlgauge.metrics.registry import register_metric
from nlgauge.metrics.score import Direction, Level, Score
from nlgauge.models.runtime import Machine
from nlgauge.perturb.base import Edit, Outcome, Perturbation, Perturbed, Unchanged, edited
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.registry import register_perturbation
from nlgauge.perturb.story import Story
from nlgauge.signature import Signature
from nlgauge.stats.inference import Inference
from nlgauge.studies.base import Column, Result, Row, Study, StudyData
from nlgauge.studies.registry import register_study
from nlgauge.studies.rows import correlation_row
from nlgauge.studies.sentences import best_metrics
from nlgauge.studies.tasks import MetricOptions, MetricTests, Task, tasks_of

__all__ = [
    "Array",
    "AssignmentRule",
    "Batch",
    "Column",
    "Configured",
    "Corpus",
    "DataError",
    "Direction",
    "Edit",
    "Finding",
    "Inference",
    "Items",
    "Level",
    "Machine",
    "Metric",
    "MetricOptions",
    "MetricTests",
    "MissingExtra",
    "ModelError",
    "NLGaugeError",
    "OptionError",
    "Options",
    "Outcome",
    "OutputError",
    "Perturbation",
    "Perturbed",
    "PluginError",
    "PooledMetric",
    "Ratings",
    "Reading",
    "ResponseSets",
    "Result",
    "Row",
    "Running",
    "Score",
    "SetMetric",
    "Signature",
    "Stats",
    "Story",
    "Study",
    "StudyData",
    "Task",
    "TokenScores",
    "Unchanged",
    "UnknownName",
    "Work",
    "argument",
    "best_metrics",
    "check_that",
    "correlation_row",
    "edited",
    "option",
    "register_metric",
    "register_perturbation",
    "register_rule",
    "register_similarity",
    "register_study",
    "required",
    "tasks_of",
]
