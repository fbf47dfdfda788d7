"""Measures that only need to know how many n-grams there are and how many differ: distinct, EAD, TTR, entropy."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from nlgauge.arrays import Array
from nlgauge.configured import option
from nlgauge.data.reading import Source
from nlgauge.engine.cache import Cache, file_digest
from nlgauge.engine.scratch import scratch_folder
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.metrics.base import OVER, Metric, Shares, WordingMetric, refuse
from nlgauge.metrics.batch import JACKKNIFE_GROUPS, Batch
from nlgauge.metrics.orders import Orders
from nlgauge.metrics.score import Bounds, Direction, Score
from nlgauge.metrics.tokenizers import in_files, named_tokenizer
from nlgauge.stats.inference import Inference
from nlgauge.stats.jackknife import LeftOut, added_keys, jackknife_interval
from nlgauge.stats.means import within
from nlgauge.text.census import Census, Sketch, Summary
from nlgauge.text.tokens import Tokenizer

BERT_VOCABULARY = 30522
SKETCH = "hll-16"
TOKENIZER = "Tokeniser: space, space-nodot, word, 13a, char, wordpiece (BERT's), or hf:FILE, a tokenizer.json."
CASE = "Keep upper and lower case apart, or put all in lower case."
ORDERS = "N-gram orders; scores of several orders are averaged."


@dataclass(frozen=True, kw_only=True)
class TokenOptions(Metric):
    """Options of every measure that works on tokens."""

    tok: str = option("space", TOKENIZER)
    case: Literal["keep", "lower"] = option("keep", CASE)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "tok", named_tokenizer(self.tok))

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokeniser that the options name."""
        return Tokenizer(in_files(self.tok), lower=self.case == "lower")


@dataclass(frozen=True, kw_only=True)
class OrderOptions(TokenOptions):
    """Options of every measure that averages orders of n-grams."""

    n: Orders = option(Orders("1-5"), ORDERS)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "n", Orders(self.n))

    def part_names(self) -> tuple[str, ...]:
        """One part per order."""
        return tuple(f"n={n}" for n in self.n)


@dataclass(frozen=True)
class CorpusStats:
    """A census or sketch of n-grams, with the number of texts in each group (in one group when not grouped).

    `keys` are digests of what is in each group.
    """

    texts: Array
    grams: Census | Sketch
    keys: Array | None = None

    def __add__(self, other: CorpusStats) -> CorpusStats:
        grams = self.grams + other.grams  # type: ignore[operator]
        return CorpusStats(self.texts + other.texts, grams, added_keys(self.keys, other.keys))


