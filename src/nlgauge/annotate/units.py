"""Units of work: rows of a table combined as a form requires; deterministic for a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise, product
from typing import Any, Literal

from nlgauge.annotate.answers import check_answer, is_storable
from nlgauge.data.frames import with_unique_ids
from nlgauge.data.human.forms import Form, FormQuestion, Per, Shape
from nlgauge.data.roles import ROLES, no_such_column
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.errors import DataError, argument
from nlgauge.perturb.aspects.lexical_repetition import LexicalRepetition
from nlgauge.perturb.base import Perturbed, draw_for
from nlgauge.text.words import sentences

Kind = Literal["normal", "gold", "attention", "qualification"]
Table = ResponseSets | Items

_WRITTEN = Shape(of="context", size=1)
_DISTINGUISHING = (*ROLES["parameter"], "label", "system")


@dataclass(frozen=True, kw_only=True)
class Item:
    """The subject of an answer: a set with its responses, or a single text.

    `role` is system, human, negative, gold, attention or nothing. `context` is empty if the unit has one for all.
    """

    id: str
    texts: tuple[str, ...]
    role: str = ""
    system: str = ""
    context: str = ""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One assignment's items; `expected` has the known answers by item ("" for the unit) and question."""

    items: tuple[Item, ...]
    context: str = ""
    kind: Kind = "normal"
    expected: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def targets(self, per: Per) -> list[str]:
        """The targets of a question: "" for the unit, items by their ids, pairs of responses as `<id>#i-j`."""
        if per == "unit":
            return [""]
        if per == "item":
            return [item.id for item in self.items]
        return [f"{item.id}#{i}-{j}" for item in self.items for i, j in combinations(range(len(item.texts)), 2)]


def order_for(unit: Unit, rater_seed: int) -> Unit:
    """The unit as one rater sees it: items in the rater's own random order, responses within a set unchanged."""
    items = sorted(unit.items, key=lambda item: item.id)
    draw_for(rater_seed, *(item.id for item in items)).shuffle(items)
    return replace(unit, items=tuple(items))


def make_units(
    form: Form,
    table: Table,
    *,
    seed: int,
    gold: Table | None = None,
    attention: Table | None = None,
    qualification: Table | None = None,
    negatives: bool = True,
    shape: Shape | None = None,
    apart: str = "",
    smaller_last: bool = False,
) -> list[Unit]:
    """Rows of a table as units: first the normal ones, then those whose answers are known.

    `shape` replaces the form's own. Without a group column rows are distributed at random; with `smaller_last` the last
    unit (of a group) may be smaller. Sets are paired when they differ in the column `apart`, by default the first
    existing one of a decoding parameter, `label` and `system`; neighbours are next to each other in its order. A human
    text is a row whose system is `human`, or else the first reference; a negative (unless `negatives` is off) is a row
    whose system is `negative`, or else the human text of another group with sentences shuffled and words repeated
    (paper 4, 3.1). Tables of known answers have a column `expected_<question>` for each question that has some; of
    items to choose from, the right one has 1 there, and items to rank have their ranks.
    """
    shape = shape or form.unit
    for problem in shape.problems():
        raise DataError(f"the shape of a unit: {problem}")
    rows = _rows(table, shape)
    made = _normal_units(rows, shape, seed, negatives, apart, smaller_last)
    units = [_unit("normal", items) for items in made]
    others: dict[Kind, Table | None] = {"gold": gold, "attention": attention, "qualification": qualification}
    for kind, known in others.items():
        if known is not None and shape.of == "context":
            raise DataError(f"found a table for {kind}; expected none: what people write has no known answers")
        if known is not None:
            try:
                units += _known_units(form, known, shape, kind)
            except DataError as error:
                raise error.at(file=f"the table for {kind}") from error
    if not shape.pairs:
        _require_unique([item.id for unit in units for item in unit.items], "the units")
    return units


@dataclass(frozen=True)
class _Row:
    item: Item
    cells: Mapping[str, Any]


def _rows(table: Table, shape: Shape, prefix: str = "") -> list[_Row]:
    """The rows as items; roles come from the system's name, and texts that no database can store are repaired."""
    if shape.of == "context":
        return _contexts(table)
    wanted, found = (ResponseSets, "single texts") if shape.of == "set" else (Items, "sets of responses")
    if not isinstance(table, wanted):
        raise DataError(f"found {found}; expected {'sets of responses' if shape.of == 'set' else 'single texts'}")
    frame = with_unique_ids(table.to_polars() if isinstance(table, ResponseSets) else table.frame)
    rows = []
    for cells in frame.iter_rows(named=True):
        system = _storable(cells.get("system") or "")
        role = system.lower() if system.lower() in ("human", "negative") else "system" if system else ""
        texts = cells["responses"] if shape.of == "set" else [cells["text"]]
        item = Item(
            id=prefix + _require_id(cells["id"], shape),
            texts=tuple(map(_storable, texts)),
            role=role,
            system=system,
            context=_storable(cells.get("context") or ""),
        )
        rows.append(_Row(item, cells))
    _require_unique([row.item.id.removeprefix(prefix) for row in rows], "the table")
    return rows


