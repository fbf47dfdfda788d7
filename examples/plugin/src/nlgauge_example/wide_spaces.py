"""Two spaces between sentences: a change that no metric of stories should mind."""

import random
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from nlgauge.extend import Corpus, Edit, Outcome, Perturbation, Story, Unchanged, edited


@dataclass(frozen=True, kw_only=True)
class WideSpaces(Perturbation):
    """Two spaces between all sentences, as on a typewriter."""

    name: ClassVar[str] = "wide-spaces"
    kind = "robustness"
    filtered: ClassVar[bool] = False

    def perturb(self, story: Story, draw: random.Random, corpus: Corpus) -> Outcome:
        """Widen every gap between two sentences."""
        del draw, corpus
        gaps = [Edit(end, start, "  ") for (_, end), (start, _) in pairwise(story.sentences)]
        return edited(story.text, gaps, "spaces") if gaps else Unchanged("a single sentence")
