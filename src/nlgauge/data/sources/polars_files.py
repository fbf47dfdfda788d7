"""Files that Polars reads: Parquet and Arrow, whose damage must not end in a panic."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import polars as pl

from nlgauge.data.sources import object_stores as stores
from nlgauge.data.sources.files import display_name
from nlgauge.errors import DataError

_polars_reads = threading.Lock()


@contextmanager
def read_by_polars(path: str, expected: str) -> Iterator[None]:
    """In this block, damage that Polars finds is an error about the file; so is a panic, whose trace is not shown."""
    try:
        with _polars_reads, _panics_unseen():
            yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = "it is damaged" if isinstance(error, pl.exceptions.PanicException) else str(error).partition("\n")[0]
        raise DataError(f"{expected} ({reason})", file=display_name(path)) from error


@contextmanager
def _panics_unseen() -> Iterator[None]:
    """What this process writes to standard error in this block is shown after it, unless it ends in a panic."""
    try:
        shown = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    with tempfile.TemporaryFile() as held, closing(os.fdopen(shown, "wb")) as stderr:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except pl.exceptions.PanicException:
            held.truncate(0)
            raise
        finally:
            os.dup2(shown, 2)
            held.seek(0)
            stderr.write(held.read())


def scan_parquet(path: str) -> pl.LazyFrame:
    """A lazily read Parquet file."""
    options = stores.polars_options(path) if stores.is_address(path) else None
    return pl.scan_parquet(polars_input(path), storage_options=options)


def polars_input(path: str) -> str | bytes:
    """What Polars reads: a name, or the content of a file whose name is not UTF-8, which it cannot open."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return Path(path).read_bytes()
    return path
