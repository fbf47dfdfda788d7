"""Scorers that stand in for people's judgments of single texts (HUSE does not require people, but says who judged)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nlgauge.arrays import Array
from nlgauge.data.tables import Items
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.metrics.learned.llm_judge import LlmJudge
from nlgauge.metrics.registry import METRICS
from nlgauge.models.fetch import model_identity
from nlgauge.models.language.base import Sampling
from nlgauge.models.language.prompting import Prompting
from nlgauge.models.shared import language_model_identity, score_texts
from nlgauge.signature import Signature

PEOPLE = "people"
_ASK = (
    "Below is a message and a reply. Say whether the reply is what a person might well have written.\n\n"
    "Message: {context}\nReply: {text}\nIs the reply natural and sensible? Answer:"
)
_YES, _NO = " Yes", " No"
_QUESTIONNAIRE = "typicality"
_ANY_LENGTH = 1 << 31


def judge_texts(judge: str, contexts: Sequence[str], texts: Sequence[str]) -> Array:
    """Judgments by a scorer: `relevance:MODEL`, `llm:MODEL` or `llm-judge:model=URL#NAME`.

    `relevance` is the cosine of the embeddings of context and text. `llm` asks a language model whether the text is
    natural and sensible, and takes log p of yes less log p of no. `llm-judge` is the metric of that name; without a
    form it is asked what paper 3 asks people, how typical a text is.
    """
    kind, model = _split(judge)
    if not model:
        scorers = ("relevance:minilm", "llm:smollm2", "llm-judge:model=http://host:port/v1#name")
        raise DataError(
            f"no judgments: expected a column of them ({argument('judgment')}), ratings ({argument('ratings')}), or a "
            f"scorer in their place ({' or '.join(argument('judge', one) for one in scorers)})"
        )
    if not any(texts):
        raise DataError(f"no texts to judge by {judge}; name their column with {argument('text')}")
    if kind == "relevance":
        return _relevance(model, contexts, texts)
    if kind == "llm":
        return _asked(model, contexts, texts)
    if kind == LlmJudge.name:
        return _answered(judge, contexts, texts)
    raise OptionError(f"{argument('judge', judge)}; expected relevance:MODEL, llm:MODEL or llm-judge:model=URL#NAME")


def log_probabilities(
    model: str, contexts: Sequence[str], texts: Sequence[str], template: str, sampling: Sampling
) -> Array:
    """Log-probability of writing every text after its prompt, a space between them, and of ending there; may be -inf.

    The prompt is the template with the context in it, or nothing where there is no context. Where no text has a line
    break, a line break is an end, too.
    """
    how = Prompting(template, join=" ")
    if not any(texts):
        raise DataError(f"no texts for {model} to score; name their column with {argument('text')}")
    prompts = [how.prompt(context) if context else "" for context in contexts]
    spaced = [[how.text(text) if prompt else text] for prompt, text in zip(prompts, texts, strict=True)]
    lines = not any("\n" in text.strip() for text in texts)
    whole = replace(sampling, stop=("\n",) if lines else (), max_new_tokens=_ANY_LENGTH)
    return np.array([found[0].total for found in score_texts(model, prompts, spaced, sampling=whole)])


def judge_identity(judge: str) -> str:
    """The judge as a signature names it: a scorer's model with its hash."""
    kind, model = _split(judge)
    if model and kind == LlmJudge.name:
        return str(_llm_judge(judge).signature)
    if not model or kind not in ("relevance", "llm"):
        return judge
    return f"{kind}:{model_identity(model) if kind == 'relevance' else language_model_identity(model)}"


def _split(judge: str) -> tuple[str, str]:
    """The kind of judge and its model or options, as they were given or as a signature names them."""
    mark = "|" if "|" in judge else ":"
    kind, _, rest = judge.partition(mark)
    return kind, rest


def _relevance(model: str, contexts: Sequence[str], texts: Sequence[str]) -> Array:
    from nlgauge.models.encoders.embedder import load_embedder

    both = load_embedder(model).encode([*contexts, *texts]).astype(np.float64)
    first, second = both[: len(contexts)], both[len(contexts) :]
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    found: Array = np.divide((first * second).sum(axis=1), norms, out=np.zeros(len(first)), where=norms > 0)
    return found


def _asked(model: str, contexts: Sequence[str], texts: Sequence[str]) -> Array:
    prompts = [
        _ASK.replace("{text}", text).replace("{context}", context)
        for context, text in zip(contexts, texts, strict=True)
    ]
    scored = score_texts(model, prompts, [[_YES, _NO]] * len(prompts))
    return np.array([yes.total - no.total for yes, no in scored])


def _llm_judge(judge: str) -> LlmJudge:
    given = Signature.parse(judge).options if "|" in judge else METRICS.parse(judge)[1]
    metric = LlmJudge.from_options({"form": _QUESTIONNAIRE, **given})
    if metric.level != "item" or metric.against:
        raise OptionError(
            f"{argument('judge', judge)} is asked about sets; expected a form about single texts, such as "
            f"form={_QUESTIONNAIRE}"
        )
    return metric


def _answered(judge: str, contexts: Sequence[str], texts: Sequence[str]) -> Array:
    """The mean answer about every text; HUSE needs one for each, so a text without an answer is an error."""
    score = _llm_judge(judge).score(Items.of(list(texts), contexts=list(contexts)))
    if score.items is None or score.excluded:
        raise DataError(
            f"{judge} gave no readable answer about {score.excluded} of {len(texts)} texts, which a warning names by "
            "their row, from 0; expected a judgment of every text: leave these out and say so, or change the seed"
        )
    return score.items.all_values()
