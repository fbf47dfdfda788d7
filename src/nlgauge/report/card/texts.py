"""The texts of every system, and counts over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from nlgauge.data.reading import Source, Table
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.errors import DataError

GENERIC = ("i don't know", "i don't know what to do")  # those of paper 5, section 3
_BIDI = {code: f"⟨U+{code:04X}⟩" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_CONTROLS = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: "\u2421"}
_VISIBLE = {**_CONTROLS, **_BIDI}


def visible(text: str) -> str:
    """A text with control and hidden characters, such as NUL or a right-to-left override, made visible."""
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def clipped(text: str, length: int) -> str:
    """A text as it is shown: visible, and cut where it is very long, with its full length."""
    if len(text) <= length:
        return visible(text)
    return f"{visible(text[:length])} … ({len(text):,} characters)"


@dataclass(frozen=True)
class SystemFacts:
    """Counts over all texts of a system; shares are of its responses.

    Sets that share a context are one of its `contexts`.
    `repeated` responses equal an earlier one to the same context, `elsewhere` ones also answer another context,
    `generic` ones are "I don't know." or "I don't know what to do."; ignoring case, punctuation and spaces.
    """

    system: str
    sets: int
    contexts: int
    responses: int
    mean_length: float
    repeated: float
    elsewhere: float
    generic: float
    duplicate_ids: int


@dataclass(frozen=True)
class Texts:
    """All contexts of all systems: `system, id, context, responses`, one row per set; `references` if items have them.

    `sets` says whether the files hold sets of responses (or single texts).
    """

    frame: pl.DataFrame
    systems: tuple[str, ...]
    sets: bool

    def of(self, system: str) -> pl.DataFrame:
        """The rows of one system."""
        return self.frame.filter(pl.col("system") == system)


@dataclass(frozen=True)
class Read:
    """Texts of the files before systems are named: `place` numbers systems in order."""

    frame: pl.DataFrame
    sets: bool
    smallest: int
    references: bool

    def named(self, systems: Sequence[str]) -> Texts:
        """The texts with the names of systems from the scores, in the same order."""
        names = pl.DataFrame({"place": range(len(systems)), "system": systems}, schema_overrides={"place": pl.Int64})
        frame = self.frame.join(names, on="place", how="left", maintain_order="left").drop("place")
        return Texts(frame, tuple(systems), self.sets)


def read_texts(inputs: Sequence[Source] | Table) -> Read:
    """Read every file, or the table that the data is; a mix of sets and single texts raises an error."""
    tables = [("", [inputs])] if isinstance(inputs, Table) else [(one.name, one.stream()) for one in inputs]
    frames: list[pl.DataFrame] = []
    kinds: dict[bool, str] = {}
    places: dict[tuple[int, str], int] = {}
    for position, (name, parts) in enumerate(tables):
        for table in parts:
            kinds.setdefault(isinstance(table, ResponseSets), name)
            frame = _plain(table)
            own = [places.setdefault((position, label), len(places)) for label in frame["label"]]
            frames.append(frame.with_columns(place=pl.Series(own, dtype=pl.Int64)))
    if len(kinds) == 2:
        raise DataError(
            f"{kinds[True]} holds sets of responses, {kinds[False]} single texts; expected the same in all files, "
            "since a metric of sets says nothing about single texts: make separate reports"
        )
    whole = pl.concat(frames, how="diagonal_relaxed").drop("label")
    return Read(
        whole, next(iter(kinds)), int(whole["responses"].list.len().to_numpy().min()), "references" in whole.columns
    )


def _plain(table: ResponseSets | Items) -> pl.DataFrame:
    """`id, context, responses, label`, and `references` of items."""
    frame = table.to_polars() if isinstance(table, ResponseSets) else table.frame
    if isinstance(table, Items):
        frame = frame.with_columns(responses=pl.concat_list("text"))
    for missing in {"context", "system"} - set(frame.columns):
        frame = frame.with_columns(pl.lit("").alias(missing))
    kept = ["references"] if isinstance(table, Items) and "references" in frame.columns else []
    return frame.select(
        "id", pl.col("context").fill_null(""), "responses", pl.col("system").fill_null("").alias("label"), *kept
    )


def facts_of(texts: Texts) -> list[SystemFacts]:
    """Counts over every system's texts."""
    flat = plain_responses(texts.frame)
    found = []
    for system in texts.systems:
        mine, rows = flat.filter(pl.col("system") == system), texts.of(system)
        same = mine.group_by("set", "plain").len()
        elsewhere = mine.group_by("plain").agg(sets=pl.col("set").n_unique()).filter(pl.col("sets") > 1)
        ids = rows["id"]
        found.append(
            SystemFacts(
                system=system,
                sets=len(rows),
                contexts=_contexts_of(rows),
                responses=len(mine),
                mean_length=float(mine["words"].to_numpy().mean()),
                repeated=float((same["len"] - 1).sum()) / len(mine),
                elsewhere=mine.filter(pl.col("plain").is_in(elsewhere["plain"].to_list())).height / len(mine),
                generic=mine.filter(pl.col("plain").is_in(list(GENERIC))).height / len(mine),
                duplicate_ids=len(ids) - ids.n_unique(),
            )
        )
    return found


def _contexts_of(rows: pl.DataFrame) -> int:
    """How many different contexts there are; sets without one have their own."""
    named = rows.filter(pl.col("context") != "")["context"]
    return named.n_unique() + len(rows) - len(named)


def plain_responses(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per response: `system, set, id, text, words`, and `plain`: lower case, without outer punctuation."""
    flat = frame.with_row_index("set").select("system", "set", "id", pl.col("responses").alias("text")).explode("text")
    plain = pl.col("text").str.to_lowercase().str.replace_all("’", "'").str.replace_all(r"\s+", " ")
    return flat.with_columns(plain=plain.str.strip_chars(" .,;:!?\"'"), words=pl.col("text").str.count_matches(r"\S+"))


def lengths_by_context(texts: Texts) -> pl.DataFrame:
    """The mean number of words of every set: `system, id, words`."""
    flat = plain_responses(texts.frame)
    return flat.group_by("system", "id", maintain_order=True).agg(words=pl.col("words").mean())
