"""anomaly_mode() names the op and the line where the first NaN or infinity came up."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import autograd as ag
from autograd import Op, Tensor, apply, checkpoint
from autograd.anomaly import AnomalyError, anomaly_mode
from tests.helpers.leaves import leaf, random_leaf


def line_of(function, below):
    return function.__code__.co_firstlineno + below


def quiet(function, *args):
    """Run without NumPy's own warnings."""
    with np.errstate(all="ignore"):
        return function(*args)


def anomaly_of(function, *args):
    with pytest.raises(AnomalyError) as caught, anomaly_mode():
        quiet(function, *args)
    return caught.value


# ---- Forward ----


def logarithm_of_zero(x):
    y = x - 2.0
    z = ag.log(y)  # the culprit: log(0) = -inf
    return ag.sum(z * z)


def test_forward_names_the_op_the_line_and_the_element():
    x = leaf([3.0, 4.0, 5.0], [6.0, 2.0, 2.0])
    error = anomaly_of(logarithm_of_zero, x)
    assert (error.op, error.phase) == ("Log", "forward")
    assert error.where == (__file__, line_of(logarithm_of_zero, 2))
    assert (error.shape, error.dtype, error.index, error.value) == ((2, 3), np.float64, (1, 1), -np.inf)
    assert error.inputs_finite == (True,)
    assert re.fullmatch(
        r"the forward pass of Log \(made at .*test_anomaly\.py:\d+\) returned infinite values in its output: the first "
        r"at \[1, 1\] of \[2, 3\] float64, 2 of 6 elements; its inputs were finite",
        str(error),
    )


def test_nothing_is_said_without_it_or_when_all_is_well():
    x = leaf([3.0, 4.0], [5.0, 2.0])
    assert np.isinf(quiet(logarithm_of_zero, x).item())
    with anomaly_mode():
        ag.sum(ag.log(x)).backward()
    assert np.isfinite(x.grad.data).all()
    assert np.isinf(quiet(logarithm_of_zero, x).item())


@pytest.mark.parametrize(
    ("function", "x", "op"),
    [
        (lambda x: ag.exp(x) * 0.0, 1e3, "Exp"),  # ∞, and only then NaN
        (lambda x: x / (x - x), 1.0, "Divide"),
        (lambda x: (x - x) / (x - x), 1.0, "Divide"),  # NaN at once
        (lambda x: ag.sqrt(-x) + 1.0, 1.0, "Sqrt"),
        (lambda x: ag.square(x * 1e200), 1.0, "Square"),
        (lambda x: ag.sum(ag.concatenate([x, x]) * 1.5e308), [1.0, 0.5], "Sum"),
    ],
)
def test_the_first_op_is_named_not_what_follows(function, x, op):
    error = anomaly_of(function, leaf(*np.atleast_1d(x)))
    assert error.op == op
    assert all(error.inputs_finite)


def test_bfloat16_is_looked_at_too():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = Tensor(np.array([np.inf, 1], bfloat16))
    error = anomaly_of(lambda: (x * 1.5 - x).astype(np.float32))
    assert error.op.startswith("Subtract")
    assert error.index == (0,)


# ---- Minus infinity in masks ----


def test_minus_infinity_as_a_mask_is_fine():
    x = random_leaf(3, 4)
    mask = np.array([True, False, False, True])
    bias = np.where(mask, -np.inf, 0.0)
    with anomaly_mode():
        loss = ag.sum(ag.softmax(ag.masked_fill(x, mask, -np.inf)) ** 2) + ag.sum(ag.softmax(x + bias) ** 2)
        loss = loss + ag.sum(ag.logsumexp(ag.where(mask, -np.inf, x), axis=1))
        loss.backward()
    assert np.isfinite(x.grad.data).all()


def test_what_a_mask_turns_into_is_not():
    scores = random_leaf(2, 3)

    def naive_softmax(scores):
        top = ag.max(scores, axis=1, keepdims=True)
        return ag.exp(scores - top)  # -inf - (-inf) where all is masked

    error = anomaly_of(naive_softmax, ag.masked_fill(scores, np.array([[True], [False]]), -np.inf))
    assert (error.op, error.index, error.inputs_finite) == ("Subtract", (0, 0), (False, False))
    assert np.isnan(error.value)
    assert error.where[1] == line_of(naive_softmax, 2)
    assert "its inputs were infinite, infinite" in str(error)


