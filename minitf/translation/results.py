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


@dataclass(frozen=True)
class _Chain:
    """Translations of the first pieces of a line: that of the last of them, and the chain of those before."""

    score: float = 0.0
    log_probability: float = 0.0
    finished: bool = True
    before: _Chain | None = None
    last: Translation | None = None

    def followed_by(self, last: Translation) -> _Chain:
        log_probability = self.log_probability + last.log_probability
        return _Chain(self.score + last.score, log_probability, self.finished and last.finished, self, last)

    def translation(self) -> Translation:
        """Combine the chain, in time linear in its length."""
        parts: list[Translation] = []
        chain: _Chain | None = self
        while chain is not None and chain.last is not None:
            parts.append(chain.last)
            chain = chain.before
        parts.reverse()
        return Translation(
            " ".join(each.text for each in parts if each.text),
            self.score,
            self.log_probability,
            self.finished,
            tuple(part for each in parts for part in each.parts),
        )


def joined(pieces: Sequence[list[Translation]], n_best: int) -> list[Translation]:
    """Combine one translation of each piece in the n best ways, by the sum of their scores."""
    best = [_Chain()]
    for translations in pieces:
        chains = [left.followed_by(right) for left in best for right in translations]
        best = sorted(chains, key=lambda chain: -chain.score)[:n_best]
    return [chain.translation() for chain in best]


def _word_numbers(pieces: Sequence[str]) -> list[int]:
    """Return the word, from 0, that each subword belongs to: "▁" opens a word."""
    opened = itertools.accumulate(piece.startswith("▁") for piece in pieces)
    return [max(0, number - 1) for number in opened]
