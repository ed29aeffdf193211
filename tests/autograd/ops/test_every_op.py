"""What holds for every op: dtypes, memory layouts, read-only inputs, nothing kept without need, no cycle left."""

import gc
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import autograd as ag
from autograd import Op, Tensor
from autograd.modes import Watcher, watch

MODULES = ("activations", "choose", "elementwise", "index", "products", "reduce", "shape")


@dataclass(frozen=True)
class Case:
    """One call of an op: which function of Tensors, on what shapes; `low` keeps logarithms and roots real."""

    op: str
    function: Any
    shapes: tuple[tuple[int, ...], ...] = ((3, 4),)
    low: float = -2.0


MASK = np.array([True, False, True, True])
CASES = [
    Case("Add", ag.add, ((3, 4), (4,))),
    Case("Subtract", ag.subtract, ((3, 4), (3, 1))),
    Case("Multiply", ag.multiply, ((3, 4), ())),
    Case("Divide", ag.divide, ((4,), (3, 4)), 0.5),
    Case("Negative", ag.negative),
    Case("Square", ag.square),
    Case("Exp", ag.exp),
    Case("Log", ag.log, low=0.5),
    Case("Sqrt", ag.sqrt, low=0.5),
    Case("Reciprocal", ag.reciprocal, low=0.5),
    Case("Power", ag.power, ((3, 4), (4,)), 0.5),
    Case("Power", lambda x: x**3),
    Case("Power", lambda x: 3**x),
    Case("AsType", lambda x: x.astype(x.dtype)),
    Case("Relu", ag.relu),
    Case("Tanh", ag.tanh),
    Case("Sigmoid", ag.sigmoid),
    Case("Silu", ag.silu),
    Case("Gelu", ag.gelu),
    Case("GeluTanh", lambda x: ag.gelu(x, approximate="tanh")),
    Case("Abs", ag.abs),
    Case("Maximum", ag.maximum, ((3, 4), (4,))),
    Case("Minimum", ag.minimum, ((3, 4), (4,))),
    Case("Clip", lambda x: ag.clip(x, -0.5, 1)),
    Case("Clip", ag.clip, ((3, 4), (), (4,))),
    Case("Where", lambda a, b: ag.where(MASK, a, b), ((3, 4), (4,))),
    Case("MaskedFill", lambda x: ag.masked_fill(x, MASK, -1.5)),
    Case("Sum", lambda x: ag.sum(x, axis=0)),
    Case("Sum", ag.sum),
    Case("Mean", lambda x: ag.mean(x, axis=(0, -1))),
    Case("Var", lambda x: ag.var(x, axis=1, ddof=1)),
    Case("Max", lambda x: ag.max(x, axis=0)),
    Case("Min", lambda x: ag.min(x, axis=-1, keepdims=True)),
    Case("LogSumExp", lambda x: ag.logsumexp(x, axis=1)),
    Case("Softmax", ag.softmax),
    Case("LogSoftmax", lambda x: ag.log_softmax(x, axis=0)),
    Case("Reshape", lambda x: ag.reshape(x, (2, -1))),
    Case("Transpose", ag.transpose),
    Case("SwapAxes", lambda x: ag.swapaxes(x, 0, 1)),
    Case("ExpandDims", lambda x: ag.expand_dims(x, 1)),
    Case("Squeeze", ag.squeeze, ((3, 1),)),
    Case("BroadcastTo", lambda x: ag.broadcast_to(x, (2, 3, 4))),
    Case("Concatenate", lambda *xs: ag.concatenate(xs), ((3, 4), (1, 4))),
    Case("Stack", lambda *xs: ag.stack(xs, 1), ((3, 4), (3, 4))),
    Case("Split", lambda x: ag.split(x, [1, 3], axis=1)),
    Case("Pad", lambda x: ag.pad(x, 1, 2.0)),
    Case("GetItem", lambda x: x[1:, ::2]),
    Case("GetItem", lambda x: x[[0, 0, 2]]),
    Case("GetItem", lambda x: x[[0, 0, 2], 1]),
    Case("GetItem", lambda x: x[:, MASK]),
    Case("Take", lambda x: ag.take(x, [1, 1, 3], axis=1)),
    Case("Take", lambda x: ag.take(x, [[1, 1], [3, 7]])),
    Case("Matmul", ag.matmul, ((3, 4), (4, 2))),
    Case("Matmul", ag.matmul, ((2, 3, 4), (4,))),
    Case("Matmul", ag.matmul, ((2, 3, 4), (2, 4, 3))),
    Case("Linear", ag.linear, ((2, 3, 4), (5, 4))),
    Case("Linear", ag.linear, ((3, 4), (5, 4), (5,))),
    Case("Einsum", lambda *xs: ag.einsum("ij,kj->ik", *xs), ((3, 4), (2, 4))),
    Case("Einsum", lambda x: ag.einsum("ii->i", x), ((3, 3),)),
]
every_case = pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case.op}" for i, case in enumerate(CASES)])


