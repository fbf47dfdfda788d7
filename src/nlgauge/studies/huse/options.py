"""Options that all studies of HUSE share: where its features come from, and the classifier."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from nlgauge.arrays import Array
from nlgauge.configured import Options, check_that, option
from nlgauge.data.tables import Ratings
from nlgauge.errors import OptionError, argument
from nlgauge.models.language.base import Sampling
from nlgauge.models.shared import language_model_identity
from nlgauge.stats.kernels.neighbours import LeaveOneOut, Ties, leave_one_out
from nlgauge.studies.base import Study
from nlgauge.studies.huse.judges import PEOPLE, judge_identity
from nlgauge.studies.tasks import names_option

SCORES = ("huse", "huse_q", "huse_d")
FLOOR = -20.0
_TEMPLATE = "{context}"
DECODING_OPTIONS = ("temperature", "top_p", "top_k")
_CONFLICTS = (("judgment", "ratings"), ("logp", "token_logprobs"), ("model", "logp"), ("model", "token_logprobs"))


@dataclass(frozen=True, kw_only=True)
class HuseColumns(Options):
    """The columns of judgments, log-probabilities, lengths and sources, and of systems."""

    heading: ClassVar[str] = "Data"

    judgment: str | None = option(None, "Column of judgments.", metavar="COL")
    logp: str | None = option(None, "Column of log-probabilities of whole texts.", metavar="COL")
    token_logprobs: str | None = option(None, "List column of log-probabilities of tokens.", metavar="COL")
    length: str | None = option(None, "Column of lengths; default: words of the text.", metavar="COL")
    is_model: str | None = option(None, "Column that says whether a text is the model's.", metavar="COL")
    ratings: str | Path | Ratings | None = option(
        None, "Single ratings: item, rater, value.", metavar="FILE", signed=False
    )
    question: str | None = option(None, "The question of the ratings.", metavar="NAME")
    by: str | None = option(None, "One system for each value of this column.", metavar="COL")
    tasks: Sequence[str] = names_option()


@dataclass(frozen=True, kw_only=True)
class HuseStudy(HuseColumns, Study):
    """Who judges and what supplies log p where no column does, and the classifier.

    p of a text is that of the system that wrote it, under the distribution that it draws from (paper 3, section 5.1).
    `model` scores texts so, after their contexts, put into `template`: with the end of the text, and with the
    temperature, top-p and top-k of these options or of the columns of these names. A text that a system cannot write
    (p = 0: outside of top-k or top-p, not a retrieved response) has the log p of the `floor`, and nothing has less.
    """

    files: ClassVar[str] = "A table with one text per row, or a crowd export (Input.*, Answer.*); one system per file."
    index: ClassVar[str] = "system"

    model: str | None = option(None, "Language model that supplies log p, where no column does.", metavar="MODEL")
    template: str = option(
        _TEMPLATE,
        "With a model: the prompt before a text; {context} is replaced, and \\n is a line break.",
        metavar="TEXT",
        escapes=True,
    )
    temperature: float | None = option(
        None, "With a model: the temperature of the texts. Default: the column temperature, else 1.", metavar="X"
    )
    top_p: float | None = option(
        None, "With a model: top-p of the texts. Default: the column top_p, else 1 (all tokens).", metavar="X"
    )
    top_k: int | None = option(
        None, "With a model: top-k of the texts. Default: the column top_k, else 0 (all tokens).", metavar="N"
    )
    floor: float = option(
        FLOOR, "The lowest log p per token: that of a text that the system cannot write (p = 0).", metavar="X"
    )
    judge: str = option(
        PEOPLE,
        "Who judged: people, a name for whatever made the column, or a scorer to run (relevance:minilm, llm:smollm2, "
        "llm-judge:model=URL#NAME). Results say so.",
        metavar="JUDGE",
    )
    k: int = option(16, "Neighbours.", metavar="N", flags=("-k",))
    per_token: bool = option(True, "Divide log p by the length (paper), or not.", flags=("--per-token/--total",))
    ties: Ties = option(
        "equal", "Equal distances: exactly equal, or as double precision computes them (the paper's print)."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.k >= 1, "k", self.k, "at least 1 neighbour")
        for first, second in _CONFLICTS:
            if getattr(self, first) is not None and getattr(self, second) is not None:
                raise OptionError(f"both {argument(first)} and {argument(second)} were given; expected one of them")
        check_that(-math.inf < self.floor < 0, "floor", self.floor, "a finite number below 0, such as -20")
        given = [name for name in DECODING_OPTIONS if getattr(self, name) is not None]
        for name in [*(["template"] if self.template != _TEMPLATE else []), *given]:
            if self.model is None:
                raise OptionError(f"{argument(name)} requires {argument('model')}")
        Sampling(**{name: getattr(self, name) for name in given})

    def classify(self, features: Array, is_model: Array, ties: Ties | None = None) -> tuple[LeaveOneOut, LeaveOneOut]:
        """The leave-one-out classifier by both features, and by the judgment alone."""
        how: dict[str, Any] = {"k": self.k, "ties": ties or self.ties}
        return leave_one_out(features, is_model, **how), leave_one_out(features[:, 1:], is_model, **how)

    def relevant_options(self) -> Mapping[str, Any]:
        """What was given: models with their hashes, the template only where it is used."""
        shown = {name: value for name, value in super().relevant_options().items() if value is not None}
        shown["judge"] = judge_identity(self.judge)
        if self.model is None:
            del shown["template"]
        else:
            shown["model"] = language_model_identity(self.model)
        return shown
