"""`nlgauge annotate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nlgauge.cli import inputs
from nlgauge.cli.annotate_forms import forms_app
from nlgauge.cli.annotate_new import register_new
from nlgauge.cli.annotate_options import Database, StudyName, opened, require_packages
from nlgauge.errors import DataError, OptionError

if TYPE_CHECKING:
    from nlgauge.annotate.dashboard import Dashboard
    from nlgauge.annotate.store_records import Platform, Study

app = typer.Typer(
    help="Ask people: an annotation site for the questionnaires of the papers, and for your own.\n\n"
    "Examples: nlgauge annotate new pilot --form abs-hds --data sets.jsonl --raters 3  *  nlgauge annotate serve  *  "
    "nlgauge annotate export pilot -o ratings.csv",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
register_new(app)
app.add_typer(forms_app, name="forms")

Reason = Annotated[str, typer.Option("--reason", help="Why, in plain words; it is kept, and raters may see it.")]
Url = Annotated[
    str, typer.Option("--url", metavar="URL", help="The address by which raters reach the site.", show_default=False)
]


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
    with opened(database) as store:
        found = dashboard(snapshot := store.snapshot(store.study(study)), snapshot.study, fees=fees)
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

    _check_address(url)
    with opened(database) as store:
        _require_allowed(store.study(study), "direct")
    for link in rater_links(database_address(database), study, n, base_url=url, days=days):
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
    with opened(database) as store:
        snapshot = store.snapshot(store.study(study))
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
    with opened(database) as store:
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

    _check_address(url)
    with opened(database) as store:
        snapshot = store.snapshot(store.study(study))
    if url:
        _require_allowed(snapshot.study, "mturk")
    for path in write_mturk(snapshot, output, address=entrance_address(url, study, "mturk") if url else ""):
        print(path)


@app.command("prolific")
def prolific_command(study: StudyName, url: Url, database: Database = "") -> None:
    """The two addresses that Prolific asks for. Example: nlgauge annotate prolific pilot --url https://rate.example.org"""
    require_packages()
    from nlgauge.annotate.crowd import prolific_addresses
    from nlgauge.annotate.signing import entrance_address

    _check_address(url)
    with opened(database) as store:
        found = store.study(study)
    _require_allowed(found, "prolific")
    begin, end = prolific_addresses(found, entrance_address(url, study, "prolific"))
    print(f"study: {begin}\ncompletion: {end}")


@app.command("close")
def close_command(study: StudyName, database: Database = "") -> None:
    """End a study: nobody gets new units, open ones end with what was saved. Example: nlgauge annotate close pilot"""
    with opened(database) as store:
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
    with opened(database) as store:
        snapshot = store.snapshot(store.study(study))
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
    with opened(database) as store:
        if verdict not in {one.id for one in store.snapshot(store.study(study)).verdicts}:
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
    with opened(database, must_exist=False) as store:
        if sys.stdin.isatty():
            password = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        else:
            password = sys.stdin.readline().rstrip("\r\n")
        store.set_password(name, password)
    print(f"the password of '{name}' is set")


def _check_address(url: str) -> None:
    """An error where the site cannot be reached so, before anybody is sent there."""
    from nlgauge.annotate.security import AppSettings

    AppSettings(base_url=url)


def _require_allowed(study: Study, platform: Platform) -> None:
    """An error where the site would turn away everybody who comes from there."""
    from nlgauge.annotate.security import allows

    if study.state == "closed":
        raise OptionError(f"study '{study.name}' is closed; expected an open one: nobody gets units of it any more")
    if platform not in study.settings.platforms:
        found = f"takes raters from {' and '.join(study.settings.platforms)} only"
        raise OptionError(f"study '{study.name}' {found}; expected {platform}: make a study with --platform {platform}")
    if not allows(study, platform):
        needed = {"mturk": "post-back-url", "prolific": "completion-code"}[platform]
        raise OptionError(f"study '{study.name}' has no {needed}; expected one: make the study with --{needed}")


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
