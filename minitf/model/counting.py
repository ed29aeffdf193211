"""Parameters of a model, computed from the configuration."""

from __future__ import annotations

import math
from dataclasses import replace

from minitf.config import RunConfig, TransformerConfig
from minitf.model.transformer import Transformer

__all__ = ["parameter_count", "parameter_shapes", "with_vocabulary"]


def parameter_count(c: TransformerConfig) -> int:
    """The exact number of parameters."""
    return sum(math.prod(shape) for shape in parameter_shapes(c).values())


def with_vocabulary(config: RunConfig) -> TransformerConfig:
    """The model of a run, with the vocabulary size that the run asks for."""
    return replace(config.model, vocab_size=config.vocab_size)


def parameter_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter by its name in checkpoints, in the order of the model, without its memory."""
    return {name: p.shape for name, p in Transformer(config, seed=None).named_parameters().items()}
