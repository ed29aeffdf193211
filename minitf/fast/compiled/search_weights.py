"""The compiled search (compiled_search.py) of a model: its weights in the order of the tiles, and its results."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

import autograd as ag
from autograd import Tensor
from autograd.backend import CPU
from autograd.fast.low_precision.int8 import Int8Weights
from autograd.fast.low_precision.packed import OUTPUTS, PackedWeights, words_of
from minitf.config.model import PAD
from minitf.decoding import candidates
from minitf.decoding.search import BeamSearchConfig, Hypothesis, length_penalty, max_lengths
from minitf.fast.compiled import compiled_layers, compiled_search
from minitf.model.layers import LayerNorm
from minitf.model.transformer import Residual

Array = Any
f4 = np.float32

ACTIVATIONS = {ag.relu: compiled_layers.RELU, ag.silu: compiled_layers.SILU}
MOST_WEIGHTS = 64_000_000
"""Weights of a step up to which it is tried, on one thread for each batch; base has 44 million, big 140 million."""


def search_of(decoder: Any) -> CompiledSearch | None:
    """Return the compiled search of an `InferenceTransformer`; None for a model that is large, or that it lacks."""
    config, parts = decoder.config, decoder.parts
    activations = {layer.feed_forward.activation for layer in (*parts.encoder.layers, *parts.decoder.layers)}
    if (
        decoder.weights_of_a_step > MOST_WEIGHTS
        or parts.dtype != f4
        or config.decoder_start != "bos"
        or config.embedding_norm
        or not activations <= ACTIVATIONS.keys()
    ):
        return None
    return CompiledSearch(decoder)


class CompiledSearch:
    """The search of an `InferenceTransformer` whose weights stay as they are."""

    def __init__(self, decoder: Any):
        self.decoder, self.model, config = decoder, decoder.model, decoder.config
        encoder, layers = decoder.parts.encoder, decoder.parts.decoder.layers
        norm_first, attention = config.norm == "pre", layers[0].self_attention
        self.shape = config.heads, config.head_d_k, config.head_d_v, f4(attention.scale)
        self.settings = norm_first, ACTIVATIONS[layers[0].feed_forward.activation], f4(config.norm_epsilon)
        self.encoder = *_products(map(_of_encoder, encoder.layers)), _norms(encoder.layers), _last(encoder, config)
        last = _last(decoder.parts.decoder, config)
        self.decoder_layers = *_products(map(_of_decoder, layers)), _norms(layers), last
        self.logits = product([decoder.parts.output])
        self.vocabulary = config.vocab_size

    def __call__(self, source: Array, config: BeamSearchConfig) -> list[list[Hypothesis]] | None:
        """`beam_search`; None where it must compute, or raise an error.

        Shapes: source int [B, S], padded with PAD
        """
        limits = max_lengths(source, config)
        barred = np.zeros(self.vocabulary, bool)
        barred[list(candidates.NEVER)] = True
        if config.candidates > self.vocabulary - np.count_nonzero(barred):
            return None
        longest = int(limits.max())
        rule = config.beam, config.candidates, config.n_best
        found = (
            np.zeros(len(source), np.int64),
            np.empty((len(source), config.n_best, longest), np.int64),
            np.empty((len(source), config.n_best), np.int64),
            np.empty((len(source), config.n_best, 2)),
        )
        finished = np.zeros(len(source), bool)
        memory, ends = self._encode(source)
        embedding = self._embedding("target", longest)
        status = compiled_search.search(
            memory, ends, self.decoder_layers, self.logits, embedding, self.shape, self.settings,
            limits.astype(np.int64), _penalties(config.alpha, config.beta, longest), barred, rule, found, finished,
        )  # fmt: skip
        return _hypotheses(finished, *found) if status == compiled_search.DONE else None

    def _encode(self, source: Array) -> tuple[Array, Array]:
        is_token = source != PAD
        positions = np.ascontiguousarray(np.nonzero(is_token)[1])
        x = np.empty((len(positions), _padded(self.model.config.d_model)), f4)
        compiled_layers.embed_tokens(source[is_token], positions, self._embedding("source", source.shape[1]), x)
        ends = np.cumsum(is_token.sum(axis=1))
        return compiled_layers.encode(x, ends, self.encoder, self.shape, self.settings), ends

    def _embedding(self, side: str, length: int) -> tuple[Any, Array, Any]:
        """Return the embeddings of the source or the target, encodings of positions, and the factor on embeddings."""
        embedding = getattr(self.model, f"{side}_embedding")
        rows = getattr(self.model, f"{side}_positions").rows(length, 0, CPU)
        table = getattr(self.decoder.parts, f"{side}_embedding").table
        if table is None:
            table = embedding.weight.data
        else:
            table = (table.groups, table.factors) if isinstance(table, Int8Weights) else table.groups
        return table, rows.data if isinstance(rows, Tensor) else rows, f4(embedding.scale)


def _padded(width: int) -> int:
    return -(-width // OUTPUTS) * OUTPUTS


def product(layers: Sequence[Any]) -> tuple[Any, Array]:
    """Weights and bias of a product of the layers, as `multiply` reads them, with zeros up to whole groups."""
    out = len(layers[0].w.T) if layers[0].packed is None else layers[0].packed.shape[0]
    bias = np.zeros((len(layers), _padded(out)), f4)
    for place, layer in zip(bias, layers, strict=True):
        if layer.bias is not None:
            place[:out] = layer.bias
    if layers[0].packed is not None:
        return packed([layer.packed for layer in layers]), bias
    weights = np.zeros((len(layers), _padded(out), len(layers[0].w)), f4)
    for place, layer in zip(weights, layers, strict=True):
        place[:out] = layer.w.T
    by_group = weights.reshape(len(layers), -1, OUTPUTS, weights.shape[2])
    return np.ascontiguousarray(by_group.swapaxes(2, 3)), bias


def packed(layers: Sequence[PackedWeights]) -> tuple[Any, ...]:
    """Weights of the layers, which read them from there, too; of what is added in 8 bits, the factor is 0.

    Shapes: -> groups int32 [L, out / 64, in / n, 64], in; in 8 bits, start int32 [L, out] and factors [L, out], too
    """
    weights = words_of(layers), layers[0].shape[1]
    if not isinstance(layers[0], Int8Weights):
        return weights
    return *weights, *(np.stack([getattr(each, name) for each in layers]) for name in ("start", "factors"))


def _products(layers: Any) -> tuple[Any, ...]:
    """Weights and biases of each product, of all layers."""
    return tuple(product(each) for each in zip(*layers, strict=True))


def _of_encoder(layer: Any) -> tuple[Any, ...]:
    own, feed_forward = layer.self_attention, layer.feed_forward
    return own.inward, own.output.product, feed_forward.up.product, feed_forward.down.product


def _of_decoder(layer: Any) -> tuple[Any, ...]:
    cross, (inward, outward, up, down) = layer.cross_attention, _of_encoder(layer)
    return inward, outward, cross.query.product, cross.inward, cross.output.product, up, down


def _norms(layers: Any) -> Array:
    """Shapes: -> [L, norms, 2, D]"""
    residuals = [[each for each in vars(layer).values() if isinstance(each, Residual)] for layer in layers]
    return np.stack([np.stack([_norm(residual.norm) for residual in each]) for each in residuals])


def _norm(norm: LayerNorm) -> Array:
    """Shapes: -> [2, D]"""
    return np.stack([norm.weight.data, norm.bias.data])


def _last(stack: Any, config: Any) -> Array:
    """Shapes: -> [2, D]"""
    return _norm(stack.norm) if config.norm == "pre" else np.zeros((2, config.d_model), f4)


@functools.lru_cache
def _penalties(alpha: float, beta: float, longest: int) -> Array:
    """Return the length penalties of 0 … `longest` tokens."""
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
