"""A language model as a tester: it responds several times, and says one of its responses in other words.

A local model continues a text of examples, one response at a time: it need not follow instructions. An endpoint is
asked in a chat and shown what it has written, so that it can say something else. Copies, empty answers and refusals are
asked for again with another seed. No answer is chosen by its meaning: a filter on embeddings would prefer what a metric
of embeddings sees.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from nlgauge.configured import check_that, option
from nlgauge.errors import OptionError
from nlgauge.models.language.base import DECODING, LanguageModel, Sampling
from nlgauge.models.language.endpoint import EndpointModel, Reply
from nlgauge.models.language.endpoint_http import Refused
from nlgauge.models.shared import language_model_identity, load_shared
from nlgauge.studies.testers.base import NEAR_COPY, Context, LeftOut, Outcome, Tester, WrittenPair
from nlgauge.text.near_copies import likeness, normalised
from nlgauge.text.words import one_line

Task = Literal["respond", "rephrase"]
_PROMPTS = 2
"""The version of the prompts below: increased when they change."""

_RESPOND = """Text: The bakery on our street is closing next month.
Response: Where will we buy bread then?

Text: The taxi never came, so the two sisters began to walk.
Response: After an hour, a farmer gave them a lift on his tractor.

Text: What he liked most about winter
Response: was the silence after the first snow.

Text: Do you know where the charger is?
Response: Under the blue cushion, I think.

Text: {context}
Response:"""
_REPHRASE = """Every sentence is said again in other words. The meaning stays the same.

I'm not hungry, thanks.
= No thank you, I don't feel like eating.

She missed the last train home.
= The last train had left without her.

Did you lock the back door?
= Is the door at the back locked?

The soup needs more salt.
= There isn't enough salt in the soup.

