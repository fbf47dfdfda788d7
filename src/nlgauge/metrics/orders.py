"""Orders of n-grams, as an option."""

from __future__ import annotations

from typing import ClassVar

from nlgauge.errors import OptionError


class Orders(tuple[int, ...]):
    """Which n of n-grams: `1-5`, `2`, or `1+3`; scores of several are averaged with equal weights."""

    described: ClassVar[str] = "orders such as 2, 1-5, 1+3"

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
