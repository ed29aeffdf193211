"""Attention weights of all layers and heads for a sentence pair.

    weights = attention_weights(model, source, target_in)     # a batch of token ids

The target is given and not searched for, so all of its positions are computed at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitf.config.model import BOS, PAD
from minitf.fast.inference import InferenceTransformer
from minitf.model.transformer import Transformer

__all__ = ["attention_weights"]

Array = np.ndarray


@dataclass(frozen=True)
class AttentionWeights:
    """softmax(q kᵀ / √d_k) of every layer and head; each row is a distribution over the keys.

    Rows are queries, columns keys. Weights on padding are 0; the rows of padding have no meaning.
    """

    encoder: Array  # [B, L, H, S, S] source position attends to source position
    decoder: Array  # [B, L, H, T, T] target position attends to itself and earlier ones
    cross: Array  # [B, L, H, T, S] target position attends to source position
    logits: Array  # [B, T, V] of the next token at each target position


def attention_weights(model: Transformer | InferenceTransformer, source: Any, target: Any) -> AttentionWeights:
    """Decode a given target, without dropout, and keep the weights of every attention.

    Shapes: source int [B, S] and target int [B, T] as for `model(source, target)`: EOS last, BOS first, padded with PAD
    Source: sections 3.2.1 and 3.2.2; the paper's Figures 3 to 5
    """
    decoder = InferenceTransformer(model) if isinstance(model, Transformer) else model
    found, hidden = decoder.attention_weights(source, target)
    assert decoder.parts is not None
    encoder, own, cross = (np.stack(layers, axis=1) for layers in found)  # [B, L, H, …, …]
    return AttentionWeights(encoder, own, cross, decoder.backend.to_host(decoder.parts.logits(hidden)))


def alignments(decoder: Any, source: Array, targets: Sequence[Sequence[int]]) -> list[Array]:
    """Return the attention to the source in the last decoder layer but one, averaged over heads: [T, S] of each target.

    Shapes: source int [B, S]; targets B lists of token ids, EOS last
    """
    length = max(map(len, targets))
    target = np.array([[BOS, *given[:-1], *[PAD] * (length - len(given))] for given in targets])
    cross = decoder.attention_weights(source, target)[0][2]
    weights = cross[max(0, len(cross) - 2)].mean(axis=1)  # [B, H, T, S] -> [B, T, S]
    return [each[: len(given)] for each, given in zip(weights, targets, strict=True)]


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


def _word_numbers(pieces: Sequence[str]) -> list[int]:
    """Return the word, from 0, that each subword belongs to: "▁" opens a word."""
    opened = itertools.accumulate(piece.startswith("▁") for piece in pieces)
    return [max(0, number - 1) for number in opened]
