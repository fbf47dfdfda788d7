"""`nlgauge annotate`."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nlgauge.cli import inputs
from nlgauge.cli.annotate_forms import forms_app, require_packages
from nlgauge.errors import DataError, OptionError

if TYPE_CHECKING:
    from nlgauge.annotate.dashboard import Dashboard
    from nlgauge.annotate.store import Snapshot, Store
    from nlgauge.data.reading import Table

app = typer.Typer(
    help="Ask people: an annotation site for the questionnaires of the papers, and for your own.\n\n"
    "Examples: nlgauge annotate new pilot --form abs-hds --data sets.jsonl --raters 3  *  nlgauge annotate serve  *  "
    "nlgauge annotate export pilot -o ratings.csv",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.add_typer(forms_app, name="forms")

StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="Name of the study.")]
Database = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="A SQLite file, or postgresql://USER:PASSWORD@HOST/NAME. Default: NLGAUGE_DATABASE, else annotate.db.",
        show_default=False,
    ),
]
Reason = Annotated[str, typer.Option("--reason", help="Why, in plain words; it is kept, and raters may see it.")]
Url = Annotated[
    str, typer.Option("--url", metavar="URL", help="The address by which raters reach the site.", show_default=False)
]
KnownAnswers = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Rows as the data has them, with columns expected_QUESTION.", show_default=False),
]


@app.command("new")
def new_command(
    study: StudyName,
    form: Annotated[str, typer.Option(metavar="FORM", help="A form by name, or a file of your own (.toml).")],
    data: Annotated[str, typer.Option(metavar="FILE", help="What is rated: sets or single texts, as the form asks.")],
    raters: Annotated[int, typer.Option(help="Valid ratings that each unit gets.")] = 3,
    database: Database = "",
    gold: KnownAnswers = None,
    attention: KnownAnswers = None,
    qualification: KnownAnswers = None,
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
    settings = StudySettings(
        raters=raters, pay=pay, currency=currency, seed=seed, quality=_rules(rule or []), max_units_per_rater=most,
        completion_code=completion_code, post_back_url=post_back_url,
        platforms=tuple(platform) if platform else StudySettings.platforms,  # type: ignore[arg-type]
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
            **{kind: read(file) for kind, file in
               (("gold", gold), ("attention", attention), ("qualification", qualification)) if file},
        )  # fmt: skip
    except DataError as error:
        raise error.at(file=data) from error
    with _opened(database, must_exist=False) as store:
        store.create_study(study, chosen, units, settings)
    normal = sum(unit.kind == "normal" for unit in units)
    extra = f" and {len(units) - normal} with known answers" if len(units) > normal else ""
    print(f"study '{study}': {normal} units{extra}, {raters} ratings each; next: nlgauge annotate serve")


@app.command("serve")
def serve_command(
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0: every one of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any that is free.")] = 8000,
    database: Database = "",
    url: Url = "",
    log_level: Annotated[str, typer.Option(help="warning, info or debug.")] = "warning",
) -> None:
    """Run the site. Ctrl-C stops it; nothing that was saved is lost.

    Examples:

      nlgauge annotate serve --port 8000

      nlgauge annotate serve --database postgresql://site@localhost/annotate --url https://rate.example.org
    """
    require_packages()
    from nlgauge.annotate.serving import database_address, serve

    if log_level not in ("warning", "info", "debug"):
        raise OptionError(f"--log-level {log_level}; expected warning, info or debug")
    serve(
        database_address(database), host=host, port=port, base_url=url, log_level=log_level,
        say=lambda line: print(line, flush=True),
    )  # fmt: skip


@app.command("status")
def status_command(
    study: StudyName,
    database: Database = "",
    format: Annotated[str, typer.Option("--format", "-f", help="text or json.")] = "text",
    fees: Annotated[float, typer.Option(help="The platform's share on top of the pay, such as 0.2.")] = 0.0,
) -> None:
    """How far a study is: progress, agreement, raters, cost. Example: nlgauge annotate status pilot --fees 0.2"""
    import msgspec

    from nlgauge.annotate.dashboard import dashboard

    if format not in ("text", "json"):
        raise OptionError(f"--format {format}; expected text or json")
    with _opened(database) as store:
        found = dashboard(snapshot := _snapshot(store, study), snapshot.study, fees=fees)
    print(msgspec.json.format(msgspec.json.encode(found)).decode() if format == "json" else _shown(found))


@app.command("links")
def links_command(
    study: StudyName,
    n: Annotated[int, typer.Option("--n", "-n", help="How many.")] = 1,
    url: Url = "http://127.0.0.1:8000",
    days: Annotated[float, typer.Option(help="How long they work.")] = 30.0,
    database: Database = "",
) -> None:
    """Personal links for raters, one a line. Example: nlgauge annotate links pilot --n 20 --url https://rate.example.org"""
    require_packages()
    from nlgauge.annotate.serving import database_address, rater_links

    with _opened(database) as store:
        name = store.study(study).name
    for link in rater_links(database_address(database), name, n, base_url=url, days=days):
        print(link)


