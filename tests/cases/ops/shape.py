"""Cases of autograd/ops/shape.py."""

from __future__ import annotations

import math

import numpy as np

import autograd as ag
from tests.cases import draw
from tests.cases.checks import Example, register, torch


def _factors(rng: draw.Rng, size: int) -> list[int]:
    """A shape of `size` elements."""
    sides = [1] * int(rng.integers(1, 4))
    for prime in (2, 3):
        while size % prime == 0:
            size //= prime
            sides[rng.integers(len(sides))] *= prime
    return [size * sides[0], *sides[1:]]


@register("Reshape", "any shape")
def _(rng):
    shape = draw.shape(rng)
    new = _factors(rng, math.prod(shape))
    if rng.integers(2):
        new[rng.integers(len(new))] = -1
    return Example(lambda x: ag.reshape(x, new), [draw.uniform(rng, shape)], torch=lambda x: torch.reshape(x, new))


@register("Reshape", "zero size")
def _(rng):
    return Example(
        lambda x: ag.reshape(x, (0, 5)), [draw.uniform(rng, (2, 0))], torch=lambda x: torch.reshape(x, (0, 5))
    )


@register("Transpose", "reversed")
def _(rng):
    x = draw.uniform(rng, draw.shape(rng, min_side=0))
    return Example(ag.transpose, [x], torch=lambda x: x.permute(tuple(reversed(range(x.ndim)))))


@register("Transpose", "any order")
def _(rng):
    shape = draw.shape(rng, min_side=0)
    axes = [int(a) - len(shape) * int(rng.integers(2)) for a in rng.permutation(len(shape))]
    return Example(lambda x: ag.transpose(x, axes), [draw.uniform(rng, shape)], torch=lambda x: x.permute(axes))


@register("Transpose", "three axes in a circle")
def _(rng):
    """Not its own inverse: transposing the gradient by `axes` again would be wrong."""
    return Example(
        lambda x: ag.transpose(x, (1, 2, 0)), [draw.uniform(rng, (2, 2, 2))], torch=lambda x: x.permute(1, 2, 0)
    )


@register("SwapAxes", "any two axes")
def _(rng):
    shape = draw.shape(rng, min_ndim=1, min_side=0)
    a, b = rng.integers(-len(shape), len(shape), 2).tolist()
    return Example(lambda x: ag.swapaxes(x, a, b), [draw.uniform(rng, shape)], torch=lambda x: x.swapaxes(a, b))


@register("SwapAxes", "axes of one size")
def _(rng):
    """Without swapping back, the gradient would have the right shape, but not the right values."""
    return Example(lambda x: ag.swapaxes(x, 0, -1), [draw.uniform(rng, (3, 2, 3))], torch=lambda x: x.swapaxes(0, -1))


@register("Reshape", "expand_dims by one axis or two")
def _(rng):
    shape = draw.shape(rng, max_ndim=3, min_side=0)
    axis = [(0, -1), (0, 1), int(rng.integers(-len(shape) - 1, len(shape) + 1))][rng.choice(3, p=[0.2, 0.2, 0.6])]
    new = np.expand_dims(np.zeros(shape), axis).shape
    return Example(lambda x: ag.expand_dims(x, axis), [draw.uniform(rng, shape)], torch=lambda x: x.reshape(new))


@register("Reshape", "squeeze of one axis, several or all")
def _(rng):
    shape = (1, *draw.shape(rng, max_ndim=2), 1)
    axis = [0, -1, (0, -1), None][rng.integers(4)]
    return Example(
        lambda x: ag.squeeze(x, axis), [draw.uniform(rng, shape)],
        torch=lambda x: torch.squeeze(x) if axis is None else torch.squeeze(x, axis),
    )  # fmt: skip