def arrays_for(case, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.uniform(case.low, 2.0, shape).astype(dtype) for shape in case.shapes]


def run(case, arrays, needed=None):
    """The outputs and the gradients, for a fixed random cotangent; `needed` says which inputs get a gradient."""
    leaves = [Tensor(a, requires_grad=True if needed is None else needed[i]) for i, a in enumerate(arrays)]
    outputs = case.function(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    rng = np.random.default_rng(1)
    ag.engine.run_backward(outputs, [rng.standard_normal(y.shape).astype(y.dtype) for y in outputs])
    return outputs, [t.grad for t in leaves]


def test_no_op_is_forgotten():
    ours = {name for name, op in Op.registry.items() if op.__module__.removeprefix("autograd.ops.") in MODULES}
    assert ours == {case.op for case in CASES}


@every_case
def test_the_case_runs_its_op(case):
    outputs, _ = run(case, arrays_for(case))
    assert {type(y.op).__name__ for y in outputs} == {case.op}


@every_case
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtypes_stay(case, dtype):
    outputs, gradients = run(case, arrays_for(case, dtype))
    assert {y.dtype for y in outputs} == {np.dtype(dtype)}
    assert {g.dtype for g in gradients} == {np.dtype(dtype)}


@every_case
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_backward_itself_does_not_widen(case, dtype, monkeypatch):
    """The engine casts each gradient to its input's dtype; the op must not have computed it in a wider one."""
    seen = []
    op_class = Op.registry[case.op]
    backward = op_class.backward

    def recording(self, *g_outputs):
        result = backward(self, *g_outputs)
        seen.extend(result if isinstance(result, tuple) else (result,))
        return result

    monkeypatch.setattr(op_class, "backward", recording)
    run(case, arrays_for(case, dtype))
    widest = np.float32 if dtype == np.float16 else dtype  # half precision may compute in single
    assert seen
    assert all(g is None or g.dtype <= widest for g in seen)
    if case.op != "LogSumExp":  # it keeps its float16 result as float32
        assert all(g is None or g.dtype == dtype for g in seen)


@every_case
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float16, 2e-2), (np.float32, 2e-5)])
def test_single_and_half_precision_agree_with_double(case, dtype, tolerance):
    arrays = arrays_for(case, dtype)
    outputs, gradients = run(case, arrays)
    exact_outputs, exact_gradients = run(case, [a.astype(np.float64) for a in arrays])
    for one, other in zip((*outputs, *gradients), (*exact_outputs, *exact_gradients), strict=True):
        np.testing.assert_allclose(one.data, other.data, rtol=tolerance, atol=tolerance)


