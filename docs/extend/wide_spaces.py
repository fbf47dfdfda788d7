"""Two spaces between sentences: a change that no metric of stories should mind."""

import random
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from nlgauge.perturb import Corpus, Edit, Perturbation, Story, Unchanged, edited, register_perturbation
from nlgauge.perturb.base import Kind, Outcome


@register_perturbation
@dataclass(frozen=True, kw_only=True)
class WideSpaces(Perturbation):
    """Two spaces between all sentences, as on a typewriter."""

    name: ClassVar[str] = "wide-spaces"
    kind: ClassVar[Kind] = "robustness"
    filtered: ClassVar[bool] = False

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:  # noqa: ARG002 - the contract
        """Widen every gap between two sentences."""
        gaps = [Edit(end, start, "  ") for (_, end), (start, _) in pairwise(story.sentences)]
        return edited(story.text, gaps, "spaces") if gaps else Unchanged("a single sentence")
