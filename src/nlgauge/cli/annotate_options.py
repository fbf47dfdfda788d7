"""What the commands of `nlgauge annotate` share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from nlgauge.errors import MissingExtra

if TYPE_CHECKING:
    from nlgauge.annotate.store import Store

StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="Name of the study.")]
Database = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="A SQLite file, or postgresql://USER:PASSWORD@HOST/NAME. Default: NLGAUGE_DATABASE, else annotate.db.",
        show_default=False,
    ),
]


def require_packages() -> None:
    """Say what is missing before anything is done."""
    if missing := [name for name in ("sqlalchemy", "alembic", "argon2", "itsdangerous") if find_spec(name) is None]:
        raise MissingExtra.needs(f"nlgauge annotate ({missing[0]})", "annotate")


def opened(database: str, *, must_exist: bool = True) -> AbstractContextManager[Store]:
    """The database that was named, or that of the environment, or the one in the working folder."""
    require_packages()
    from nlgauge.annotate.serving import database_address, opened_store

    return opened_store(database_address(database), must_exist=must_exist)
