"""New studies: what is rated and what has known answers, read from files and made into units."""

from __future__ import annotations

from dataclasses import replace

from nlgauge.annotate.platforms.exchange import crowd_units
from nlgauge.annotate.settings import Dividing, Known
from nlgauge.annotate.units import Unit, make_units
from nlgauge.data.columns import Reading
from nlgauge.data.human.crowd import is_crowd_export
from nlgauge.data.human.forms import Form
from nlgauge.data.reading import Table, read_tables
from nlgauge.data.tables import Items
from nlgauge.errors import DataError
from nlgauge.models.language.tester import read_contexts


def units_of_files(
    form: Form, data: str, known: Known, *, reading: Reading, dividing: Dividing, seed: int
) -> list[Unit]:
    """The units of a study whose form asks about the sets or texts of a file, or about those of a crowd export."""

    def read(path: str) -> Table:
        return next(table for _, table in read_tables([path], reading))

    table: Table
    shape = form.unit if dividing.per_unit is None else replace(form.unit, size=dividing.per_unit)
    if form.writes:
        contexts = read_contexts(data, reading)
        table = Items.of([context for _, context in contexts], ids=[id for id, _ in contexts])
    elif data != "-" and is_crowd_export(data):
        table, shape = crowd_units(data, form)
    else:
        table = read(data)
    others = {kind: read(file) for kind, file in known.files.items()}
    try:
        return make_units(
            form,
            table,
            seed=seed,
            negatives=dividing.negatives,
            shape=shape,
            apart=dividing.apart,
            smaller_last=dividing.smaller_last,
            **others,
        )
    except DataError as error:
        raise error.at(file=data) from error
