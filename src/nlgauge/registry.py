"""Lists of things with names: lazy, open to other packages and to users' own files, and strict about names."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from nlgauge.errors import NLGaugeError, OptionError, UnknownName

PLUGINS = "NLGAUGE_PLUGINS"
PLUGIN_MODULE = "nlgauge_plugin_"


@dataclass(frozen=True)
class Registry:
    """Classes by name: those that come with NLGauge (`module:Class`), those of installed packages (entry points of
    the group), and those that were registered by a program or by a file that `NLGAUGE_PLUGINS` names.
    """

    kind: str
    group: str
    built_in: Mapping[str, str]
    example: str
    advice: str = ""
    registered: dict[str, type[Any]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """All names."""
        load_plugins()
        return sorted({*self.built_in, *self.registered, *self._installed()})

    def register(self, cls: type[Any]) -> type[Any]:
        """Add a class under its `name`; usable as a decorator. A taken name is refused."""
        name: str = cls.name
        taken = self.registered.get(name)
        if name in self.built_in or (taken is not None and taken is not cls):
            raise OptionError(f"a {self.kind} '{name}' exists already; choose another name")
        self.registered[name] = cls
        return cls

    def find(self, name: str) -> type[Any]:
        """The class behind a name."""
        load_plugins()
        if name in self.registered:
            return self.registered[name]
        target = self.built_in.get(name) or self._installed().get(name)
        if target is None:
            raise UnknownName.among(self.kind, name, self.names(), self.advice)
        module, _, attribute = target.partition(":")
        found: type[Any] = getattr(importlib.import_module(module), attribute)
        return found

    def create(self, spec: str) -> Any:
        """One of them from `name` or `name:option=value,option=value`."""
        name, given = self.parse(spec)
        return self.find(name).from_options(given)

    def parse(self, spec: str) -> tuple[str, dict[str, str]]:
        """The name and the options of a spec."""
        name, colon, rest = spec.strip().partition(":")
        given: dict[str, str] = {}
        for part in rest.split(",") if colon else []:
            key, equals, value = part.partition("=")
            if not equals or not value:
                raise OptionError(f"'{part}' in '{spec}'; expected option=value, as in {self.example}")
            if key in given:
                raise OptionError(f"option '{key}' stands twice in '{spec}'")
            given[key] = value
        return name, given

    def _installed(self) -> dict[str, str]:
        found = {point.name: point.value for point in entry_points(group=self.group)}
        if clash := set(found) & set(self.built_in):
            raise NLGaugeError(f"an installed package defines a {self.kind} '{min(clash)}', which NLGauge has already")
        return found


def load_plugins() -> None:
    """Run the Python files that the environment variable NLGAUGE_PLUGINS names, once each.

    They are the user's own, and register what they define. Worker processes inherit the variable.
    """
    for path in os.environ.get(PLUGINS, "").split(os.pathsep):
        if path:
            _run(path)


@lru_cache
def _run(path: str) -> None:
    if not Path(path).is_file():
        raise OptionError(f"{PLUGINS} names '{path}', which is no file; expected Python files, '{os.pathsep}' between")
    name = f"{PLUGIN_MODULE}{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OptionError(f"{PLUGINS} names '{path}'; expected a Python file whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except NLGaugeError:
        raise
    except Exception as error:
        raise OptionError(f"plugin '{path}' failed: {type(error).__name__}: {error}") from error