@app.command("export")
def export_command(
    study: StudyName,
    output: Annotated[Path, typer.Option("--output", "-o", help="Ratings go here: .csv, .jsonl or .parquet.")],
    include: Annotated[str, typer.Option(metavar="valid|all", help="Valid work, or whatever was handed in.")] = "valid",
    question: Annotated[
        list[str] | None,
        typer.Option("--question", metavar="ID", help="Only this question; repeat for more.", show_default=False),
    ] = None,
    added: Annotated[
        bool,
        typer.Option("--added", help="Also ratings of texts that the data does not have: the human, the negative."),
    ] = False,
    database: Database = "",
) -> None:
    """Write ratings as the studies read them. Safe while raters work: it sees one moment.

    Example: nlgauge annotate export pilot -o ratings.csv && nlgauge study agreement ratings.csv
    """
    from nlgauge.annotate.exporting import ratings
    from nlgauge.data.writing import write_table

    inputs.check_output(output, [])
    with _opened(database) as store:
        snapshot = _snapshot(store, study)
    table = ratings(snapshot, include=include, questions=question or None, added=added)  # type: ignore[arg-type]
    write_table(table, output)
    print(f"{len(table)} ratings written to {output}")


@app.command("import")
def import_command(
    study: StudyName,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What the platform gives for download.")],
    source: Annotated[str, typer.Option("--from", metavar="mturk|prolific|huse", help="Where it comes from.")],
    database: Database = "",
) -> None:
    """Take in work that was done on a platform, as if it had been done here. Importing twice changes nothing.

    Example: nlgauge annotate import pilot Batch_123_batch_results.csv --from mturk
    """
    require_packages()
    from nlgauge.annotate.crowd import IMPORTS

    if source not in IMPORTS:
        raise OptionError(f"--from {source}; expected one of {', '.join(IMPORTS)}")
    with _opened(database) as store:
        done = IMPORTS[source](store, store.study(study), file)
    print(
        f"{done.raters} raters: {done.new} new assignments, {done.known} known before; {done.rejected} rejected "
        "(`nlgauge annotate status` says by which rules)"
    )


@app.command("mturk")
def mturk_command(
    study: StudyName,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the files.")],
    url: Url = "",
    database: Database = "",
) -> None:
    """Write HITs for Mechanical Turk: a CSV for the bulk upload and its page; with --url also an external question.

    Example: nlgauge annotate mturk pilot -o hits --url https://rate.example.org
    """
    require_packages()
    from nlgauge.annotate.crowd import write_mturk
    from nlgauge.annotate.signing import entrance_address

    with _opened(database) as store:
        snapshot = _snapshot(store, study)
    for path in write_mturk(snapshot, output, address=entrance_address(url, study, "mturk") if url else ""):
        print(path)


@app.command("prolific")
def prolific_command(study: StudyName, url: Url, database: Database = "") -> None:
    """The two addresses that Prolific asks for. Example: nlgauge annotate prolific pilot --url https://rate.example.org"""
    require_packages()
    from nlgauge.annotate.crowd import prolific_addresses
    from nlgauge.annotate.signing import entrance_address

    with _opened(database) as store:
        found = store.study(study)
    begin, end = prolific_addresses(found, entrance_address(url, study, "prolific"))
    print(f"study: {begin}\ncompletion: {end}")


@app.command("close")
def close_command(study: StudyName, database: Database = "") -> None:
    """End a study: nobody gets new units, open ones end with what was saved. Example: nlgauge annotate close pilot"""
    with _opened(database) as store:
        ended = store.close_study(study, "cli")
    print(f"study '{study}' is closed; {ended} open assignments ended")


