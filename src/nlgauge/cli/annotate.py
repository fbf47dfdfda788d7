"""`nlgauge annotate`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from nlgauge.cli.commands import CommandGroup, Lazy, argument
from nlgauge.cli.output import SPREADSHEET, Output, Plugins, check_file, columns, show_document, show_list
from nlgauge.configured import Options, option, option_lines, required
from nlgauge.errors import MissingExtra, OptionError
from nlgauge.errors import argument as named

if TYPE_CHECKING:
    from nlgauge.annotate.database.store import Store

STUDY = argument("STUDY", "Name of the study.")
_REASON = required("Why, in plain words; it is stored, and raters may see it.")
_URL = option("", "The address by which raters reach the site.", metavar="URL")


@dataclass(frozen=True, kw_only=True)
class Database(Options):
    """Where studies are kept."""

    database: str = option(
        "",
        "A SQLite file, or postgresql://USER:PASSWORD@HOST/NAME. Default: NLGAUGE_DATABASE, else annotate.db.",
        metavar="URL",
    )

    @property
    def address(self) -> str:
        """The database that was named, or that of the environment, or the one in the working folder."""
        if missing := [name for name in ("sqlalchemy", "alembic", "argon2", "itsdangerous") if find_spec(name) is None]:
            raise MissingExtra.needs(f"nlgauge annotate ({missing[0]})", "annotate")
        from nlgauge.annotate.serving import database_address

        return database_address(self.database)

    @property
    def secret(self) -> str:
        """The secret that signs links and addresses."""
        from nlgauge.annotate.pages.signing import read_secret
        from nlgauge.annotate.serving import secret_file

        return read_secret(secret_file(self.address))

    def opened(self, *, must_exist: bool = True) -> AbstractContextManager[Store]:
        """The store in the database."""
        address = self.address
        from nlgauge.annotate.serving import opened_store

        return opened_store(address, must_exist=must_exist)


def serve(
    database: Database,
    host: str = option("127.0.0.1", "Address to listen on; 0.0.0.0: every one of this machine."),
    port: int = option(8000, "Port to listen on; 0: any that is free.", metavar="N"),
    url: str = _URL,
    log_level: Literal["warning", "info", "debug"] = option("warning", "How much the server logs."),
) -> None:
    """Run the site. Ctrl-C stops it; nothing that was saved is lost.

    Examples:
      nlgauge annotate serve --port 8000
      nlgauge annotate serve --database postgresql://site@localhost/annotate --url https://rate.example.org
    """
    address = database.address
    from nlgauge.annotate.serving import serve

    serve(address, host=host, port=port, base_url=url, log_level=log_level, say=lambda line: print(line, flush=True))


def status(
    database: Database,
    output: Output,
    study: str = STUDY,
    fees: float = option(0.0, "The platform's share on top of the pay, such as 0.2."),
) -> None:
    """Progress, agreement, raters and cost of a study.

    Example: nlgauge annotate status pilot --fees 0.2
    """
    with database.opened() as store:
        from nlgauge.annotate.dashboard import dashboard
        from nlgauge.annotate.status import status_lines

        snapshot = store.snapshot(store.study(study))
        found = dashboard(snapshot, snapshot.study, fees=fees)
    show_document("status", found, "\n".join(status_lines(found)), output)


def links(
    database: Database,
    study: str = STUDY,
    n: int = option(1, "How many.", metavar="N", flags=("--n", "-n")),
    url: str = option("http://127.0.0.1:8000", "The address by which raters reach the site.", metavar="URL"),
    days: float = option(30.0, "How long they work."),
) -> None:
    """Personal links for raters, one per line.

    Example: nlgauge annotate links pilot --n 20 --url https://rate.example.org
    """
    address = database.address
    from nlgauge.annotate.platforms.entrances import check_address, require_allowed
    from nlgauge.annotate.serving import rater_links

    check_address(url)
    with database.opened() as store:
        require_allowed(store.study(study), "direct")
    for link in rater_links(address, study, n, base_url=url, days=days):
        print(link)


def export(
    database: Database,
    study: str = STUDY,
    output: Path = required(
        "Ratings, or written sets: .csv, .tsv, .jsonl or .parquet.", metavar="OUT", flags=("--output", "-o")
    ),
    include: Literal["valid", "all"] = option("valid", "Valid work, or all that was handed in."),
    question: Sequence[str] = option((), "Only this question; repeat for more.", metavar="ID"),
    added: bool = option(False, "Also ratings of texts that the data does not have: the human, the negative."),
    spreadsheet: bool = option(False, SPREADSHEET),
) -> None:
    """Write ratings as the studies read them. Safe while raters work: it sees one moment.

    A study whose form asks people to write gives response sets, labelled for `nlgauge study content`.

    Examples:
      nlgauge annotate export pilot -o ratings.csv && nlgauge study agreement ratings.csv
      nlgauge annotate export different -o high.jsonl
    """
    check_file("output", output, [])
    with database.opened() as store:
        snapshot = store.snapshot(store.study(study))
    from nlgauge.annotate.exporting import ratings, response_sets
    from nlgauge.data.tables import Ratings, ResponseSets
    from nlgauge.data.writing import write_table

    table: Ratings | ResponseSets
    if snapshot.study.form.writes:
        for name, given in (("question", question), ("added", added)):
            if given:
                raise OptionError(f"{named(name)} has no meaning for a form that asks people to write sets")
        table, what = response_sets(snapshot, include=include), "sets"
    else:
        table, what = ratings(snapshot, include=include, questions=question or None, added=added), "ratings"
    write_table(table, output, spreadsheet=spreadsheet)
    print(f"{len(table)} {what} written to {output}")


def texts(
    database: Database,
    output: Output,
    study: str = STUDY,
    assignment: int | None = option(None, "Only this assignment.", metavar="NUMBER"),
) -> None:
    """What people wrote, to review: the sets of every assignment, whether they count, and which rule rejected them.

    Example: nlgauge annotate texts different && nlgauge annotate reject different --assignment 7 --reason 'not replies'
    """
    with database.opened() as store:
        snapshot = store.snapshot(store.study(study))
        snapshot.check_own(assignment=assignment)
    from nlgauge.annotate.written import require_writing, work_lines, written_work

    require_writing(snapshot)
    work = [one for one in written_work(snapshot) if assignment in (None, one.assignment)]
    rows = [asdict(one) for one in work]
    show_list("texts", rows, "\n".join(work_lines(work)) or "nobody has handed anything in yet", output)


def import_work(
    database: Database,
    study: str = STUDY,
    file: str = argument("FILE", "What the platform gives for download."),
    source: Literal["mturk", "prolific", "huse"] = required("The platform.", flags=("--from",)),
) -> None:
    """Take in work that was done on a platform, as if it had been done here. Importing twice changes nothing.

    Example: nlgauge annotate import pilot Batch_123_batch_results.csv --from mturk
    """
    with database.opened() as store:
        from nlgauge.annotate.platforms.exchange import IMPORTS

        done = IMPORTS[source](store, store.study(study), file)
    print(
        f"{done.raters} raters: {done.new} new assignments, {done.known} known before; {done.rejected} rejected "
        "(`nlgauge annotate status` says by which rules)"
    )


def mturk(
    database: Database,
    study: str = STUDY,
    output: Path = required("Folder for the files.", metavar="FOLDER", flags=("--output", "-o")),
    url: str = _URL,
) -> None:
    """Write HITs for Mechanical Turk: a CSV for the bulk upload and its page; with --url also an external question.

    Example: nlgauge annotate mturk pilot -o hits --url https://rate.example.org
    """
    with database.opened() as store:
        from nlgauge.annotate.platforms.entrances import entrance
        from nlgauge.annotate.platforms.exchange import write_mturk

        snapshot = store.snapshot(store.study(study))
    address = entrance(snapshot.study, "mturk", url, database.secret) if url else ""
    for path in write_mturk(snapshot, output, address=address):
        print(path)


def prolific(
    database: Database,
    study: str = STUDY,
    url: str = required("The address by which raters reach the site.", metavar="URL"),
) -> None:
    """The two addresses that Prolific asks for.

    Example: nlgauge annotate prolific pilot --url https://rate.example.org
    """
    with database.opened() as store:
        from nlgauge.annotate.platforms.entrances import entrance
        from nlgauge.annotate.platforms.exchange import prolific_addresses

        found = store.study(study)
    begin, end = prolific_addresses(found, entrance(found, "prolific", url, database.secret))
    print(f"study: {begin}\ncompletion: {end}")


def close(database: Database, study: str = STUDY) -> None:
    """End a study: nobody gets new units, open ones end with what was saved.

    Example: nlgauge annotate close pilot
    """
    with database.opened() as store:
        ended = store.close_study(study, "cli")
    print(f"study '{study}' is closed; {ended} open assignments ended")


def reject(
    database: Database,
    study: str = STUDY,
    reason: str = _REASON,
    rater: str = option("", "A rater, with all their work.", metavar="PSEUDONYM"),
    assignment: int | None = option(None, "One assignment.", metavar="NUMBER"),
) -> None:
    """Reject work; others get the units.

    Example: nlgauge annotate reject pilot --rater rater-12ab34cd56ef --reason 'the same text everywhere'
    """
    with database.opened() as store:
        snapshot = store.snapshot(store.study(study))
        snapshot.check_own(assignment=assignment)
        whose = snapshot.rater_id(rater) if rater else None
        made = store.reject(assignment_id=assignment, rater_id=whose, reason=reason, who="cli")
    print(f"verdict {made.id}; to take it back: nlgauge annotate overrule {study} {made.id} --reason …")


def overrule(
    database: Database,
    study: str = STUDY,
    verdict: int = argument("VERDICT", "Number of the verdict, as `status` shows it."),
    reason: str = _REASON,
) -> None:
    """Take a rejection back.

    Example: nlgauge annotate overrule pilot 3 --reason 'the text was fine'
    """
    with database.opened() as store:
        store.snapshot(store.study(study)).check_own(verdict=verdict)
        store.overrule(verdict, reason, "cli")
    print(f"verdict {verdict} is overruled")


def password(database: Database, name: str = argument("NAME", "The researcher.")) -> None:
    """Make a researcher, or give one a new password: asked for, or the first line of standard input.

    Example: nlgauge annotate password maria
    """
    with database.opened(must_exist=False) as store:
        if sys.stdin.isatty():
            chosen = click.prompt("Password", hide_input=True, confirmation_prompt=True)
        else:
            chosen = sys.stdin.readline().rstrip("\r\n")
        store.set_password(name, chosen)
    print(f"the password of '{name}' is set")


def list_forms(output: Output) -> None:
    """List the forms that come with NLGauge and with plugins.

    Example: nlgauge annotate forms
    """
    from nlgauge.data.human.forms import load_forms

    forms = load_forms()
    rows = [{"name": one.name, "title": one.title, "paper": one.paper, "plugin": one.plugin} for one in forms]
    lines = columns([(one.name, f"{one.title} ({one.paper or one.plugin})") for one in forms])
    show_list("forms", rows, lines, output)


def show_form(name: str = argument("FORM", "A form by name, or a file of your own.")) -> None:
    """Show what a form shows and asks.

    Example: nlgauge annotate forms show typicality
    """
    from nlgauge.annotate.status import form_lines
    from nlgauge.data.human.forms import load_form

    print("\n".join(form_lines(load_form(name))))


def list_rules(plugins: Plugins, output: Output) -> None:
    """List the quality rules with their options.

    Example: nlgauge annotate rules
    """
    from nlgauge.annotate.rules import RULES, rule_names

    plugins.use()
    rows, lines = [], []
    for cls in RULES.classes(rule_names()):
        row = {"name": cls.name, "rejects": (cls.__doc__ or "").partition("\n")[0], "options": list(option_lines(cls))}
        lines += [f"{row['name']}: {row['rejects']}", *(f"    {line}" for line in row["options"])]
        rows.append(row)
    show_list("rules", rows, "\n".join(lines), output)


app = CommandGroup(
    "annotate",
    "Ask people: an annotation site for the questionnaires of the papers, and for your own.",
    {
        "new": Lazy("Make a study: a form, what is rated, and how often.", "nlgauge.cli.annotate_new:new"),
        "serve": serve,
        "status": status,
        "links": links,
        "export": export,
        "texts": texts,
        "import": import_work,
        "mturk": mturk,
        "prolific": prolific,
        "close": close,
        "reject": reject,
        "overrule": overrule,
        "password": password,
        "forms": CommandGroup(
            "forms",
            "List the forms that come with NLGauge, or show one.",
            {"list": list_forms, "show": show_form},
            examples=["nlgauge annotate forms show abs-hds"],
            alone="list",
            otherwise="show",
        ),
        "rules": list_rules,
    },
    examples=[
        "nlgauge annotate new pilot --form abs-hds --data sets.jsonl --raters 3",
        "nlgauge annotate serve",
        "nlgauge annotate export pilot -o ratings.csv",
    ],
)
