"""Cases of autograd/ops/index.py: joining and splitting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import autograd as ag
from tests.cases import draw
from tests.cases.checks import Example, register, torch


def _alike(rng: draw.Rng, axis: int, shape: Sequence[int]) -> list[np.ndarray]:
    """One to three arrays whose shapes differ along `axis` only; one may have nothing there."""
    arrays = []
    for _ in range(rng.integers(1, 4)):
        each = list(shape)
        each[axis] = int(rng.integers(0, 4))
        arrays.append(draw.uniform(rng, tuple(each)))
    return arrays


@register("Concatenate", "any axis")
def _(rng):
    shape = draw.shape(rng, min_ndim=1, max_ndim=3, min_side=0)
    axis = int(rng.integers(-len(shape), len(shape)))
    return Example(
        lambda *arrays: ag.concatenate(arrays, axis), _alike(rng, axis, shape),
        torch=lambda *arrays: torch.cat(arrays, axis),
    )  # fmt: skip


@register("Concatenate", "flattened")
def _(rng):
    arrays = [draw.uniform(rng, draw.shape(rng, max_ndim=2)) for _ in range(3)]
    return Example(
        lambda *arrays: ag.concatenate(arrays, None), arrays,
        torch=lambda *arrays: torch.cat([a.reshape(-1) for a in arrays]),
    )  # fmt: skip


@register("Concatenate", "a Tensor with itself")
def _(rng):
    return Example(
        lambda x: ag.concatenate([x, x * x, x]), [draw.uniform(rng, (2, 2))], torch=lambda x: torch.cat([x, x * x, x])
    )


@register("Split", "equal sections")
def _(rng):
    shape = list(draw.shape(rng, min_ndim=1, max_ndim=3, min_side=0))
    axis = int(rng.integers(-len(shape), len(shape)))
    sections = int(rng.integers(1, 4))
    shape[axis] *= sections
    return Example(
        lambda x: ag.split(x, sections, axis), [draw.uniform(rng, tuple(shape))],
        torch=lambda x: torch.tensor_split(x, sections, axis),
    )  # fmt: skip


@register("Split", "before indices")
def _(rng):
    """Indices out of order name some elements twice, others never."""
    points = rng.integers(0, 6, 2).tolist()
    return Example(lambda x: ag.split(x, points, 1), [draw.uniform(rng, (2, 5))])


@register("Split", "before indices in order, any axis")
def _(rng):
    shape = draw.shape(rng, min_ndim=1, min_side=0)
    axis = int(rng.integers(-len(shape), len(shape)))
    points = sorted(rng.integers(0, shape[axis] + 1, rng.integers(0, 4)).tolist())
    return Example(
        lambda x: ag.split(x, points, axis), [draw.uniform(rng, shape)],
        torch=lambda x: torch.tensor_split(x, points, axis),
    )  # fmt: skip


@register("Split", "one piece used")
def _(rng):
    return Example(
        lambda x: ag.split(x, 2)[1] * 2, [draw.uniform(rng, (4, 2))], torch=lambda x: torch.tensor_split(x, 2)[1] * 2
    )


@register("Pad", "any widths")
def _(rng):
    shape = draw.shape(rng, min_ndim=1, max_ndim=3, min_side=0)
    widths = rng.integers(0, 3, (len(shape), 2)).tolist()
    backward = [n for pair in reversed(widths) for n in pair]  # PyTorch's order
    return Example(
        lambda x: ag.pad(x, widths, constant_values=0.5), [draw.uniform(rng, shape)],
        torch=lambda x: torch.nn.functional.pad(x, backward, value=0.5),
    )  # fmt: skip


@register("Pad", "one width for all sides")
def _(rng):
    return Example(
        lambda x: ag.pad(x, 1), [draw.uniform(rng, draw.shape(rng, max_ndim=3))],
        torch=lambda x: torch.nn.functional.pad(x, [1] * (2 * x.ndim)),
    )  # fmt: skip


@register("BroadcastTo", "any shape")
def _(rng):
    full = draw.shape(rng, min_side=0)
    return Example(
        lambda x: ag.broadcast_to(x, full), [draw.uniform(rng, draw.shrunk(rng, full))],
        torch=lambda x: torch.broadcast_to(x, full),
    )  # fmt: skip


@register("BroadcastTo", "to zero size")
def _(rng):
    return Example(
        lambda x: ag.broadcast_to(x, (0, 3)), [draw.uniform(rng, (1, 3))], torch=lambda x: torch.broadcast_to(x, (0, 3))
    )
