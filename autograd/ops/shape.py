"""Other axes for the same elements, as views where NumPy gives views; backward puts the gradient back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.engine import Op, apply
from autograd.ops.flops import moves_only
from autograd.ops.reduce import refuse_list
from autograd.tensor import Tensor, TensorLike, attach, tensors


class Reshape(Op):
    """y = the elements of x, in the same order, in another shape"""

    flops = moves_only

    @staticmethod
    def forward(xp, x, *, shape):
        return x.reshape(shape)

    @staticmethod
    def backward(xp, g, y, x, *, shape):
        return g.reshape(x.shape)


def reshape(x: TensorLike, shape: int | Sequence[int]) -> Tensor:
    """The elements of x in `shape`; one size may be -1 and is inferred from the others."""
    return apply(Reshape, x, shape=shape)


class Transpose(Op):
    """y[i, j, …] = x[…] with the axes in the order `axes`"""

    flops = moves_only

    @staticmethod
    def forward(xp, x, *, axes):
        return xp.transpose(x, axes)

    @staticmethod
    def backward(xp, g, y, x, *, axes):
        return g.transpose(None if axes is None else np.argsort([axis % x.ndim for axis in axes]).tolist())


def transpose(x: TensorLike, axes: Sequence[int] | None = None) -> Tensor:
    """The axes of x in the order `axes`, or reversed."""
    return apply(Transpose, x, axes=None if axes is None else tuple(axes))


class SwapAxes(Op):
    """y = x with two axes exchanged"""

    flops = moves_only

    @staticmethod
    def forward(xp, x, *, axis1, axis2):
        return x.swapaxes(axis1, axis2)

    @staticmethod
    def backward(xp, g, y, x, *, axis1, axis2):
        return g.swapaxes(axis1, axis2)


def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """x with two axes exchanged."""
    return apply(SwapAxes, x, axis1=axis1, axis2=axis2)


def expand_dims(x: TensorLike, axis: int | tuple[int, ...]) -> Tensor:
    """x with new axes of size 1, at the positions `axis` of the result."""
    (x,) = tensors(x=x)
    return reshape(x, np.expand_dims(_outline(x), axis).shape)


def squeeze(x: TensorLike, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """x without the axes at `axis`, which must have size 1, or without all axes of size 1."""
    refuse_list(axis)
    (x,) = tensors(x=x)
    return reshape(x, np.squeeze(_outline(x), axis).shape)


def _outline(x: Tensor) -> np.ndarray:
    """An array of the shape of x in the memory of one number: NumPy finds the shape of a result with it."""
    return np.broadcast_to(np.zeros(()), x.shape)


def flatten(x: Tensor, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """The axes from `start_axis` to `end_axis`, all by default, as one."""
    if x.ndim == 0:
        return reshape(x, (1,))
    start, end = start_axis % x.ndim, end_axis % x.ndim + 1
    return reshape(x, (*x.shape[:start], math.prod(x.shape[start:end]), *x.shape[end:]))


def _one_sequence(numbers: tuple[Any, ...]) -> Any:
    """The arguments of a method that takes its numbers one by one or as one sequence."""
    return numbers[0] if len(numbers) == 1 and not isinstance(numbers[0], int) else numbers


attach(
    T=property(transpose, doc="All axes reversed."),
    reshape=lambda x, *shape: reshape(x, _one_sequence(shape)),
    transpose=lambda x, *axes: transpose(x, _one_sequence(axes) or None),
    swapaxes=swapaxes,
    squeeze=squeeze,
    flatten=flatten,
    ravel=flatten,
)
