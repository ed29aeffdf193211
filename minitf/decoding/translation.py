"""The translation of a line of text."""

from __future__ import annotations

from dataclasses import dataclass, field

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Translation:
    """One translation of a line."""

    text: str
    score: float
    """log_probability / length penalty, by which translations are ranked; summed over the pieces of a long line."""
    log_probability: float
    """Natural logarithm; summed over the pieces of a long line."""
    finished: bool
    """False: cut at the length limit, because no hypothesis ended before."""
    parts: tuple[tuple[Ids, Ids], ...] = field(default=(), repr=False)
    """Source and target tokens of each piece of the line, without the end tokens; one piece of nearly every line."""
    token_log_probabilities: tuple[float, ...] | None = None
    """log P of each target token of a translation given to `score`, the end tokens of pieces included."""
