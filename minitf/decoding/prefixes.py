"""Prefixes: tokens that the output of a sentence must begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitf.config.model import BOS, EOS, PAD
from minitf.decoding.candidates import Finder, log_probabilities_of
from minitf.decoding.sentence_errors import SentenceError

Array = NDArray[Any]
Prefixes = Sequence[Sequence[int]]
"""Token ids of each sentence, without BOS and EOS; possibly none."""


def checked_prefixes(prefixes: Prefixes, max_length: Array) -> list[list[int]]:
    """Return the prefix of each sentence, as lists.

    Raises: UserError for a prefix that leaves no room for the end token; ValueError for too few or special tokens
    """
    if len(prefixes) != len(max_length):
        raise ValueError(f"{len(prefixes)} prefixes for {len(max_length)} sentences; give one for each, possibly empty")
    for sentence, (prefix, limit) in enumerate(zip(prefixes, max_length.tolist(), strict=True)):
        if len(prefix) >= limit:
            raise SentenceError(
                sentence,
                f"the prefix of {{}} has {len(prefix)} tokens, but the output may have {limit} with its end token; "
                "shorten the prefix or choose a larger max_extra_length",
            )
        if {PAD, BOS, EOS} & {*prefix}:
            raise ValueError(
                f"the prefix of sentence {sentence}, {list(prefix)}, contains PAD, BOS or EOS; remove them"
            )
    return [list(map(int, prefix)) for prefix in prefixes]


def force_prefixes(
    token: Array, gained: Array, logits: Array, prefixes: Prefixes, sentences: Array, position: int, find: Finder
) -> None:
    """Make a prefix's token at this position, if it has one, the only candidate of every beam, in place.

    Shapes: token, gained [B × N, C], logits [B × N, V], sentences [B × N]
    """
    N = len(token) // len(prefixes)
    for b, prefix in enumerate(prefixes):
        if position <= len(prefix):
            rows = slice(b * N, (b + 1) * N)
            token[rows, 0] = forced = np.full(N, prefix[position - 1])
            gained[rows, 0] = log_probabilities_of(logits[rows], forced, position, sentences[rows], find)
            gained[rows, 1:] = -np.inf
