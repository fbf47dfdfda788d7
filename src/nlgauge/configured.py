"""Whatever a user configures is a frozen dataclass whose fields are its options.

The fields give everything else: the text form (`name:option=value,…`), the signature that makes the object again, the
options of the command line, the keyword arguments of Python, and the documentation of both.
"""

from __future__ import annotations

import dataclasses
import types
import typing
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, SupportsIndex, TypeVar, Union

from nlgauge.errors import OptionError, PluginError, UnknownName, argument
from nlgauge.registry import PLUGIN_MODULE, owner_of, plugin_class
from nlgauge.signature import BLANKS, Signature, escape, join_values, split_values, unescape

T = TypeVar("T")
_ABOUT = "nlgauge"

# Options that have a new name: the old one works for one release, and says so.
RENAMED = {
    "field": "text",
    "format": "input_format",
    "group": "group_size",
    "json": "format=json",
    "out": "output",
    "over": "unit",
    "processes": "workers",
    "ratings_a_set": "ratings_per_set",
    "size": "window",
}


@dataclass(frozen=True)
class About:
    """What a field says about its option.

    `flags` are its names on the command line where the field's own name will not do (`--metric`, `-m`), `metavar`
    stands for the value in help. A tuple is given by repeating the option, or as one value with `separator` between.
    Options that do not decide a number, such as names for a table, are not `signed`.
    """

    help: str = ""
    metavar: str = ""
    flags: tuple[str, ...] = ()
    separator: str = ""
    signed: bool = True
    escapes: bool = False


def option(
    default: T,
    help: str,
    *,
    metavar: str = "",
    flags: Sequence[str] = (),
    separator: str = "",
    signed: bool = True,
    escapes: bool = False,
) -> T:
    """The default and the documentation of an option: of a field of a dataclass, or of a parameter of a command.

    With `escapes`, `\\t` and `\\n` on the command line are a tab and a line break.
    """
    about = About(help, metavar, tuple(flags), separator, signed, escapes)
    found: Any = field(default=default, metadata={_ABOUT: about})
    return typing.cast(T, found)


def required(help: str, *, metavar: str = "", flags: Sequence[str] = (), escapes: bool = False) -> Any:
    """An option without a default."""
    return field(metadata={_ABOUT: About(help, metavar, tuple(flags), escapes=escapes)})


@dataclass(frozen=True)
class Option:
    """One option of a class or a command: its name, its type, its default and its documentation."""

    name: str
    hint: Any
    default: Any
    about: About

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is dataclasses.MISSING

    @property
    def kind(self) -> Any:
        """The type of a value other than None; of one value where the option takes several."""
        hint = _without_none(self.hint)
        return typing.get_args(hint)[0] if self.is_several else hint

    @property
    def is_several(self) -> bool:
        """Whether it takes several values."""
        return typing.get_origin(_without_none(self.hint)) in (tuple, Sequence)

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that a `Literal` allows."""
        kind = self.kind
        return tuple(map(str, typing.get_args(kind))) if typing.get_origin(kind) is Literal else ()

    def parse(self, text: str) -> Any:
        """The value that a text stands for."""
        if _without_none(self.hint) is not self.hint and text == "none":
            return None
        if self.is_several:
            return tuple(_convert(self.kind, part, self.name) for part in split_values(text))
        return _convert(self.kind, text, self.name)

    def describe(self) -> str:
        """The values that it takes, in words."""
        if self.choices:
            return " | ".join(self.choices)
        words = {int: "whole number", float: "number", str: "text", bool: "true | false", Path: "file"}
        one = getattr(self.kind, "described", "") or words.get(self.kind, "text")
        return f"several of: {one}" if self.is_several else one


def option_of(name: str, hint: Any, default: Any) -> Option:
    """An option from a field or a parameter; `default` may be what `option` returned."""
    if isinstance(default, dataclasses.Field):
        about = default.metadata.get(_ABOUT, About())
        value = default.default
        if default.default_factory is not dataclasses.MISSING:
            value = default.default_factory()
        return Option(name, hint, value, about)
    return Option(name, hint, default, About())


_KNOWN: dict[Any, tuple[Option, ...]] = {}


def options_of(cls: Any) -> tuple[Option, ...]:
    """The options of a dataclass, in order."""
    if cls not in _KNOWN:
        hints = typing.get_type_hints(cls)
        fields = (one for one in dataclasses.fields(cls) if one.init)
        _KNOWN[cls] = tuple(option_of(one.name, hints[one.name], one) for one in fields)
    return _KNOWN[cls]


def option_lines(cls: Any) -> Iterator[str]:
    """The options of a class with defaults, values and help, one per line."""
    for one in options_of(cls):
        default = "required" if one.is_required else show(one.default)
        yield f"{one.name} = {default}   ({one.describe()}){f'  {one.about.help}' if one.about.help else ''}"


def named_files(made: Any) -> list[str]:
    """The files that the options of an object name: those whose metavar ends in FILE, perhaps after `NAME=`."""
    found: list[str] = []
    for one in options_of(type(made)):
        if one.about.metavar.endswith("FILE"):
            value = getattr(made, one.name)
            given = [value] if isinstance(value, str | Path) else value if isinstance(value, tuple) else ()
            found += [str(entry).partition("=")[2] if "=" in one.about.metavar else str(entry) for entry in given]
    return found


def spread(given: Mapping[str, Any], *groups: type, also: Sequence[str] = ()) -> Iterator[Any]:
    """One object of each group of options from keyword arguments; one that no group has is an error.

    `also` are names that the caller takes apart from these, for the error's suggestion.
    """
    known = {one.name: group for group in groups for one in options_of(group)}
    named = _by_new_names(given, known, "option", also)
    for group in groups:
        yield group(**{name: value for name, value in named.items() if known[name] is group})


def _by_new_names(
    given: Mapping[str, Any], known: Collection[str], kind: str, also: Sequence[str] = ()
) -> dict[str, Any]:
    """The options under their names of today; one that was renamed says its new name, an unknown one is an error."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        new = name if name in known else RENAMED.get(name, name)
        if new not in known:
            raise UnknownName.among(kind, name, [*known, *also])
        if new != name:
            text = f"{name}= is called {new}= now; the next release has no old name"
            warnings.warn(text, FutureWarning, stacklevel=4)
            if new in given:
                raise OptionError(f"{argument(new)} is given under its old name '{name}' too; expected it once")
        found[new] = value
    return found


