"""Random choices that come out the same on every Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Draw:
    """Everything is derived from `Random.random`, the one method whose numbers Python promises never to change."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def between(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def of_any_length(self, low: int, high: int) -> int:
        """A number from low to high in which one digit is as likely as two, or three, …

        Drawn evenly, nearly all the numbers below 10,000 would have four digits.
        """
        digits = self.between(len(str(low)), len(str(high)))
        return self.between(max(low, 10 ** (digits - 1) if digits > 1 else 0), min(high, 10**digits - 1))

    def one_of(self, items: Sequence[Item]) -> Item:
        return items[self.between(0, len(items) - 1)]

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def shuffle(self, items: list[Item]) -> None:
        """Fisher and Yates, in place."""
        for last in range(len(items) - 1, 0, -1):
            other = self.between(0, last)
            items[last], items[other] = items[other], items[last]
