"""Checks of a function and its backward pass that do not depend on the values: side effects, determinism, precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd import random
from autograd.gradcheck import GradcheckError, NondifferentiableError
from autograd.gradcheck.function import CheckedFunction
from autograd.tensor import Tensor

Array = np.ndarray

NOISE = 1e-9  # gradients below this may be rounding errors of 0


def check_conduct(function: CheckedFunction, rng: np.random.Generator) -> tuple[Array, list[Array]]:
    """Run func forward and backward and check its side effects, determinism and precision.

    Shapes: -> random weights [M] of the output vector, and the gradients [n_i] for them
    Raises: GradcheckError for a rule that func or its backward pass breaks
    """
    before = [_copy(x) for x in function.arguments]
    outputs = _call_twice(function, before)
    values = function.vector(outputs)
    if np.isnan(values).any():
        raise NondifferentiableError("the function is NaN at this point; choose inputs inside its domain")
    if not np.allclose(function.evaluate(), values, rtol=1e-10, atol=1e-10):
        raise GradcheckError("the function gives other values under no_grad() than while it records")

    outputs = function.call()
    all_values = [_copy(y) for y in outputs]
    weights = rng.standard_normal(values.size)
    cotangents = function.split(weights.copy())
    gradients = function.pull(outputs, cotangents, retain=True)
    _check_unchanged(function, before, "the backward pass changes {} in place; let it work on a copy")
    if not _same(np.concatenate([c.reshape(-1) for c in cotangents]), weights):
        raise GradcheckError(
            "the backward pass changes in place the gradient that arrives, which other ops may use too; let it work on "
            "a copy"
        )
    for j, (y, then) in enumerate(zip(outputs, all_values, strict=True)):
        if not _same(y.numpy(), then):
            raise GradcheckError(f"the backward pass changes output {j} in place; let it work on a copy")
    _check_repeatable(function, outputs, cotangents, gradients)
    _check_precision(function, gradients)
    return weights, [g.reshape(-1) for g in gradients]


def _call_twice(function: CheckedFunction, before: Sequence[Array | None]) -> Sequence[Tensor]:
    """Raises: GradcheckError unless two calls agree to the bit, and draw the same random numbers or none."""
    first = function.call()
    _check_unchanged(function, before, "calling the function changes {} in place; let it work on a copy")
    function.select_outputs(first)
    values, state = function.vector(first), random.get_state()
    second = function.call()
    if random.get_state() != state or not _same(function.vector(second), values):
        raise GradcheckError(
            "the function is random: two calls with the same inputs differ; fix its random numbers inside it, for "
            "example by autograd.random.set_state((seed, 0, 0)) in its first line"
        )
    return second


def _check_unchanged(function: CheckedFunction, before: Sequence[Array | None], message: str) -> None:
    for position, (x, then) in enumerate(zip(function.arguments, before, strict=True)):
        if then is not None and not _same(_values(x), then):
            raise GradcheckError(message.format(f"input {position}"))


def _check_repeatable(
    function: CheckedFunction, outputs: Sequence[Tensor], cotangents: Sequence[Array], gradients: Sequence[Array]
) -> None:
    try:
        again = function.pull(outputs, cotangents)
    except GradcheckError:
        return  # an op may overwrite its saved arrays if a second pass then raises an error
    for i, (first, second) in enumerate(zip(gradients, again, strict=True)):
        if not _same(first, second):
            raise GradcheckError(
                f"a second backward pass through the same graph gives {function.input_name(i)} another gradient: "
                "an op changes in place what it saved; let it work on a copy"
            )


def _check_precision(function: CheckedFunction, gradients: Sequence[Array]) -> None:
    """If all gradients are float32 numbers, though of random float64 weights, they were rounded to float32."""
    for i, g in enumerate(gradients):
        some = g[np.isfinite(g) & (abs(g) > NOISE)]
        with np.errstate(over="ignore"):
            if some.size and (some == some.astype(np.float32)).all():
                raise GradcheckError(
                    f"the gradient of {function.input_name(i)} has been rounded to float32 on its way; keep the dtype "
                    "of the gradient that arrives (is there an astype, or an array made without dtype?)"
                )


def _values(x: Any) -> Array | None:
    return x.numpy() if isinstance(x, Tensor) else x if isinstance(x, np.ndarray) else None


def _copy(x: Any) -> Array | None:
    values = _values(x)
    return None if values is None else values.copy()


def _same(a: Array | None, b: Array | None) -> bool:
    return a is not None and b is not None and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
