"""Adam's update and the norm of the gradient in one pass over the memory of all parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from autograd.fast import kernels_of, reduced
from autograd.memory import note_change
from minitf.model.layers import Parameter

Array = Any
Optimizer = TypeVar("Optimizer")


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
        (parameter.data, parameter.grad.data, m, v, reduced.last(parameter.data))  # type: ignore[union-attr]
        for parameter, m, v in learning
    ]
    kernels_of([updates[0][0]]).adam_all_(updates, **settings)
    for array, *_, copy in updates:
        if copy is not None:
            note_change(copy)
            reduced.keep(array, copy)


def squared_norm(gradients: Sequence[Array]) -> float:
    """Σ g²: pieces in the gradient's own precision, their sum in float64."""
    return float(kernels_of(gradients).squared_norm(gradients)) if gradients else 0.0
