"""Statistics of a running study for the researcher: pure functions over a snapshot.

Agreement and stability are computed by the studies of these names on the valid ratings so far; agreement is the
result of `nlgauge study agreement` on the exported ratings. Stability is how well fewer ratings reproduce the order of
all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, pvariance
from typing import Any

import polars as pl

from nlgauge.annotate.database.records import DONE, Assignment, Snapshot, Study
from nlgauge.annotate.exporting import ratings as exported_ratings
from nlgauge.data.tables import Ratings
from nlgauge.errors import DataError, OptionError
from nlgauge.studies.base import Result
from nlgauge.studies.diversity.stability import TOLERANCE, Stability
from nlgauge.studies.human import human_scores
from nlgauge.studies.story.agreement import AgreementStudy

RESAMPLES = 1000
REPEATS = 20
FEWEST_ITEMS = 5
_SHARES = (0.25, 0.5, 0.75, 1.0)
_MOST_COUNTS = 5
_TRUTH = "score of all ratings"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of the study, in assignments of normal units.

    `wanted` is units times raters. `units_by_ratings` is the number of units with 0, 1, 2, … valid ratings. A unit is
    done when it has the wanted number; overruled rejections can add more.
    """

    units: int
    units_done: int
    units_by_ratings: Mapping[int, int]
    wanted: int
    valid: int
    leased: int
    rejected: int
    expired: int
    left: int
    median_seconds: float | None
    mean_seconds: float | None

    @property
    def share(self) -> float:
        """The finished share, from 0 to 1, rounded down to a percent: 1 means that nothing is left."""
        return 100 * (self.wanted - self.left) // self.wanted / 100


@dataclass(frozen=True, kw_only=True)
class QuestionAgreement:
    """Krippendorff's alpha of one question with its interval; if there is none, `reason` says why."""

    question: str
    alpha: float | None = None
    interval: tuple[float, float] | None = None
    raters: int = 0
    items: int = 0
    ratings: int = 0
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class RaterRow:
    """One rater: their submissions and verdicts, and their correlation with the others.

    `assignments` counts submissions, gold and attention included; `valid` and `rejected` are subsets.
    `rules` counts the verdicts in force by rule; `verdicts` are their ids, oldest first. `correlation` is the mean
    over questions of Pearson's correlation with the mean of the others.
    """

    id: int
    pseudonym: str
    platform: str
    state: str
    assignments: int
    valid: int
    rejected: int
    rules: Mapping[str, int]
    verdicts: tuple[int, ...]
    median_seconds: float | None
    correlation: float | None
    last_seen_at: float


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Money, fees included: for valid work of every kind so far, and for the ratings that are still missing.

    Rejected work is counted separately, since it may or may not be paid. Future gold and attention units are not
    included.
    """

    currency: str
    pay: float
    fees: float
    so_far: float
    rejected: float
    to_finish: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The expected result of a study with this number of items and of ratings per item.

    `spearman` is the rank correlation with the scores of all ratings, the mean over random draws; `spearman_sd` is its
    standard deviation.
    """

    items: int
    ratings: int
    spearman: float
    spearman_sd: float
    stable: bool


@dataclass(frozen=True, kw_only=True)
class QuestionStability:
    """More raters or more items? Plans for one question (paper 1, section 6.4), and the advice."""

    question: str
    plans: tuple[Plan, ...] = ()
    advice: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class RaterValue:
    """The rating of one rater."""

    rater: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Disputed:
    """An item on which raters differ, with the texts and each rater's answer. `pair` names two texts of a set."""

    item: str
    question: str
    pair: str
    mean: float
    variance: float
    ratings: tuple[RaterValue, ...]
    context: str
    texts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """All statistics of a study snapshot."""

    study: str
    state: str
    taken_at: float
    progress: Progress
    agreement: tuple[QuestionAgreement, ...]
    raters: tuple[RaterRow, ...]
    cost: Cost
    stability: tuple[QuestionStability, ...]
    disagreement: tuple[Disputed, ...]


def dashboard(
    snapshot: Snapshot,
    study: Study,
    *,
    fees: float = 0.0,
    resamples: int = RESAMPLES,
    repeats: int = REPEATS,
    most: int = 50,
) -> Dashboard:
    """All numbers about a study. `fees` is the platform's share on top of the pay, such as 0.2.

    `resamples` are those of alpha's interval, `repeats` the draws of each plan, `most` how many disputed items to list.
    """
    if snapshot.study.id != study.id:
        raise OptionError(f"a snapshot of '{snapshot.study.name}' for study '{study.name}'; expected the same study")
    if not 0 <= fees <= 10:
        raise OptionError(f"fees of {fees:g}; expected a share of the pay, such as 0.2")
    done = progress(snapshot)
    questions = _by_question(snapshot)
    agreement = [_agreement(question, table, resamples, study.seed) for question, table in questions.items()]
    return Dashboard(
        study=study.name,
        state=snapshot.study.state,
        taken_at=snapshot.taken_at,
        progress=done,
        agreement=tuple(row for row, _ in agreement),
        raters=tuple(_rater_rows(snapshot, _correlations([found for _, found in agreement]))),
        cost=cost(snapshot, done, fees),
        stability=tuple(_stability(question, table, repeats, study) for question, table in questions.items()),
        disagreement=tuple(disagreement(snapshot, most)),
    )


