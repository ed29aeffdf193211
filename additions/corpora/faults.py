"""Pairs of a corpus that are to be checked, or removed before training: by which rule, each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from additions.corpora.swapped import SideWords
from minitf.data.text import normalise, read_lines, read_pairs
from minitf.errors import UserError

Pair = tuple[str, str]

MOST_WORDS = 100  # a longer sentence is most often several, or no sentence
MOST_RATIO = 3.0  # of the lengths of two sides in words; beyond, one is seldom the translation of the other
SHORT = 5  # words: of shorter sentences no ratio is surprising
EMPTY, EQUAL = "have an empty side", "have two equal sides"
SWAPPED = "have their languages swapped"


def read_corpus(source: Path, target: Path | None) -> Iterator[Pair]:
    """Iterate over the pairs of two aligned texts, or of one with a tab between source and target of each line.

    Columns after the second are left out, as the names and scores of public corpora.
    Raises: UserError as `read_pairs`, and for a line without a tab
    """
    if target is not None:
        yield from read_pairs(source, target)
        return
    number = 0
    for number, line in enumerate(read_lines(source), start=1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise UserError(
                f"{source}, line {number:,} has no tab; give two texts, or one with a tab between source and target"
            )
        yield columns[0], columns[1]
    if not number:
        raise UserError(f"{source} is empty; a corpus needs at least one line")


def pairs_with_faults(pairs: Sequence[Pair]) -> Iterator[tuple[Pair, list[str]]]:
    """Iterate over the pairs, each with its faults; they are in memory, since the last rule needs the words of all."""
    words = SideWords()
    for pair in pairs:
        words.add(*pair)
    seen: set[int] = set()
    for pair in pairs:
        swapped = [SWAPPED] if words.is_swapped(*pair, counted=True) else []
        source, target = map(normalise, pair)
        yield pair, [*faults_of(source, target, seen), *swapped]


def faults_of(source: str, target: str, seen: set[int]) -> Iterator[str]:
    """Yield the faults of a normalised pair.  seen: hashes of the pairs before it, to which this one is added"""
    lengths = len(source.split()), len(target.split())
    longer, shorter = max(lengths), min(lengths)
    key = hash((source, target))
    is_repeated = key in seen
    seen.add(key)
    if not shorter:
        yield EMPTY
        return
    if is_repeated:
        yield "repeat an earlier pair"
    if source == target:
        yield EQUAL
    if longer > MOST_WORDS:
        yield f"have a side of more than {MOST_WORDS} words"
    if longer > max(MOST_RATIO * shorter, SHORT):
        yield f"have one side more than {MOST_RATIO:g} times as long as the other"


def swapped_pairs(words: SideWords, pairs: Iterable[Pair]) -> Iterator[int]:
    """Yield the numbers, from 1, of the pairs of a corpus whose languages are swapped.  words: of the corpus"""
    for number, pair in enumerate(pairs, start=1):
        if words.is_swapped(*pair, counted=True):
            yield number
