"""The list of studies, open to other packages and to users' own files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nlgauge.registry import Registry

if TYPE_CHECKING:
    from nlgauge.studies.base import Study

_BUILT_IN = {
    "content": "nlgauge.studies.diversity.content:ContentTest",
    "decoding": "nlgauge.studies.diversity.decoding:DecodingTest",
    "ranking": "nlgauge.studies.diversity.ranking:RankingTest",
    "nuggets": "nlgauge.studies.diversity.nuggets:Nuggets",
    "stability": "nlgauge.studies.diversity.stability:Stability",
    "length-bias": "nlgauge.studies.diversity.length_bias:LengthBias",
    "huse": "nlgauge.studies.huse.score:Huse",
    "tradeoff": "nlgauge.studies.huse.tradeoff:Tradeoff",
    "huse-stability": "nlgauge.studies.huse.stability:HuseStability",
    "typicality": "nlgauge.studies.huse.typicality:Typicality",
    "correlation": "nlgauge.studies.story.correlation:CorrelationStudy",
    "improvement": "nlgauge.studies.story.improvement:ImprovementStudy",
    "drift": "nlgauge.studies.story.drift:Drift",
    "discrimination": "nlgauge.studies.story.discrimination:DiscriminationTest",
    "invariance": "nlgauge.studies.story.invariance:InvarianceTest",
    "agreement": "nlgauge.studies.story.agreement:AgreementStudy",
    "ruq": "nlgauge.studies.ruq.score:Ruq",
    "sweep": "nlgauge.studies.ruq.sweep:Sweep",
}
STUDIES: Registry[Study] = Registry(
    "study", "nlgauge.studies", _BUILT_IN, "content:label=content_diversity", "See `nlgauge study --help`."
)


def study_names() -> list[str]:
    """All names: those that come with NLGauge in their order, then others."""
    return [*_BUILT_IN, *(name for name in STUDIES.names() if name not in _BUILT_IN)]


def register_study(cls: type[Study]) -> type[Study]:
    """Add a study class under its `name`; usable as a decorator. A taken name is refused."""
    return STUDIES.register(cls)


def create_study(spec: str) -> Study:
    """A study from `name`, `name:option=value,option=value`, or a printed signature."""
    return STUDIES.create(spec)
