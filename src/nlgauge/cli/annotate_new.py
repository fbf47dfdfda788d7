"""`nlgauge annotate new`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from nlgauge.annotate.settings import Asking, Known, StudySettings
from nlgauge.cli.annotate import STUDY, Database
from nlgauge.cli.output import Plugins
from nlgauge.configured import option, required
from nlgauge.data.columns import Reading
from nlgauge.errors import DataError

if TYPE_CHECKING:
    from nlgauge.data.reading import Table


def new(
    database: Database,
    asking: Asking,
    known: Known,
    reading: Reading,
    plugins: Plugins,
    study: str = STUDY,
    form: str = required("A form by name, or a file of your own (.toml).", metavar="FORM"),
    data: str = required("What is rated: sets or single texts, as the form asks.", metavar="FILE"),
    per_unit: int | None = option(None, "Sets or items of a unit, instead of the form's number.", metavar="N"),
    smaller_last: bool = option(False, "The last unit may have fewer."),
    pages: Literal["apart", "joined"] = option(
        "apart", "Pages as the form has them; joined: those that show the same on one (asp-hds)."
    ),
    apart: str = option("", "Pair sets that differ in this column (rnk-hds).", metavar="COL"),
    negatives: bool = option(True, "Make negatives (story-quality)."),
    ids: str = option("", "Ids that may come in from platforms, one per line. Default: any.", metavar="FILE"),
) -> None:
    """Make a study: a form, what is rated, and how often.

    Examples:
      nlgauge annotate new pilot --form abs-hds --data sets.jsonl --raters 3 --pay 0.20 --rule min-time:seconds=20
      nlgauge annotate new stories --form story-quality --data stories.csv --raters 5 --rule mans --gold known.csv
      nlgauge annotate new crowd --form typicality --data texts.csv --platform prolific --completion-code C0DE
    """
    _ = database.address
    from nlgauge.annotate.crowd import crowd_units
    from nlgauge.annotate.platforms import check_platforms, read_ids
    from nlgauge.annotate.units import make_units
    from nlgauge.data.human.crowd import is_crowd_export
    from nlgauge.data.human.forms import load_form
    from nlgauge.data.reading import read_tables
    from nlgauge.data.tables import Items
    from nlgauge.models.language.tester import read_contexts

    plugins.use()
    chosen = load_form(form)
    if pages == "joined":
        chosen = chosen.with_joined_pages()
    shape = chosen.unit if per_unit is None else replace(chosen.unit, size=per_unit)
    rules = known.rules(chosen.rules)
    known.check(asking, rules)
    check_platforms(asking)
    expected = read_ids(ids, asking) if ids else []
    settings = StudySettings(**vars(asking), quality=rules)

    def read(path: str) -> Table:
        return next(table for _, table in read_tables([path], reading))

    table: Table
    if chosen.writes:
        contexts = read_contexts(data, reading)
        table = Items.of([context for _, context in contexts], ids=[id for id, _ in contexts])
    elif data != "-" and is_crowd_export(data):
        table, shape = crowd_units(data, chosen)
    else:
        table = read(data)
    others: Mapping[str, Table] = {kind: read(file) for kind, file in known.files.items()}
    try:
        units = make_units(
            chosen,
            table,
            seed=settings.seed,
            negatives=negatives,
            shape=shape,
            apart=apart,
            smaller_last=smaller_last,
            **others,
        )
    except DataError as error:
        raise error.at(file=data) from error
    with database.opened(must_exist=False) as store:
        store.create_study(study, chosen, units, settings, ids=expected)
    normal = sum(unit.kind == "normal" for unit in units)
    extra = f" and {len(units) - normal} with known answers" if len(units) > normal else ""
    each = "sets" if chosen.writes else "ratings"
    print(f"study '{study}': {normal} units{extra}, {settings.raters} {each} each; next: nlgauge annotate serve")
    print(f"quality rules: {'; '.join(settings.rule_specs)}; `nlgauge annotate rules` explains them")
