"""Random shapes, arrays and axes, with the corners that break array code: no axis, size 0, ties, views."""

from __future__ import annotations

import numpy as np


def shape_of(rng, low=0, high=4, smallest=0):
    """Mostly small shapes, now and then with an axis of size 0."""
    sizes = np.array([0, 1, 2, 3, 4])
    weights = np.array([1, 4, 6, 6, 3]) * (sizes >= smallest)
    return tuple(rng.choice(sizes, rng.integers(low, high + 1), p=weights / weights.sum()).tolist())


def values(rng, shape, low=None):
    """Random numbers in a random memory layout: often small integers, above `low` if given."""
    if low is not None:
        x = rng.uniform(low, 3.0, shape)
    elif rng.random() < 0.5:
        x = rng.integers(-2, 3, shape).astype(np.float64)
    else:
        x = rng.standard_normal(shape)
    x = np.asarray(x)
    layout = rng.integers(4)
    if layout == 1 and x.ndim:
        return np.asfortranarray(x)
    if layout == 2 and x.ndim:
        return np.repeat(x, 2, axis=-1)[..., ::2]
    if layout == 3 and x.ndim > 1:
        return np.ascontiguousarray(x.swapaxes(0, -1)).swapaxes(0, -1)
    return x


def broadcastable(rng, count, smallest=0):
    """Shapes that broadcast together: axes dropped in front, others set to 1."""
    full = shape_of(rng, smallest=smallest)
    shapes = []
    for _ in range(count):
        shape = full[rng.integers(len(full) + 1) :] if rng.random() < 0.5 else full
        shapes.append(tuple([1 if rng.random() < 0.25 else n for n in shape]))
    return shapes


def axis_of(rng, ndim, several=True):
    """None, an axis from either end, or a tuple of them."""
    if several and (ndim == 0 or rng.random() < 0.2):
        return None
    if several and rng.random() < 0.5:
        chosen = rng.permutation(ndim)[: rng.integers(1, ndim + 1)]
        return tuple([int(a) - (ndim if rng.random() < 0.5 else 0) for a in chosen])
    return int(rng.integers(-ndim, ndim))


def all_axes(axis, ndim):
    """PyTorch takes a list of axes where NumPy takes None."""
    return list(range(ndim)) if axis is None else axis
