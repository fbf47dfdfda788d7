"""The list of perturbations, open to other packages and to users' own files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nlgauge.registry import Registry

if TYPE_CHECKING:
    from nlgauge.perturb.base import Perturbation

COHERENCE = {
    "lexical-repetition": "nlgauge.perturb.lexical_repetition:LexicalRepetition",
    "semantic-repetition": "nlgauge.perturb.semantic_repetition:SemanticRepetition",
    "character-behaviour": "nlgauge.perturb.character_behaviour:CharacterBehaviour",
    "common-sense": "nlgauge.perturb.common_sense:CommonSense",
    "consistency": "nlgauge.perturb.consistency:Consistency",
    "relatedness": "nlgauge.perturb.relatedness:Relatedness",
    "causal": "nlgauge.perturb.causal:Causal",
    "temporal": "nlgauge.perturb.temporal:Temporal",
}
ROBUSTNESS = {
    "synonyms": "nlgauge.perturb.synonyms:Synonyms",
    "paraphrases": "nlgauge.perturb.paraphrases:Paraphrases",
    "punctuation": "nlgauge.perturb.punctuation:Punctuation",
    "contractions": "nlgauge.perturb.contractions:Contractions",
    "typos": "nlgauge.perturb.typos:Typos",
}
PERTURBATIONS = Registry(
    "perturbation", "nlgauge.perturbations", COHERENCE | ROBUSTNESS, "typos:share=0.02", "See `nlgauge perturb list`."
)


def perturbation_names() -> list[str]:
    """All names: those of the paper in its order, then others."""
    own = [*COHERENCE, *ROBUSTNESS]
    return [*own, *(name for name in PERTURBATIONS.names() if name not in own)]


def register_perturbation(cls: type[Any]) -> type[Any]:
    """Add a perturbation class under its `name`; usable as a decorator. A taken name is refused."""
    return PERTURBATIONS.register(cls)


def create_perturbation(spec: str) -> Perturbation:
    """A perturbation from `name` or `name:option=value,option=value`."""
    made: Perturbation = PERTURBATIONS.create(spec)
    return made
