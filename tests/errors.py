"""What tests of errors look at: the class and the fields, not the sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

E = TypeVar("E", bound=Exception)


@contextmanager
def raises(kind: type[E], **fields: object) -> Iterator[pytest.ExceptionInfo[E]]:
    """The block raises an error of this kind with these fields; `file` may be the last part of a path."""
    with pytest.raises(kind) as caught:
        yield caught
    found = {name: getattr(caught.value, name) for name in fields}
    if "/" not in str(fields.get("file", "/")) and found["file"] is not None:
        found["file"] = Path(found["file"]).name
    assert found == fields, str(caught.value)
