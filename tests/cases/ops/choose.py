"""Cases of autograd/ops/choose.py."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import autograd as ag
from tests.cases import draw
from tests.cases.checks import Example, register, torch
from tests.cases.families import one_input, two_inputs

one_input("Abs", ag.abs, lambda x: torch.abs(x), draw.away_from, analytic=False)
one_input("Sign", ag.sign, lambda x: torch.sign(x), draw.away_from, analytic=False)

# ---- The larger, the smaller, the bounded ----


def _apart(rng: draw.Rng, shapes: list[draw.Shape]) -> list[np.ndarray]:
    return draw.distinct(rng, *shapes)


two_inputs("Maximum", ag.maximum, lambda a, b: torch.maximum(a, b), _apart, lambda a, b: ag.where(a > b, a, b))
two_inputs("Minimum", ag.minimum, lambda a, b: torch.minimum(a, b), _apart, lambda a, b: ag.where(a > b, b, a))


def _between_multiples(rng: draw.Rng, shapes: list[draw.Shape]) -> list[np.ndarray]:
    """a and b whose quotient is no integer."""
    a, b = shapes
    return [
        np.asarray(rng.integers(-4, 4, a) + draw.uniform(rng, a, 0.45, 0.55)),
        np.asarray(rng.choice([-2.0, -1.0, 1.0, 2.0], b) * draw.uniform(rng, b, 0.995, 1.005)),
    ]


two_inputs(
    "Remainder", ag.remainder, lambda a, b: torch.remainder(a, b), _between_multiples,
    lambda a, b: a - b * (a // b), analytic=False,
)  # fmt: skip


# CuPy clips no complex numbers
@register("Clip", "between numbers", analytic="cpu")
def _(rng):
    low, high = sorted(rng.integers(-2, 3, 2).tolist())
    return Example(
        lambda x: ag.clip(x, low, high), [draw.away_from(rng, draw.shape(rng), (low, high))],
        lambda x: ag.minimum(ag.maximum(x, low), high), lambda x: torch.clamp(x, low, high),
    )  # fmt: skip


@register("Clip", "one bound", analytic="cpu")
def _(rng):
    bounds = [(-1, None), (None, 1), (-0.5, None), (None, 0.5)][rng.integers(4)]
    return Example(
        lambda x: ag.clip(x, *bounds), [draw.away_from(rng, draw.shape(rng), (-1, -0.5, 0.5, 1))],
        torch=lambda x: torch.clamp(x, *bounds),
    )  # fmt: skip


@register("Clip", "between Tensors, broadcast", analytic="cpu")
def _(rng):
    """The bounds may cross: then the upper one wins."""
    return Example(
        ag.clip, draw.distinct(rng, *draw.broadcastable(rng, 3, min_side=0)),
        lambda x, low, high: ag.minimum(ag.maximum(x, low), high),
        lambda *xs: torch.clamp(*torch.broadcast_tensors(*xs)),  # PyTorch's own broadcasting fails here
    )  # fmt: skip


# ---- By a mask ----


@register("Where", "both sides, broadcast")
def _(rng):
    condition, a, b = draw.broadcastable(rng, 3, min_side=0)
    chosen = draw.mask(rng, condition)
    return Example(
        lambda a, b: ag.where(chosen, a, b), [draw.uniform(rng, a), draw.uniform(rng, b)],
        lambda a, b: a * chosen + b * ~chosen, lambda a, b: torch.where(torch.tensor(chosen), a, b),
    )  # fmt: skip


@register("Where", "a number on one side")
def _(rng):
    shape = draw.shape(rng)
    chosen = draw.mask(rng, shape)
    left = bool(rng.integers(2))
    return Example(lambda x: ag.where(chosen, x, 0.5) if left else ag.where(chosen, 0.5, x), [draw.uniform(rng, shape)])


@register("Where", "reused")
def _(rng):
    shape = draw.shape(rng)
    chosen = draw.mask(rng, shape)
    return Example(
        lambda x: ag.where(chosen, x, x * x), [draw.uniform(rng, shape)],
        torch=lambda x: torch.where(torch.tensor(chosen), x, x * x),
    )  # fmt: skip


@register("Where", "masked_fill with a number")
def _(rng):
    x, mask = draw.broadcastable(rng)
    filled = draw.mask(rng, mask)
    return Example(
        lambda x: ag.masked_fill(x, filled, -1.5), [draw.uniform(rng, x)],
        lambda x: ag.where(filled, -1.5, x), lambda x: x.masked_fill(torch.tensor(filled), -1.5),
    )  # fmt: skip


@register("Where", "masked_fill with a Tensor")
def _(rng):
    x, mask = draw.broadcastable(rng, min_side=0)
    filled = draw.mask(rng, mask)
    return Example(
        lambda x, value: ag.masked_fill(x, filled, value), [draw.uniform(rng, x), draw.uniform(rng, ())],
        lambda x, value: ag.where(filled, value, x), lambda x, value: x.masked_fill(torch.tensor(filled), value),
    )  # fmt: skip


@register("Where", "masked_fill with minus infinity, before softmax")
def _(rng):
    shape = draw.shape(rng, min_ndim=1)
    filled = ~draw.attention_mask(rng, shape)
    return Example(lambda x: ag.softmax(ag.masked_fill(x, filled, -math.inf)), [draw.uniform(rng, shape)])


# ---- Triangles ----


def _triangle(name: str, function: Callable, numpys: Callable, peer: Callable) -> None:
    @register("Where", f"{name}, any diagonal")
    def any_diagonal(rng):
        shape = *draw.shape(rng, max_ndim=2, min_side=0), *rng.integers(1, 5, 2).tolist()
        k = int(rng.integers(-shape[-2], shape[-1] + 1))
        keep = numpys(np.ones(shape), k)
        return Example(
            lambda x: function(x, k), [draw.uniform(rng, shape)], lambda x: x * keep, lambda x: peer(x, k)
        )  # fmt: skip

    @register("Where", f"{name}, reused")
    def reused(rng):
        x = draw.uniform(rng, draw.shape(rng, min_ndim=2))
        return Example(lambda x: function(x) * x + function(x), [x], torch=lambda x: peer(x, 0) * x + peer(x, 0))


_triangle("tril", ag.tril, np.tril, lambda x, k: torch.tril(x, k))
_triangle("triu", ag.triu, np.triu, lambda x, k: torch.triu(x, k))