# ---- From outside ----


def test_nan_from_outside_is_said_to_be_from_outside():
    x = leaf(1.0, np.nan)
    error = anomaly_of(lambda: ag.exp(2.0 + x))
    assert error.op == "Add"
    assert "got NaN values as its input 1 and passed them on" in str(error)
    assert (error.inputs_finite, error.index) == ((True, False), (1,))


def test_nan_that_an_op_takes_out_is_fine():
    x = leaf(1.0, np.nan)
    with anomaly_mode():
        y = ag.sum(ag.where(np.isnan(x.data), 0.0, x))
        y.backward()
    assert x.grad.tolist() == [1, 0]


# ---- Backward ----


def root_of_zero(x):
    y = x * 1.0
    z = ag.sqrt(y)  # the culprit: its slope at 0 is infinite
    return ag.sum(z * 2.0)


@pytest.mark.parametrize("forward_inside", [True, False])
def test_backward_names_the_op_and_the_line_of_its_forward_pass(forward_inside):
    x = leaf(4.0, 0.0, 1.0)
    y = root_of_zero(x)
    error = anomaly_of(lambda: (root_of_zero(x) if forward_inside else y).backward())
    assert (error.op, error.phase, error.index) == ("Sqrt", "backward", (1,))
    assert error.where == (__file__, line_of(root_of_zero, 2))
    assert all(error.inputs_finite)
    assert "returned infinite values in the gradient of its input 0" in str(error)
    assert x.grad is None


def test_a_nan_gradient_of_an_op_is_named():
    class Bad(Op):
        def forward(self, x, y):
            self.save(x)
            return x + y

        def backward(self, g_y):
            return g_y, g_y * np.nan

    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    error = anomaly_of(lambda: ag.sum(apply(Bad, x, y) * 3.0).backward())
    assert error.op == "Bad"
    assert "returned NaN values in the gradient of its input 1: the first at [0]" in str(error)
    assert error.inputs_finite == (True, True)  # the gradient, and what was saved


def test_sums_of_gradients_that_overflow_are_named():
    x = leaf(0.1)
    middle = x * 1.0
    error = anomaly_of(lambda: (middle * 1e308 + middle * 1.2e308).backward(np.array([1.0])))
    assert (error.op, error.index) == ("Multiply", (0,))
    assert "got infinite values in the gradient of its output: the sum" in str(error)


def test_sums_of_gradients_of_a_leaf_that_overflow_are_named():
    x = leaf(0.1, 0.1)
    weights = np.array([0.0, 1.2e308])
    error = anomaly_of(lambda: ag.sum(ag.concatenate([x * weights, x * weights])).backward())
    assert (error.op, error.index) == (None, (1,))
    assert "the gradients of a leaf of shape [2] are finite, but their sum" in str(error)


def test_inside_a_checkpoint_the_op_is_named():
    x = leaf(4.0, 0.0)
    y = checkpoint(root_of_zero, x)
    error = anomaly_of(y.backward)
    assert (error.op, error.where[1]) == ("Sqrt", line_of(root_of_zero, 2))


# ---- Around it ----


def test_an_op_that_fails_inside_does_not_confuse_it():
    x = leaf(1.0, 2.0)
    with anomaly_mode():
        with pytest.raises(ValueError, match="broadcast"):
            x + np.ones(3)
        with pytest.raises(AnomalyError, match="Log"):
            quiet(ag.log, x - 1.0)


def test_a_nan_behind_an_infinity_is_what_is_shown():
    error = anomaly_of(lambda: ag.log(leaf(0.0, -1.0)))
    assert (error.index, "returned NaN" in str(error)) == ((1,), True)
    assert "1 of 2 elements" in str(error)


PLAIN = """
import numpy as np
import autograd as ag
from autograd.anomaly import AnomalyError, anomaly_mode

x = ag.Tensor(np.ones(3), requires_grad=True)
try:
    with anomaly_mode(), np.errstate(all="ignore"):
        ag.log(x - 1)
except AnomalyError as error:
    assert error.where[1] == 9, error
"""


def test_it_tells_lines_of_the_plain_core_too(tmp_path):
    (tmp_path / "script.py").write_text(PLAIN, encoding="utf-8")
    environment = {**os.environ, "AUTOGRAD_PLAIN": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
