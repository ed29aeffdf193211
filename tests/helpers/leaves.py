"""Small things that the tests of the engine share."""

from __future__ import annotations

import gc
from contextlib import contextmanager

import numpy as np

from autograd import Tensor


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
