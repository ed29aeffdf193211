"""Parameters of a model and floating-point operations of its training, computed from the configuration."""

from __future__ import annotations

import math
from dataclasses import replace

from minitf.config import RunConfig, TransformerConfig
from minitf.model.transformer import Transformer

__all__ = ["parameter_shapes"]

SENTENCE_TOKENS = 30
"""Assumed tokens of a sentence, for attention: its scores are some 2 % of the base model's operations."""


def parameter_count(c: TransformerConfig) -> int:
    """The exact number of parameters."""
    return sum(math.prod(shape) for shape in parameter_shapes(c).values())


def update_flops(c: TransformerConfig, source_tokens: float, target_tokens: float, length: float) -> float:
    """Operations of the matrix products of one update; the backward pass has twice those of the forward pass.

    One multiply-add counts as two operations. Softmax, norms, dropout and Adam, some 2 to 4 % more, are left out.
    `length` is the number of tokens of each sentence, source and target alike, padding included.
    """
    keys, values = c.heads * c.head_d_k, c.heads * c.head_d_v
    projections = 2 * c.d_model * (2 * keys + values) + 2 * values * c.d_model  # query, key, value, output of a token
    scores = 2 * length * (keys + values)  # q kᵀ and p v of a query
    self_attention = projections + scores
    feed_forward = 4 * c.d_model * c.d_ff
    cross_query = 2 * c.d_model * keys + 2 * values * c.d_model + scores
    cross_memory = 2 * c.d_model * (keys + values)  # of a source token
    per_source_token = c.encoder_depth * (self_attention + feed_forward) + c.decoder_depth * cross_memory
    per_target_token = c.decoder_depth * (self_attention + cross_query + feed_forward)
    per_target_token += 2 * c.d_model * c.vocab_size
    return 3 * (source_tokens * per_source_token + target_tokens * per_target_token)


def training_flops(config: RunConfig) -> float:
    """Operations of a whole training run, if every batch is full."""
    slots = config.max_tokens_per_batch * config.accumulate
    return config.max_steps * update_flops(with_vocabulary(config), slots, slots, SENTENCE_TOKENS)


def training_bytes(config: RunConfig) -> int:
    """Estimate the memory of one process that trains, for batches of maximum size.

    Weights and Adam's two moments; either the gradients and one layer's arrays, or the arrays of all layers that the
    backward pass needs, and the logits. Measured with base, small, tiny and laptop: within a
    tenth; within a third where activations are recomputed, or with the plain implementation.
    """
    c, size = with_vocabulary(config), 8 if config.dtype == "float64" else 4
    parameters = size * parameter_count(c)
    kept = 13 * c.d_model + 2 * c.d_ff + (9 * c.d_model if c.norm == "pre" else 0)  # of an encoder and a decoder layer
    depth = max(c.encoder_depth, c.decoder_depth)
    passing = min(config.max_tokens_per_batch * (depth * (5 * c.d_model + 2 * c.d_ff) + c.vocab_size) * size, 400 << 20)
    of_token = (2 * c.d_model * depth + 2 * kept) if config.checkpoint_activations else depth * kept
    arrays = config.max_tokens_per_batch * of_token * size + passing
    if config.plain:
        arrays *= 2
    if config.precision == "bf16" and config.on_gpu:
        arrays //= 2
    return (3 + (config.moving_average is not None)) * parameters + max(parameters, arrays)


def with_vocabulary(config: RunConfig) -> TransformerConfig:
    """The model of a run, with the vocabulary size that the run asks for."""
    return replace(config.model, vocab_size=config.vocab_size)


def parameter_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter by its name in checkpoints, in the order of the model, without its memory."""
    return {name: p.shape for name, p in Transformer(config, seed=None).named_parameters().items()}
