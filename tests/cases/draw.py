"""Random shapes, arrays, axes, masks and indices for cases, from a NumPy generator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.gradcheck.function import arrange

Array = np.ndarray
Shape = tuple[int, ...]
Rng = np.random.Generator

GAP = 0.05  # least distance from a kink, and between numbers that are compared


def shape(rng: Rng, *, min_ndim: int = 0, max_ndim: int = 4, min_side: int = 1, max_side: int = 4) -> Shape:
    """Return a shape of at most 64 elements; with min_side=0, about one in ten has a side of 0."""
    empty = min_side == 0 and rng.random() < 0.1
    sides = rng.integers(max(min_side, 1), max_side, rng.integers(min_ndim, max_ndim, endpoint=True), endpoint=True)
    while math.prod(sides.tolist()) > 64:
        sides[sides.argmax()] -= 1
    if empty and sides.size:
        sides[rng.integers(sides.size)] = 0
    return tuple(sides.tolist())


def shrunk(rng: Rng, full: Shape) -> Shape:
    """Return a shape that broadcasts to `full`: some axes have size 1, some leading axes are missing."""
    shape = [1 if rng.random() < 0.4 else n for n in full]
    return tuple(shape[rng.integers(0, len(full), endpoint=True) :])


def broadcastable(rng: Rng, number: int = 2, **limits: int) -> list[Shape]:
    """Shapes that broadcast against each other."""
    full = shape(rng, **{"min_ndim": 1, **limits})
    return [shrunk(rng, full) for _ in range(number)]


def relayout(rng: Rng, array: Array) -> Array:
    """Return the array, writable, in a random memory layout: by columns, with gaps, reversed, or unchanged."""
    kind = rng.random()
    if kind < 0.4 or not array.ndim or not array.size:
        return array
    order = rng.permutation(array.ndim).tolist()
    steps = rng.choice([-2, -1, 1, 2], array.ndim) if kind < 0.8 else np.ones(array.ndim, int)
    return arrange(array, order, steps.tolist())


def uniform(rng: Rng, shape: Shape, low: float = -2.0, high: float = 2.0) -> Array:
    """Draw numbers between `low` and `high`, in a random memory layout."""
    return relayout(rng, np.asarray(rng.uniform(low, high, shape)))


def away_from(
    rng: Rng, shape: Shape, points: Sequence[float] = (0.0,), low: float = -2.0, high: float = 2.0, gap: float = GAP
) -> Array:
    """Numbers at least `gap` away from each of `points`, which must be equal or more than 4 gaps apart."""
    x = np.asarray(rng.uniform(low, high, shape))
    for point in points:
        side = np.where(x < point, -1, 1)
        x = np.where(np.abs(x - point) < gap, point + side * gap * (1 + rng.random(shape)), x)
    return relayout(rng, x)


def positive(rng: Rng, shape: Shape, low: float = 0.3, high: float = 3.0) -> Array:
    """Draw positive numbers, in a random memory layout."""
    return uniform(rng, shape, low, high)


def distinct(rng: Rng, *shapes: Shape) -> list[Array]:
    """Arrays whose numbers are all at least GAP apart, within and across arrays."""
    sizes = [math.prod(shape) for shape in shapes]
    total = sum(sizes)
    values = (rng.permutation(total) - total / 2 + rng.uniform(-0.25, 0.25, total)) * 2 * GAP
    parts = np.split(values, np.cumsum(sizes)[:-1])
    return [relayout(rng, part.reshape(shape)) for part, shape in zip(parts, shapes, strict=True)]


def axis(rng: Rng, ndim: int, *, none: bool = True, several: bool = True) -> int | tuple[int, ...] | None:
    """None, an axis or a tuple of axes, half of them negative."""
    kind = rng.choice(["none"] * none + ["one"] * (ndim > 0) + ["several"] * several)
    if kind == "none":
        return None
    if kind == "one":
        return int(rng.integers(-ndim, ndim))
    chosen = rng.permutation(ndim)[: rng.integers(0, ndim, endpoint=True)]
    return tuple([int(a) - ndim * int(rng.integers(2)) for a in chosen])


def mask(rng: Rng, shape: Shape, density: float = 0.6) -> Array:
    """Draw a boolean array in which each element is True with probability `density`."""
    return np.asarray(rng.random(shape) < density)


def attention_mask(rng: Rng, shape: Shape) -> Array:
    """Return a mask, keys last, in which about one in five queries may attend to nothing."""
    return mask(rng, shape) & (rng.random((*shape[:-1], 1)) < 0.8)


def indices(rng: Rng, shape: Shape, size: int, *, negative: bool = False) -> Array:
    """Integers below `size`, from -size if `negative`, of a random signed dtype."""
    dtypes = [dtype for dtype in (np.int64, np.int32, np.int16) if holds(dtype, size)]
    return rng.integers(-size if negative else 0, size, shape).astype(dtypes[rng.integers(len(dtypes))])


def holds(dtype: Any, size: int) -> bool:
    """Return whether an integer type has all numbers below `size`, and from -size if it is signed."""
    return bool(np.iinfo(dtype).max >= size - 1)
