"""Cases of autograd/ops/activations.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import autograd as ag
from tests.cases import draw
from tests.cases.checks import Example, register, torch
from tests.cases.families import one_input


def _plain_gelu_tanh(x: Any) -> Any:
    return x * 0.5 * (1 + ag.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def _plain_gelu(x: Any) -> Any:
    """x · Φ(x), the values only: no simpler op has the error function."""
    return ag.Tensor(x.numpy() * (0.5 + 0.5 * np.vectorize(math.erf, otypes=[float])(x.numpy() / math.sqrt(2))))


def _gelu_tanh(x: Any) -> Any:
    return ag.gelu(x, approximate="tanh")


def _torch_gelu_tanh(x: Any) -> Any:
    return torch.nn.functional.gelu(x, approximate="tanh")


def _torch_gelu(x: Any) -> Any:
    return torch.nn.functional.gelu(x)


def _torch_silu(x: Any) -> Any:
    return torch.nn.functional.silu(x)


one_input("GeluTanh", _gelu_tanh, _torch_gelu_tanh, plain=_plain_gelu_tanh, analytic="cpu")  # it clips x

# These compute with |x|, which is not analytic
one_input(
    "Softplus", ag.softplus, lambda x: torch.logaddexp(x, torch.zeros_like(x)), plain=lambda x: ag.log(1 + ag.exp(x)),
    analytic=False,
)  # fmt: skip
one_input("Silu", ag.silu, _torch_silu, plain=lambda x: x / (1 + ag.exp(-x)), analytic=False)
one_input("Gelu", ag.gelu, _torch_gelu, plain=_plain_gelu, analytic=False)


@register("Softplus", "far from 0", analytic=False)
def _(rng):
    return Example(ag.softplus, [draw.uniform(rng, draw.shape(rng), -50.0, 50.0)])


@register("Silu", "far from 0", analytic=False)
def _(rng):
    return Example(ag.silu, [draw.uniform(rng, (5,), -30, 30)], torch=_torch_silu)


@register("Gelu", "far from 0", analytic=False)
def _(rng):
    return Example(ag.gelu, [draw.uniform(rng, (5,), -8, 8)], torch=_torch_gelu)


@register("GeluTanh", "far from 0", analytic="cpu")
def _(rng):
    return Example(_gelu_tanh, [draw.uniform(rng, (5,), -8, 8)], torch=_torch_gelu_tanh)
