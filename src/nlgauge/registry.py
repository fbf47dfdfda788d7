"""Named classes of one kind: loaded on use, open to other packages and to a user's own files, strict about names."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nlgauge.errors import NLGaugeError, OptionError, PluginError, UnknownName, argument
from nlgauge.signature import Signature

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from nlgauge.configured import Configured

PLUGINS = "NLGAUGE_PLUGINS"
PLUGIN_MODULE = "nlgauge_plugin_"
_KINDS = ("metrics", "studies", "perturbations", "rules", "forms", "testers")
C = TypeVar("C", bound="Configured")


@dataclass(frozen=True)
class Registry(Generic[C]):
    """Classes by name: those of NLGauge (`module:Class`), those of installed packages (entry points of `group`), and
    those that a program registered, or a file that `NLGAUGE_PLUGINS` names.
    """

    kind: str
    group: str
    built_in: Mapping[str, str]
    example: str
    advice: str = ""
    registered: dict[str, type[C]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """All names."""
        load_plugins()
        return sorted({*self.built_in, *self.registered, *self._installed()})

    def register(self, cls: type[C]) -> type[C]:
        """Add a class under its `name`; usable as a decorator. A taken name is refused."""
        name = cls.name
        owner = self._owner_of_name(name, cls)
        if owner:
            raise PluginError(
                f"a {self.kind} '{name}' exists already ({owner}); choose another name for that of {owner_of(cls)}"
            )
        self.registered[name] = cls
        return cls

    def _owner_of_name(self, name: str, cls: type[C]) -> str:
        """Who has this name already, if not this class."""
        if name in self.built_in:
            return "NLGauge"
        taken = self.registered.get(name)
        if taken is not None and taken is not cls:
            return owner_of(taken)
        point = self._installed().get(name)
        if point is not None and point.value != f"{cls.__module__}:{cls.__qualname__}":
            return distribution_of(point)
        return ""

    def classes(self, names: Iterable[str]) -> list[type[C]]:
        """The classes behind these names; a plugin that cannot be imported is named in a warning."""
        found: list[type[C]] = []
        for name in names:
            try:
                found.append(self.find(name))
            except PluginError as error:
                warnings.warn(str(error), stacklevel=2)
        return found

    def find(self, name: str) -> type[C]:
        """The class behind a name."""
        load_plugins()
        if name in self.registered:
            return self.registered[name]
        if name in self.built_in:
            return self._loaded(self.built_in[name])
        point = self._installed().get(name)
        if point is None:
            failed = f" Failed to load: {', '.join(_FAILED)}." if _FAILED else ""
            raise UnknownName.among(self.kind, name, self.names(), self.advice + failed)
        try:
            return self._loaded(point.value)
        except Exception as error:
            raise PluginError(
                f"the {self.kind} '{name}' of {distribution_of(point)} cannot be imported: "
                f"{type(error).__name__}: {error}"
            ) from error

    def create(self, spec: str) -> C:
        """One of them from `name`, from `name:option=value,option=value`, or from a printed signature."""
        if "|" in spec:
            signature = Signature.parse(spec)
            cls = self.find(signature.name)
            if signature.plugin and signature.plugin != (here := owner_of(cls)):
                warnings.warn(f"{signature.name} was of {signature.plugin}, and here it is of {here}", stacklevel=2)
            return cls.from_options(signature.options)
        name, given = self.parse(spec)
        return self.find(name).from_options(given)

    def parse(self, spec: str) -> tuple[str, dict[str, str]]:
        """The name and the options of a text form."""
        from nlgauge.configured import parse_text

        return parse_text(spec, self.example)

    def summary(self, name: str) -> str:
        """The first line of the class's documentation, without importing what is not imported yet."""
        cls = self.registered.get(name)
        if cls is None:
            target = self.built_in.get(name) or self._installed()[name].value
            return first_line(target)
        return (cls.__doc__ or "").partition("\n")[0]

    @staticmethod
    def _loaded(target: str) -> type[C]:
        module, _, attribute = target.partition(":")
        found: type[C] = getattr(importlib.import_module(module), attribute)
        return found

    def _installed(self) -> dict[str, EntryPoint]:
        return installed_points(self.kind, self.group, self.built_in)


