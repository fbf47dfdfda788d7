"""A language model that answers the papers' questionnaires in the place of people."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.engine.cache import file_with_hash, split_hash
from nlgauge.errors import DataError, OptionError
from nlgauge.metrics.base import SetMetric, SetStats, refuse
from nlgauge.metrics.batch import Batch
from nlgauge.metrics.score import Bounds, Direction, Level, Score
from nlgauge.stats.inference import Inference

if TYPE_CHECKING:
    from nlgauge.models.judge.asking import JudgeRatings
    from nlgauge.models.judge.questions import JudgeQuestion, Material
    from nlgauge.models.language.base import Sampling

_ABOUT_WORDING = "set-diversity"
_NAMED = 10


@dataclass(frozen=True, kw_only=True)
class LlmJudge(SetMetric):
    """What a language model answers when it is asked as people are, by a questionnaire; mean over its answers.

    `model` is a chat model behind an address (`http://host:port/v1#name`), `form` a questionnaire that comes with
    NLGauge or a file of your own, `question` one of its questions where it has several. Questions about sets, about
    pairs of responses (mean over pairs) or about single texts (mean over the texts of a set) give the mean answer.
    `form=rnk-hds` asks in which of two sets the responses differ more: the other set is the one with the same id in
    `against`, each order is asked, and the value is the share of answers for the set; the share of answers that
    changed with the order is the signature's `position-bias`. `samples` answers are averaged, at a `temperature` above
    0 if they are several. A set without a readable answer in every sample after three attempts has no value, and a
    warning names it. A text may talk the model into an answer: docs/judge.md.
    """

    name: ClassVar[str] = "llm-judge"
    paper: ClassVar[str] = "the form's own; asking in both orders: Zheng et al. 2023, section 3"
    costly: ClassVar[bool] = True
    example: ClassVar[str] = "llm-judge:model=http://localhost:8000/v1#NAME,form=abs-hds"

    model: str = option("", "Address of a chat model, as in http://host:port/v1#name.")
    form: str = option("abs-hds", "Questionnaire: a name, or a file of your own.")
    question: str = option("", "One question of the form, where it has several.")
    against: str = option("", "File of the other sets, where a form compares two.")
    samples: int = option(1, "Number of answers that are averaged.")
    temperature: float = option(0.0, "Temperature of the answers; above 0 where there are several.")
    seed: int = option(12345, "Seed of the answers and of the order of texts.")
    max_tokens: int = option(64, "Longest answer, in tokens.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect("samples", self.samples >= 1, "1 or more")
        self.expect("seed", self.seed >= 0, "0 or more")
        refuse(
            "samples",
            self.samples > 1 and self.temperature == 0,
            f"llm-judge:samples={self.samples} at temperature=0 would be one answer repeated; expected samples=1, or a "
            "temperature above 0, such as temperature=1",
        )
        _ = self._sampling
        refuse(
            "against",
            self._asked.kind != "choice" and bool(self.against),
            f"llm-judge:against={self.against} with form={self.form}; expected a form that compares two, such as "
            "form=rnk-hds",
        )
        if self.against:
            object.__setattr__(self, "against", file_with_hash(self.against, "sets"))

    @property
    def level(self) -> Level:
        """As the question is asked: about single texts, or about sets."""
        asked = self._asked
        return "item" if "text" in (asked.kind, asked.of if asked.kind == "choice" else "") else "set"

    @property
    def needs(self) -> int:
        """A set of two for questions about sets."""
        return 1 if self.level == "item" else 2

    @property
    def bounds(self) -> Bounds:
        """The ends of the scale; of a choice, those of a share."""
        asked = self._asked
        return (0.0, 1.0) if asked.kind == "choice" else (float(asked.answers[0]), float(asked.answers[-1]))

    @property
    def direction(self) -> Direction:
        """Answers about single texts are about quality; those about pairs of a set, about their similarity."""
        if self.level == "item":
            return Direction.BETTER
        return Direction.LESS_DIVERSE if self._asked.kind == "pair" else Direction.MORE_DIVERSE

    @property
    def aspect(self) -> str:
        """Quality of single texts; form or content of sets."""
        if self.level == "item":
            return "quality"
        return "form" if self._asked.id == "form" or self._asked.form.startswith(_ABOUT_WORDING) else "content"

    @property
    def _asked(self) -> JudgeQuestion:
        """The question; a form that carries the hash of its prompt, as in a signature, is checked against it."""
        from nlgauge.models.judge.questions import load_judge_question

        form, claimed = split_hash(self.form)
        asked = load_judge_question(form, self.question)
        if claimed and claimed != asked.fingerprint:
            raise OptionError(f"form '{form}' makes prompt {asked.fingerprint}; expected {claimed}: this is another")
        return asked

    @property
    def _sampling(self) -> Sampling:
        from nlgauge.models.language.base import Sampling

        return Sampling(temperature=self.temperature, max_new_tokens=self.max_tokens, stop=())

    def relevant_options(self) -> Mapping[str, Any]:
        """The form with the hash of its prompt, the question by its name, the other sets only where there are some."""
        asked = self._asked
        shown = {**super().relevant_options(), "form": f"{asked.form}@{asked.fingerprint}", "question": asked.id}
        return {key: value for key, value in shown.items() if key != "against" or asked.kind == "choice"}

    @property
    def cacheable(self) -> bool:
        """The connection remembers answers; reading them again says again which could not be read."""
        return False

    def prepare(self) -> None:
        """Refuse to begin without a model, or without sets to compare with."""
        refuse("model", not self.model, f"{self.name} has no model to ask; expected its address, as in {self.example}")
        refuse(
            "against",
            self._asked.kind == "choice" and not self.against,
            f"{self.name}:form={self.form} compares with other sets, and none were named; expected their file, as in "
            f"{self.name}:form={self.form},against=other.jsonl",
        )
        from nlgauge.models.judge.asking import load_judge

        load_judge(self.model)

    def per_set(self, batch: Batch) -> Array:
        """The mean answer about each set; for a choice, the shares of answers for it and of changed ones."""
        from nlgauge.models.judge.asking import ask, load_judge

        groups = self._materials(batch)
        flat = [material for group in groups for material in group]
        answers = ask(
            load_judge(self.model), self._asked, flat, samples=self.samples, sampling=self._sampling, seed=self.seed
        )
        edges = np.cumsum([0, *map(len, groups)])
        of_sets = [answers[a:b] for a, b in pairwise(edges)]
        self._name_unread(batch, of_sets)
        value = _preference if self._asked.kind == "choice" else _mean
        return np.array([value(given) for given in of_sets])

    def combine(self, values: Array) -> Array:
        """The first column; the second one, of a choice, says how often the answer changed with the order."""
        first: Array = values[:, 0]
        return first

    def finish(self, stats: SetStats, interval: Inference | None = None) -> Score:
        """The mean over sets, with the position bias of a choice beside the signature."""
        score = super().finish(stats, interval)
        if len(stats.sums) < 2:
            return score
        return replace(score, signature=score.signature.with_facts({"position-bias": f"{stats.sums[1].mean:.3f}"}))

    def _materials(self, batch: Batch) -> list[list[Material]]:
        """What is asked about each set: itself, its pairs, its texts, or it and another one in both orders."""
        from nlgauge.models.judge.questions import Material

        kind, found = self._asked.kind, []
        others = self._others(batch) if kind == "choice" else []
        for row, (context, mine) in enumerate(zip(batch.contexts(), map(tuple, batch.texts_of_sets), strict=True)):
            shown: list[tuple[tuple[str, ...], ...]] = [(mine,)]
            if kind == "choice":
                shown = [(mine, others[row]), (others[row], mine)]
            elif kind != "set":
                shown = [(pair,) for pair in combinations(mine, 2)] if kind == "pair" else [((text,),) for text in mine]
            found.append([Material(context, sets) for sets in shown])
        return found

    def _others(self, batch: Batch) -> list[tuple[str, ...]]:
        """The set of `against` with the same id, for every set."""
        path = split_hash(file_with_hash(self.against, "sets"))[0]
        known = _sets_by_id(path, self.against)
        found = []
        for id, context in zip(batch.sets.ids.to_list(), batch.contexts(), strict=True):
            if id not in known:
                raise DataError(f"has no set '{id}'; expected one for every set that is judged, by its id", file=path)
            other, texts = known[id]
            if other and context and other != context:
                raise DataError(f"set '{id}' answers another context; expected sets with equal contexts", file=path)
            found.append(texts)
        return found

    def _name_unread(self, batch: Batch, answers: Sequence[Sequence[JudgeRatings]]) -> None:
        ids = batch.sets.ids.to_list()
        last_words = (next((text for one in group for text in one.unread), None) for group in answers)
        unread = [(id, words) for id, words in zip(ids, last_words, strict=True) if words is not None]
        if not unread:
            return
        from nlgauge.models.judge.asking import ATTEMPTS

        names = ", ".join(f"'{id}'" for id, _ in unread[:_NAMED]) + (", …" if len(unread) > _NAMED else "")
        warnings.warn(
            f"{self.name}: no readable answer about {len(unread)} of {len(ids)} sets in {ATTEMPTS} attempts, so they "
            f"have no value and are excluded: {names}; the last answer about the first: {unread[0][1]}",
            stacklevel=2,
        )


@lru_cache(maxsize=2)
def _sets_by_id(path: str, identity: str) -> Mapping[str, tuple[str, tuple[str, ...]]]:  # noqa: ARG001 - has the hash
    """Context and texts of every set of a file."""
    from nlgauge.data.reading import Source

    table = Source(path=path, extras=()).read()
    sets: ResponseSets = table.as_sets() if isinstance(table, Items) else table
    batch = Batch(sets)
    rows = zip(sets.ids.to_list(), batch.contexts(), batch.texts_of_sets, strict=True)
    found = {id: (context, tuple(texts)) for id, context, texts in rows}
    if len(found) < len(sets):
        raise DataError(
            f"has {len(sets)} sets with {len(found)} different ids; expected an id of its own for each", file=path
        )
    return found


def _mean(answers: Sequence[JudgeRatings]) -> float:
    if not all(one.complete for one in answers):
        return math.nan
    values = [value for one in answers for value in one.values]
    return math.fsum(values) / len(values)


def _preference(answers: Sequence[JudgeRatings]) -> tuple[float, float]:
    """The share of answers for the set that stands first in the first material, and of samples that changed sides."""
    forward, backward = answers
    if not (forward.complete and backward.complete):
        return math.nan, math.nan
    first = [value == 1 for value in forward.values]
    second = [value == 2 for value in backward.values]
    flips = [a != b for a, b in zip(first, second, strict=True)]
    return (sum(first) + sum(second)) / (2 * len(first)), sum(flips) / len(flips)
