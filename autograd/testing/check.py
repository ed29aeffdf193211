"""Check a case against central differences, complex steps and its plain composition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from autograd import differentiate
from autograd.backend import get_backend
from autograd.gradcheck import GradcheckError, gradient_error
from autograd.tensor import Tensor
from autograd.testing.case import Case, Example

EPS = 5e-6  # about where rounding and truncation of central differences are equal: 1e-10 for numbers around 1
EXACT = 1e-12  # for complex steps and plain compositions


class Errors(NamedTuple):
    """The largest |analytic - other| / max(1, |other|) for each source of comparison; None for a source not used."""

    central: float | None = None
    complex_step: float | None = None
    plain: float | None = None

    def merge(self, other: Errors) -> Errors:
        """The worse of each."""
        pairs = zip(self, other, strict=True)
        return Errors(*[max((x for x in pair if x is not None), default=None) for pair in pairs])


def check_example(example: Example, *, analytic: bool = True, fast: bool = False, device: str = "cpu") -> Errors:
    """Compare an example's gradients with central differences, complex steps and its plain composition.

    They must be within 1e-7 + 1e-6 · |d| of central differences d, within 1e-12 of complex steps (unless `analytic` is
    False), and, with the values, within 1e-12 of the plain composition; and pass what else gradcheck looks at, in
    float64 and float32.

    Raises: GradcheckError where they are not
    """
    asarray = get_backend(device).asarray
    inputs = [Tensor(asarray(array), requires_grad=True) for array in example.arrays]
    central = gradient_error(
        example.function, inputs, eps=EPS, atol=None, rtol=None, fast=fast, mode="central", float32=True
    )
    complex_step = plain = None
    if analytic:
        complex_step = gradient_error(
            example.function, inputs, atol=EXACT, rtol=EXACT, fast=fast, mode="complex", elsewhere=False, layouts=False
        )
    if example.plain is not None:
        plain = _compare(example.function, example.plain, inputs)
    return Errors(central, complex_step, plain)


def check_case(case: Case, rng: np.random.Generator, device: str = "cpu") -> Errors:
    """Draw an example of a case and check it.

    Raises: GradcheckError where it fails
    """
    return check_example(case.draw(rng), analytic=case.analytic, fast=case.fast, device=device)


def _compare(function: Callable, plain: Callable, inputs: Sequence[Tensor]) -> float:
    """Compare values, and gradients of a random weighted sum, with the plain composition; return the largest error."""
    results: list[list[Any]] = []
    for f in (function, plain):
        outputs = f(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        results.append([y.numpy() for y in outputs])
        if all(y.requires_grad for y in outputs):
            rng = np.random.default_rng(0)
            weights = [rng.standard_normal(y.shape) for y in outputs]
            gradients = differentiate.grad(outputs, inputs, weights, allow_unused=True)
            results[-1] += [
                np.zeros(x.shape) if g is None else g.numpy() for g, x in zip(gradients, inputs, strict=True)
            ]
    worst = 0.0
    for ours, theirs in zip(*results, strict=False):  # the plain composition may have values only
        error = abs(ours - theirs) / np.maximum(1, abs(theirs))
        if ours.shape != theirs.shape or not (error <= EXACT).all():
            raise GradcheckError(f"values or gradients differ from those of the plain composition:\n{ours}\n{theirs}")
        worst = max(worst, float(error.max(initial=0)))
    return worst
