"""Options of metrics: typed fields of a frozen dataclass, written as text on the command line and in signatures."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union

from nlgauge.errors import OptionError, UnknownName

T = TypeVar("T")


class Orders(tuple[int, ...]):
    """Which n of n-grams: `1-5`, `2`, or `1+3`; scores of several are averaged with equal weights."""

    def __new__(cls, value: int | str | tuple[int, ...] | range | list[int]) -> Orders:
        """From a number, a sequence of numbers or their written form."""
        if isinstance(value, str):
            try:
                parts = [part.split("-") for part in value.split("+")]
                numbers = [n for part in parts for n in range(int(part[0]), int(part[-1]) + 1)]
            except ValueError:
                raise OptionError(f"n-gram orders '{value}'; expected such as 2, 1-5 or 1+3") from None
        else:
            numbers = [value] if isinstance(value, int) else list(value)
        if not numbers or min(numbers) < 1 or len(set(numbers)) != len(numbers) or max(numbers) > 64:
            raise OptionError(f"n-gram orders '{value}'; expected different numbers from 1 to 64, such as 1-5")
        return super().__new__(cls, sorted(numbers))

    def __str__(self) -> str:
        if len(self) > 1 and list(self) == list(range(self[0], self[-1] + 1)):
            return f"{self[0]}-{self[-1]}"
        return "+".join(map(str, self))


def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def option_names(cls: type) -> list[str]:
    """Names of the options of a metric class."""
    return [field.name for field in dataclasses.fields(cls) if field.init]


def describe(cls: type, name: str) -> str:
    """The values that an option takes, in words."""
    hint = _hints(cls)[name]
    if typing.get_origin(hint) is Literal:
        return " | ".join(map(str, typing.get_args(hint)))
    if hint is Orders:
        return "orders such as 2, 1-5, 1+3"
    return {int: "whole number", float: "number", str: "text", bool: "true | false"}.get(hint, str(hint))


def build(cls: type[T], name: str, given: Mapping[str, str]) -> T:
    """Make a metric from options written as text; unknown and malformed ones are errors."""
    known = option_names(cls)
    values = {}
    for key, text in given.items():
        if key not in known:
            raise UnknownName.among(f"option of {name}", key, known)
        values[key] = _convert(_hints(cls)[key], text, f"{name}:{key}")
    return cls(**values)


def check_choices(metric: Any) -> None:
    """Refuse a value outside the choices of a `Literal` option, however the metric was made."""
    for field in dataclasses.fields(metric):
        hint = _hints(type(metric))[field.name]
        value = getattr(metric, field.name)
        if typing.get_origin(hint) is Literal and value not in typing.get_args(hint):
            choices = ", ".join(map(str, typing.get_args(hint)))
            raise OptionError(f"{metric.name}:{field.name}={value}; expected one of {choices}")


def _convert(hint: Any, text: str, where: str) -> Any:
    if typing.get_origin(hint) is Literal:
        matches = [choice for choice in typing.get_args(hint) if str(choice) == text]
        if not matches:
            raise OptionError(f"{where}={text}; expected one of {', '.join(map(str, typing.get_args(hint)))}")
        return matches[0]
    if typing.get_origin(hint) in (Union, types.UnionType):
        inner = [arm for arm in typing.get_args(hint) if arm is not type(None)]
        return None if text == "none" else _convert(inner[0], text, where)
    if hint is Orders:
        return Orders(text)
    if hint is bool:
        if text not in ("true", "false"):
            raise OptionError(f"{where}={text}; expected true or false")
        return text == "true"
    if hint in (int, float):
        try:
            return hint(text)
        except ValueError:
            raise OptionError(f"{where}={text}; expected a {describe_number(hint)}") from None
    return text


def describe_number(hint: type) -> str:
    """`whole number` or `number`."""
    return "whole number" if hint is int else "number"


def show(value: Any) -> str:
    """An option's value as text."""
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
