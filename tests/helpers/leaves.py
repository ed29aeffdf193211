"""Small things that the tests of the engine share."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from autograd import Tensor, gradcheck
from autograd.gradcheck import Options
from tests.cases import draw


def leaf(*values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


def random_leaf(*shape, seed=0):
    return Tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=True)


@contextmanager
def without_garbage_collector():
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def check_gradients(function: Callable[..., Any], *arrays: Any, rtol: float = 1e-6, atol: float = 1e-7) -> None:
    """gradcheck at arrays of any kind, with tolerances a hundred times as strict as its own."""
    inputs = [np.asarray(array, np.float64) for array in arrays]
    gradcheck(function, inputs, rtol=rtol, atol=atol, options=Options(eps=5e-6))


def away_from(points: Sequence[float], shape: tuple[int, ...], seed: int = 0, gap: float = 0.05) -> np.ndarray:
    """Random numbers that keep a distance from `points`, where a function has a kink."""
    return draw.away_from(np.random.default_rng(seed), shape, points, gap=gap)


def agrees(function, reference, *arrays):
    """Same values as NumPy, and right gradients."""
    results, expected = function(*[Tensor(a) for a in arrays]), reference(*arrays)
    results, expected = [r if isinstance(r, (tuple, list)) else (r,) for r in (results, expected)]
    assert len(results) == len(expected)
    for ours, numpys in zip(results, expected, strict=True):
        assert ours.shape == np.shape(numpys)
        np.testing.assert_array_equal(ours.data, numpys)
    check_gradients(function, *arrays)
