"""Gradients of a model by its parameters, compared with differences along random directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from autograd import Tensor
from minitf.learn.conformance.calling import Array, Library, shared_array
from minitf.learn.conformance.table import NotGiven, Wrong
from minitf.model.layers import Module

STEP = 1e-6


def check_parameters(
    model: Any, library: Library, logits: Callable[..., Array], parts: Any, source: Array, target: Array
) -> str:
    """Compare d (g · logits) / d parameter, along one random direction in each parameter."""
    rng = np.random.default_rng(3)
    g = rng.standard_normal(logits(source, target).shape)
    parameters, gradients = _parameters_and_gradients(model, library, parts, source, target, g)
    if wrong_type := [name for name, a in parameters.items() if a.dtype != np.float64]:
        raise NotGiven(f"parameter {wrong_type[0]} is not float64: differences of float32 numbers are too inexact")
    worst = 0.0
    for name, array in parameters.items():
        if name not in gradients:
            raise Wrong(f"there is no gradient of {name}")
        direction = rng.standard_normal(array.shape)
        analytic = float((np.asarray(gradients[name]) * direction).sum())
        numerical, inexact = _slope(array, direction, lambda: float((g * logits(source, target)).sum()))
        off = abs(analytic - numerical)
        if not off <= 1e-5 * (1 + abs(numerical)) + inexact:
            factor = f", {analytic / numerical:.4g} times as much" if numerical else ""
            raise Wrong(f"the gradient of {name} along a random direction is {analytic:.6g}, by differences "
                        f"{numerical:.6g}{factor}")  # fmt: skip
        worst = max(worst, off / (1 + abs(numerical)))
    return f"of {len(parameters)} parameters as central differences, within {worst:.0e}"


def _slope(array: Array, direction: Array, value: Callable[[], float]) -> tuple[float, float]:
    """The central difference, and how much that of twice the step differs, as it does beside a kink."""
    before, ends = array.copy(), []
    try:
        for k in (1, -1, 2, -2):
            array[...] = before + k * STEP * direction
            ends.append(value())
    finally:
        array[...] = before
    near, wide = (ends[0] - ends[1]) / (2 * STEP), (ends[2] - ends[3]) / (4 * STEP)
    return near, 10 * abs(near - wide)


def _parameters_and_gradients(
    model: Any, library: Library, parts: Any, source: Array, target: Array, g: Array
) -> tuple[dict[str, Array], Mapping[str, Any]]:
    if parts.parameters is not None and parts.gradients is not None:
        return dict(parts.parameters), parts.gradients(source, target, g)
    if library == "torch" and hasattr(model, "named_parameters"):
        import torch

        named = dict(model.named_parameters())
        model.zero_grad()
        (model(torch.from_numpy(source), torch.from_numpy(target)) * torch.from_numpy(g)).sum().backward()
        return {name: shared_array(p) for name, p in named.items()}, _numbers(named)
    if isinstance(model, Module):
        own = model.named_parameters()
        for parameter in own.values():
            parameter.grad = None
        (model(source, target) * Tensor(g)).sum().backward()  # type: ignore[operator]
        return {name: p.data for name, p in own.items()}, _numbers(own)
    raise NotGiven("give parameters, a mapping of float64 arrays, and gradients(source, target, g)")


def _numbers(named: Mapping[str, Any]) -> dict[str, Array]:
    return {name: np.zeros(tuple(p.shape)) if p.grad is None else p.grad.numpy() for name, p in named.items()}
