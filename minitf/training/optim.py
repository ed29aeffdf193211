"""Adam, the learning-rate schedule with warm-up, and the norm of the gradient (section 5.3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from autograd.backend import backend_of
from minitf.config import OptimizerConfig
from minitf.model.layers import Parameter

Array = Any


def learning_rate(step: int, d_model: int, config: OptimizerConfig) -> float:
    """scale · d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5), equation 3.

    It rises linearly for `warmup_steps` and then falls with 1/√step.  `peak_learning_rate` sets the top of the same
    curve instead of `scale`.  Steps count from 1.
    """
    shape = min(step**-0.5, step * config.warmup_steps**-1.5)
    if config.peak_learning_rate is not None:
        return config.peak_learning_rate * shape * config.warmup_steps**0.5
    return config.learning_rate_scale * d_model**-0.5 * shape


class Adam:
    """Adam (Kingma & Ba 2015) with the paper's β₁ = 0.9, β₂ = 0.98, ε = 1e-9."""

    def __init__(self, named_parameters: dict[str, Parameter], config: OptimizerConfig):
        self.named_parameters = named_parameters
        self.config = config
        self.step_count = 0
        self.m = {name: _zeros_like(p.data) for name, p in named_parameters.items()}  # first moments
        self.v = {name: _zeros_like(p.data) for name, p in named_parameters.items()}  # second moments

    def step(self, rate: float, gradient_scale: float = 1.0) -> None:
        """Update every parameter that has a gradient, after multiplying the gradient by `gradient_scale`.

        With bias corrections c_i = 1 - β_i^t: rate · (m / c₁) / (√(v / c₂) + ε) = step_size · m / (√v + ε √c₂).
        """
        self.step_count += 1
        correction1 = 1 - self.config.beta1**self.step_count
        root_correction2 = math.sqrt(1 - self.config.beta2**self.step_count)
        # the copy of a parameter in lower precision, which matrix products use, is updated in the same pass
        updates = [
            (parameter, (parameter.data, parameter.grad.data, self.m[name], self.v[name], parameter.last_reduced))
            for name, parameter in self.named_parameters.items()
            if parameter.grad is not None
        ]
        if not updates:
            return
        backend_of([updates[0][0].data]).adam_all_(
            [arrays for _, arrays in updates],
            step_size=rate * root_correction2 / correction1,
            beta1=self.config.beta1,
            beta2=self.config.beta2,
            eps=self.config.epsilon * root_correction2,
            gradient_scale=gradient_scale,
        )
        for parameter, (*_, copy) in updates:
            parameter.version[0] += 1
            if copy is not None:
                parameter.reduced = copy

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.named_parameters.values():
            parameter.grad = None

    def state_arrays(self) -> dict[str, Array]:
        """Return the moments by name, for a checkpoint; with `step_count`, they are the whole state."""
        return {f"{kind}.{name}": a for kind, moments in (("m", self.m), ("v", self.v)) for name, a in moments.items()}

    def load_state(self, step_count: int, arrays: dict[str, Array]) -> None:
        """Continue from `state_arrays()` after `step_count` updates.  Raises: ValueError if names or shapes differ."""
        load_arrays(self.state_arrays(), arrays, "the optimizer state")
        self.step_count = step_count


def global_norm(parameters: Iterable[Parameter]) -> float:
    """√(Σ g²) over all gradients: blocks in the gradient's own precision, their sum in float64."""
    gradients = [p.grad.data for p in parameters if p.grad is not None]
    return math.sqrt(float(backend_of(gradients).squared_norm(gradients)))


def load_arrays(into: Mapping[str, Array], arrays: Mapping[str, Array], what: str) -> None:
    """Copy arrays into those of the same names, on their device.  Raises: ValueError if names or shapes differ."""
    if difference := sorted(into.keys() ^ arrays.keys()):
        raise ValueError(f"{what} does not fit: {difference[:3]} differ")
    for name, array in into.items():
        if array.shape != arrays[name].shape:
            raise ValueError(f"{what} does not fit: {name} has shape {arrays[name].shape}, expected {array.shape}")
    for name, array in into.items():
        array[...] = backend_of([array]).asarray(arrays[name])


def _zeros_like(a: Array) -> Array:
    return backend_of([a]).xp.zeros(a.shape, a.dtype)
