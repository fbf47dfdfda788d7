"""The files of questionnaires: raters on the annotation site and models that judge are asked in the same words.

`forms/*.toml` come with NLGauge. What the keys mean is for those who ask: `annotate/forms.py` reads all of them,
strictly; `models/judge_forms.py` reads those that make a prompt.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from nlgauge.data.files import decode_utf8
from nlgauge.errors import DataError, UnknownName


def form_names() -> list[str]:
    """The forms that come with NLGauge."""
    folder = resources.files("nlgauge.data") / "forms"
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def read_form(name_or_path: str | Path) -> dict[str, Any]:
    """What stands in a form that comes with NLGauge, by name, or in a user's own, by path."""
    name = str(name_or_path)
    if name in form_names():
        data = (resources.files("nlgauge.data") / "forms" / f"{name}.toml").read_bytes()
    elif name.endswith(".toml") or Path(name).is_file():
        try:
            data = Path(name).read_bytes()
        except OSError as error:
            raise DataError(
                f"cannot be read: {error.strerror or error}; expected a form file, or one of {', '.join(form_names())}",
                file=name,
            ) from error
    else:
        raise UnknownName.among("form", name, form_names(), "A form of your own is a file whose name ends in .toml.")
    try:
        return tomllib.loads(decode_utf8(data, file=name, first_line=1))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{error}; expected a TOML file, as docs/forms.md describes it", file=name) from error
