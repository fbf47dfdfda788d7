"""What `nlgauge generate` wrote as a table for HUSE: one text per row, with log p under the system that wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from nlgauge.errors import DataError
from nlgauge.models.language.prompting import Prompting
from nlgauge.models.language.tester import GenerationPlan, known
from nlgauge.models.shared import score_texts


def texts_for_huse(sets: pl.DataFrame, plan: GenerationPlan, references: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Responses and references of the same contexts, each with its log p under the distribution of the responses.

    `logp` of a text that cannot be written is the lowest number there is; it is empty where the model does not say.
    A system is the model at one value. References have the same ids with every system, since they are the same texts.
    Empty responses are left out: log p is divided by the length.
    """
    parameter = plan.sweep.parameter
    rows: list[dict[str, object]] = []
    for value in sets[parameter].unique(maintain_order=True).to_list():
        mine = sets.filter(pl.col(parameter) == value)
        system = {"system": f"{plan.model} @{value:g}", parameter: value}
        for one in mine.iter_rows(named=True):
            several = len(one["responses"]) > 1
            written = zip(one["responses"], one["logprobs"], one["tokens"], one["truncated"], strict=True)
            for number, (text, logp, tokens, truncated) in enumerate(written):
                if text:
                    about = {"id": f"{one['id']}#{number}" if several else one["id"], "context": one["context"]}
                    found = {"logp": logp, "tokens": tokens, "truncated": truncated}
                    rows.append({**about, "text": text, "source": "model", **system, **found})
        rows += _references(mine, plan, value, references, system)
    return pl.DataFrame(rows, infer_schema_length=None)


def check_references(contexts: Sequence[tuple[str, str]], references: Mapping[str, Sequence[str]]) -> None:
    """Raise an error where a context has no reference."""
    if missing := [id for id, _ in contexts if not references.get(id)]:
        raise DataError(
            f"the context '{missing[0]}' has no reference; expected one for each: a column of references, or the texts "
            "that answer the contexts",
            option="references",
        )


def _references(
    sets: pl.DataFrame,
    plan: GenerationPlan,
    value: float,
    references: Mapping[str, Sequence[str]],
    system: Mapping[str, object],
) -> list[dict[str, object]]:
    """The references of some contexts, scored at one value."""
    how, sampling = Prompting(plan.template), plan.sweep.apply(plan.sampling, value)
    pairs = list(zip(sets["context_id"].to_list(), sets["context"].to_list(), strict=True))
    check_references(pairs, references)
    prompts = [how.prompt(context) for _, context in pairs]
    asked = [[how.text(text) for text in references[id]] for id, _ in pairs]
    plain = sampling.is_plain or not plan.model.startswith(("http://", "https://"))
    scored = score_texts(plan.model, prompts, asked, sampling=sampling) if plain else None
    rows: list[dict[str, object]] = []
    for place, (id, context) in enumerate(pairs):
        for number, text in enumerate(references[id]):
            found = None if scored is None else scored[place][number]
            name = f"{id}:reference" + (f"#{number}" if len(references[id]) > 1 else "")
            logp = {"logp": known(found.total) if found else None, "tokens": len(found) if found else 0}
            about = {"id": name, "context": context, "text": text, "source": "reference", **system}
            rows.append({**about, **logp, "truncated": False})
    return rows
