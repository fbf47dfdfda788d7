"""Evaluation sets for raters: the responses of every system to the same queries (paper 2, section 3.2.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nlgauge.data.assembling import by_system
from nlgauge.data.columns import Reading
from nlgauge.data.reading import read_tables
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.errors import DataError, OptionError, argument


def systems_of_files(files: Sequence[str], names: Sequence[str], reading: Reading) -> dict[str, ResponseSets]:
    """The sets of every system in these files; a file without a column of systems is one, under its name."""
    systems: dict[str, ResponseSets] = {}
    for name, (_, table) in zip(names, read_tables(files, reading, ()), strict=True):
        for system, sets in by_system(table.as_sets() if isinstance(table, Items) else table).items():
            if (title := system or name) in systems:
                raise OptionError(f"the system '{title}' is in two files; expected each in one")
            systems[title] = sets
    return systems


def evaluation_sets(systems: Mapping[str, ResponseSets], *, subsets: int, responses: int, seed: int) -> ResponseSets:
    """So many random subsets of the queries that all systems answer, and for each the responses of every system.

    Queries are contexts, or ids where a system has none. Queries differ within a subset, and subsets are drawn
    independently. Of several responses to a query one is drawn. The sets of a subset share a `context` ("queries 1"),
    by which the form `set-diversity` puts them side by side. Neither the order of rows nor that of systems matters.
    """
    answers = {name: _by_query(sets) for name, sets in systems.items()}
    common = sorted(set.intersection(*(set(mine) for mine in answers.values())))
    if len(common) < responses:
        counts = ", ".join(f"'{name}' {len(mine)}" for name, mine in answers.items())
        raise DataError(
            f"{len(common)} queries that all systems answer, of {counts}; expected at least {responses}, the responses "
            f"in a set: give systems that answer the same contexts, or smaller sets ({argument('responses_per_set')})"
        )
    drawn, ids, contexts, names = [], [], [], []
    for number in range(1, subsets + 1):
        generator = np.random.default_rng([seed, number])
        queries = [common[place] for place in generator.choice(len(common), responses, replace=False)]
        shares = generator.random(responses)
        for name, mine in answers.items():
            drawn.append([_one_of(mine[query], share) for query, share in zip(queries, shares, strict=True)])
            ids.append(f"{number:0{len(str(subsets))}}-{name}")
            contexts.append(f"queries {number}")
            names.append(name)
    return ResponseSets.of(drawn, contexts=contexts, ids=ids, systems=names)


def _by_query(sets: ResponseSets) -> dict[str, list[str]]:
    """The responses to each query, sorted."""
    frame = sets.to_polars()
    keys = frame["context"] if "context" in frame.columns and not frame["context"].null_count() else frame["id"]
    found: dict[str, list[str]] = {}
    for key, texts in zip(keys.to_list(), frame["responses"].to_list(), strict=True):
        found.setdefault(key, []).extend(texts)
    return {key: sorted(texts) for key, texts in found.items()}


def _one_of(texts: Sequence[str], share: float) -> str:
    return texts[int(share * len(texts))]
