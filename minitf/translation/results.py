"""The results of translating a line: translations with their scores, and word alignments."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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
    """Of a translation given to `score`: of each target token, the end tokens of pieces included."""


@dataclass(frozen=True)
class Alignment:
    """The attention of each target subword to the source subwords."""

    source: tuple[str, ...]
    """S subwords as sentencepiece writes them: "▁" opens a word."""
    target: tuple[str, ...]
    """T subwords."""
    weights: Any
    """[T, S], the mean of the heads; a row sums to 1 less the weight of the end token."""

    def links(self) -> list[tuple[int, int]]:
        """Return (source subword, target subword) for each target subword and the source subword of largest weight."""
        return [(int(row.argmax()), t) for t, row in enumerate(self.weights) if len(row)]

    def word_links(self) -> list[tuple[int, int]]:
        """Return (source word, target word), from 0, of the words whose subwords are linked, in order of the target."""
        source, target = _word_numbers(self.source), _word_numbers(self.target)
        return sorted({(source[s], target[t]) for s, t in self.links()}, key=lambda link: (link[1], link[0]))


def joined(pieces: Sequence[list[Translation]], n_best: int) -> list[Translation]:
    """Combine one translation of each piece in the n best ways, by the sum of their scores."""
    best = [Translation("", 0.0, 0.0, True)]
    for translations in pieces:
        pairs = [(left, right) for left in best for right in translations]
        pairs.sort(key=lambda pair: -(pair[0].score + pair[1].score))
        best = [
            Translation(
                f"{left.text} {right.text}".strip(),
                left.score + right.score,
                left.log_probability + right.log_probability,
                left.finished and right.finished,
                left.parts + right.parts,
            )
            for left, right in pairs[:n_best]
        ]
    return best


def _word_numbers(pieces: Sequence[str]) -> list[int]:
    """Return the word, from 0, that each subword belongs to: "▁" opens a word."""
    opened = itertools.accumulate(piece.startswith("▁") for piece in pieces)
    return [max(0, number - 1) for number in opened]
