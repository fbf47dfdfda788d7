"""The list of perturbations, open to other packages and to users' own files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nlgauge.errors import OptionError, argument
from nlgauge.registry import Registry

if TYPE_CHECKING:
    from nlgauge.perturb.base import Perturbation

COHERENCE = {
    "lexical-repetition": "nlgauge.perturb.aspects.lexical_repetition:LexicalRepetition",
    "semantic-repetition": "nlgauge.perturb.aspects.paraphrases:SemanticRepetition",
    "character-behaviour": "nlgauge.perturb.aspects.character_behaviour:CharacterBehaviour",
    "common-sense": "nlgauge.perturb.aspects.common_sense:CommonSense",
    "consistency": "nlgauge.perturb.aspects.consistency:Consistency",
    "relatedness": "nlgauge.perturb.aspects.relatedness:Relatedness",
    "causal": "nlgauge.perturb.aspects.causal:Causal",
    "temporal": "nlgauge.perturb.aspects.temporal:Temporal",
}
ROBUSTNESS = {
    "synonyms": "nlgauge.perturb.aspects.synonyms:Synonyms",
    "paraphrases": "nlgauge.perturb.aspects.paraphrases:Paraphrases",
    "punctuation": "nlgauge.perturb.aspects.punctuation:Punctuation",
    "contractions": "nlgauge.perturb.aspects.contractions:Contractions",
    "typos": "nlgauge.perturb.aspects.typos:Typos",
}
PERTURBATIONS: Registry[Perturbation] = Registry(
    "perturbation", "nlgauge.perturbations", COHERENCE | ROBUSTNESS, "typos:share=0.02", "See `nlgauge perturb list`."
)


def perturbation_names() -> list[str]:
    """All names: those of the paper in its order, then others."""
    own = [*COHERENCE, *ROBUSTNESS]
    return [*own, *(name for name in PERTURBATIONS.names() if name not in own)]


def register_perturbation(cls: type[Perturbation]) -> type[Perturbation]:
    """Add a perturbation class under its `name`; usable as a decorator. A duplicate name raises an error."""
    return PERTURBATIONS.register(cls)


def create_perturbation(spec: str) -> Perturbation:
    """A perturbation from `name` or `name:option=value,option=value`."""
    return PERTURBATIONS.create(spec)


def create_perturbations(specs: Sequence[str], conceptnet: str | None = None) -> list[Perturbation]:
    """Perturbations from specs, each of them once; `conceptnet` is the file of triples for common-sense."""
    if not specs:
        raise OptionError(f"no {argument('aspect')}; expected at least one of {', '.join(perturbation_names())}")
    if conceptnet:
        specs = [f"{one}:conceptnet={conceptnet}" if one == "common-sense" else one for one in specs]
    made = [create_perturbation(spec) for spec in specs]
    names = [one.name for one in made]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise OptionError(
            f"{argument('aspect', repeated[0])} is duplicated; expected each once: run the command again for others"
        )
    return made