def progress(snapshot: Snapshot) -> Progress:
    """The progress of the study."""
    raters = snapshot.study.settings.raters
    normal = {one.id for one in snapshot.units if one.unit.kind == "normal"}
    mine = [one for one in snapshot.assignments if one.unit_id in normal]
    states = Counter(one.state for one in mine)
    valid = Counter(one.unit_id for one in mine if one.state in DONE)
    by_ratings = Counter(valid[id] for id in normal)
    seconds = [one.seconds for one in mine if one.seconds is not None]
    return Progress(
        units=len(normal),
        units_done=sum(count for ratings, count in by_ratings.items() if ratings >= raters),
        units_by_ratings={ratings: by_ratings[ratings] for ratings in range(max(raters, *by_ratings) + 1)},
        wanted=len(normal) * raters,
        valid=sum(valid.values()),
        leased=states["leased"],
        rejected=states["rejected"],
        expired=states["expired"],
        left=sum(max(raters - valid[id], 0) for id in normal),
        median_seconds=median(seconds) if seconds else None,
        mean_seconds=fmean(seconds) if seconds else None,
    )


def cost(snapshot: Snapshot, done: Progress, fees: float = 0.0) -> Cost:
    """The cost of the study so far, and in total; qualification is unpaid."""
    settings = snapshot.study.settings
    unpaid = {one.id for one in snapshot.units if one.unit.kind == "qualification"}
    paid = [one for one in snapshot.assignments if one.unit_id not in unpaid and one.submitted_at is not None]
    each = settings.pay * (1 + fees)
    return Cost(
        currency=settings.currency,
        pay=settings.pay,
        fees=fees,
        so_far=each * sum(one.state in DONE for one in paid),
        rejected=each * sum(one.state == "rejected" for one in paid),
        to_finish=each * done.left,
    )


def disagreement(snapshot: Snapshot, most: int = 50, question: str = "") -> list[Disputed]:
    """Items by the variance of their ratings, the largest first; those with fewer than two ratings are left out.

    Scales differ in width, and so do their variances: `question` selects the items of one question.
    """
    texts = {
        item.id: (one.unit.context or item.context, item.texts) for one in snapshot.units for item in one.unit.items
    }
    given: dict[tuple[str, str, str], list[RaterValue]] = defaultdict(list)
    for name, table in _by_question(snapshot).items():
        if isinstance(table, str) or question not in ("", name):
            continue
        for row in table.frame.iter_rows(named=True):
            key = (row["item"], row["question"], row.get("pair") or "")
            given[key].append(RaterValue(rater=row["rater"], value=row["value"]))
    found = []
    for (item, question, pair), values in given.items():
        if len(values) < 2:
            continue
        context, shown = _texts_of(item, pair, texts)
        numbers = [one.value for one in values]
        found.append(
            Disputed(
                item=item,
                question=question,
                pair=pair,
                mean=fmean(numbers),
                variance=pvariance(numbers),
                ratings=tuple(sorted(values, key=lambda one: (one.value, one.rater))),
                context=context,
                texts=shown,
            )
        )
    return sorted(found, key=lambda one: (-one.variance, one.question, one.item, one.pair))[:most]


def _by_question(snapshot: Snapshot) -> dict[str, Ratings | str]:
    """The valid ratings of every exported question separately, or the reason why there are none."""
    found: dict[str, Ratings | str] = {}
    for question in snapshot.study.form.questions:
        if not question.export or question.widget == "text":
            continue
        try:
            table = exported_ratings(snapshot, questions=[question.id])
        except DataError as error:
            found[question.id] = error.message
            continue
        for name in table.frame["question"].unique(maintain_order=True).to_list():
            found[str(name)] = Ratings(table.frame.filter(pl.col("question") == name))
    return found


def _agreement(
    question: str, table: Ratings | str, resamples: int, seed: int
) -> tuple[QuestionAgreement, Result | None]:
    if isinstance(table, str):
        return QuestionAgreement(question=question, reason=table), None
    frame = table.frame
    counts: dict[str, Any] = {
        "raters": frame["rater"].n_unique(),
        "items": frame["item"].n_unique(),
        "ratings": frame.height,
    }
    try:
        span = (0.0, 10.0) if "assignment" in frame.columns else None
        found = AgreementStudy(leave_one_out=True, rescale=span, resamples=resamples, seed=seed).run(table)
    except DataError as error:
        return QuestionAgreement(question=question, reason=error.message, **counts), None
    alpha, (low, high) = found.rows[0]["alpha"], found.rows[0]["alpha_ci"]
    return QuestionAgreement(question=question, alpha=alpha, interval=(low, high), **counts), found


