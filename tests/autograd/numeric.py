"""Gradients by central differences, for tests: `check_gradients` compares them with the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograd import Tensor


def cotangents_for(outputs: Sequence[Tensor], rng: np.random.Generator) -> list[np.ndarray]:
    """Random numbers in the shape of each output; with ones, a softmax gradient of zeros would pass."""
    return [rng.standard_normal(y.shape) for y in outputs]


def numerical_gradients(
    function: Callable[..., Any], arrays: Sequence[np.ndarray], cotangents: Sequence[np.ndarray], step: float = 1e-6
) -> list[np.ndarray]:
    """d(Σ cotangent · output) / d(each element of each array), one element at a time."""
    arrays = [array.copy() for array in arrays]

    def objective() -> float:
        outputs = function(*[Tensor(array.copy()) for array in arrays])
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return sum(float((y.data * c).sum()) for y, c in zip(outputs, cotangents, strict=True))

    gradients = [np.zeros_like(array) for array in arrays]
    for array, gradient in zip(arrays, gradients, strict=True):
        for place in np.ndindex(array.shape):
            middle = array[place]
            array[place] = middle + step
            above = objective()
            array[place] = middle - step
            below = objective()
            array[place] = middle
            gradient[place] = (above - below) / (2 * step)
    return gradients


def check_gradients(
    function: Callable[..., Any], *arrays: Any, seed: int = 0, rtol: float = 1e-6, atol: float = 1e-7
) -> None:
    """Hold the gradients of `function` (Tensors to a Tensor or several) at `arrays` against central differences.

    Raises: AssertionError where they differ, or where an output or a gradient has a wrong shape or dtype
    """
    arrays = tuple(np.asarray(array, dtype=np.float64) for array in arrays)
    leaves = [Tensor(array.copy(), requires_grad=True) for array in arrays]
    outputs = function(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    cotangents = cotangents_for(outputs, np.random.default_rng(seed))
    for output, cotangent in zip(outputs, cotangents, strict=True):
        assert output.requires_grad, "no gradient flows to an output"
        output.backward(cotangent, retain_graph=True)
    expected = numerical_gradients(function, arrays, cotangents)
    for i, (leaf, array, gradient) in enumerate(zip(leaves, arrays, expected, strict=True)):
        assert leaf.grad is not None, f"no gradient arrived at input {i}"
        assert leaf.grad.shape == array.shape
        assert leaf.grad.dtype == np.float64
        np.testing.assert_allclose(leaf.grad.data, gradient, rtol=rtol, atol=atol, err_msg=f"gradient of input {i}")
        np.testing.assert_array_equal(leaf.data, array, err_msg=f"input {i} was changed")


def away_from(points: Sequence[float], shape: Any, seed: int = 0, distance: float = 0.05) -> np.ndarray:
    """Random numbers that keep a distance from `points`, where a function has a kink."""
    x = np.random.default_rng(seed).standard_normal(shape)
    for point in points:
        near = np.abs(x - point) < distance
        x = np.where(near, point + np.where(x < point, -2, 2) * distance, x)
    return x
