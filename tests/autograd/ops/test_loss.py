"""Cross-entropy against its definition: smoothing, ignored targets, reductions, and logits that are overwritten."""

import math
import tracemalloc

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor

cross_entropy = ag.cross_entropy
EVERY_REDUCTION = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])


def normal(shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def plain(logits, targets, smoothing=0.0, ignore=-100, reduction="mean"):
    """-Σ_k q_k log p_k, term by term, with q = (1 - ε) · one-hot + ε / V; and its gradient p - q, times the factor."""
    V = logits.shape[-1]
    losses = np.zeros(targets.shape)
    g_logits = np.zeros(logits.shape)
    for place in np.ndindex(targets.shape):
        if targets[place] == ignore:
            continue
        exponentials = [math.exp(x) for x in logits[place]]
        p = [e / sum(exponentials) for e in exponentials]
        q = [(1 - smoothing) * (k == targets[place]) + smoothing / V for k in range(V)]
        losses[place] = -sum(q_k * math.log(p_k) for q_k, p_k in zip(q, p, strict=True))
        g_logits[place] = [p_k - q_k for q_k, p_k in zip(q, p, strict=True)]
    counted = max(int((targets != ignore).sum()), 1)
    if reduction == "none":
        return losses, g_logits
    return losses.sum() / (counted if reduction == "mean" else 1), g_logits / (counted if reduction == "mean" else 1)


def close(y, expected, tolerance=1e-12):
    np.testing.assert_allclose(y.data, expected, rtol=tolerance, atol=tolerance)


# ---- Values and gradients ----


def test_an_impossible_class():
    """A logit of minus infinity is a probability of zero: free where it is no target, infinitely wrong where it is."""
    logits = np.array([[0.0, -math.inf, 0.0], [0.0, -math.inf, 0.0]])
    leaf = Tensor(logits, requires_grad=True)
    losses = cross_entropy(leaf, np.array([0, 1]), reduction="none")
    assert losses.tolist() == [pytest.approx(math.log(2)), math.inf]
    losses.backward(np.array([1.0, 0.0]))
    assert leaf.grad.data[0].tolist() == [-0.5, 0, 0.5]


# ---- Ignored targets ----


@EVERY_REDUCTION
def test_ignored_rows_count_for_nothing(reduction):
    """Neither in the loss nor in the gradient nor in the number that a mean divides by, whatever stands in them."""
    for ignore in [-100, 0, 3, -1]:
        for others in [(1e30, -1e30), (math.inf, -math.inf), (math.nan, 0)]:
            logits = normal((6, 5))
            logits[[1, 4]] = np.array(others)[:, None]
            targets = np.array([1, ignore, 2, 4, ignore, 1])
            rest = [0, 2, 3, 5]
            settings = {"label_smoothing": 0.1, "reduction": reduction, "ignore_index": ignore, "with_nll": True}
            leaf = Tensor(logits.copy(), requires_grad=True)
            with np.errstate(invalid="ignore"):
                loss, nll = cross_entropy(leaf, targets, **settings)
            alone = Tensor(logits[rest], requires_grad=True)
            expected, expected_nll = cross_entropy(alone, targets[rest], **settings)
            if reduction == "none":
                assert loss.data[[1, 4]].tolist() == nll.data[[1, 4]].tolist() == [0, 0]
                close(loss[rest], expected.data)
                close(nll[rest], expected_nll.data)
                loss.backward(np.ones(6))
                expected.backward(np.ones(4))
            else:
                close(loss, expected.data)
                close(nll, expected_nll.data)
                loss.backward()
                expected.backward()
            assert (leaf.grad.data[[1, 4]] == 0).all()
            close(leaf.grad[rest], alone.grad.data)


# ---- The un-smoothed loss beside the smoothed one ----


@EVERY_REDUCTION
def test_with_nll(reduction):
    """Perplexity is of the un-smoothed loss, and no gradient flows from it."""
    logits = normal((2, 3, 5))
    targets = np.array([[0, 1, -100], [4, 4, 2]])
    leaf = Tensor(logits, requires_grad=True)
    loss, nll = cross_entropy(leaf, targets, label_smoothing=0.2, reduction=reduction, with_nll=True)
    close(loss, plain(logits, targets, 0.2, reduction=reduction)[0])
    close(nll, plain(logits, targets, reduction=reduction)[0])
    assert not nll.requires_grad
    with ag.no_grad():
        again, nll_again = cross_entropy(leaf, targets, label_smoothing=0.2, reduction=reduction, with_nll=True)
    close(again, loss.data)
    close(nll_again, nll.data)
    loss.backward(np.ones(loss.shape))
    close(leaf.grad, plain(logits, targets, 0.2, reduction=reduction)[1])


# ---- What is refused ----


@pytest.mark.parametrize(
    ("targets", "error", "message"),
    [
        ([0, 5], IndexError, "cross_entropy target must lie in 0 … 4, found 0 … 5"),
        ([0.0, 1.0], TypeError, "cross_entropy target must be an integer array, found float64"),
        ([True, False], TypeError, "cross_entropy target must be an integer array, found bool"),
        ([0], ValueError, r"targets of shape \(1,\) do not match logits of shape \(2, 5\)"),
        ([0, 1, 2], ValueError, r"targets of shape \(3,\) do not match logits of shape \(2, 5\)"),
    ],
)
def test_targets_that_do_not_fit_are_refused(targets, error, message):
    for given in (np.array(targets), targets):
        with pytest.raises(error, match=message):
            cross_entropy(Tensor(normal((2, 5)), requires_grad=True), given)


def test_settings_that_cannot_be_are_refused():
    logits, targets = Tensor(normal((2, 5))), np.array([0, 1])
    with pytest.raises(ValueError, match="reduction='average' is not one of 'mean', 'sum', 'none'"):
        cross_entropy(logits, targets, reduction="average")
    for smoothing in (-0.1, 1.5, math.nan):
        with pytest.raises(ValueError, match=rf"label_smoothing={smoothing} is outside \[0, 1\]"):
            cross_entropy(logits, targets, label_smoothing=smoothing)
    with pytest.raises(ValueError, match="logits need a last axis, the classes; found a single number"):
        cross_entropy(Tensor(np.array(1.0)), np.array(0))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.uint64])