@every_case
@pytest.mark.parametrize("layout", ["fortran", "strided", "reversed", "read-only", "unaligned"])
def test_any_memory_layout(case, layout):
    def laid_out(a):
        if layout == "fortran":
            return np.asfortranarray(a)
        if layout == "strided":
            return np.repeat(np.repeat(a, 2, axis=-1), 3, axis=0)[::3, ..., ::2] if a.ndim > 1 else a
        if layout == "reversed":
            return a[::-1].copy()[::-1] if a.ndim else a
        if layout == "unaligned":
            unaligned = np.zeros(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
            unaligned[...] = a
            return unaligned
        a = a.copy()
        a.flags.writeable = False
        return a

    arrays = arrays_for(case)
    expected_outputs, expected_gradients = run(case, arrays)
    views = [laid_out(a) for a in arrays]
    outputs, gradients = run(case, views)
    for one, other in zip((*outputs, *gradients), (*expected_outputs, *expected_gradients), strict=True):
        np.testing.assert_allclose(one.data, other.data, rtol=1e-13, atol=1e-14)
    for view, array in zip(views, arrays, strict=True):
        np.testing.assert_array_equal(view, array)


@every_case
def test_each_gradient_alone_equals_the_gradient_among_all(case):
    arrays = arrays_for(case)
    _, together = run(case, arrays)
    for i in range(len(arrays)):
        _, alone = run(case, arrays, [i == j for j in range(len(arrays))])
        assert [g is None for g in alone] == [i != j for j in range(len(arrays))]
        np.testing.assert_allclose(alone[i].data, together[i].data, rtol=1e-14, atol=1e-15)


@every_case
def test_backward_offers_no_gradient_that_nobody_needs(case, monkeypatch):
    """Products for inputs without requires_grad are not computed (returning the incoming gradient costs nothing)."""
    op_class = Op.registry[case.op]
    backward = op_class.backward
    results = []

    def recording(self, *g_outputs):
        result = backward(self, *g_outputs)
        results.append((result if isinstance(result, tuple) else (result,), self.needs_gradient, g_outputs))
        return result

    monkeypatch.setattr(op_class, "backward", recording)
    arrays = arrays_for(case)
    for i in range(len(arrays)):
        run(case, arrays, [i == j for j in range(len(arrays))])
    for gradients, needs, g_outputs in results:
        for g, needed in zip(gradients, needs, strict=True):
            assert needed or g is None or any(g is g_y for g_y in g_outputs)


@every_case
def test_nothing_is_recorded_without_need(case):
    arrays = arrays_for(case)
    recorded, _ = run(case, arrays)

    class Sizes(Watcher):
        saved = 0

        def after_forward(self, op, outputs):
            known = [id(a) for a in (*self.arrays, *outputs)]
            self.saved += sum(a.nbytes for a in op.saved_arrays if isinstance(a, np.ndarray) and id(a) not in known)

        def before_forward(self, op, arrays):
            self.arrays = arrays

    with ag.no_grad(), watch(Sizes()) as under_no_grad:
        silent = case.function(*[Tensor(a, requires_grad=True) for a in arrays])
    plain = case.function(*[Tensor(a) for a in arrays])
    for outputs in (silent, plain):
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        for y, expected in zip(outputs, recorded, strict=True):
            assert y.op is None
            assert not y.requires_grad
            np.testing.assert_array_equal(y.data, expected.data)
    # a mean, a sum and an array made of a list of indices exist anyway; anything as large as x would be waste
    assert under_no_grad.saved <= {"Var": 24, "LogSumExp": 24, "Take": 32}.get(case.op, 0)


@every_case
def test_the_graph_dies_with_its_tensors(case):
    arrays = arrays_for(case)
    gc.collect()
    gc.disable()
    try:
        outputs, gradients = run(case, arrays)
        ops = [weakref.ref(y.op) for y in outputs]
        del outputs, gradients
        assert [op() for op in ops] == [None] * len(ops)
    finally:
        gc.enable()


@every_case
def test_backward_twice_gives_the_same(case):
    """Backward must not spoil what it saved, nor the gradient that it was lent."""
    leaves = [Tensor(a, requires_grad=True) for a in arrays_for(case)]
    outputs = case.function(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    cotangents = [np.random.default_rng(2).standard_normal(y.shape) for y in outputs]
    kept = [c.copy() for c in cotangents]
    first = ag.grad(outputs, leaves, cotangents, retain_graph=True)
    copies = [g.data.copy() for g in first]
    second = ag.grad(outputs, leaves, cotangents)
    for one, copy, other in zip(first, copies, second, strict=True):
        np.testing.assert_array_equal(one.data, copy)
        np.testing.assert_array_equal(one.data, other.data)
    for cotangent, copy in zip(cotangents, kept, strict=True):
        np.testing.assert_array_equal(cotangent, copy)


@every_case
def test_docstrings(case):
    """An op says in its first line what it computes; a public function says it too."""
    assert Op.registry[case.op].__doc__
    assert Op.registry[case.op].__doc__ != Op.__doc__


def test_every_public_function_has_a_docstring():
    for name in ag.ops.__all__:
        assert getattr(ag, name).__doc__, name
