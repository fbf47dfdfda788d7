"""A tester without a model: one's own responses, and their paraphrases by the perturbation library."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, ClassVar

from nlgauge.configured import check_that, option
from nlgauge.errors import DataError, argument
from nlgauge.perturb.base import Perturbation, Perturbed, draw_for
from nlgauge.perturb.registry import create_perturbations
from nlgauge.perturb.resources.grammar import create_grammar
from nlgauge.perturb.story import Story, parse_all
from nlgauge.studies.testers.base import NEAR_COPY, Context, LeftOut, Outcome, Response, Tester, WrittenPair
from nlgauge.text.near_copies import likeness, normalised

_TOO_FEW = "too few responses that differ"
_NO_WORDINGS = "no response that can be said in so many ways"


@dataclass(frozen=True, kw_only=True)
class DataTester(Tester):
    """Responses of your data: different ones for the high set; one, paraphrased by word tables, for the low set.

    The high set takes responses by different writers (column `system`) as far as there are any, else at random, without
    near-copies. The low set is one of them and versions by chains of perturbations that keep the meaning, those that
    differ most in form. Few words change, so that its form is far less diverse than that of the high set: such a test
    does not isolate content (docs/content_test.md).
    """

    name: ClassVar[str] = "data"

    aspects: Sequence[str] = option(
        ("paraphrases:bleu=1", "synonyms:most=5", "contractions", "punctuation"),
        "Perturbations that keep the meaning, with their options; repeat for more.",
    )
    versions: int = option(24, "Chains of perturbations that are tried on a response.")
    grammar: str = option("none", "What drops ungrammatical versions: link-grammar, classifier:model=NAME or none.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.versions >= 1, "versions", self.versions, "1 or more")

    @property
    def perturbations(self) -> list[Perturbation]:
        """Those that were named."""
        return create_perturbations(self.aspects)

    @property
    def advice(self) -> str:
        """What to try where nothing was written."""
        return (
            "expected several different responses per context, one of them long enough to rephrase: give more (several "
            "files may share contexts), ask for fewer per set, or take another tester"
        )

    def prepare(self, contexts: Sequence[Context], size: int) -> None:
        """Refuse data without responses, and a machine that lacks a perturbation's resources."""
        most = max((len(context.responses) for context in contexts), default=0)
        if most == 0:
            raise DataError(
                "found contexts without responses; the tester 'data' requires responses to each context: name their "
                "column, or use another tester, such as model:model=smollm2"
            )
        if most < size:
            raise DataError(
                f"found at most {most} responses to a context; a high set requires {size} that differ: give more "
                f"(several files may share contexts), or ask for fewer ({argument('responses_per_set')})"
            )
        for one in self.perturbations:
            one.prepare()
        create_grammar(self.grammar).prepare()

    def identity(self) -> dict[str, Any]:
        """The options, and what the perturbations are made of."""
        return {"tester": str(self.signature), "perturbations": [str(one.signature) for one in self.perturbations]}

    def write(self, contexts: Sequence[Context], size: int, seed: int) -> list[Outcome]:
        """Both sets to each context."""
        stories = [Story(response.text) for context in contexts for response in context.responses]
        parse_all(stories)
        for one in self.perturbations:
            one.warm(stories)
        return [self._write(context, size, seed) for context in contexts]

    def _write(self, context: Context, size: int, seed: int) -> Outcome:
        draw = draw_for(seed, "high", context.text)
        high = different(context.responses, size, draw)
        if len(high) < size:
            found = f"{len(high)} of {len(context.responses)} to '{context.text[:60]}', {size} expected"
            return LeftOut(_TOO_FEW, found)
        others = [one for one in context.responses if one not in high]
        draw = draw_for(seed, "low", context.text)
        for base in [*draw.sample(high, len(high)), *draw.sample(others, len(others))]:
            versions = dict(self._versions(base.text, seed))
            low = farthest(base.text, list(versions), size)
            if len(low) == size:
                rules = sorted({name for text in low[1:] for name in versions[text]})
                return WrittenPair(
                    tuple(one.text for one in high), tuple(low), _writers(high), _writers([base], "+".join(rules))
                )
        return LeftOut(_NO_WORDINGS, f"to '{context.text[:60]}'")

    def _versions(self, text: str, seed: int) -> Iterator[tuple[str, list[str]]]:
        """Texts that say the same, each with the perturbations that made it."""
        judge, known = create_grammar(self.grammar), {normalised(text)}
        perturbations = self.perturbations
        for version in range(self.versions):
            draw = draw_for(seed, "version", version, text)
            chain = draw.sample(perturbations, draw.randint(1, len(perturbations)))
            made, rules = text, list[str]()
            for one in chain:
                outcome = one(made, seed=seed, version=version)
                if isinstance(outcome, Perturbed) and "ungrammatical" not in judge.judge_changes([outcome]):
                    made, rules = some_changed(made, outcome.text, draw), [*rules, one.name]
            if normalised(made) not in known:
                known.add(normalised(made))
                yield made, rules


def some_changed(text: str, other: str, draw: random.Random) -> str:
    """A text with some of the stretches of words in which the other differs: one at least, perhaps all.

    Words that are only inserted or left out belong to a phrase with their neighbours ("need" becomes "am in need of"),
    and change together with a stretch that is at most one word away.
    """
    old, new = text.split(" "), other.split(" ")
    parts = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    groups: list[list[int]] = []
    for place, (kind, *_) in enumerate(parts):
        if kind == "equal":
            continue
        before = groups[-1][-1] if groups else None
        near = before is not None and parts[place][1] - parts[before][2] <= 1
        if before is not None and near and (kind != "replace" or parts[before][0] != "replace"):
            groups[-1].append(place)
        else:
            groups.append([place])
    taken = {place for group in draw.sample(groups, draw.randint(1, len(groups))) for place in group}
    words = (new[c:d] if place in taken else old[a:b] for place, (_, a, b, c, d) in enumerate(parts))
    return " ".join(word for part in words for word in part)


def different(responses: Sequence[Response], size: int, draw: random.Random) -> list[Response]:
    """At most so many responses, by as many writers as possible, of which no two are near-copies."""
    by_writer: dict[str, list[Response]] = {}
    for one in draw.sample(list(responses), len(responses)):
        by_writer.setdefault(one.writer, []).append(one)
    chosen: list[Response] = []
    while len(chosen) < size and any(by_writer.values()):
        for mine in by_writer.values():
            while mine and len(chosen) < size:
                one = mine.pop()
                if normalised(one.text) and all(likeness(one.text, other.text) < NEAR_COPY for other in chosen):
                    chosen.append(one)
                    break
    return chosen


def farthest(base: str, versions: Sequence[str], size: int) -> list[str]:
    """A text and those versions of it that differ most from it and from each other, one after another."""
    chosen, left = [base], list(versions)
    while left and len(chosen) < size:
        nearest = {text: max(likeness(text, other) for other in chosen) for text in left}
        best = min(left, key=lambda text: nearest[text])
        chosen.append(best)
        left.remove(best)
    return chosen


def _writers(responses: Sequence[Response], rules: str = "") -> str:
    """Who made a set: the writers of its responses, or chance; and the perturbations that rephrased it."""
    names = sorted({one.writer for one in responses} - {""})
    by = ", ".join(names) or "the data, at random"
    return f"{by}, rephrased by {rules}" if rules else by