@app.command("reject")
def reject_command(
    study: StudyName,
    reason: Reason,
    rater: Annotated[str, typer.Option(metavar="PSEUDONYM", help="A rater, with all their work.")] = "",
    assignment: Annotated[int | None, typer.Option(metavar="NUMBER", help="One assignment.")] = None,
    database: Database = "",
) -> None:
    """Reject work; others get the units.

    Example: nlgauge annotate reject pilot --rater rater-12ab34cd56ef --reason 'the same text everywhere'
    """
    with _opened(database) as store:
        snapshot = _snapshot(store, study)
        ids = {one.pseudonym: one.id for one in snapshot.raters}
        if rater and rater not in ids:
            raise DataError(f"no rater '{rater}' in study '{study}'; found {', '.join(list(ids)[:5]) or 'none'}")
        if assignment is not None and assignment not in {one.id for one in snapshot.assignments}:
            raise DataError(f"no assignment {assignment} in study '{study}'; expected one of its own")
        made = store.reject(
            assignment_id=assignment, rater_id=ids[rater] if rater else None, reason=reason, who="cli"
        )  # fmt: skip
    print(f"verdict {made.id}; to take it back: nlgauge annotate overrule {study} {made.id} --reason …")


@app.command("overrule")
def overrule_command(
    study: StudyName,
    verdict: Annotated[int, typer.Argument(metavar="VERDICT", help="Number of the verdict, as `status` shows it.")],
    reason: Reason,
    database: Database = "",
) -> None:
    """Take a rejection back. Example: nlgauge annotate overrule pilot 3 --reason 'the text was fine'"""
    with _opened(database) as store:
        if verdict not in {one.id for one in _snapshot(store, study).verdicts}:
            raise DataError(f"no verdict {verdict} in study '{study}'; expected one of its own")
        store.overrule(verdict, reason, "cli")
    print(f"verdict {verdict} is overruled")


@app.command("password")
def password_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The researcher.")], database: Database = ""
) -> None:
    """Make a researcher, or give one a new password: asked for, or the first line of standard input.

    Example: nlgauge annotate password maria
    """
    with _opened(database, must_exist=False) as store:
        if sys.stdin.isatty():
            password = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        else:
            password = sys.stdin.readline().rstrip("\r\n")
        store.set_password(name, password)
    print(f"the password of '{name}' is set")


def _opened(database: str, *, must_exist: bool = True) -> AbstractContextManager[Store]:
    require_packages()
    from nlgauge.annotate.serving import database_address, opened_store

    return opened_store(database_address(database), must_exist=must_exist)


def _snapshot(store: Store, name: str) -> Snapshot:
    return store.snapshot(store.study(name))


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


def _shown(found: Dashboard) -> str:
    done, cost = found.progress, found.cost
    lines = [
        f"{found.study} ({found.state}): {done.share:.0%}, {done.units_done} of {done.units} units done",
        f"assignments: {done.valid} valid, {done.leased} open, {done.rejected} rejected, {done.expired} run out, "
        f"{done.left} to go",
    ]
    if done.median_seconds is not None:
        lines.append(f"time: {done.median_seconds:.0f} seconds an assignment (median)")
    if cost.pay:
        lines.append(f"cost: {cost.so_far:.2f} {cost.currency} so far, {cost.to_finish:.2f} to finish")
    for one in found.agreement:
        if one.alpha is None or one.interval is None:
            lines.append(f"agreement on {one.question}: none ({one.reason})")
        else:
            low, high = one.interval
            lines.append(f"agreement on {one.question}: alpha {one.alpha:.3f} [{low:.3f}, {high:.3f}]")
    lines += [f"more raters or more items, {one.question}: {one.advice}" for one in found.stability if one.advice]
    for rater in found.raters:
        rules = ", ".join(f"{rule} {count}" for rule, count in rater.rules.items())
        numbers = ", ".join(map(str, rater.verdicts))
        against = f"; rejected by {rules} (verdicts {numbers})" if rules else ""
        follows = "" if rater.correlation is None else f", follows the others {rater.correlation:.2f}"
        lines.append(
            f"{rater.pseudonym} ({rater.state}): {rater.assignments} handed in, {rater.valid} valid{follows}{against}"
        )
    return "\n".join(lines)
