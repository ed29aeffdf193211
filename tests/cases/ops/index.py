"""Cases of autograd/ops/index.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import autograd as ag
from autograd import apply
from autograd.ops.nn import AddRows
from tests.cases import draw
from tests.cases.checks import Example, register, torch


def _index(rng: draw.Rng) -> Any:
    """An index into shape (4, 3, 5), of every kind that NumPy has."""
    i = draw.indices(rng, (2, 3), 4, negative=True)
    j = draw.indices(rng, (3,), 3)
    kinds: list[Any] = [
        2,
        (slice(None), -1),
        slice(3, None, -2),
        (slice(1, 1), 0),
        (Ellipsis, slice(0, 4, 2)),
        (None, 1, Ellipsis, None),
        (i,),
        (i, slice(1, 3)),
        (slice(None), j, 0),
        (i, j),
        (i, slice(None), j),  # advanced indices apart: their axes come first
        [1, 1, 1],
        draw.mask(rng, (4,)),
        draw.mask(rng, (4, 3)),
        (slice(None), draw.mask(rng, (3, 5))),
        np.zeros(4, bool),
        np.zeros((0,), int),
    ]
    return kinds[rng.integers(len(kinds))]


@register("GetItem", "every kind of index")
def _(rng):
    index = _index(rng)
    return Example(lambda x: ag.getitem(x, index), [draw.uniform(rng, (4, 3, 5))])


def _part(rng: draw.Rng, size: int, integers: bool, together: draw.Shape) -> Any:
    """An index along one axis of `size` elements: a slice, an integer if `integers`, else an array of them."""
    kind = rng.integers(4)
    if kind == 0:
        start, stop = sorted(rng.integers(0, size + 1, 2).tolist())
        return slice(start, stop, int(rng.integers(1, 3)))
    if kind == 1:
        return slice(None)
    return int(rng.integers(-size, size)) if integers else rng.integers(-size, size, together)


@register("GetItem", "slices beside integers or arrays")
def _(rng):
    """Not beside both: NumPy counts an integer among the arrays, PyTorch does not, and axes end up elsewhere."""
    shape = draw.shape(rng, min_ndim=1)
    integers, together = bool(rng.integers(2)), draw.shape(rng, min_ndim=1, max_ndim=2)
    parts = [_part(rng, n, integers, together) for n in shape[: rng.integers(1, len(shape) + 1)]]
    index = (*parts, ...) if rng.random() < 0.3 else tuple(parts)
    return Example(
        lambda x: x[index], [draw.uniform(rng, shape)],
        torch=lambda x: x[tuple([torch.tensor(i) if isinstance(i, np.ndarray) else i for i in index])],
    )  # fmt: skip


@register("GetItem", "a mask of the leading axes")
def _(rng):
    shape = draw.shape(rng, min_ndim=1, min_side=0)
    mask = draw.mask(rng, shape[: rng.integers(1, len(shape) + 1)], 0.5)
    return Example(lambda x: x[mask], [draw.uniform(rng, shape)], torch=lambda x: x[torch.tensor(mask)])


@register("GetItem", "rows that repeat")
def _(rng):
    rows = draw.indices(rng, (6,), 3, negative=True)
    return Example(
        lambda x: x[rows], [draw.uniform(rng, (3, 2))], lambda x: ag.matmul(np.eye(3)[rows], x),
        lambda x: x[torch.tensor(rows, dtype=torch.int64)],
    )  # fmt: skip


@register("GetItem", "pairs of positions that repeat")
def _(rng):
    """Six pairs out of four: some element is picked twice, and its gradients must add up."""
    i, j = draw.indices(rng, (6,), 2, negative=True), draw.indices(rng, (6,), 2)
    return Example(
        lambda x: ag.getitem(x, (i, j)), [draw.uniform(rng, (2, 2))],
        lambda x: ag.sum(np.eye(2)[i] * ag.transpose(ag.matmul(x, np.eye(2)[:, j])), 1),
        lambda x: x[torch.tensor(i, dtype=torch.int64), torch.tensor(j, dtype=torch.int64)],
    )  # fmt: skip


@register("GetItem", "reused")
def _(rng):
    return Example(lambda x: x[1:] * x[:-1] + x[0], [draw.uniform(rng, (4, 2))], torch=lambda x: x[1:] * x[:-1] + x[0])


@register("GetItem", "a table of indices, along any axis")
def _(rng):
    """All axes of different sizes: each must come back to its place."""
    axis = int(rng.integers(-3, 3))
    x = draw.uniform(rng, (2, 3, 4))
    where = draw.indices(rng, (2, 5), x.shape[axis], negative=True)
    one_hot = np.eye(x.shape[axis])[where]  # [2, 5, n]
    before, after = "abc"[: axis % 3], "abc"[axis % 3 + 1 :]
    subscripts = f"{before}n{after},ijn->{before}ij{after}"
    return Example(
        lambda x: ag.take(x, where, axis), [x], lambda x: ag.einsum(subscripts, x, one_hot),
        lambda x: x[(*[slice(None)] * (axis % 3), torch.tensor(where, dtype=torch.int64))],
    )  # fmt: skip


@register("TakeAlongAxis", "any axis")
def _(rng):
    """Indices that repeat and count from the end."""
    shape = draw.shape(rng, min_ndim=1, max_ndim=3)
    axis = int(rng.integers(-len(shape), len(shape)))
    rows = list(shape)
    rows[axis] = int(rng.integers(0, 5))
    where = draw.indices(rng, tuple(rows), shape[axis], negative=True)
    one_hot = np.moveaxis(np.eye(shape[axis])[where], -1, axis % len(shape))  # [..., n, m, ...]
    after = axis % len(shape) + 1
    return Example(
        lambda x: ag.take_along_axis(x, where, axis), [draw.uniform(rng, shape)],
        lambda x: ag.sum(ag.expand_dims(x, after) * one_hot, after - 1),
        lambda x: torch.gather(x, axis, torch.tensor(where % shape[axis], dtype=torch.int64)),
    )  # fmt: skip


@register("TakeAlongAxis", "of the flattened array")
def _(rng):
    shape = draw.shape(rng)
    where = draw.indices(rng, (5,), math.prod(shape), negative=True)
    return Example(
        lambda x: ag.take_along_axis(x, where, None), [draw.uniform(rng, shape)], lambda x: ag.take(x, where),
        lambda x: torch.take(x, torch.tensor(where, dtype=torch.int64)),
    )  # fmt: skip


@register("TakeAlongAxis", "indices that broadcast")
def _(rng):
    where = draw.indices(rng, (1, 3), 4)
    return Example(
        lambda x: ag.take_along_axis(x, where, 1), [draw.uniform(rng, (2, 4))], lambda x: ag.take(x, where[0], 1)
    )  # fmt: skip


@register("TakeAlongAxis", "the largest elements")
def _(rng):
    k, largest = int(rng.integers(0, 5)), bool(rng.integers(2))
    return Example(
        lambda x: ag.topk(x, k, 1, largest)[0], draw.distinct(rng, (3, 4)),
        torch=lambda x: torch.topk(x, k, 1, largest)[0],
    )  # fmt: skip


@register("AddRows", "indices that repeat, negative too")
def _(rng):
    shape = draw.shape(rng, max_ndim=2)
    where = draw.indices(rng, shape, 4, negative=True)
    one_hot = np.eye(4)[where.reshape(-1)]  # [N, 4]
    return Example(
        lambda rows: apply(AddRows, rows, where, shape=(4, 2)), [draw.uniform(rng, (*shape, 2))],
        lambda rows: ag.matmul(one_hot.T, ag.reshape(rows, (-1, 2)) if where.size else np.zeros((0, 2))),
    )  # fmt: skip


@register("AddRows", "index_add along any axis")
def _(rng):
    shape = draw.shape(rng, min_ndim=1, max_ndim=3)
    axis, count = int(rng.integers(-len(shape), len(shape))), int(rng.integers(0, 5))
    rows = list(shape)
    rows[axis] = count
    where, alpha = draw.indices(rng, (count,), shape[axis]), float(rng.choice([1.0, -2.5]))
    one_hot = np.eye(shape[axis])[where].T * alpha  # [n, m]

    def plain(x: Any, source: Any) -> Any:
        return x + ag.swapaxes(ag.matmul(ag.swapaxes(source, axis, -1), one_hot.T), axis, -1)

    return Example(
        lambda x, source: ag.index_add(x, axis, where, source, alpha=alpha),
        [draw.uniform(rng, shape), draw.uniform(rng, tuple(rows))],
        plain,
        lambda x, source: torch.index_add(x, axis, torch.tensor(where, dtype=torch.int64), source, alpha=alpha),
    )


@register("AddRows", "index_add of a Tensor to itself")
def _(rng):
    where = draw.indices(rng, (3,), 3)
    return Example(
        lambda x: ag.index_add(x, 0, where, x * x) * x, [draw.uniform(rng, (3, 2))],
        torch=lambda x: torch.index_add(x, 0, torch.tensor(where, dtype=torch.int64), x * x) * x,
    )  # fmt: skip
