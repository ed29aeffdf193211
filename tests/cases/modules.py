"""Modules as functions of their inputs and all their parameters, which is what a case checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autograd import Tensor, modes, random
from autograd.engine import Op
from minitf.config import PRESETS
from minitf.config.model import EOS, PAD
from minitf.model.layers import Module
from minitf.model.parameters import Initializer
from tests.cases.checks import Case, Example

Array = np.ndarray
Rng = np.random.Generator

D, HEADS, FF, VOCABULARY = 4, 2, 6, 11
CONFIG = replace(
    PRESETS["base"].model,
    vocab_size=VOCABULARY, layers=2, d_model=D, d_ff=FF, heads=HEADS,
    dropout=0.2, attention_dropout=0.2, activation_dropout=0.2,
)  # fmt: skip


def bind(module: Module, names: Sequence[str], tensors: Sequence[Tensor]) -> None:
    """Replace the parameters of these names by `tensors`."""
    for name, tensor in zip(names, tensors, strict=True):
        *path, last = name.split(".")
        owner: Any = module
        for part in path:
            owner = owner[int(part)] if part.isdecimal() else getattr(owner, part)
        setattr(owner, last, tensor)


def example_of(module: Module, call: Callable[..., Any], inputs: Sequence[Array], rng: Rng) -> Example:
    """An example of `call` as a function of `inputs` and of all parameters of `module`.

    The parameters are moved from their initial values: a bias of 0 or a scale of 1 would hide mistakes.  Dropout draws
    the same masks at every call.
    """
    parameters = module.named_parameters()
    names = list(parameters)
    arrays = [p.data + rng.normal(0, 0.3, p.shape) for p in parameters.values()]
    state = int(rng.integers(2**32)), int(rng.integers(1000)), 0

    def function(*tensors: Tensor) -> Any:
        random.set_state(state)
        bind(module, names, tensors[len(inputs) :])
        return call(*tensors[: len(inputs)])

    return Example(function, [*inputs, *arrays])


class _Roughness(modes.Observer):
    """How close a forward pass comes to points where differences say nothing."""

    nearest_kink = math.inf  # of relu
    steepest_norm = 0.0  # 1/σ in layer normalisation

    def note_kinks(self, x: Any) -> None:
        self.nearest_kink = min(self.nearest_kink, float(abs(x).min(initial=math.inf)))

    def before_forward(self, op: Op, arrays: Sequence[Any]) -> None:
        self.inputs = arrays
        if type(op).__name__ == "Relu":
            self.note_kinks(arrays[0])

    def after_forward(self, op: Op, outputs: Sequence[Any]) -> None:
        if getattr(op, "relu", False):  # of a Linear
            x, weight, bias = self.inputs
            self.note_kinks(x @ weight.T + bias)
        if type(op).__name__.endswith("LayerNorm"):
            *_, inverse_std, _weight = op.saved_arrays
            self.steepest_norm = max(self.steepest_norm, float(inverse_std.max(initial=0)))


def smooth(draw: Callable[[Rng], Example]) -> Callable[[Rng], Example]:
    """`draw`, repeated until no relu is close to its kink and no layer norm so steep that it is nearly a step."""

    def drawn(rng: Rng) -> Example:
        while True:
            example, seen = draw(rng), _Roughness()
            with modes.observe(seen), modes.no_grad():
                example.function(*[Tensor(array) for array in example.arrays])
            if seen.nearest_kink > 1e-3 and seen.steepest_norm < 10:
                return example

    return drawn


def initializer(rng: Rng) -> Initializer:
    return Initializer(int(rng.integers(2**32)), np.float64)


def features(rng: Rng, t: int, width: int = D) -> Array:
    """Random vectors.  Shapes: -> [B, T, width]"""
    return rng.uniform(-2, 2, (2, t, width))


def sentences(rng: Rng, t: int) -> Array:
    """The ids of two sentences, the shorter one padded.  Shapes: -> int [B, T]"""
    ids = rng.integers(EOS + 1, VOCABULARY, (2, t))  # [B, T]
    lengths = np.array([t, rng.integers(1, t, endpoint=True)])
    ids[np.arange(2), lengths - 1] = EOS
    return np.where(np.arange(t) < rng.permutation(lengths)[:, None], ids, PAD)


def cases(what: str, draws: dict[str, Callable[[Rng], Example]], *, fast: bool = False) -> list[Case]:
    """Cases of one layer or model, by their names."""
    real_only = ("gelu", "silu")  # they compute with |x|
    return [Case(what, name, smooth(draw), not name.startswith(real_only), fast) for name, draw in draws.items()]