@dataclass(frozen=True, kw_only=True)
class Options:
    """A group of options that commands and functions share. Values outside the choices of a `Literal` are refused.

    `heading` stands above these options in help.
    """

    heading: ClassVar[str] = "Options"

    def __post_init__(self) -> None:
        for one in options_of(type(self)):
            value = getattr(self, one.name)
            if one.is_several and isinstance(value, str | list):
                value = (value,) if isinstance(value, str) else tuple(value)
                object.__setattr__(self, one.name, value)
            for single in value if one.is_several and value is not None else (value,):
                if one.choices and single is not None and single not in typing.get_args(one.kind):
                    raise OptionError(f"{argument(one.name, single)}; expected one of {', '.join(one.choices)}")


@dataclass(frozen=True, kw_only=True)
class Configured(Options):
    """Anything with a name and options: a metric, a study, a perturbation, a quality rule, a plan, a recipe."""

    name: ClassVar[str]

    def relevant_options(self) -> Mapping[str, Any]:
        """Options that matter to the result, as they appear in the signature."""
        return {one.name: getattr(self, one.name) for one in options_of(type(self)) if one.about.signed}

    @property
    def spec(self) -> str:
        """The shortest text form: the name, and the options that differ from their defaults."""
        changed = [
            f"{one.name}={escape(show(getattr(self, one.name)))}"
            for one in options_of(type(self))
            if one.name in self.relevant_options() and getattr(self, one.name) != one.default
        ]
        return f"{self.name}:{','.join(changed)}" if changed else self.name

    @property
    def signature(self) -> Signature:
        """How to make this again."""
        options = {key: show(value) for key, value in self.relevant_options().items()}
        return Signature(self.name, options, plugin=owner_of(type(self)))

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """A class of a user's file is pickled by name: each worker process runs the file for itself."""
        cls = type(self)
        if cls.__module__.startswith(PLUGIN_MODULE):
            return _blank, (cls.__module__, cls.__qualname__), dict(vars(self))
        return super().__reduce_ex__(protocol)

    @classmethod
    def from_options(cls, given: Mapping[str, str]) -> Self:
        """Make one from options written as text; unknown and malformed ones are errors."""
        known = {one.name: one for one in options_of(cls)}
        values = {}
        for key, text in _by_new_names(given, known, f"option of {cls.name}").items():
            try:
                values[key] = known[key].parse(text)
            except OptionError as error:
                raise OptionError(f"{cls.name}:{error.message}", option=key) from error
        if lacking := ", ".join(sorted(getattr(cls, "__abstractmethods__", ()))):
            raise PluginError(f"'{cls.name}': its class {cls.__qualname__} lacks {lacking}; expected them in the class")
        return cls(**values)


def _blank(module: str, name: str) -> Any:
    cls: Any = plugin_class(module, name)
    return cls.__new__(cls)


def parse_text(spec: str, example: str = "name:option=value") -> tuple[str, dict[str, str]]:
    """The name and the options of a text form."""
    name, colon, rest = spec.strip(BLANKS).partition(":")
    given: dict[str, str] = {}
    for part in rest.split(",") if colon else []:
        key, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"'{part}' in '{spec}'; expected option=value, as in {example}")
        if key in given:
            raise OptionError(f"option '{key}' is duplicated in '{spec}'", option=key)
        given[key] = unescape(value)
    return name, given


def check_that(condition: bool, name: str, value: Any, expected: str) -> None:
    """Refuse the value of an option, saying what was expected."""
    if not condition:
        raise OptionError(f"{argument(name, value)}; expected {expected}")


def show(value: Any) -> str:
    """An option's value as text."""
    if value is None:
        return "none"
    if type(value) is tuple:
        return join_values(map(show, value))
    if isinstance(value, Configured):
        return value.spec
    return str(value).lower() if isinstance(value, bool) else str(value)


def _without_none(hint: Any) -> Any:
    """The hint of a value other than None: of several alternatives, the first."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        return next(arm for arm in typing.get_args(hint) if arm is not type(None))
    return hint


def _convert(kind: Any, text: str, name: str) -> Any:
    if typing.get_origin(kind) is Literal:
        matches = [choice for choice in typing.get_args(kind) if str(choice) == text]
        if not matches:
            raise OptionError(f"{name}={text}; expected one of {', '.join(map(str, typing.get_args(kind)))}")
        return matches[0]
    if kind is bool:
        if text not in ("true", "false"):
            raise OptionError(f"{name}={text}; expected true or false")
        return text == "true"
    if kind in (int, float):
        number: Callable[[str], Any] = kind
        try:
            return number(text)
        except ValueError:
            words = "whole number" if kind is int else "number"
            raise OptionError(f"{name}={text}; expected a {words}") from None
    if isinstance(kind, type) and kind not in (str, object):
        made: Callable[[str], Any] = kind
        return made(text)
    return text
