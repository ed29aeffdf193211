"""Cases of studies/ops/recurrent.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import autograd as ag
from studies.ops import gru
from studies.tests.ops.cases.register import register
from tests.cases import draw
from tests.cases.checks import Example, torch


def _plain_gru(x: Any, weight: Any, bias: Any, mask: Any = None) -> Any:
    """A step at a time, of plain ops."""
    width = weight.shape[1]
    h: Any = np.zeros((*x.shape[:-2], width))
    states = []
    for t in range(x.shape[-2]):
        x_r, x_z, x_n = ag.split(x[..., t, :], 3, axis=-1)
        h_r, h_z, h_n = ag.split(ag.linear(h, weight, bias), 3, axis=-1)
        z = ag.sigmoid(x_z + h_z)
        new = (1 - z) * ag.tanh(x_n + ag.sigmoid(x_r + h_r) * h_n) + z * h
        h = new if mask is None else ag.where(mask[..., t, None], new, h)
        states.append(h)
    return ag.stack(states, axis=-2)


def _torch_gru(x: Any, weight: Any, bias: Any) -> Any:
    """PyTorch's, whose own product of the inputs is one with the unit matrix."""
    unit, zeros = torch.eye(len(weight), dtype=x.dtype), torch.zeros(len(weight), dtype=x.dtype)
    start = torch.zeros(1, *x.shape[:-2], weight.shape[1], dtype=x.dtype)
    return torch._VF.gru(x, start, [unit, weight, zeros, bias], True, 1, 0.0, False, False, True)[0]


def _arrays(rng: draw.Rng, leading: tuple[int, ...]) -> list[np.ndarray]:
    t, width = rng.integers(1, 4, 2).tolist()
    return [draw.uniform(rng, shape) for shape in ((*leading, t, 3 * width), (3 * width, width), (3 * width,))]


@register("GRU", "a batch")
def _(rng):
    return Example(gru, _arrays(rng, (2,)), _plain_gru, _torch_gru)


@register("GRU", "one sequence, or two leading axes")
def _(rng):
    return Example(gru, _arrays(rng, ((), (2, 1))[rng.integers(2)]), _plain_gru)


@register("GRU", "positions that leave the state as it was")
def _(rng):
    arrays = _arrays(rng, (3,))
    mask = rng.random((int(rng.choice([1, 3])), arrays[0].shape[-2])) < 0.6
    return Example(
        lambda x, w, b: gru(x, w, b, mask), arrays,
        lambda x, w, b: _plain_gru(x, w, b, np.broadcast_to(mask, x.shape[:-1])),
    )  # fmt: skip
