"""Small things that the tests of the engine share."""

from __future__ import annotations

import gc
from contextlib import contextmanager

import numpy as np

from autograd import Op, Tensor


def leaf(*values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


def random_leaf(*shape, seed=0):
    return Tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=True)


def nodes_behind(tensor):
    """The nodes of the graph behind a Tensor, each once."""
    found, stack = {}, [tensor.op]
    while stack:
        op = stack.pop()
        if isinstance(op, Op) and id(op) not in found:
            found[id(op)] = op
            stack.extend([edge[0] for edge in op.edges if edge is not None])
    return list(found.values())


def saved_bytes(tensor):
    """Bytes of the different arrays that the graph behind `tensor` keeps, leaves aside."""
    arrays = {}
    for op in nodes_behind(tensor):
        leaves = {id(edge[0].data) for edge in op.edges if edge is not None and isinstance(edge[0], Tensor)}
        for a in op.saved_arrays:
            if hasattr(a, "nbytes") and id(a) not in leaves:
                arrays[id(a)] = a.nbytes
    return sum(arrays.values())


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
