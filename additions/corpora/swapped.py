"""Is a pair the wrong way round?  The words of a corpus tell its two languages apart."""

from __future__ import annotations

import math
from collections import Counter

PRIOR = 0.5  # occurrences of a word that a side has not
SURE = 3.0  # nats by which each side of a swapped pair is more probable on the other one


class SideWords:
    """Counts of the words on the two sides of a corpus, and of the characters of other scripts than Latin."""

    def __init__(self) -> None:
        self.counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self.totals = [0, 0]

    def add(self, source: str, target: str) -> None:
        """Count the words of a pair."""
        for side, line in enumerate((source, target)):
            words = _words(line)
            self.counts[side].update(words)
            self.totals[side] += len(words)

    def is_swapped(self, source: str, target: str, *, counted: bool = False) -> bool:
        """Whether the source is like the targets of the corpus and the target like its sources.

        counted: the pair is one of the corpus; its own words then say nothing about it
        """
        return self._likeness(source, 0, counted) < -SURE and self._likeness(target, 1, counted) < -SURE

    def _likeness(self, line: str, side: int, counted: bool) -> float:
        """Σ log(frequency of the word on its side / on the other): positive where the line is on the right side."""
        words = Counter(_words(line))
        own, other = self.counts[side], self.counts[1 - side]
        ratio = math.log((self.totals[1 - side] + 1) / (self.totals[side] + 1))
        return sum(
            count * (math.log((own[word] - count * counted + PRIOR) / (other[word] + PRIOR)) + ratio)
            for word, count in words.items()
        )


def _words(line: str) -> list[str]:
    words = line.lower().split()
    return words if line.isascii() else words + [character for character in line if character > "ɏ"]