def _contexts(table: Table) -> list[_Row]:
    """The contexts of a table, each once, as items without texts; single texts without contexts are contexts."""
    frame = table.frame
    column = "context" if "context" in frame.columns else "text"
    if column not in frame.columns or frame[column].null_count():
        raise no_such_column("context", frame.columns, advice="people write to contexts: give one for every row")
    first = frame.unique(column, keep="first", maintain_order=True)
    _require_unique(first["id"].to_list(), "the table")
    rows = zip(first["id"].to_list(), first[column].to_list(), strict=True)
    return [_Row(Item(id=_require_id(id, _WRITTEN), texts=(), context=_storable(text)), {}) for id, text in rows]


def _storable(text: str) -> str:
    """The text with a replacement character for every NUL and lone surrogate, of the same length."""
    return (
        text if is_storable(text) else "".join(one if is_storable(one) else "\N{REPLACEMENT CHARACTER}" for one in text)
    )


def _require_id(id: str, shape: Shape) -> str:
    if not id or not is_storable(id):
        raise DataError(f"found {ascii(id)[:60]}; expected a name without NUL characters", column="id")
    if shape.pairs and (">" in id or id != id.strip()):
        raise DataError(
            f"found '{id[:60]}'; expected ids without > and outer spaces: compared sets are exported as FIRST>SECOND",
            column="id",
        )
    return id


def _require_unique(ids: Sequence[str], where: str) -> None:
    first: dict[str, int] = {}
    for row, id in enumerate(ids, 1):
        before = first.setdefault(id, row)
        if before != row:
            raise DataError(
                f"the id '{id[:60]}' is a duplicate ({ids.count(id)} times in {where}, in rows {before} and {row}); "
                "expected a unique id for every row, since ratings refer to it: add a column of such ids and name it "
                f"({argument('id')})"
            )


def _require_columns(rows: Sequence[_Row], *names: str) -> None:
    found = rows[0].cells
    if missing := [name for name in names if name and name not in found]:
        raise no_such_column(missing[0], found, advice="add it, or give another shape of units")


def _groups(rows: Sequence[_Row], column: str) -> dict[Any, list[_Row]]:
    """Rows by their value in a column, in order of appearance; all in one group without a column."""
    groups: dict[Any, list[_Row]] = {}
    for row in rows:
        value = row.cells[column] if column else ""
        if value is None or not isinstance(value, str | int | float):
            raise DataError(f"item '{row.item.id}' has {value!r:.60}; expected text or a number", column=column)
        groups.setdefault(value, []).append(row)
    return groups


def _normal_units(
    rows: list[_Row], shape: Shape, seed: int, negatives: bool, apart: str, smaller_last: bool
) -> Iterator[list[Item]]:
    _require_columns(rows, shape.group, "system" if shape.add else "")
    groups = _groups(rows, shape.group)
    if shape.add:
        yield from _with_additions(groups, shape, seed, negatives)
        return
    if shape.pairs:
        column = apart or next((name for name in _DISTINGUISHING if name in rows[0].cells), "")
        if not column:
            raise DataError(
                f"found {', '.join(rows[0].cells)}; expected a column in which compared {shape.of}s differ, one of "
                f"{', '.join(_DISTINGUISHING)}: name another ({argument('apart')})"
            )
        _require_columns(rows, column)
        for value, group in groups.items():
            yield from _pairs(group, shape, column, value)
        return
    for value, group in groups.items():
        items = [row.item for row in group]
        if shape.size > 1:
            draw_for(seed, "units", value).shuffle(items)
        rest = len(items) % shape.size
        if len(items) < shape.size or (rest and not smaller_last):
            shared = f" with {shape.group} '{str(value)[:60]}'" if shape.group else ""
            raise DataError(
                f"found {len(items)} {shape.of}s{shared}; expected units of {shape.size}: give a multiple of it, "
                f"another shape, or let the last unit be smaller (smaller_last, from {shape.size} on)"
            )
        yield from (items[start : start + shape.size] for start in range(0, len(items), shape.size))


def _pairs(group: Sequence[_Row], shape: Shape, column: str, value: Any) -> Iterator[list[Item]]:
    levels = _groups(group, column)
    steps = list(combinations(levels, 2)) if shape.pairs == "all" else list(pairwise(sorted(levels)))
    if not steps:
        raise DataError(
            f"the {shape.of}s with {shape.group} '{str(value)[:60]}' are all equal in '{column}'; expected at least "
            "two that differ: name another column (apart) or leave them out",
            column=column,
        )
    for one, other in steps:
        yield from ([first.item, second.item] for first, second in product(levels[one], levels[other]))