def _correlations(found: Sequence[Result | None]) -> dict[str, float]:
    """By pseudonym, the mean over questions of the correlation with the others."""
    given: dict[str, list[float]] = defaultdict(list)
    for one in found:
        if one is not None:
            for rater, value in one.tables["raters"].select("rater", "correlation").iter_rows():
                if value is not None:
                    given[rater].append(value)
    return {rater: fmean(values) for rater, values in given.items()}


def _rater_rows(snapshot: Snapshot, correlations: Mapping[str, float]) -> list[RaterRow]:
    handed_in: dict[int, list[Assignment]] = defaultdict(list)
    for one in snapshot.assignments:
        if one.submitted_at is not None or one.state == "rejected":
            handed_in[one.rater_id].append(one)
    standing = [verdict for verdict in snapshot.verdicts if verdict.overruled_at is None]
    rows = []
    for rater in snapshot.raters:
        mine = handed_in[rater.id]
        seconds = [one.seconds for one in mine if one.seconds is not None]
        against = [verdict for verdict in standing if verdict.rater_id == rater.id]
        rows.append(
            RaterRow(
                id=rater.id,
                pseudonym=rater.pseudonym,
                platform=rater.platform,
                state=rater.state,
                assignments=len(mine),
                valid=sum(one.state in DONE for one in mine),
                rejected=sum(one.state == "rejected" for one in mine),
                rules=dict(sorted(Counter(verdict.rule for verdict in against).items())),
                verdicts=tuple(verdict.id for verdict in against),
                median_seconds=median(seconds) if seconds else None,
                correlation=correlations.get(rater.pseudonym),
                last_seen_at=rater.last_seen_at,
            )
        )
    return rows


def _stability(question: str, table: Ratings | str, repeats: int, study: Study) -> QuestionStability:
    """Draw fewer items and fewer ratings, and correlate their scores with those of all ratings."""
    if isinstance(table, str):
        return QuestionStability(question=question, reason=table)
    most, items = _equally_rated(table)
    if len(items) < FEWEST_ITEMS:
        reason = f"{len(items)} items have 2 ratings or more; expected at least {FEWEST_ITEMS}"
        return QuestionStability(question=question, reason=reason)
    table = Ratings(table.frame.filter(pl.col("item").is_in(items)))
    scores = human_scores(table, items)[0][1]
    step, half = max(1, -(-most // _MOST_COUNTS)), max(1, most // 2)
    try:
        found = Stability(
            ratings=table,
            truth=_TRUTH,
            sets=sorted({max(3, round(len(items) * share)) for share in _SHARES}),
            per_set=sorted({*range(1, most + 1, step), half, most}),
            repeats=max(10, repeats),
            price=study.settings.pay,
            seed=study.seed,
        ).run(pl.DataFrame({"id": items, _TRUTH: scores}))
    except DataError as error:
        return QuestionStability(question=question, reason=error.message)
    same = ("ratings", "spearman", "spearman_sd", "stable")
    plans = tuple(Plan(items=row["sets"], **{name: row[name] for name in same}) for row in found.rows)
    return QuestionStability(question=question, plans=plans, advice=_advice(plans, len(items), half))


def _equally_rated(table: Ratings) -> tuple[int, list[str]]:
    """A number of ratings, and the items with that number: the choice that uses the most ratings.

    While raters work, some items have fewer ratings than others. An item with one rating correlates perfectly with
    itself, which would suggest that one is enough.
    """
    keys = ["item", "pair"] if "pair" in table.frame.columns else ["item"]
    counts = dict(table.frame.group_by(keys).len().group_by("item").agg(pl.col("len").min()).iter_rows())
    choices = {count: sorted(item for item in counts if counts[item] >= count) for count in set(counts.values())}
    usable = [count for count in choices if count >= 2 and len(choices[count]) >= FEWEST_ITEMS]
    if not usable:
        return 0, sorted(item for item in counts if counts[item] >= 2)
    most = max(usable, key=lambda count: (count * len(choices[count]), count))
    return most, choices[most]


def _advice(plans: Sequence[Plan], items: int, half: int) -> str:
    """Advice from the correlation of half of the ratings with all.

    If half of them order all items nearly as all ratings do (within .05, so that the mean of half of them has a
    reliability of about .8), there are enough ratings; if that depends on the drawn items, more items are needed.
    """
    plan = next(plan for plan in plans if plan.items == items and plan.ratings == half)
    follows = f"rho {plan.spearman:.2f}, standard deviation {plan.spearman_sd:.2f}"
    found = f"{half} per item follow{'s' * (half == 1)} the order of all ratings on {items} items with {follows}"
    if plan.spearman < 1 - TOLERANCE:
        return f"more ratings per item: {found}"
    return f"enough of both: {found}" if plan.stable else f"more items: {found}"


def _texts_of(item: str, pair: str, texts: Mapping[str, tuple[str, tuple[str, ...]]]) -> tuple[str, tuple[str, ...]]:
    """The context and the texts of a rating; for compared items, all their texts."""
    if item in texts:
        context, shown = texts[item]
        return context, tuple(shown[int(place)] for place in pair.split("-")) if pair else shown
    parts = [texts[one] for one in item.split(">") if one in texts]
    return (parts[0][0] if parts else ""), tuple(text for _, shown in parts for text in shown)
