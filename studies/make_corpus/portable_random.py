"""Random choices that are the same on every version of Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class PortableRandom:
    """Random number generator that uses only `Random.random`, whose numbers Python promises never to change."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def randint(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def randint_of_any_length(self, low: int, high: int) -> int:
        """An integer from `low` to `high` whose number of digits is uniform: among 0 … 9,999, most have four."""
        digits = self.randint(len(str(low)), len(str(high)))
        return self.randint(max(low, 10 ** (digits - 1) if digits > 1 else 0), min(high, 10**digits - 1))

    def choice(self, items: Sequence[Item]) -> Item:
        return items[self.randint(0, len(items) - 1)]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def shuffle(self, items: list[Item]) -> None:
        """Shuffle in place (Fisher and Yates)."""
        for last in range(len(items) - 1, 0, -1):
            other = self.randint(0, last)
            items[last], items[other] = items[other], items[last]