{base}
="""
_ROLE = (
    "You write short texts for a test of automatic metrics. Answer with the text alone, on one line: no number, no "
    "quotation marks, no explanation."
)
_ASK: dict[Task, str] = {
    "respond": (
        "Here is a text: a remark to which somebody replies, the beginning of a story, or the first words of a "
        "sentence.\n\n{context}\n\nWrite one response to it: a reply, an ending of the story, or the rest of the "
        "sentence. One sentence is enough."
    ),
    "rephrase": (
        "Here is a text:\n\n{context}\n\nSomebody responded to it:\n\n{base}\n\nSay the response in other words. The "
        "content stays exactly the same; use other words, and build the sentence in another way."
    ),
}
_ALREADY: dict[Task, str] = {
    "respond": "\n\nThese are taken. Say what none of them says, in a sentence that is built differently:\n{all}",
    "rephrase": "\n\nThese wordings are taken, find another one:\n{all}",
}
_REFUSAL = re.compile(
    r"\bas an ai\b|\blanguage model\b|"
    r"\b(?:can(?:no|['’])t|unable to|not able to) (?:assist|fulfil|comply|generate|provide)",
    re.IGNORECASE,
)
_REFUSED, _REJECTED = "refused by the model", "rejected by the server"
_EMPTY, _COPIED = "only empty answers", "only copies of what was written before"
_SHOWN = 100


@dataclass
class _Wanted:
    """The sets of a context as they grow; `trouble` is why the last answer was not taken."""

    context: Context
    high: list[str] = field(default_factory=list)
    low: list[str] = field(default_factory=list)
    trouble: LeftOut | None = None

    def add(self, task: Task, answer: Reply | Refused) -> None:
        """Take an answer, or say why not."""
        if isinstance(answer, Refused):
            self.trouble = LeftOut(_REJECTED, answer.message)
            return
        text = one_line(answer.text)
        mine = self.high if task == "respond" else self.low
        if answer.refused or _REFUSAL.search(text):
            self.trouble = LeftOut(_REFUSED, f"'{text[:_SHOWN]}'")
        elif not normalised(text):
            self.trouble = LeftOut(_EMPTY)
        elif any(likeness(text, other) >= NEAR_COPY for other in [*mine, self.context.text]):
            self.trouble = LeftOut(_COPIED, f"'{text[:_SHOWN]}'")
        else:
            self.trouble = None
            mine.append(text)


@dataclass(frozen=True, kw_only=True)
class ModelTester(Tester):
    """A language model or an endpoint: several responses for the high set; one of them in other words for the low set.

    The low set begins with the first response of the high set. A model that follows instructions badly rephrases badly:
    read what it wrote before you trust a number (docs/content_test.md).
    """

    name: ClassVar[str] = "model"

    model: str = option("smollm2", "Catalogue name, folder, hub name, ngram:FOLDER or http://host/v1#name.")
    temperature: float = option(1.0, "Temperature of the responses of the high set.")
    rephrase_temperature: float = option(0.8, "Temperature of the wordings of the low set.")
    top_p: float = option(0.95, "Nucleus of both (local models).")
    max_new_tokens: int = option(40, "Longest response, in tokens.")
    tries: int = option(8, "Answers that are asked for until one is no copy, no refusal and not empty.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_that(self.tries >= 1, "tries", self.tries, "1 or more")
        for name in ("temperature", "rephrase_temperature"):
            check_that(
                getattr(self, name) > 0, name, getattr(self, name), "a number above 0: five responses must differ"
            )
        self.sampling("respond"), self.sampling("rephrase")

    def sampling(self, task: Task) -> Sampling:
        """How the model decodes."""
        temperature = self.temperature if task == "respond" else self.rephrase_temperature
        return Sampling(temperature=temperature, top_p=self.top_p, max_new_tokens=self.max_new_tokens)

    @property
    def advice(self) -> str:
        """What to try where nothing was written."""
        return (
            "expected short texts that differ: try another model, more tries or a higher temperature, look at what the "
            "server says, or take another tester, such as data or people (nlgauge annotate)"
        )

    def prepare(self, contexts: Sequence[Context], size: int) -> None:  # noqa: ARG002 - any contexts will do
        """Load the model, or reach the server; a retrieval model, which cannot rephrase, is refused."""
        if self.model.startswith("bm25:"):
            raise OptionError(f"model={self.model}: retrieval writes nothing; expected a language model or an endpoint")
        load_shared(self.model)

    def identity(self) -> dict[str, Any]:
        """The options, the model with its hash, and the version of prompts and decoding."""
        return {
            "tester": str(self.signature),
            "model": language_model_identity(self.model),
            "prompts": _PROMPTS,
            "decoding": DECODING,
        }

    def write(self, contexts: Sequence[Context], size: int, seed: int) -> list[Outcome]:
        """Both sets to each context, place by place; who cannot fill a place is left out."""
        wanted = [_Wanted(context) for context in contexts]
        for _ in range(size):
            self._next("respond", wanted, seed)
        for one in wanted:
            one.low = one.high[:1]
        for _ in range(size - 1):
            self._next("rephrase", wanted, seed)
        by = language_model_identity(self.model)
        return [
            WrittenPair(tuple(one.high), tuple(one.low), by, by) if one.trouble is None else one.trouble
            for one in wanted
        ]

    def _next(self, task: Task, wanted: Sequence[_Wanted], seed: int) -> None:
        """One more text for each set that has had no trouble; several tries each."""
        waiting = [one for one in wanted if one.trouble is None]
        for attempt in range(self.tries):
            if not waiting:
                return
            seeds = [_seed(seed, task, one, attempt) for one in waiting]
            answers = _answers(load_shared(self.model), task, waiting, self.sampling(task), seeds)
            for one, answer in zip(waiting, answers, strict=True):
                one.add(task, answer)
            waiting = [one for one in waiting if one.trouble is not None and one.trouble.reason != _REJECTED]


def _seed(seed: int, task: Task, one: _Wanted, attempt: int) -> int:
    """A seed that depends on nothing but what is asked for."""
    about = [seed, task, one.context.text, len(one.high), len(one.low), attempt]
    digest = hashlib.blake2b(json.dumps(about, ensure_ascii=False).encode("utf-8", "surrogatepass"), digest_size=7)
    return int.from_bytes(digest.digest())


def _answers(
    model: LanguageModel, task: Task, wanted: Sequence[_Wanted], sampling: Sampling, seeds: Sequence[int]
) -> list[Reply | Refused]:
    """An answer to each, or the error of a server that rejects its prompt."""
    if isinstance(model, EndpointModel):
        return _asked(model, [_question(task, one) for one in wanted], replace(sampling, top_p=1.0), seeds)
    template = _RESPOND if task == "respond" else _REPHRASE
    prompts = [_filled(template, one) for one in wanted]
    return [Reply(text, refused=False) for text in model.generate(prompts, sampling, seeds)]


def _asked(
    model: EndpointModel, questions: Sequence[tuple[str, str]], sampling: Sampling, seeds: Sequence[int]
) -> list[Reply | Refused]:
    """Answers to all at once, or one by one where the server rejects a prompt, as filters of content do."""
    try:
        return [*model.chat(questions, sampling, seeds)]
    except Refused:
        return [_one_asked(model, question, sampling, seed) for question, seed in zip(questions, seeds, strict=True)]


def _one_asked(model: EndpointModel, question: tuple[str, str], sampling: Sampling, seed: int) -> Reply | Refused:
    try:
        return model.chat([question], sampling, [seed])[0]
    except Refused as error:
        return error


def _question(task: Task, one: _Wanted) -> tuple[str, str]:
    """Instructions and message of a chat, with what is taken already."""
    taken = one.high if task == "respond" else one.low[1:]
    listed = _ALREADY[task].replace("{all}", "\n".join(f"- {text}" for text in taken)) if taken else ""
    return _ROLE, _filled(_ASK[task], one) + listed


def _filled(template: str, one: _Wanted) -> str:
    """A prompt with the context and the response that is said again; texts are not searched for placeholders."""
    parts = {"{context}": one.context.text, "{base}": one.low[0] if one.low else ""}
    return re.sub(r"\{context\}|\{base\}", lambda found: parts[found[0]], template)