@dataclass(frozen=True, kw_only=True)
class NgramMeasure(OrderOptions, WordingMetric):
    """A measure of the n-grams of each set, or of the whole corpus.

    `over=corpus` pools everything into one value; `count=hll-16` then estimates in one pass and little memory.
    """

    direction: ClassVar[Direction] = Direction.MORE_DIVERSE
    _keeps_counts: ClassVar[bool] = False

    over: Literal["set", "corpus"] = option("set", OVER)
    count: str = option(
        "exact", "With over=corpus: count n-grams exactly, or estimate in little memory (hll-4 to hll-18)."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(
            "count",
            self.count != "exact" and self.over == "set",
            f"{self.name}: count={self.count} requires over=corpus; a set is always counted exactly",
        )
        refuse(
            "count",
            self.count != "exact" and self.precision is None,
            f"{self.name}:count={self.count}; expected exact or hll-4 to hll-18",
        )

    @property
    def precision(self) -> int | None:
        """Precision of the sketch, None when counting exactly."""
        head, _, digits = self.count.partition("-")
        return int(digits) if head == "hll" and digits.isdigit() and 4 <= int(digits) <= 18 else None

    def savings(self) -> tuple[str, ...]:
        """An estimate, or fewer orders, where a corpus is counted exactly."""
        if self.level != "corpus" or self.count != "exact":
            return ()
        return (*(() if self._keeps_counts else (f"count={SKETCH}",)), "fewer n-gram orders (n=1-2)")

    def relevant_options(self) -> Mapping[str, Any]:
        """All options but `count` where it says nothing."""
        shown = dict(super().relevant_options())
        if self.over == "set":
            del shown["count"]
        return {key: shown[key] for key in ("n", "over", "count") if key in shown} | shown

    @abstractmethod
    def of_summary(self, summary: Summary, n: int) -> float:
        """The measure of a corpus, for one order."""

    def left_out(self, summaries: list[Summary], texts: Array) -> LeftOut | None:  # noqa: ARG002 - for subclasses
        """Values with each group of texts left out; None where they cannot be known."""
        return None

    def collect_corpus(self, batch: Batch) -> CorpusStats:
        """A census or sketch of n-grams."""
        tokens = batch.tokens(self.tokenizer)
        if self.precision is not None:
            return CorpusStats(np.array([len(tokens)]), Sketch.of(tokens, self.n, self.precision))
        groups = None if self._keeps_counts else batch.text_groups()
        census = Census.of(
            tokens,
            self.n,
            text_groups=groups,
            groups=0 if groups is None else JACKKNIFE_GROUPS,
            counts=self._keeps_counts,
        )
        texts = np.array([len(tokens)]) if groups is None else np.bincount(groups, minlength=JACKKNIFE_GROUPS)
        return CorpusStats(texts, census, None if groups is None else batch.group_keys())

    def shares(self, stats: Any) -> Shares | None:
        """The slices of a census that are to be counted."""
        grams = stats.grams if isinstance(stats, CorpusStats) else None
        if not isinstance(grams, Census) or grams.counted:
            return None

        def gather(done: Sequence[Any]) -> CorpusStats:
            return CorpusStats(stats.texts, replace(grams, counted=tuple(done)), stats.keys)

        return Shares(grams.compact().count_slice, grams.slices, gather)

    def finish_corpus(self, stats: Any, interval: Inference | None = None) -> Score:
        """The value of the corpus' n-grams, with an interval from leaving out groups of texts."""
        summaries = stats.grams.summarise()
        parts = {f"n={n}": self.of_summary(s, n) for n, s in zip(self.n, summaries, strict=True)}
        value = float(self.combine(np.array([list(parts.values())]))[0])
        if math.isnan(value):
            raise DataError(f"{self.name} has no value: the corpus has no n-gram of order {self.n}")
        left_out = self.left_out(summaries, stats.texts) if interval is not None else None
        if left_out is not None and stats.keys is not None:
            left_out = replace(left_out, keys=stats.keys[stats.texts > 0])
        facts, ci = {}, None
        if self.precision is not None:
            from nlgauge.text.sketch import relative_error

            facts = {"error": f"{relative_error(self.precision):.2%}"}
        if interval is not None and left_out is not None:
            ci = within(jackknife_interval(value, left_out, interval.level), self.bounds)
            facts |= {"ci": f"{interval.level:g}", "by": f"jackknife-{len(left_out)}", "unit": "group"}
        return self.make_score(value, int(stats.texts.sum()), facts, ci=ci, parts=parts, left_out=left_out)


@dataclass(frozen=True, kw_only=True)
class NgramRatio(NgramMeasure):
    """A function of (different n-grams, all n-grams)."""

    @abstractmethod
    def of_counts(self, different: Array, total: Array, n: int) -> Array:
        """The measure from numbers of n-grams; NaN where there is none."""

    def per_set(self, batch: Batch) -> Array:
        """The measure of each set, one column per order."""
        grams = batch.ngrams(self.tokenizer, max(self.n))
        return np.stack([self.of_counts(grams.different[n - 1], grams.total[n - 1], n) for n in self.n], axis=1)

    def of_summary(self, summary: Summary, n: int) -> float:
        """The measure of a corpus, for one order."""
        return float(self.of_counts(np.array([summary.different]), np.array([summary.total]), n)[0])

    def left_out(self, summaries: list[Summary], texts: Array) -> LeftOut | None:
        """Values with each group of texts left out; a sketch does not know them."""
        if self.precision is not None:
            return None
        columns = [
            self.of_counts(s.different - s.group_only, s.total - s.group_total, n)
            for s, n in zip(summaries, self.n, strict=True)
        ]
        used = texts > 0
        return LeftOut.where_known(self.combine(np.stack(columns, axis=1))[used], texts[used])


def _ratio(count: Array, base: Array, nothing: float = math.nan) -> Array:
    """`count / base`, and `nothing` where the base is 0."""
    ratio: Array = np.divide(count, base, out=np.full(len(base), nothing), where=base > 0)
    return ratio


@dataclass(frozen=True, kw_only=True)
class Distinct(NgramRatio):
    """Distinct-n: different n-grams divided by all n-grams, pooled over a set, averaged over the orders.

    Paper 1 averages over n = 1-5 (section 6.2), so that each order weighs a fifth in every set. Where all texts of a
    set are shorter than n, it has no n-gram, and `absent` says what that order adds. `zero` is the metric of paper 1,
    in its released code and its tables: {yes, no, maybe} scores 0.20, and sets of texts below 5 words score lower for
    being short. `omit` averages the orders that the set has: {yes, no, maybe} scores 1. A set without any token scores
    0; of a single order (`n=2`), a set that lacks it has no value.
    """

    name: ClassVar[str] = "distinct"
    bounds: ClassVar[Bounds] = (0.0, 1.0)
    paper: ClassVar[str] = "Li et al. 2016; Tevet & Berant 2021, sections 2 and 6.2"

    tok: str = option("space-nodot", TOKENIZER)
    absent: Literal["zero", "omit"] = option(
        "zero", "An order of which a set has no n-gram: counts as 0 (paper 1), or is left out of the mean."
    )

    def relevant_options(self) -> Mapping[str, Any]:
        """All options but `absent` where there is no mean over orders."""
        return {key: value for key, value in super().relevant_options().items() if key != "absent" or len(self.n) > 1}

    def of_counts(self, different: Array, total: Array, n: int) -> Array:
        """Share of n-grams that differ."""
        counts = n == 1 or (self.absent == "zero" and len(self.n) > 1)
        return _ratio(different, total, 0.0 if counts else math.nan)


@dataclass(frozen=True, kw_only=True)
class TypeTokenRatio(NgramRatio):
    """Type/token ratio of n-grams over a whole corpus (paper 5, Table 8 prints it for n = 1, 2 and 3)."""

    name: ClassVar[str] = "ttr"
    bounds: ClassVar[Bounds] = (0.0, 1.0)
    paper: ClassVar[str] = "Li et al. 2016; RUQ, section 6 and Table 8"

    n: Orders = option(Orders("1"), ORDERS)
    over: Literal["set", "corpus"] = option("corpus", OVER)
    tok: str = option("word", TOKENIZER)

    def of_counts(self, different: Array, total: Array, n: int) -> Array:  # noqa: ARG002 - same for every order
        """Types divided by tokens."""
        return _ratio(different, total)


@dataclass(frozen=True, kw_only=True)
class ExpectationAdjustedDistinct(NgramRatio):
    """Expectation-adjusted distinct: different n-grams divided by the number expected in a text of that length.

    EAD = N / (V (1 - ((V - 1) / V)^C)), with N different among C n-grams and V possible ones (paper 2, equations 1-5).
    `vocab` is the number of words (`bert` is 30,522; V is then its n-th power), or `corpus:FILE` to count the
    different n-grams of a corpus. It should be the vocabulary of the tokens that are counted: `tok=wordpiece` has
    BERT's 30,522; a warning says where V belongs to another tokeniser.
    """

    name: ClassVar[str] = "ead"
    bounds: ClassVar[Bounds] = (0.0, math.inf)
    paper: ClassVar[str] = "Rethinking and Refining the Distinct Metric, section 3, equations 1-5"

    n: Orders = option(Orders("1"), ORDERS)
    over: Literal["set", "corpus"] = option("corpus", OVER)
    vocab: str = option(
        "bert", "Number of possible words; bert (30,522); or corpus:FILE to count the n-grams of a corpus."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vocab.startswith("corpus:"):
            path, _, claimed = self.vocab.removeprefix("corpus:").partition("@")
            digest = file_digest(path)[:12]
            if claimed and claimed != digest:
                raise OptionError(f"{path}: has hash {digest}; the signature says {claimed}: this is another corpus")
            object.__setattr__(self, "vocab", f"corpus:{path}@{digest}")
        elif self.vocab != "bert" and not (self.vocab.isdigit() and int(self.vocab) > 0):
            raise OptionError(f"ead:vocab={self.vocab}; expected a positive number, bert, or corpus:FILE")

    @cached_property
    def _measured(self) -> dict[int, int]:
        """Different n-grams of each order in the corpus file, counted once for all runs."""
        path = self.vocab.removeprefix("corpus:").partition("@")[0]
        cache, tokenizer = Cache(), self.tokenizer
        key = cache.key("vocabulary", file_digest(path), tokenizer.name, str(tokenizer.lower), str(list(self.n)))
        held = cache.get(key)
        if held is None:
            with scratch_folder():
                tables = Source(path=path, extras=()).stream()
                census = reduce(add, (Census.of(tokenizer(table.texts), self.n) for table in tables))
                counts = [int(summary.different) for summary in census.summarise()]
            held = pl.DataFrame({"n": list(self.n), "different": counts})
            cache.put(key, held)
        return dict(held.iter_rows())

    def possible(self, n: int) -> float:
        """V for n-grams of this order."""
        if self.vocab.startswith("corpus:"):
            return float(self._measured[n])
        return float(BERT_VOCABULARY if self.vocab == "bert" else int(self.vocab)) ** n

    def prepare(self) -> None:
        """Warn where V belongs to another tokeniser; the paper's own pair of spaces and BERT's V passes."""
        if (self.tok, self.vocab) != ("space", "bert") and (misfit := self.misfit()):
            warnings.warn(misfit, stacklevel=2)

    def misfit(self) -> str:
        """How V and the tokens do not fit together, if it is known."""
        if self.vocab.startswith("corpus:"):
            return ""
        words, size = int(self.possible(1)), self.tokenizer.vocabulary_size
        if size is not None and size != words:
            return f"ead: V = {words:,} belongs to another tokeniser; tok={self.tok} has {size:,} tokens: vocab={size}"
        if size is None and words == BERT_VOCABULARY:
            return (
                f"ead: V = {words:,} is the size of BERT's WordPiece vocabulary, and tok={self.tok} makes other "
                "tokens: tok=wordpiece fits this V, and vocab=corpus:FILE fits any tokeniser"
            )
        return ""

    def of_counts(self, different: Array, total: Array, n: int) -> Array:
        """Different n-grams relative to what chance would give."""
        return _ratio(different, expected_distinct(total, self.possible(n)))

    def finish(self, stats: Any, interval: Inference | None = None) -> Score:
        """As every n-gram measure, with V in the signature."""
        score = super().finish(stats, interval)
        sizes = "+".join(f"{self.possible(n):.15g}" for n in self.n)
        return replace(score, signature=score.signature.with_facts({"V": sizes}))


def expected_distinct(total: Array, possible: float) -> Array:
    """V (1 - ((V - 1) / V)^C), the expected number of different words among C drawn evenly from V (paper 2, eq. 5).

    Written with log1p and expm1, since the power underflows or cancels for large V or C.
    """
    total = np.asarray(total, dtype=np.float64)
    expected: Array = np.minimum(total, 1.0)
    if possible != 1:
        expected = -possible * np.expm1(total * np.log1p(-1.0 / possible))
    return expected


@dataclass(frozen=True, kw_only=True)
class Entropy(NgramMeasure):
    """Shannon entropy in bits of the distribution of n-grams, averaged over the orders.

    It grows with the number of n-grams (it is at most log2 of it): compare texts of similar size.
    """

    name: ClassVar[str] = "entropy"
    bounds: ClassVar[Bounds] = (0.0, math.inf)
    paper: ClassVar[str] = "Dusek et al. 2020; Tevet & Berant 2021, section 2"
    _keeps_counts: ClassVar[bool] = True

    n: Orders = option(Orders("1"), ORDERS)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse("count", self.count != "exact", "entropy: a sketch knows no frequencies; use count=exact")

    def per_set(self, batch: Batch) -> Array:
        """Entropy of each set, one column per order."""
        from nlgauge.text.set_kernels import set_entropy

        grams = batch.ngrams(self.tokenizer, max(self.n))
        bits = [set_entropy(grams.ranks, grams.different, grams.texts, grams.sets, n) for n in self.n]
        known = [(grams.total[n - 1] > 0) | (n == 1) for n in self.n]
        return np.where(known, bits, math.nan).T

    def of_summary(self, summary: Summary, n: int) -> float:  # noqa: ARG002 - same for every order
        """From the frequencies of the corpus' n-grams."""
        if summary.total == 0:
            return math.nan
        return max(0.0, math.log2(summary.total) - summary.weighted / summary.total)


def sketched(metrics: Sequence[Any]) -> list[Any]:
    """The metrics, with corpus-level counts estimated by a sketch."""
    chosen = [getattr(m, "over", "") == "corpus" and hasattr(m, "count") and m.name != "entropy" for m in metrics]
    if not any(chosen):
        example = argument("metrics", "distinct:over=corpus")
        raise OptionError(f"{argument('sketch')} requires a corpus-level count, as in {example}")
    return [replace(m, count=SKETCH) if one else m for m, one in zip(metrics, chosen, strict=True)]
