"""From contexts to a content test: labelled sets by each tester, form-neutral ones, and the table of the study."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from nlgauge.configured import Configured, check_that, option
from nlgauge.data.writing import write_table
from nlgauge.engine.progress import progress_bar
from nlgauge.engine.run_folder import RunFolder
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.studies.base import Result
from nlgauge.studies.diversity.content import ContentTest
from nlgauge.studies.diversity.nuggets import Nuggets
from nlgauge.studies.tasks import FEWEST_SETS, metrics_option
from nlgauge.studies.testers.base import TESTERS, Context, LeftOut, Outcome, Tester, WrittenPair

METRICS = ("distinct", "sent-sim", "content")
_RUN = "run"
_LEAST = 2
_GROUP, _SMALLEST, _GROUPS = 40, 4, 10
_ENOUGH = 20
_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("id", "context_id", "context"), pl.String),
    "responses": pl.List(pl.String),
    "content_diversity": pl.Int64,
    **dict.fromkeys(("tester", "made_by"), pl.String),
}


@dataclass(frozen=True, kw_only=True)
class ContentTestPlan(Configured):
    """Everything that decides which sets are written and what is measured on them."""

    name: ClassVar[str] = "content-test"

    tester: Sequence[str] = option(
        ("data",),
        "Who writes: data (your responses and their paraphrases), model:model=NAME, with options; repeat for more.",
        metavar="TESTER[:OPTION=VALUE,...]",
        flags=("--tester", "-t"),
    )
    responses_per_set: int = option(5, "Responses per set.", metavar="N")
    metrics: Sequence[str] = metrics_option(f"A metric that is tested; repeat for more. Default: {', '.join(METRICS)}.")
    group_size: int = option(
        0, "Nuggets: sets in each group of similar form; 0: 40, or a tenth of fewer than 400 sets.", metavar="N"
    )
    seed: int = option(12345, "Seed of every random step.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.responses_per_set >= _LEAST, "responses_per_set", self.responses_per_set, "2 or more")
        check_that(self.seed >= 0, "seed", self.seed, "0 or more")
        fits = self.group_size == 0 or self.group_size >= _LEAST
        check_that(fits, "group_size", self.group_size, "0 (by the number of sets) or at least 2 sets per group")
        names = [TESTERS.parse(spec)[0] for spec in self.tester]
        if twice := [name for name in names if names.count(name) > 1]:
            raise OptionError(
                f"{argument('tester', twice[0])} is duplicated; expected each once: other options go to another folder"
            )

    def nuggets_of(self, sets: int) -> Nuggets:
        """The study that balances form: groups of 40 as in paper 1, smaller ones of few sets, or of the size given."""
        size = self.group_size or min(_GROUP, max(_SMALLEST, sets // _GROUPS))
        return Nuggets(group_size=size, seed=self.seed)

    def testers(self) -> list[Tester]:
        """The testers that were named."""
        return [TESTERS.create(spec) for spec in self.tester]


@dataclass(frozen=True)
class Made:
    """The sets of a tester, and how many contexts were left out, by reason."""

    tester: Tester
    sets: pl.DataFrame
    left_out: Counter[str]


def write_sets(
    tester: Tester, contexts: Sequence[Context], plan: ContentTestPlan, folder: Path, *, progress: bool = False
) -> Made:
    """The sets of a tester, high and low per context, also in `folder/TESTER.jsonl`.

    Finished contexts are kept in `folder/run/TESTER`, so that the same call continues after any interruption and gives
    the same file.
    """
    run = RunFolder(folder / _RUN / tester.name)
    size, step = plan.responses_per_set, tester.contexts_at_once
    with run.held():
        about = json.dumps([_about(one) for one in contexts], ensure_ascii=False).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(about, digest_size=16).hexdigest()
        counts = {"contexts": len(contexts), "digest of contexts": digest, "responses": size, "seed": plan.seed}
        run.begin({**tester.identity(), **counts})
        outcomes: list[Outcome] = []
        with progress_bar(f"writing {tester.name} sets", len(contexts), show=progress) as advance:
            for number, start in enumerate(range(0, len(contexts), step)):
                part, piece = contexts[start : start + step], f"{number:06}"
                if not run.is_done(piece):
                    run.save(piece, _as_frame(tester.write(part, size, plan.seed)))
                outcomes += _from_frame(run.load(piece))
                advance(len(outcomes))
    written = [(one, made) for one, made in zip(contexts, outcomes, strict=True) if isinstance(made, WrittenPair)]
    left_out = [one for one in outcomes if isinstance(one, LeftOut)]
    if not written:
        raise tester.none_written(left_out)
    frame = pl.DataFrame([row for one, made in written for row in _rows(one, made, tester)], schema=_SCHEMA)
    write_table(frame, folder / f"{tester.name}.jsonl")
    return Made(tester, frame, Counter(one.reason for one in left_out))


def build_content_test(
    contexts: Sequence[Context], plan: ContentTestPlan, folder: Path, *, progress: bool = False
) -> Result:
    """Sets by every tester, their nuggets, and the content test of the metrics on both; notes say who wrote what."""
    testers = plan.testers()
    for tester in testers:
        tester.prepare(contexts, plan.responses_per_set)
    made = [write_sets(tester, contexts, plan, folder, progress=progress) for tester in testers]
    tasks: dict[str, pl.DataFrame] = {}
    notes: list[str] = []
    for one in made:
        name = one.tester.name
        if len(one.sets) < FEWEST_SETS:
            found = f"the tester '{name}' wrote sets to {len(one.sets) // 2} of {len(contexts)} contexts"
            raise DataError(f"{found}; expected at least {FEWEST_SETS} sets: give more contexts")
        tasks[name] = one.sets
        kept, about = _nuggets(one, plan, folder)
        notes += [*_notes(one, len(contexts)), *about]
        if kept is not None:
            tasks[f"{name} nuggets"] = kept
    study = ContentTest(metrics=plan.metrics or METRICS, tasks=tuple(tasks), seed=plan.seed, significance=False)
    result = study.run(list(tasks.values()), progress=progress)
    return replace(result, notes=(*notes, *result.notes))


def _about(context: Context) -> list[Any]:
    return [context.id, context.text, [[one.text, one.writer] for one in context.responses]]


def _rows(context: Context, made: WrittenPair, tester: Tester) -> list[dict[str, Any]]:
    """The two rows of a context."""
    common = {"context_id": context.id, "context": context.text, "tester": tester.name}
    high = {"responses": list(made.high), "content_diversity": 1, "made_by": made.high_by}
    low = {"responses": list(made.low), "content_diversity": 0, "made_by": made.low_by}
    return [{"id": f"{context.id}-{tester.name}-{name}"} | common | one for name, one in (("high", high), ("low", low))]


def _as_frame(outcomes: Sequence[Outcome]) -> pl.DataFrame:
    """Outcomes as a piece of the run keeps them."""
    rows = [
        {"high": list(one.high), "low": list(one.low), "high_by": one.high_by, "low_by": one.low_by}
        if isinstance(one, WrittenPair)
        else {"reason": one.reason, "detail": one.detail}
        for one in outcomes
    ]
    texts = dict.fromkeys(("high", "low"), pl.List(pl.String))
    return pl.DataFrame(rows, schema={**texts, **dict.fromkeys(("high_by", "low_by", "reason", "detail"), pl.String)})


def _from_frame(frame: pl.DataFrame) -> list[Outcome]:
    return [
        WrittenPair(tuple(row["high"]), tuple(row["low"]), row["high_by"], row["low_by"])
        if row["reason"] is None
        else LeftOut(row["reason"], row["detail"])
        for row in frame.iter_rows(named=True)
    ]


def _nuggets(made: Made, plan: ContentTestPlan, folder: Path) -> tuple[pl.DataFrame | None, list[str]]:
    """The sets of similar form, also in `folder/TESTER-nuggets.jsonl`, and what is to be known about them."""
    name = made.tester.name
    try:
        result = plan.nuggets_of(len(made.sets)).run(made.sets, progress=False)
    except DataError as error:
        return None, [f"{name}: no nuggets: {error.message.partition(';')[0]}"]
    kept, (row,) = result.tables["kept"], result.rows
    if len(kept) < FEWEST_SETS:
        return None, [f"{name}: no nuggets: {len(kept)} sets are left, fewer than {FEWEST_SETS}"]
    write_table(kept, folder / f"{name}-nuggets.jsonl")
    return kept, list(_about_form(name, row))


def _about_form(name: str, row: Mapping[str, Any]) -> Iterator[str]:
    """Whether form alone separates the classes, on all sets and on the nuggets."""
    before, after, metric = row["spearman_before_ci"], row["spearman_ci"], row["metric"]
    if before is not None and before[0] > 0:
        found = _shown(row["spearman_before"], before)
        yield (
            f"{name}: form follows the label: rho of {metric} is {found} on all sets, so that only the nuggets can "
            "show whether a metric sees content"
        )
    if row["kept"] < _ENOUGH:
        yield (
            f"{name}: {row['kept']} of {row['n']} sets are nuggets, whose form both classes share: too few to show "
            "much; give more contexts, or another tester"
        )
    elif after is not None and after[0] > 0:
        yield (
            f"{name}: form still follows the label on the nuggets (rho of {metric} {_shown(row['spearman'], after)}): "
            "a metric may separate the classes without seeing content"
        )


def _shown(value: float, interval: Sequence[float]) -> str:
    return f"{value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


def _notes(made: Made, contexts: int) -> list[str]:
    """How many contexts have sets, and why others have none."""
    reasons = ", ".join(f"{count} {reason}" for reason, count in made.left_out.most_common())
    left = f"; left out: {reasons}" if reasons else ""
    return [f"{made.tester.name}: sets to {len(made.sets) // 2} of {contexts} contexts{left}"]