def test_targets_of_any_integer_dtype(dtype):
    logits = normal((3, 5))
    expected = plain(logits, np.array([4, 0, 3]), ignore=0)[0]
    close(cross_entropy(logits, np.array([4, 0, 3], dtype), ignore_index=0), expected)
    close(cross_entropy(logits, np.array([4, 1, 3], dtype)), plain(logits, np.array([4, 1, 3]))[0])


# ---- With the product that makes the logits ----


def tensors(*shapes):
    return [Tensor(normal(shape, seed=i), requires_grad=True) for i, shape in enumerate(shapes)]


def test_the_logits_never_stand_in_memory():
    """Peak memory of forward and backward, against the logits' own 32 MB."""
    rows, width, classes = 1000, 16, 4000
    inputs, targets = tensors((rows, width), (classes, width)), np.arange(rows)

    def peak(function):
        tracemalloc.start()
        function().backward()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    logits = rows * classes * 8
    assert peak(lambda: cross_entropy(ag.linear(*inputs), targets)) > logits
    assert peak(lambda: ag.fast.linear_cross_entropy(*inputs, targets, rows=50)) < 0.2 * logits


def test_what_linear_cross_entropy_refuses():
    x, weight = tensors((3, 4), (5, 4))
    ok = np.zeros(3, int)
    for error, message, call in (
        (ValueError, "linear: x of shape", lambda: ag.fast.linear_cross_entropy(x, weight[:, :3], ok)),
        (ValueError, "targets of shape", lambda: ag.fast.linear_cross_entropy(x, weight, ok[:2])),
        (ValueError, "rows=0 computes nothing", lambda: ag.fast.linear_cross_entropy(x, weight, ok, rows=0)),
        (ValueError, r"masked must be bool \[5\]", lambda: ag.fast.linear_cross_entropy(x, weight, ok, masked=[True])),
        (IndexError, "target must lie in 0 … 4", lambda: ag.fast.linear_cross_entropy(x, weight, ok + 5)),
        (IndexError, "a masked class", lambda: ag.fast.linear_cross_entropy(x, weight, ok, masked=np.arange(5) == 0)),
    ):
        with pytest.raises(error, match=message):
            call()
