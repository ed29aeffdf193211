"""What holds for every op: dtypes, memory layouts, read-only inputs, nothing kept without need, no cycle left."""

import gc
import weakref
from dataclasses import dataclass
from functools import cache, wraps
from inspect import Signature, signature
from itertools import chain, cycle
from typing import Any

import numpy as np
import pytest

import autograd as ag
from autograd import Op, Tensor
from autograd.modes import Observer, observe
from tests.cases import all_cases

# ---- Calls of one op: those examples of the cases whose function is the op and nothing else ----


@dataclass(frozen=True)
class Call:
    """One call of an op."""

    op: str
    name: str
    function: Any
    arrays: list[np.ndarray]


def outputs_of(function, leaves):
    outputs = function(*leaves)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def is_one_op(name, outputs):
    return all(
        type(y.op).__name__ == name and all(e is None or isinstance(e[0], Tensor) for e in y.op.edges) for y in outputs
    )


@cache
def calls():
    found = []
    for case in all_cases():
        for seed in range(2):
            function, arrays = case.make(np.random.default_rng(seed))
            leaves = [Tensor(array, requires_grad=True) for array in arrays]
            if is_one_op(case.op, outputs_of(function, leaves)):
                found.append(Call(case.op, f"{case} ({seed})", function, arrays))
    return found


KEEP_ANYWAY = {
    "Dropout",
    "Embedding",
    "ScaledEmbedding",
    "DropoutAddLayerNorm",
    "LayerNorm",
    "ScaledDotProductAttention",
}  # their nodes die with the call


def every_call(test):
    """Decorator: turn a test of one call into a test of all calls of all ops; a failure names the call."""

    @wraps(test)
    def all_calls(**fixtures):
        for call in calls():
            try:
                test(call, **fixtures)
            except Exception as error:
                error.add_note(call.name)
                raise

    all_calls.__signature__ = Signature([p for p in signature(test).parameters.values() if p.name != "call"])
    return all_calls


def run(call, arrays, needed=None):
    """The outputs and the gradients, for a fixed random cotangent; `needed` says which inputs get a gradient."""
    leaves = [Tensor(a, requires_grad=True if needed is None else needed[i]) for i, a in enumerate(arrays)]
    outputs = outputs_of(call.function, leaves)
    rng = np.random.default_rng(1)
    ag.engine.run_backward(outputs, [rng.standard_normal(y.shape).astype(y.dtype) for y in outputs])
    return outputs, [t.grad for t in leaves]


def test_every_op_is_called():
    assert {call.op for call in calls()} == set(Op.registry)


@every_call
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtypes_stay(call, dtype):
    outputs, gradients = run(call, [a.astype(dtype) for a in call.arrays])
    assert {y.dtype for y in outputs} == {np.dtype(dtype)}
    assert {g.dtype for g in gradients} == {np.dtype(dtype)}


@pytest.mark.heavy
@every_call
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_backward_itself_does_not_widen(call, dtype, monkeypatch):
    """The engine casts each gradient to its input's dtype; the op must not have computed it in a wider one.

    Gradients of half precision are float32 inside of an op.
    """
    seen = []
    gradients = Op.call_backward

    def recording(self, g_outputs, input_specs):
        found = gradients(self, g_outputs, input_specs)
        found = [g() if needed and callable(g) else g for g, needed in zip(found, self.needs_gradient, strict=True)]
        seen.extend(g for g, needed in zip(found, self.needs_gradient, strict=True) if needed)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Op, "call_backward", recording)
        run(call, [a.astype(dtype) for a in call.arrays])
    widest = np.float32 if dtype == np.float16 else dtype  # half precision may compute in single
    assert seen
    assert all(g is None or g.dtype <= widest for g in seen)
    assert dtype == np.float16 or all(g is None or g.dtype == dtype for g in seen)


@pytest.mark.heavy
@every_call
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float16, 2e-2), (np.float32, 2e-5)])
def test_single_and_half_precision_agree_with_double(call, dtype, tolerance):
    if call.name.startswith("CrossEntropy: large logits") and dtype == np.float16:
        return  # the loss is rounded to float16 at the size of the logits, 1000, before the difference
    arrays = [a.astype(dtype) for a in call.arrays]
    outputs, gradients = run(call, arrays)
    exact_outputs, exact_gradients = run(call, [a.astype(np.float64) for a in arrays])
    for one, other in zip((*outputs, *gradients), (*exact_outputs, *exact_gradients), strict=True):
        np.testing.assert_allclose(one.data, other.data, rtol=tolerance, atol=tolerance)


LAYOUTS = cycle(["fortran", "strided", "reversed", "read-only", "unaligned"])


@pytest.mark.heavy
@every_call
def test_any_memory_layout(call):
    """Three of a call, in turn: every op has two calls or more, and so meets all."""
    arrays = call.arrays
    expected = run(call, arrays)
    for _ in range(3):
        layout = next(LAYOUTS)
        views = [laid_out(a, layout) for a in arrays]
        for one, other in zip(chain(*run(call, views)), chain(*expected), strict=True):
            np.testing.assert_allclose(one.data, other.data, rtol=1e-13, atol=1e-14, err_msg=layout)
        for view, array in zip(views, arrays, strict=True):
            np.testing.assert_array_equal(view, array)


def laid_out(a, layout):
    if layout == "fortran":
        return np.array(a, order="F")
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


@every_call
def test_each_gradient_alone_equals_the_gradient_among_all(call):
    arrays = call.arrays
    _, together = run(call, arrays)
    for i in range(len(arrays)):
        _, alone = run(call, arrays, [i == j for j in range(len(arrays))])
        assert [g is None for g in alone] == [i != j for j in range(len(arrays))]
        np.testing.assert_allclose(alone[i].data, together[i].data, rtol=1e-14, atol=1e-15)


@every_call
def test_nothing_is_recorded_without_need(call):
    arrays = call.arrays
    recorded, _ = run(call, arrays)

    class Sizes(Observer):
        saved = 0

        def after_forward(self, op, outputs):
            known = [id(a) for a in (*self.arrays, *outputs)]
            self.saved += sum(a.nbytes for a in op.saved_arrays if isinstance(a, np.ndarray) and id(a) not in known)

        def before_forward(self, op, arrays):
            self.arrays = arrays

    with ag.no_grad(), observe(Sizes()) as under_no_grad:
        silent = outputs_of(call.function, [Tensor(a, requires_grad=True) for a in arrays])
    plain = outputs_of(call.function, [Tensor(a) for a in arrays])
    for outputs in (silent, plain):
        for y, expected in zip(outputs, recorded, strict=True):
            assert y.op is None
            assert not y.requires_grad
            if call.op in (
                "CrossEntropy",
                "LinearCrossEntropy",
            ):  # computes the loss beside its gradient in another order
                np.testing.assert_allclose(y.data, expected.data, rtol=1e-13)
            else:
                np.testing.assert_array_equal(y.data, expected.data)
    # a mean or a sum for each result exists anyway; anything as large as x would be waste
    allowed = (call.op in ("Var", "Std", "LogSumExp")) * sum(y.data.nbytes for y in recorded)
    assert call.op in KEEP_ANYWAY or under_no_grad.saved <= allowed


@every_call
def test_the_graph_dies_with_its_tensors(call):
    gc.disable()
    try:
        outputs, gradients = run(call, call.arrays)
        unused = outputs_of(call.function, [Tensor(a, requires_grad=True) for a in call.arrays])
        ops = [weakref.ref(y.op) for y in (*outputs, *unused)]
        del outputs, gradients, unused
        assert [op() for op in ops] == [None] * len(ops)
    finally:
        gc.enable()
