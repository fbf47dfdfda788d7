"""`nlgauge annotate new`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nlgauge.cli import inputs
from nlgauge.cli.annotate_options import Database, StudyName, opened, require_packages
from nlgauge.errors import DataError, OptionError

if TYPE_CHECKING:
    from nlgauge.data.reading import Table

KnownAnswers = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Rows as the data has them, with columns expected_QUESTION.", show_default=False),
]


def register_new(app: typer.Typer) -> None:
    """Add the command."""
    app.command("new")(new_command)


def new_command(
    study: StudyName,
    form: Annotated[str, typer.Option(metavar="FORM", help="A form by name, or a file of your own (.toml).")],
    data: Annotated[str, typer.Option(metavar="FILE", help="What is rated: sets or single texts, as the form asks.")],
    raters: Annotated[int, typer.Option(help="Valid ratings that each unit gets.")] = 3,
    database: Database = "",
    gold: KnownAnswers = None,
    gold_every: Annotated[
        int | None, typer.Option(metavar="N", help="One unit of --gold among N assignments of a rater. Default: 10.")
    ] = None,
    attention: KnownAnswers = None,
    attention_every: Annotated[
        int | None, typer.Option(metavar="N", help="One unit of --attention among N assignments. Default: 10.")
    ] = None,
    qualification: KnownAnswers = None,
    qualification_tries: Annotated[
        int | None, typer.Option(metavar="N", help="Tries of a rater to pass --qualification. Default: 3.")
    ] = None,
    pay: Annotated[float, typer.Option(help="What one assignment pays.")] = 0.0,
    currency: Annotated[str, typer.Option(help="In which money.")] = "USD",
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="RULE[:OPTION=VALUE,...]",
            help="A quality rule: mans, min-time, straight-lining, duplicate-text or correlation; or options for gold, "
            "attention or qualification. Repeat for more.",
            show_default=False,
        ),
    ] = None,
    lease_minutes: Annotated[
        float | None,
        typer.Option(help="How long a rater may keep a unit. Default: five times the form's time, at least 30."),
    ] = None,
    most: Annotated[int | None, typer.Option("--units-per-rater", help="Most units that one rater may have.")] = None,
    completion_code: Annotated[str, typer.Option(help="What a rater who is done gets to see, for Prolific.")] = "",
    post_back_url: Annotated[
        str, typer.Option(metavar="URL", help="Mechanical Turk's address for finished work, where it shows this site.")
    ] = "",
    platform: Annotated[
        list[str] | None,
        typer.Option(
            "--platform",
            metavar="direct|mturk|prolific",
            help="Only raters from here: with links of your own, or from a platform. Repeat for more. Default: all.",
            show_default=False,
        ),
    ] = None,
    size: Annotated[int | None, typer.Option(help="Sets or items of a unit, in place of the form's number.")] = None,
    smaller_last: Annotated[bool, typer.Option("--smaller-last", help="The last unit may have fewer.")] = False,
    apart: Annotated[str, typer.Option(metavar="COL", help="Pair sets that differ in this column (rnk-hds).")] = "",
    negatives: Annotated[
        bool, typer.Option("--negatives/--no-negatives", help="Make negatives (story-quality).")
    ] = True,
    seed: inputs.Seed = 12345,
    input_format: inputs.InputFormat = "",
    responses: inputs.Responses = None,
    text: inputs.Text = None,
    references: inputs.References = None,
    id: inputs.Id = None,
    context: inputs.Context = None,
    system: inputs.SystemColumn = None,
    empty_cells: inputs.EmptyCells = "error",
) -> None:
    """Make a study: a form, what is rated, and how often.

    Examples:

      nlgauge annotate new pilot --form abs-hds --data sets.jsonl --raters 3 --pay 0.20 --rule min-time:seconds=20

      nlgauge annotate new stories --form story-quality --data stories.csv --raters 5 --rule mans --gold known.csv
      --gold-every 5

      nlgauge annotate new crowd --form typicality --data texts.csv --platform prolific --completion-code C0DE
      --qualification first.csv --qualification-tries 2
    """
    require_packages()
    from dataclasses import replace

    from nlgauge.annotate.crowd import crowd_units
    from nlgauge.annotate.forms import load_form
    from nlgauge.annotate.store import StudySettings
    from nlgauge.annotate.units import make_units
    from nlgauge.data.crowd import is_crowd_export

    chosen = load_form(form)
    shape = chosen.unit if size is None else replace(chosen.unit, size=size)
    rules = _rules(rule or [])
    known = {"gold": gold, "attention": attention, "qualification": qualification}
    counts = {
        "gold_every": gold_every, "attention_every": attention_every, "qualification_tries": qualification_tries
    }  # fmt: skip
    _check_together(known, counts, rules)
    _check_platforms(platform or [], completion_code, post_back_url)
    settings = StudySettings(
        raters=raters, pay=pay, currency=currency, seed=seed, quality=rules, max_units_per_rater=most,
        completion_code=completion_code, post_back_url=post_back_url,
        platforms=tuple(platform) if platform else StudySettings.platforms,  # type: ignore[arg-type]
        **{name: count for name, count in counts.items() if count is not None},
        lease_minutes=max(30.0, 5 * chosen.minutes) if lease_minutes is None else lease_minutes,
    )  # fmt: skip
    columns = {
        "responses": responses, "text": text, "references": references, "id": id, "context": context, "system": system,
        "empty_cells": empty_cells,
    }  # fmt: skip

    def read(path: str) -> Table:
        return inputs.make_sources(
            [path], input_format=input_format, columns=columns, set_size=0, aligned=None, extras="all"
        )[0].read()  # fmt: skip

    if data != "-" and is_crowd_export(data):
        table, shape = crowd_units(data, chosen)
    else:
        table = read(data)  # type: ignore[assignment]
    try:
        units = make_units(
            chosen, table, seed=seed, negatives=negatives, shape=shape, apart=apart, smaller_last=smaller_last,
            **{kind: read(file) for kind, file in known.items() if file},
        )  # fmt: skip
    except DataError as error:
        raise error.at(file=data) from error
    with opened(database, must_exist=False) as store:
        store.create_study(study, chosen, units, settings)
    normal = sum(unit.kind == "normal" for unit in units)
    extra = f" and {len(units) - normal} with known answers" if len(units) > normal else ""
    print(f"study '{study}': {normal} units{extra}, {raters} ratings each; next: nlgauge annotate serve")


def _check_together(
    known: Mapping[str, str | None], counts: Mapping[str, int | None], rules: Mapping[str, Any]
) -> None:
    """Refuse options about known answers that are not there, which would do nothing."""
    for name, count in counts.items():
        kind = name.partition("_")[0]
        if known[kind] is None and count is not None:
            raise OptionError(f"--{name.replace('_', '-')} {count} without --{kind}; expected a file of known answers")
        if known[kind] is None and kind in rules:
            raise OptionError(f"--rule {kind} without --{kind}; expected a file of known answers")


def _check_platforms(platforms: Sequence[str], completion_code: str, post_back_url: str) -> None:
    """Refuse platforms from which nobody could come in, or get paid."""
    from nlgauge.annotate.security import MTURK_POST_BACK, post_back_origin

    if post_back_url and post_back_origin(post_back_url) is None:
        raise OptionError(
            f"--post-back-url {post_back_url[:80]}; expected an address at {' or '.join(MTURK_POST_BACK)}"
        )
    if "prolific" in platforms and not completion_code:
        raise OptionError("--platform prolific without --completion-code; expected the code that Prolific asks for")


def _rules(specs: list[str]) -> dict[str, dict[str, Any]]:
    """Quality rules as typed: numbers, true and false are what they look like, the rest is text."""
    import msgspec

    from nlgauge.registry import Registry

    registry = Registry("quality rule", "", {}, "min-time:seconds=20")
    rules: dict[str, dict[str, Any]] = {}
    for spec in specs:
        name, given = registry.parse(spec)
        if name in rules:
            raise OptionError(f"--rule {name} was given twice; expected it once, with all its options")
        rules[name] = {}
        for option, typed in given.items():
            try:
                rules[name][option] = msgspec.json.decode(typed)
            except msgspec.DecodeError:
                rules[name][option] = typed
    return rules
