"""The contract of a tester of content (paper 1, section 3.2): two sets of responses to a context, high and low.

The high set says different things, the low set says one thing in different words. A tester that cannot write both sets
to a context writes neither, and says why, so that both classes have the same contexts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from nlgauge.configured import Configured
from nlgauge.errors import ModelError
from nlgauge.registry import Registry

NEAR_COPY = 0.85
"""From this likeness on two texts of a set are copies, as in the quality rule near-copy for people."""


@dataclass(frozen=True)
class Response:
    """A text, and who wrote it (a system, a person), if the data says so."""

    text: str
    writer: str = ""


@dataclass(frozen=True)
class Context:
    """What is responded to, with the responses that the data has."""

    id: str
    text: str
    responses: tuple[Response, ...] = ()


@dataclass(frozen=True)
class WrittenPair:
    """The high and the low set to a context, and who made each."""

    high: tuple[str, ...]
    low: tuple[str, ...]
    high_by: str
    low_by: str


@dataclass(frozen=True)
class LeftOut:
    """Why there are no sets to a context: the reason is one of few, `detail` is about this context."""

    reason: str
    detail: str = ""


Outcome = WrittenPair | LeftOut


@dataclass(frozen=True, kw_only=True)
class Tester(Configured, ABC):
    """Writes the sets of a content test. Subclasses are frozen dataclasses; their fields are the options.

    What is written to a context depends on that context, the number of responses, the seed and the options alone.
    `contexts_at_once` is how many are written at a time, and kept when a run is interrupted.
    """

    contexts_at_once: ClassVar[int] = 8

    @abstractmethod
    def prepare(self, contexts: Sequence[Context], size: int) -> None:
        """Raise an error that says what to do if nothing could be written: before any work."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Everything that the sets depend on beside contexts, size and seed."""

    @abstractmethod
    def write(self, contexts: Sequence[Context], size: int, seed: int) -> list[Outcome]:
        """The sets to each context, or why there are none."""

    def none_written(self, left_out: Sequence[LeftOut]) -> ModelError:
        """The error where no context got its sets."""
        first = left_out[0]
        found = f"{first.reason} ({first.detail})" if first.detail else first.reason
        return ModelError(
            f"the tester '{self.name}' wrote both sets for none of {len(left_out)} contexts: {found}; {self.advice}"
        )

    @property
    @abstractmethod
    def advice(self) -> str:
        """What to try where nothing was written."""


_HERE = "nlgauge.studies.testers"
TESTERS: Registry[Tester] = Registry(
    "tester",
    "nlgauge.testers",
    {"data": f"{_HERE}.data_tester:DataTester", "model": f"{_HERE}.model_tester:ModelTester"},
    "model:model=smollm2",
    "People are testers on the annotation site: nlgauge annotate new NAME --form write-different.",
)
