"""A language model as a rater: asked several times, with different seeds, parsed strictly, cached on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import urldefrag

from nlgauge.errors import OptionError
from nlgauge.models.judge.questions import JudgeQuestion, Material
from nlgauge.models.language.base import Sampling
from nlgauge.models.language.endpoint import EndpointModel
from nlgauge.models.shared import load_shared

ATTEMPTS = 3
_ANSWER_SHOWN = 120


@dataclass(frozen=True)
class JudgeRatings:
    """A model's ratings of one material: one number per sample, or the last answer if a sample has no number."""

    values: tuple[int, ...]
    unread: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every sample gave a number."""
        return not self.unread


def load_judge(spec: str) -> EndpointModel:
    """The model at `http://host:port/v1#model-name`, shared within this process; no request is sent yet."""
    url, name = urldefrag(spec)
    if not url.startswith(("http://", "https://")) or not name:
        raise OptionError(
            f"a judge is a model at a network address, not '{spec}'; expected an address with the model's name, "
            "http://host:port/v1#model-name"
        )
    return cast(EndpointModel, load_shared(spec))


def ask(
    model: EndpointModel,
    question: JudgeQuestion,
    materials: Sequence[Material],
    *,
    samples: int,
    sampling: Sampling,
    seed: int,
) -> list[JudgeRatings]:
    """Answers to a question about every material, in order.

    An answer that cannot be parsed is requested again, with another seed and a reminder, up to `ATTEMPTS` times in all.
    Every sample sees the texts of a set in its own random order.
    """
    jobs = [(place, sample) for place in range(len(materials)) for sample in range(samples)]
    read: dict[tuple[int, int], int] = {}
    said: dict[tuple[int, int], str] = {}
    for attempt in range(ATTEMPTS):
        open_jobs = [job for job in jobs if job not in read]
        conversations = [
            question.conversation(materials[place].mixed(seed, sample), attempt=attempt) for place, sample in open_jobs
        ]
        seeds = [seed + sample * ATTEMPTS + attempt for _, sample in open_jobs]
        for job, reply in zip(open_jobs, model.chat(conversations, sampling, seeds), strict=True):
            said[job] = reply.text
            if not reply.refused and (value := question.read(reply.text)) is not None:
                read[job] = value
    by_material = [jobs[start : start + samples] for start in range(0, len(jobs), samples)]
    return [
        JudgeRatings(
            tuple(read[job] for job in mine if job in read), tuple(_shown(said[job]) for job in mine if job not in read)
        )
        for mine in by_material
    ]


def _shown(answer: str) -> str:
    """The beginning of an answer, safe to print."""
    return ascii(answer[:_ANSWER_SHOWN]) + ("…" if len(answer) > _ANSWER_SHOWN else "")
