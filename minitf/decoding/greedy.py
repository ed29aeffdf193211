"""Greedy search and the scores of given targets: one token is chosen after the other, as in sampling."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitf.config.model import BOS, EOS
from minitf.config.options import of_type
from minitf.decoding.search import (
    BeamSearchConfig,
    Hypothesis,
    Model,
    dead_end,
    decoder_of,
    finder_of,
    hypothesis_of,
    log_probabilities_of,
    max_lengths,
    most_probable,
    places_filled,
    reorder,
)
from minitf.system.environment import sum_left_to_right

__all__ = ["walk"]

Array = NDArray[Any]
Choice = Callable[[Array, int, Array], tuple[Array, Array]]
"""(logits [R, V], position, sentence of each row [R]) -> next token of each row [R], its log-probability [R]"""


def greedy_search(model: Model, source: Array, config: BeamSearchConfig | None = None) -> list[Hypothesis]:
    """The target sentence of the most probable token at each step; simpler than beam search with one beam, and equal.

    Shapes: source [B, S] token ids with EOS, padded with PAD
    """
    config = of_type(BeamSearchConfig, config or BeamSearchConfig(beam=1), "config")
    source, decoder = np.asarray(source), decoder_of(model)

    def choose(logits: Array, position: int, sentences: Array) -> tuple[Array, Array]:
        token, gained = most_probable(logits, 1, position, finder_of(decoder))
        return token[:, 0], gained[:, 0]  # of [R, 1] each

    walks = walk(decoder, source, max_lengths(source, config), choose)
    return [hypothesis_of(tokens, sum_left_to_right(gained), config) for tokens, gained in walks]


def walk(model: Model, source: Array, limits: Array, choose: Choice) -> list[tuple[list[int], list[float]]]:
    """Produce one output for each sentence, token by token; return its tokens and their log-probabilities.

    An output ends with EOS, or without at its sentence's limit.

    choose: the token that follows, for each sentence that has not ended

    Shapes: source [B, S] token ids with EOS, padded with PAD; limits [B]
    """
    tokens: list[list[int]] = [[] for _ in source]
    log_probabilities: list[list[float]] = [[] for _ in source]
    if not len(source):
        return []
    alive = np.arange(len(source))  # [R] the sentence of each row of the state
    newest = np.full(len(source), BOS)  # [R]
    decoder = decoder_of(model)
    state = decoder.start_decoding(source)
    position = 0
    while len(alive):
        position += 1
        newest, gained = choose(decoder.decode_step(newest, state), position, alive)  # [R] each
        if np.isneginf(gained).any():
            raise dead_end(position)
        for sentence, token, gain in zip(alive.tolist(), newest.tolist(), gained.tolist(), strict=True):
            tokens[sentence].append(token)
            log_probabilities[sentence].append(gain)
        done = (newest == EOS) | (position >= limits[alive])
        if done.any():
            going_on = places_filled(done)
            if len(going_on):
                reorder(state, going_on, rows_before=len(alive))
            alive, newest = alive[going_on], newest[going_on]
    return list(zip(tokens, log_probabilities, strict=True))


def score_targets(model: Model, source: Array, targets: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return log P of every token of given targets, given the source and the tokens before it.

    Targets are decoded step by step as in search, so that a translation has the log-probability that search found.

    Shapes: source [B, S] token ids with EOS, padded with PAD; targets B lists of token ids, EOS among them if it counts
    """
    decoder = decoder_of(model)

    def choose(logits: Array, position: int, sentences: Array) -> tuple[Array, Array]:
        given = np.array([targets[sentence][position - 1] for sentence in sentences])
        return given, log_probabilities_of(logits, given, position, finder_of(decoder))

    walks = walk(decoder, source, np.array([len(target) for target in targets]), choose)
    return [gained for _, gained in walks]
