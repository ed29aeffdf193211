"""The compiled search (compiled_search.py) of a model: its weights in the order of the tiles, and its results."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from autograd import Tensor
from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.decoding.search import BeamSearchConfig, Hypothesis, length_penalty, max_lengths
from minitf.fast import compiled_search as compiled
from minitf.fast.compiled_layer import ACTIVATIONS
from minitf.model.layers import LayerNorm, Linear
from minitf.model.variants import ForeignTransformer

Array = Any
f4 = np.float32

MOST_WEIGHTS = 16_000_000
"""Weights of a step above which products on all threads are faster than batches on threads."""


def computes(model: Any, weights_of_a_step: int) -> bool:
    """Whether the compiled search is that of this model, and it is small."""
    config = model.config
    return (
        weights_of_a_step <= MOST_WEIGHTS
        and model.output_matrix.dtype == f4
        and config.mixing == "self-attention"
        and config.attention in ("scaled-dot-product", "dot-product")
        and config.decoder_start == "bos"
        and not config.embedding_norm
        and all(
            layer.feed_forward.activation in ACTIVATIONS for layer in (*model.encoder.layers, *model.decoder.layers)
        )
    )


class CompiledSearch:
    """The search of a model whose weights stay as they are."""

    def __init__(self, model: Any, scale: float, norm_first: bool):
        """scale: the factor on dot products of queries and keys"""
        self.model, self.backend, config = model, model.backend, model.config
        self.shape = config.heads, config.head_d_k, config.head_d_v, f4(scale)
        encoder, decoder = model.encoder.layers, model.decoder.layers
        activation = ACTIVATIONS[decoder[0].feed_forward.activation]
        self.settings = norm_first, activation, f4(config.norm_epsilon)

        def own(layer: Any) -> tuple[Linear, ...]:
            return layer.self_attention.query, layer.self_attention.key, layer.self_attention.value

        feed_forward = [lambda layer: (layer.feed_forward.up,)], [lambda layer: (layer.feed_forward.down,)]
        shared: list[Any] = [own, lambda layer: (layer.self_attention.output,)]
        cross: list[Any] = [
            lambda layer: (layer.cross_attention.query,),
            lambda layer: (layer.cross_attention.key, layer.cross_attention.value),
            lambda layer: (layer.cross_attention.output,),
        ]
        ends = [each for part in feed_forward for each in part]
        self.encoder = _products(encoder, [*shared, *ends])
        self.decoder = _products(decoder, [*shared, *cross, *ends])
        self.encoder += _norms(encoder, ("self_attention_residual", "feed_forward_residual"))
        names = ("self_attention_residual", "cross_attention_residual", "feed_forward_residual")
        self.decoder += _norms(decoder, names)
        self.encoder += (_norm(model.encoder.norm) if norm_first else np.zeros((2, config.d_model), f4),)
        self.decoder += (_norm(model.decoder.norm) if norm_first else np.zeros((2, config.d_model), f4),)
        bias = model.logit_bias() if isinstance(model, ForeignTransformer) else None
        matrix = model.output_matrix.data
        of_logits = compiled.stacked([None if bias is None else bias.data], len(matrix), -np.inf)
        self.logits = compiled.grouped([matrix])[0], of_logits[0]
        self.vocabulary = len(matrix)

    def __call__(self, source: Array, config: BeamSearchConfig) -> list[list[Hypothesis]] | None:
        """`beam_search` without prefixes and shortlist; None where it must compute, or raise an error.

        Shapes: source int [B, S], padded with PAD
        """
        limits = max_lengths(source, config)
        barred = np.zeros((2, self.vocabulary), bool)
        barred[:, [PAD, BOS] if config.allow_unknown else [PAD, BOS, UNK]] = True
        barred[1, EOS] = True
        if config.candidates > self.vocabulary - np.count_nonzero(barred[1]):
            return None
        longest = int(limits.max())
        patience = np.inf
        if config.beam_patience is not None:
            patience = max(config.beam_patience * config.beam, config.n_best)
        rule = config.beam, config.candidates, config.n_best, config.min_length, float(patience), config.stop_early
        found = (
            np.zeros(len(source), np.int64),
            np.empty((len(source), config.n_best, longest), np.int64),
            np.empty((len(source), config.n_best), np.int64),
            np.empty((len(source), config.n_best, 2)),
        )
        finished = np.zeros(len(source), bool)
        memory, ends = self._encode(source)
        status = compiled.search(
            memory, ends, self.decoder, self.logits, self._embedding("target", longest), self.shape, self.settings,
            limits.astype(np.int64), _penalties(config.alpha, config.beta, longest), barred, rule, found, finished,
        )  # fmt: skip
        return _hypotheses(finished, *found) if status == compiled.DONE else None

    def _encode(self, source: Array) -> tuple[Array, Array]:
        is_token = source != PAD
        positions = np.nonzero(is_token)[1]
        x = np.empty((len(positions), compiled.padded(self.model.config.d_model)), f4)
        compiled.embed(source[is_token], positions, *self._embedding("source", source.shape[1]), x)
        ends = np.cumsum(is_token.sum(axis=1))
        return compiled.encode(x, ends, self.encoder, self.shape, self.settings), ends

    def _embedding(self, side: str, length: int) -> tuple[Array, Array, Any]:
        """The embeddings of the source or the target, encodings of positions, and the factor on embeddings."""
        embedding = getattr(self.model, f"{side}_embedding")
        rows = getattr(self.model, f"{side}_positions").rows(length, 0, self.backend)
        return embedding.weight.data, rows.data if isinstance(rows, Tensor) else rows, f4(embedding.scale)


def _products(layers: Any, parts: Iterable[Any]) -> tuple[Array, ...]:
    """Weights and biases of each part of the layers, whose projections are one product."""
    found: list[Array] = []
    for part in parts:
        weights = [np.concatenate([linear.weight.data for linear in part(layer)]) for layer in layers]
        biases = [
            None if part(layer)[0].bias is None else np.concatenate([linear.bias.data for linear in part(layer)])
            for layer in layers
        ]
        found += [compiled.grouped(weights), compiled.stacked(biases, len(weights[0]))]
    return tuple(found)


def _norms(layers: Any, names: tuple[str, ...]) -> tuple[Array]:
    """Shapes: -> [L, norms, 2, D]"""
    return (np.stack([np.stack([_norm(getattr(layer, name).norm) for name in names]) for layer in layers]),)


def _norm(norm: LayerNorm) -> Array:
    """Shapes: -> [2, D]"""
    return np.stack([norm.weight.data, norm.bias.data])


@functools.lru_cache
def _penalties(alpha: float, beta: float, longest: int) -> Array:
    """The length penalties of 0 … `longest` tokens."""
    return np.array([length_penalty(length, alpha, beta) for length in range(longest + 1)])


def _hypotheses(
    finished: Array, counts: Array, tokens: Array, lengths: Array, numbers: Array
) -> list[list[Hypothesis]]:
    return [
        [
            Hypothesis(tuple(row[:length].tolist()), log_probability, score, bool(ended))
            for row, length, (log_probability, score) in zip(
                tokens[b, :count], lengths[b, :count].tolist(), numbers[b, :count].tolist(), strict=True
            )
        ]
        for b, (ended, count) in enumerate(zip(finished, counts.tolist(), strict=True))
    ]
