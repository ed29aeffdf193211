"""Log-probabilities of given translations, computed as search computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitf.config.model import EOS
from minitf.decoding.candidates import finder_of, log_probabilities_of
from minitf.decoding.greedy import walk
from minitf.decoding.search import Model, decoder_of

Array = NDArray[Any]


def score_targets(model: Model, source: Array, targets: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return log P of every token of given targets, given the source and the tokens before it.

    Targets are decoded step by step as in search, so that a translation has the log-probability that search found.

    Shapes: source [B, S] token ids with EOS, padded with PAD; targets B lists of token ids, EOS among them if it counts
    """
    if len(targets) != len(source):
        raise ValueError(f"{len(targets)} targets for {len(source)} sentences; give one for each")
    empty = [sentence for sentence, target in enumerate(targets) if not len(target)]
    if empty:
        raise ValueError(f"target {empty[0]} has no token; give it at least EOS={EOS}")

    decoder = decoder_of(model)

    def choose(logits: Array, position: int, sentences: Array) -> tuple[Array, Array]:
        given = np.array([targets[sentence][position - 1] for sentence in sentences])
        return given, log_probabilities_of(logits, given, position, sentences, finder_of(decoder))

    walks = walk(decoder, source, np.array([len(target) for target in targets]), choose)
    return [gained for _, gained in walks]
