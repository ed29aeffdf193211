"""The probability of given translations, computed as a search computes it, and which source tokens they look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitf.config.special_tokens import EOS
from minitf.decoding.candidates import log_probabilities_of
from minitf.decoding.search import Decoder, walk

Array = NDArray[Any]


@dataclass(frozen=True)
class ForcedTarget:
    """A given target sentence under the model."""

    log_probabilities: tuple[float, ...]
    """log P of each token, given the source and the tokens before it."""
    attention: Array | None = None
    """Weights [T, S] of the source tokens as each target token was produced; each row adds up to 1."""


def score_targets(
    model: Decoder, source: Array, targets: Sequence[Sequence[int]], *, attention_layer: int | None = None
) -> list[ForcedTarget]:
    """The log-probability of every token of given targets.

    They are decoded step by step as in a search, so that a translation is given the number that the search gave it.

    attention_layer: also keep the attention to the source in this layer of the decoder, the mean of its heads

    Shapes: source [B, S] token ids with EOS, padded with PAD; targets B lists of token ids, EOS among them if it counts
    """
    if len(targets) != len(source):
        raise ValueError(f"{len(targets)} targets for {len(source)} sentences; give one for each")
    empty = [sentence for sentence, target in enumerate(targets) if not len(target)]
    if empty:
        raise ValueError(f"target {empty[0]} has no token; give it at least EOS={EOS}")
    attention: list[list[Array]] = [[] for _ in targets]

    def choose(logits: Array, position: int, sentences: Array, state: Any) -> tuple[Array, Array]:
        given = np.array([targets[sentence][position - 1] for sentence in sentences])
        if attention_layer is not None:
            for sentence, weights in zip(sentences.tolist(), state.source_attention, strict=True):
                attention[sentence].append(weights)
        return given, log_probabilities_of(logits, given, position, sentences)

    lengths = np.array([len(target) for target in targets])
    walks = walk(_Watched(model, attention_layer), source, lengths, choose)
    return [
        ForcedTarget(tuple(gained), np.array(weights) if weights else None)
        for (_, gained), weights in zip(walks, attention, strict=True)
    ]


class _Watched:
    """A model whose states keep the attention of one layer."""

    def __init__(self, model: Decoder, layer: int | None):
        self.model, self.layer = model, layer
        self.decode_step = model.decode_step

    def start_decoding(self, source: Array) -> Any:
        state = self.model.start_decoding(source)
        if self.layer is not None:
            state.watched_layer = self.layer
        return state
