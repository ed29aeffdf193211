"""Log-probabilities of given translations, computed as search computes them, and the decoder's attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitf.config.model import EOS
from minitf.decoding.candidates import log_probabilities_of
from minitf.decoding.greedy import walk
from minitf.decoding.search import Model

Array = NDArray[Any]


@dataclass(frozen=True)
class ForcedTarget:
    """A given target sentence under the model."""

    log_probabilities: tuple[float, ...]
    """log P of each token, given the source and the tokens before it."""
    attention: Array | None = None
    """Weights [T, S] of the source tokens for each target token; each row adds up to 1."""


def score_targets(
    model: Model, source: Array, targets: Sequence[Sequence[int]], *, attention_layer: int | None = None
) -> list[ForcedTarget]:
    """Return the log-probability of every token of given targets.

    Targets are decoded step by step as in search, so that a translation has the log-probability that search found.

    attention_layer: also keep the attention to the source in this layer of a Transformer's decoder, averaged over heads

    Shapes: source [B, S] token ids with EOS, padded with PAD; targets B lists of token ids, EOS among them if it counts
    """
    if len(targets) != len(source):
        raise ValueError(f"{len(targets)} targets for {len(source)} sentences; give one for each")
    empty = [sentence for sentence, target in enumerate(targets) if not len(target)]
    if empty:
        raise ValueError(f"target {empty[0]} has no token; give it at least EOS={EOS}")
    attention: list[list[Array]] = [[] for _ in targets]
    newest: list[Array] = []  # of the present step: R times [S]

    def keep(weights: Array) -> None:
        newest[:] = weights.mean(axis=1)[:, 0]  # [R, H, 1, S] -> [R, S]

    def choose(logits: Array, position: int, sentences: Array) -> tuple[Array, Array]:
        given = np.array([targets[sentence][position - 1] for sentence in sentences])
        for sentence, weights in zip(sentences.tolist(), newest, strict=attention_layer is not None):
            attention[sentence].append(weights)
        return given, log_probabilities_of(logits, given, position, sentences)

    lengths = np.array([len(target) for target in targets])
    recording = {} if attention_layer is None else {"record": {("cross", attention_layer): keep}}
    walks = walk(model, source, lengths, choose, **recording)
    return [
        ForcedTarget(tuple(gained), np.array(weights) if weights else None)
        for (_, gained), weights in zip(walks, attention, strict=True)
    ]
