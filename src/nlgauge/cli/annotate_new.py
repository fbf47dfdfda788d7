"""`nlgauge annotate new`."""

from __future__ import annotations

from nlgauge.annotate.settings import Asking, Dividing, Known, StudySettings
from nlgauge.cli.annotate import STUDY, Database
from nlgauge.cli.output import Plugins
from nlgauge.configured import option, required
from nlgauge.data.columns import Reading


def new(
    database: Database,
    asking: Asking,
    known: Known,
    reading: Reading,
    dividing: Dividing,
    plugins: Plugins,
    study: str = STUDY,
    form: str = required("A form by name, or a file of your own (.toml).", metavar="FORM"),
    data: str = required("What is rated: sets or single texts, as the form asks.", metavar="FILE"),
    ids: str = option("", "Ids that may come in from platforms, one per line. Default: any.", metavar="FILE"),
) -> None:
    """Make a study: a form, what is rated, and how often.

    Examples:
      nlgauge annotate new pilot --form abs-hds --data sets.jsonl --raters 3 --pay 0.20 --rule min-time:seconds=20
      nlgauge annotate new stories --form story-quality --data stories.csv --raters 5 --rule mans --gold known.csv
      nlgauge annotate new crowd --form typicality --data texts.csv --platform prolific --completion-code C0DE
    """
    _ = database.address
    from nlgauge.annotate.creating import units_of_files
    from nlgauge.annotate.platforms.entrances import check_platforms, read_ids
    from nlgauge.data.human.forms import load_form

    plugins.use()
    chosen = dividing.pages_of(load_form(form))
    rules = known.rules(chosen.rules)
    known.check(asking, rules)
    check_platforms(asking)
    expected = read_ids(ids, asking) if ids else []
    settings = StudySettings(**vars(asking), quality=rules)
    units = units_of_files(chosen, data, known, reading=reading, dividing=dividing, seed=settings.seed)
    with database.opened(must_exist=False) as store:
        store.create_study(study, chosen, units, settings, ids=expected)
    normal = sum(unit.kind == "normal" for unit in units)
    extra = f" and {len(units) - normal} with known answers" if len(units) > normal else ""
    each = "sets" if chosen.writes else "ratings"
    print(f"study '{study}': {normal} units{extra}, {settings.raters} {each} each; next: nlgauge annotate serve")
    print(f"quality rules: {'; '.join(settings.rule_specs)}; `nlgauge annotate rules` explains them")
