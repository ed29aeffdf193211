"""The work of `minitf shortlist`, after its flags have been parsed."""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections.abc import Iterator

from minitf.data.lexical_table import model_1
from minitf.data.sentences import Sentences
from minitf.data.text import read_pairs
from minitf.translation.loading import vocabulary_of

PAIRS_AT_A_TIME = 10_000
LEAST = 1e-4
"""Less probable translations are not written: they are a quarter of the file, and did not help a model of Multi30k."""


def write_shortlist(given: Namespace) -> tuple[int, int]:
    """Estimate the lexical table from the given texts, and write it.

    Returns the numbers of translations in the table and of pairs it was estimated from.
    """
    vocabulary = vocabulary_of(given.run)
    count = sum(1 for _ in read_pairs(given.source, given.target))
    step = -(-count // given.pairs)

    def encoded() -> Iterator[tuple[Sentences, Sentences]]:
        pairs = itertools.islice(read_pairs(given.source, given.target), 0, None, step)
        while chunk := list(itertools.islice(pairs, PAIRS_AT_A_TIME)):
            source, target = zip(*chunk, strict=True)
            yield (
                Sentences.from_lists(vocabulary.source.encode(source)),
                Sentences.from_lists(vocabulary.target.encode(target)),
            )

    table = model_1(encoded()).best(given.best, LEAST)
    table.write(given.output, vocabulary)
    return len(table.source), -(-count // step)
