"""Functions that are other ops, one after the other: names that users of NumPy and PyTorch look for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from autograd.backend import backend_of
from autograd.ops.arithmetic import divide, multiply
from autograd.ops.choose import where
from autograd.ops.elementwise import cos, log, sin
from autograd.ops.index import take, take_along_axis
from autograd.ops.products import matmul
from autograd.ops.shape import reshape, swapaxes
from autograd.tensor import Tensor, TensorLike, attach, tensors


def tan(x: TensorLike) -> Tensor:
    """sin(x) / cos(x), element by element."""
    return divide(sin(x), cos(x))


def log2(x: TensorLike) -> Tensor:
    """The logarithm to the base 2, element by element: ln(x) / ln(2)."""
    return divide(log(x), math.log(2))


def leaky_relu(x: TensorLike, negative_slope: float = 0.01) -> Tensor:
    """x where x > 0, else negative_slope · x, element by element; the gradient at 0 is `negative_slope`."""
    (x,) = tensors(x=x)
    return where(x > 0, x, multiply(x, negative_slope))


# ---- Products ----


def dot(a: TensorLike, b: TensorLike) -> Tensor:
    """The sum of a times b over the last axis of a and the first of b; the product, if one of them is a number.

    Shapes: a [..., K], b [K] or [K, N] -> [...] or [..., N]
    Raises: ValueError for b of more than two axes, where NumPy's `dot` and `matmul` differ
    """
    a, b = tensors(a=a, b=b)
    if b.ndim > 2:
        raise ValueError(f"dot takes b of at most two axes, found shape {b.shape}; write matmul or einsum")
    return matmul(a, b) if a.ndim and b.ndim else multiply(a, b)


def outer(a: TensorLike, b: TensorLike) -> Tensor:
    """a_i · b_j, of both flattened.  Shapes: a [M], b [N] -> [M, N]"""
    return multiply(reshape(a, (-1, 1)), reshape(b, (1, -1)))


# ---- Other places for the same elements ----


def _places(x: Tensor) -> Any:
    """The number of each element.  Shapes: -> int, as x"""
    return backend_of([x.data]).xp.arange(x.size).reshape(x.shape)


def flip(x: TensorLike, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """x with its elements in reverse order along `axis`, or along all axes."""
    (x,) = tensors(x=x)
    return take(x, backend_of([x.data]).xp.flip(_places(x), axis))


def roll(x: TensorLike, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None) -> Tensor:
    """x with its elements moved by `shift` places along `axis`, or in the flattened x; the last come to the front."""
    (x,) = tensors(x=x)
    return take(x, backend_of([x.data]).xp.roll(_places(x), shift, axis))


def tile(x: TensorLike, reps: int | Sequence[int]) -> Tensor:
    """x side by side with itself, `reps` times along each axis; new axes come in front."""
    (x,) = tensors(x=x)
    return take(x, backend_of([x.data]).xp.tile(_places(x), reps))


def sort(x: TensorLike, axis: int | None = -1) -> Tensor:
    """x in ascending order along `axis`, or of the flattened x for None; NaN comes last, equal elements in their order.

    The result is x alone, as NumPy's; `take_along_axis` with `np.argsort` sorts others in the same way.
    """
    (x,) = tensors(x=x)
    x, axis = (reshape(x, (-1,)), 0) if axis is None else (x, axis)
    return take_along_axis(x, backend_of([x.data]).xp.argsort(x.data, axis=axis, kind="stable"), axis)


def _transposed_matrices(x: Tensor) -> Tensor:
    if x.ndim < 2:
        raise ValueError(f"mT exchanges the last two axes, this Tensor has shape {x.shape}")
    return swapaxes(x, -1, -2)


attach(mT=property(_transposed_matrices, doc="The last two axes exchanged."))
