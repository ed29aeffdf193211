"""Parameters of a model and the memory of its training, computed from the configuration."""

from __future__ import annotations

import math
from dataclasses import replace

from minitf.config import RunConfig, TransformerConfig
from minitf.model.transformer import Transformer

__all__ = ["parameter_count", "parameter_shapes", "with_vocabulary"]


def parameter_count(c: TransformerConfig) -> int:
    """The exact number of parameters."""
    return sum(math.prod(shape) for shape in parameter_shapes(c).values())


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
