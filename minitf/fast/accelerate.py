"""`accelerate(model)`: put the fast parts in the places of the plain ones, which stay the definition.

    model = accelerate(Transformer(config))
    optimizer = accelerate_adam(Adam(model.named_parameters(), config))

A fast part is a subclass of the plain one, with its signature and its parameters.  For every entry of the table,
tests/minitf/fast/test_accelerate.py says that both compute the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from autograd.fast import kernels_of
from minitf.fast import fused_layers as fast
from minitf.fast.array_layers import with_classes
from minitf.model import transformer as plain
from minitf.model import variants
from minitf.model.layers import FeedForward, Module
from minitf.model.parameters import Parameter

__all__ = ["REPLACEMENTS", "accelerate", "accelerate_adam"]

Array = Any
M = TypeVar("M", bound=Module)
Optimizer = TypeVar("Optimizer")
REPLACEMENTS: dict[type[Module], type[Module]] = {
    FeedForward: fast.FusedFeedForward,
    plain.MultiHeadAttention: fast.PackedAttention,
    plain.Residual: fast.FusedResidual,
    plain.DecoderLayer: fast.PackedDecoderLayer,
    plain.Encoder: fast.CheckpointedEncoder,
    variants.PreNormEncoder: fast.CheckpointedPreNormEncoder,
    plain.Decoder: fast.PackedDecoder,
    variants.PreNormDecoder: fast.PackedPreNormDecoder,
    plain.Transformer: fast.FastTransformer,
}


def accelerate(module: M, *, compute_dtype: str | None = None, checkpoint_layers: bool = False) -> M:
    """Return the module with fast parts, which have the plain parts' parameters; load weights before.

    compute_dtype: of a Transformer: dtype of activations if not that of the parameters: "bfloat16" for mixed precision
    checkpoint_layers: of a Transformer: keep, for the backward pass, only the inputs of layers, and compute the layers
        again
    """
    new: Any = with_classes(module, lambda kind: REPLACEMENTS.get(kind, kind))
    if isinstance(new, fast.FastTransformer):
        new.compute_dtype = compute_dtype
        vars(new.encoder)["checkpoints_layers"] = vars(new.decoder)["checkpoints_layers"] = checkpoint_layers
        new.place_side_by_side()
    return cast(M, new)


# ---- Adam ----


def accelerate_adam(adam: Optimizer) -> Optimizer:
    """The optimizer (`Adam` of minitf/training/optim.py), with the functions below for its own of the same names."""
    optimizer: Any = adam
    optimizer.update_all, optimizer.squared_norm = update_all, squared_norm
    return adam


def update_all(learning: Sequence[tuple[Parameter, Array, Array]], **settings: float) -> None:
    """Update several parameters, each with its moments, and their copies in lower precision, in one call."""
    if not learning:
        return
    updates: list[Any] = [
        (parameter.data, parameter.grad.data, m, v, parameter.low and parameter.low.copy)  # type: ignore[union-attr]
        for parameter, m, v in learning
    ]
    kernels_of([updates[0][0]]).adam_all_(updates, **settings)
    for parameter, *_ in learning:
        if parameter.low is not None:
            parameter.low.note_written()


def squared_norm(gradients: Sequence[Array]) -> float:
    """Σ g²: pieces in the gradient's own precision, their sum in float64."""
    return float(kernels_of(gradients).squared_norm(gradients)) if gradients else 0.0
