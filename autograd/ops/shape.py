"""Other axes for the same elements, as views where NumPy gives views; and whether a layer's inputs fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.backend import as_array, backend_of
from autograd.engine import Op, apply
from autograd.tensor import Tensor, TensorLike, attach, number, refuse_list, tensors


class Reshape(Op):
    """y = the elements of x, in the same order, in another shape"""

    moves = True

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

    moves = True

    @staticmethod
    def forward(xp, x, *, axes):
        return xp.transpose(x, axes)

    @staticmethod
    def backward(xp, g, y, x, *, axes):
        return g.transpose(None if axes is None else np.argsort([axis % len(axes) for axis in axes]).tolist())


def transpose(x: TensorLike, axes: Sequence[int] | None = None) -> Tensor:
    """The axes of x in the order `axes`, or reversed."""
    return apply(Transpose, x, axes=None if axes is None else tuple(axes))


class SwapAxes(Op):
    """y = x with two axes exchanged"""

    moves = True

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
    flatten=flatten,
    ravel=flatten,
)


# ---- The shapes of the inputs of layers ----


def linear_inputs(x: Any, weight: Any, bias: Any) -> tuple[Tensor, Tensor, Tensor | None]:
    """x, weight and bias as Tensors, a bias of None as None.

    Raises: ValueError unless x [..., in], weight [out, in] and bias [out] fit
    """
    x, weight = tensors(x=x, weight=weight)
    shape = weight.shape
    if len(shape) != 2:
        raise ValueError(f"linear needs a weight of two axes, [out, in]; found shape {shape}")
    if x.shape[-1:] != shape[1:]:
        message = f"does not end in the {shape[1]} inputs of the weight [out, in] {shape}"
        raise ValueError(f"linear: x of shape {x.shape} {message}")
    if bias is not None:
        (bias,) = tensors(bias=bias)
        if bias.shape != shape[:1]:
            raise ValueError(f"linear: bias has shape {bias.shape}, the weight [out, in] {shape} asks for {shape[:1]}")
    return x, weight, bias


def norm_inputs(x: Any, weight: Any, bias: Any) -> list[Tensor]:
    """x, weight and bias as Tensors.  Raises: ValueError unless x [..., D], weight [D] and bias [D] fit, with D > 0"""
    x, weight, bias = found = tensors(x=x, weight=weight, bias=bias)
    if x.shape[-1:] in ((), (0,)):
        raise ValueError(f"layer norm needs a last axis with at least one feature, found x of shape {x.shape}")
    for name, each in (("weight", weight), ("bias", bias)):
        if each.shape != x.shape[-1:]:
            raise ValueError(f"layer norm's {name} has shape {each.shape}, the last axis of x asks for {x.shape[-1:]}")
    return found


def as_attention_inputs(query: Any, key: Any, value: Any, scale: float | None) -> tuple[Tensor, Tensor, Tensor, float]:
    """Query, key and value as Tensors whose shapes fit, and the scale, 1/√K if it is None.

    Raises: ValueError for shapes that do not fit.
    """
    query, key, value = tensors(query=query, key=key, value=value)
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ValueError("query, key and value need at least two axes: positions and features")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query has {query.shape[-1]} features, key has {key.shape[-1]}; they must be equal")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"key has {key.shape[-2]} positions, value has {value.shape[-2]}; they must be equal")
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    return query, key, value, number("scale", scale)


def leading_shape(*arrays: Any) -> tuple[int, ...]:
    """The common shape of all axes but the last two."""
    shapes = [a.shape[:-2] for a in arrays]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"the leading axes of query, key and value, {shapes}, do not broadcast together") from None


def mask_array(query: Tensor, mask: Any, shape: tuple[int, ...], axes: str) -> Any:
    """A mask as an array on the device of `query`, None as None.

    Raises: TypeError for a mask that is not boolean, ValueError if it does not broadcast to `shape`.
    """
    if mask is None:
        return None
    # copied: the backward pass reads it again, and a Tensor may have changed by then
    mask = backend_of([query.data]).xp.asarray(mask.data.copy() if isinstance(mask, Tensor) else as_array(mask))
    if mask.dtype != bool:
        raise TypeError(f"mask must be boolean (True = may attend), found {mask.dtype}; use mask != 0 or mask == 0")
    if not broadcasts_to(mask.shape, shape):
        raise ValueError(f"a mask of shape {mask.shape} does not broadcast to {axes} = {shape}")
    return mask


def broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array of `shape` can be broadcast to `target`."""
    return len(shape) <= len(target) and all(
        n in (1, t) for n, t in zip(reversed(shape), reversed(target), strict=False)
    )