def _with_additions(groups: Mapping[Any, list[_Row]], shape: Shape, seed: int, negatives: bool) -> Iterator[list[Item]]:
    """Systems' texts, the human one and a negative (paper 4, section 3.1)."""
    humans = {value: _human(group, shape.group, value) for value, group in groups.items()}
    for value, group in groups.items():
        systems = [row.item for row in group if row.item.role not in shape.add]
        if len(systems) != shape.size - len(shape.add):
            raise DataError(
                f"{shape.group} '{str(value)[:60]}' has {len(systems)} texts of systems; expected "
                f"{shape.size - len(shape.add)} beside {' and '.join(shape.add)}: give another shape of units for "
                "more or fewer systems",
                column="system",
            )
        items = systems + ([humans[value]] if "human" in shape.add else [])
        if "negative" in shape.add and negatives:
            given = [row.item for row in group if row.item.role == "negative"]
            items.append(given[0] if given else _negative(humans, value, systems[0], seed))
        yield items


def _human(group: Sequence[_Row], column: str, value: Any) -> Item:
    for row in group:
        if row.item.role == "human":
            return row.item
    for row in group:
        if row.cells.get("references"):
            text = _storable(row.cells["references"][0])
            return Item(
                id=f"{group[0].item.id}#human", texts=(text,), role="human", system="human", context=row.item.context
            )
    raise DataError(
        f"{column} '{str(value)[:60]}' has no human text; expected a row whose system is 'human', or a column of "
        "references",
        column="references",
    )


def _negative(humans: Mapping[Any, Item], value: Any, beside: Item, seed: int) -> Item:
    """The human text of another group made clearly bad."""
    draw = draw_for(seed, "negative", value)
    others = [item.texts[0] for key, item in humans.items() if key != value]
    draw.shuffle(others)
    for story in others:
        if (text := _worsened(story, draw)) is not None:
            return Item(
                id=f"{beside.id}#negative", texts=(text,), role="negative", system="negative", context=beside.context
            )
    raise DataError(
        "found no human text of another group that can be made worse; expected one of two sentences or more: give more "
        "groups, rows whose system is 'negative', or leave negatives out"
    )


def _worsened(story: str, draw: random.Random) -> str | None:
    lines = sentences(story)
    if len(set(lines)) < 2:
        return None
    mixed = list(lines)
    while mixed == lines:
        draw.shuffle(mixed)
    repeated = LexicalRepetition()(" ".join(mixed), seed=draw.getrandbits(32))
    return repeated.text if isinstance(repeated, Perturbed) else None


def _unit(kind: Kind, items: Sequence[Item]) -> Unit:
    """A unit; its context is that of its items if they share one."""
    contexts = {item.context for item in items}
    if len(contexts) > 1:
        return Unit(kind=kind, items=tuple(items))
    return Unit(kind=kind, context=contexts.pop(), items=tuple(replace(item, context="") for item in items))


def _known_units(form: Form, table: Table, shape: Shape, kind: Kind) -> Iterator[Unit]:
    """Units of rows whose answers are known, as large as the rows allow; ids contain the kind."""
    rows = _rows(table, shape, f"{kind}:")
    columns = {f"expected_{question.id}": question for question in form.questions}
    given = {name: question for name, question in columns.items() if name in rows[0].cells}
    if not given:
        raise DataError(f"no known answers; found {', '.join(rows[0].cells)}; expected {' or '.join(columns)}")
    _require_columns(rows, shape.group)
    for group in _groups(rows, shape.group).values():
        for start in range(0, len(group), shape.size):
            part = group[start : start + shape.size]
            items = [replace(row.item, role=kind if kind in ("gold", "attention") else row.item.role) for row in part]
            unit = _unit(kind, items)
            expected: dict[str, dict[str, Any]] = {}
            for name, question in given.items():
                for item, value in _known(form, question, unit, [row.cells[name] for row in part], name):
                    expected.setdefault(item, {})[question.id] = value
            yield replace(unit, expected=expected)


def _known(
    form: Form, question: FormQuestion, unit: Unit, cells: Sequence[Any], column: str
) -> Iterator[tuple[str, Any]]:
    """The known answers to one question, from the cells of a unit's rows: (item, answer)."""
    ids = unit.targets("item")
    if question.widget == "span" or question.per == "pair":
        raise DataError("found known answers about spans or pairs; expected them about items or units", column=column)
    known: list[tuple[str, Any]]
    if question.per == "item":
        known = [(id, cell) for id, cell in zip(ids, cells, strict=True) if cell is not None]
    elif question.among:
        right = [id for id, cell in zip(ids, cells, strict=True) if cell in (1, "1", True)]
        known = [("", right[0] if len(right) == 1 else right)]
    elif question.widget == "ranking":
        places = {str(cell): id for id, cell in zip(ids, cells, strict=True)}
        known = [("", [places.get(str(place), "") for place in range(1, len(ids) + 1)])]
    else:
        known = [("", cell) for cell in dict.fromkeys(cells) if cell is not None]
    if question.per == "unit" and len(known) > 1:
        raise DataError(f"found {len(known)} answers for one unit; expected one", column=column)
    for item, value in known:
        try:
            yield item, check_answer(form, question.id, item, value, unit)
        except DataError as error:
            raise DataError(error.message, column=column) from error
