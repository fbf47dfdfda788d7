"""All that the author of a plugin imports: contracts, registries, option helpers, results and errors.

Names that are here, and those of `nlgauge`, are public; everything else is private. docs/extend/public.md says how
public names change. A form needs none of them: it is a TOML file.
"""

from nlgauge.annotate.quality import AssignmentRule as AssignmentRule
from nlgauge.annotate.quality import Finding as Finding
from nlgauge.annotate.quality import Work as Work
from nlgauge.annotate.rules import register_rule as register_rule
from nlgauge.arrays import Array as Array
from nlgauge.configured import Configured as Configured
from nlgauge.configured import Options as Options
from nlgauge.configured import check_that as check_that
from nlgauge.configured import option as option
from nlgauge.configured import required as required
from nlgauge.data.columns import Reading as Reading
from nlgauge.data.tables import Items as Items
from nlgauge.data.tables import Ratings as Ratings
from nlgauge.data.tables import ResponseSets as ResponseSets
from nlgauge.data.tables import TokenScores as TokenScores
from nlgauge.engine.running import Running as Running
from nlgauge.errors import DataError as DataError
from nlgauge.errors import MissingExtra as MissingExtra
from nlgauge.errors import ModelError as ModelError
from nlgauge.errors import NLGaugeError as NLGaugeError
from nlgauge.errors import OptionError as OptionError
from nlgauge.errors import OutputError as OutputError
from nlgauge.errors import PluginError as PluginError
from nlgauge.errors import UnknownName as UnknownName
from nlgauge.errors import argument as argument
from nlgauge.metrics.base import Metric as Metric
from nlgauge.metrics.base import PooledMetric as PooledMetric
from nlgauge.metrics.base import SetMetric as SetMetric
from nlgauge.metrics.base import SizedMetric as SizedMetric
from nlgauge.metrics.base import Stats as Stats
from nlgauge.metrics.batch import Batch as Batch
from nlgauge.metrics.diversity.reduction import register_similarity as register_similarity
from nlgauge.metrics.registry import register_metric as register_metric
from nlgauge.metrics.score import Direction as Direction
from nlgauge.metrics.score import Level as Level
from nlgauge.metrics.score import Score as Score
from nlgauge.models.runtime import Machine as Machine
from nlgauge.perturb.base import Edit as Edit
from nlgauge.perturb.base import Outcome as Outcome
from nlgauge.perturb.base import Perturbation as Perturbation
from nlgauge.perturb.base import Perturbed as Perturbed
from nlgauge.perturb.base import Unchanged as Unchanged
from nlgauge.perturb.base import edited as edited
from nlgauge.perturb.corpus import Corpus as Corpus
from nlgauge.perturb.registry import register_perturbation as register_perturbation
from nlgauge.perturb.story import Story as Story
from nlgauge.signature import Signature as Signature
from nlgauge.stats.inference import Inference as Inference
from nlgauge.studies.base import Column as Column
from nlgauge.studies.base import Result as Result
from nlgauge.studies.base import Row as Row
from nlgauge.studies.base import Study as Study
from nlgauge.studies.base import StudyData as StudyData
from nlgauge.studies.registry import register_study as register_study
from nlgauge.studies.rows import correlation_row as correlation_row
from nlgauge.studies.sentences import best_metrics as best_metrics
from nlgauge.studies.tasks import MetricOptions as MetricOptions
from nlgauge.studies.tasks import MetricTests as MetricTests
from nlgauge.studies.tasks import Task as Task
from nlgauge.studies.tasks import tasks_of as tasks_of

__all__ = sorted(name for name in globals() if not name.startswith("_"))
