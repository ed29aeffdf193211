"""The fast update and norm are those of the plain optimizer."""

import numpy as np
import pytest

from autograd import Tensor, memory
from minitf.config import OptimizerConfig
from minitf.fast.adam import accelerate_adam
from minitf.model.layers import Parameter
from minitf.training.optim import Adam

SHAPES = {"matrix": (40, 30), "vector": (7,), "one": (1, 1), "empty": (0, 3), "unused": (2,), "large": (300, 1000)}


def steps(dtype, accelerated):
    rng = np.random.default_rng(0)
    named = {name: Parameter(rng.standard_normal(shape).astype(dtype)) for name, shape in SHAPES.items()}
    optimizer = Adam(named, OptimizerConfig())
    optimizer = accelerate_adam(optimizer) if accelerated else optimizer
    norms = []
    for _ in range(3):
        for name, parameter in named.items():
            gradient = rng.standard_normal(parameter.shape).astype(dtype)
            parameter.grad = None if name == "unused" else Tensor(np.asfortranarray(gradient))
        norms.append(optimizer.gradient_norm())
        before = memory.now()
        optimizer.step(0.1, gradient_scale=0.3)
        assert [memory.last_change(p.data) > before for p in named.values()] == [True] * 4 + [False, True]
    return norms, {name: p.data for name, p in named.items()} | optimizer.state_arrays()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_plain_equals_fast(dtype):
    (norms, arrays), (fast_norms, fast_arrays) = steps(dtype, False), steps(dtype, True)
    tolerance = 1e-12 if dtype == np.float64 else 2e-6
    assert fast_norms == pytest.approx(norms, rel=tolerance)
    for name, array in arrays.items():
        assert fast_arrays[name].dtype == array.dtype == dtype
        np.testing.assert_allclose(fast_arrays[name], array, rtol=tolerance, atol=tolerance)


def test_without_gradients_nothing_changes():
    parameter = Parameter(np.ones(3))
    optimizer = accelerate_adam(Adam({"p": parameter}, OptimizerConfig()))
    optimizer.step(0.1)
    assert parameter.data.tolist() == [1, 1, 1]
    assert optimizer.gradient_norm() == 0