def installed_points(kind: str, group: str, built_in: Collection[str]) -> dict[str, EntryPoint]:
    """The entry points of installed packages by name; two packages with one name are an error."""
    found: dict[str, EntryPoint] = {}
    from importlib.metadata import entry_points

    for point in entry_points(group=group) if group else ():
        other = found.get(point.name)
        if point.name in built_in or (other is not None and other.value != point.value):
            first = "NLGauge" if other is None else distribution_of(other)
            raise PluginError(
                f"two packages define a {kind} '{point.name}': {first} and {distribution_of(point)}; "
                "uninstall one of them"
            )
        found[point.name] = point
    return found


def distribution_of(point: EntryPoint) -> str:
    """The package that an entry point comes from, and its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


@lru_cache(maxsize=512)
def first_line(target: str) -> str:
    """The first line of the documentation of `module:name`, a class or a function, without importing it."""
    module, _, attribute = target.partition(":")
    try:
        spec = importlib.util.find_spec(module)
        if spec is None:
            return f"(cannot be found: {target})"
        tree = ast.parse(Path(spec.origin or "").read_text(encoding="utf-8"))
    except Exception as error:  # noqa: BLE001 - whatever the package of a plugin raises is shown in its place in the list
        return f"(cannot be imported: {type(error).__name__}: {error})"
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == attribute:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    return ""


def owner_of(cls: type[Any]) -> str:
    """Who brought a class along: nothing for NLGauge itself, else a package and its version, or a file and its hash."""
    return "" if cls.__module__.startswith("nlgauge.") else _owner(cls.__module__)


@lru_cache(maxsize=512)
def _owner(module: str) -> str:
    top = module.partition(".")[0]
    from importlib.metadata import entry_points, packages_distributions, version

    # An editable install has entry points, but lists none of its modules.
    for point in (point for kind in _KINDS for point in entry_points(group=f"nlgauge.{kind}")):
        if point.module.partition(".")[0] == top:
            return distribution_of(point)
    if distributions := packages_distributions().get(top):
        return f"{distributions[0]} {version(distributions[0])}"
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or not Path(file).is_file():
        return module
    return f"{Path(file).name}@{hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12]}"


_FAILED: dict[str, str] = {}


def add_plugins(files: Sequence[str]) -> None:
    """Have Python files run, here and in worker processes, beside those that NLGAUGE_PLUGINS names already."""
    for file in files:
        if not Path(file).is_file():
            raise OptionError(f"{argument('plugins', file)}: no such file; expected a file of Python code")
    if files:
        named = [part for part in os.environ.get(PLUGINS, "").split(os.pathsep) if part]
        os.environ[PLUGINS] = os.pathsep.join(dict.fromkeys([*named, *(str(Path(file).resolve()) for file in files)]))


def load_plugins() -> None:
    """Run the Python files that the environment variable NLGAUGE_PLUGINS names, once each.

    They are the user's own, and register what they define. Worker processes inherit the variable. A file that fails is
    named in a warning; the others work.
    """
    for path in os.environ.get(PLUGINS, "").split(os.pathsep):
        if path:
            _run(path)


def plugin_class(module: str, name: str) -> type[Any]:
    """A class of a user's file, which this process runs first where it has not yet."""
    load_plugins()
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise PluginError(f"'{name}' comes from a file that {PLUGINS} does not name here; expected its path there")
    return found


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
    run: Callable[[Any], None] = spec.loader.exec_module
    try:
        run(module)
    except PluginError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a user's file raises is named, and the others go on
        reason = str(error) if isinstance(error, NLGaugeError) else f"{type(error).__name__}: {error}"
        _FAILED[path] = reason
        warnings.warn(f"plugin '{path}' failed: {reason}", stacklevel=2)
