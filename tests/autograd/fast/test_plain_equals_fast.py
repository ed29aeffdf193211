"""Every fast implementation computes what the plain op does: outputs and gradients, with the same dropout masks.

The table of implementations is walked: an entry without its calls below fails.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, fast, random
from autograd.backend import CPU
from autograd.engine import implementations, run_backward
from autograd.fast.ops import IMPLEMENTATIONS
from autograd.modes import Observer, observe
from tests.emulation.device import KINDS, cuda_backend

Call = tuple[Callable[..., Any], list[np.ndarray]]
SIZES = {"empty": 0, "one row": 1, "a few": 7, "several blocks": 6000}  # rows; of some 50 columns


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


def ids(rng: np.random.Generator, rows: int, classes: int) -> np.ndarray:
    return rng.integers(0, classes, rows)


def heads(rng: np.random.Generator, rows: int) -> list[np.ndarray]:
    b, (t, s) = (rows, (3, 5)) if rows < 100 else (rows // 100, (9, 21))
    return [normal(rng, b, 2, t, 4), normal(rng, b, 2, s, 4), normal(rng, b, 2, s, 6)]


def attention(rng: np.random.Generator, rows: int, **settings: Any) -> Call:
    arrays = heads(rng, rows)
    mask = rng.random((len(arrays[0]), 1, 1, arrays[1].shape[2])) < 0.7  # some rows see nothing
    return lambda q, k, v: ag.scaled_dot_product_attention(q, k, v, mask, **settings), arrays


def fused_loss(rng: np.random.Generator, rows: int, reduction: Any, masked: bool = False, bias: bool = True) -> Call:
    barred = (np.arange(53) % 5 == 2) if masked else None
    targets = ids(rng, rows, 53)
    targets = np.where((rng.random(rows) < 0.2) | (barred[targets] if masked else False), -100, targets)
    settings: Any = {"label_smoothing": 0.1, "reduction": reduction, "with_nll": True, "masked": barred}
    arrays = [normal(rng, rows, 12), normal(rng, 53, 12), *([normal(rng, 53)] if bias else [])]
    return lambda x, w, *b: fast.linear_cross_entropy(x, w, targets, *b, **settings), arrays


def embedding(rng: np.random.Generator, rows: int, **settings: Any) -> Call:
    indices = rng.integers(0, 90, (rows, 3))
    return lambda w: fast.scaled_embedding(indices, w, **settings), [normal(rng, 90, 50)]


def norm(rng: np.random.Generator, rows: int, columns: int = 50) -> list[np.ndarray]:
    return [normal(rng, rows, columns), normal(rng, rows, columns), normal(rng, columns), normal(rng, columns)]


def layer(rng: np.random.Generator, rows: int, *, bias: bool = True) -> list[np.ndarray]:
    return [normal(rng, rows, 3, 17), normal(rng, 29, 17), *([normal(rng, 29)] if bias else [])]


CALLS: dict[str, list[Callable[[np.random.Generator, int], Call]]] = {
    "Linear": [lambda rng, n: (ag.linear, layer(rng, n)), lambda rng, n: (ag.linear, layer(rng, n, bias=False))],
    "LinearRelu": [
        lambda rng, n: (fast.linear_relu, layer(rng, n)),
        lambda rng, n: (fast.linear_relu, layer(rng, n, bias=False)),
    ],
    "LinearHeads": [
        lambda rng, n: (
            lambda x, *w: fast.linear_heads(x, w[:3], w[3:], heads=2),
            [normal(rng, n, 3, 17), *[normal(rng, k, 17) for k in (8, 8, 12)], *[normal(rng, k) for k in (8, 8, 12)]],
        ),
        lambda rng, n: (
            lambda x, *w: fast.linear_heads(x, w, heads=2),
            [normal(rng, n, 3, 17), *[normal(rng, k, 17) for k in (8, 8, 12)]],
        ),
    ],
    "ScaledEmbedding": [
        lambda rng, n: embedding(rng, n, scale=7.5, positions=normal(rng, 3, 50), p=0.3),
        lambda rng, n: embedding(rng, n),
    ],
    "Dropout": [lambda rng, n: (lambda x: ag.dropout(x, 0.3), [normal(rng, n, 50)])],
    "LayerNorm": [
        lambda rng, n: (lambda x, _, w, b: ag.layer_norm(x, w, b), norm(rng, n)),
        lambda rng, n: (lambda x, _, w, b: ag.layer_norm(x, w, b), norm(rng, n, columns=2)),
    ],
    "DropoutAddLayerNorm": [
        lambda rng, n: (lambda *a: fast.dropout_add_layer_norm(*a, p=0.3), norm(rng, n)),
        lambda rng, n: (fast.dropout_add_layer_norm, norm(rng, n)),
    ],
    "ScaledDotProductAttention": [
        lambda rng, n: attention(rng, n),
        lambda rng, n: attention(rng, n, is_causal=True, dropout=0.3),
        lambda rng, n: attention(rng, n, scale=1.5),
    ],
    "LinearCrossEntropy": [
        *[lambda rng, n, r=r: fused_loss(rng, n, r) for r in ("mean", "sum", "none")],
        lambda rng, n: fused_loss(rng, n, "sum", masked=True),
        lambda rng, n: fused_loss(rng, n, "none", masked=True, bias=False),
    ],
}


@contextmanager
def plain() -> Iterator[None]:
    """Inside, every op is computed as it is defined."""
    table = dict(implementations)
    implementations.clear()
    try:
        yield
    finally:
        implementations.update(table)


def run(function: Callable[..., Any], arrays: list[np.ndarray], needed: list[bool], backend: Any = CPU) -> list[Any]:
    """Outputs and gradients, for random cotangents and always the same masks."""
    random.manual_seed(5)
    leaves = [Tensor(backend.asarray(a), requires_grad=n) for a, n in zip(arrays, needed, strict=True)]
    result = function(*leaves)
    found = result if isinstance(result, tuple) else (result,)
    outputs = [y for y in found if y.requires_grad]
    rng = np.random.default_rng(1)
    run_backward(outputs, [backend.asarray(rng.standard_normal(y.shape).astype(y.dtype)) for y in outputs])
    gradients = [None if x.grad is None else backend.to_host(x.grad.data) for x in leaves]
    return [*[backend.to_host(y.data) for y in found], *gradients]


def assert_equal(
    function: Callable[..., Any], arrays: list[np.ndarray], needed: list[bool] | None = None, backend: Any = CPU
) -> None:
    needed = needed or [True] * len(arrays)
    ours = run(function, arrays, needed, backend)
    with plain():
        exact = run(function, arrays, needed)
    eps = max(float(np.finfo(a.dtype).eps) for a in arrays)
    scale = max(float(np.abs(a).max(initial=1e-3)) for a in exact if a is not None)
    for a, b in zip(ours, exact, strict=True):
        if a is None or b is None:
            assert a is b
            continue
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=200 * eps, atol=200 * eps * scale)


each_op = pytest.mark.parametrize("op", [op.__name__ for op in IMPLEMENTATIONS])


def test_both_tables_are_complete_and_tested():
    assert implementations == IMPLEMENTATIONS
    assert CALLS.keys() == {op.__name__ for op in IMPLEMENTATIONS}
    for plain_op, implementation in IMPLEMENTATIONS.items():
        assert issubclass(implementation, plain_op)
        assert implementation.__name__ == plain_op.__name__
        assert plain_op.is_plain
        assert not implementation.is_plain


@each_op
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_gradients(op, size, dtype):
    for call in CALLS[op]:
        function, arrays = call(np.random.default_rng(0), SIZES[size])
        assert_equal(function, [a.astype(dtype) for a in arrays])


@each_op
@pytest.mark.parametrize("kernels", ["numpy", "numba"])
def test_on_any_number_of_threads_to_the_bit(op, kernels):
    if kernels == "numba":
        pytest.importorskip("numba", reason="needs Numba")
    fast.set_kernels(kernels)
    for call in CALLS[op]:
        function, arrays = call(np.random.default_rng(2), 3001)
        arrays = [a.astype("float32") for a in arrays]
        found = []
        for threads in (1, 2, 3):
            fast.set_threads(threads)
            found.append(run(function, arrays, [True] * len(arrays)))
        assert_equal(function, arrays)
        for other in found[1:]:
            for a, b in zip(found[0], other, strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.heavy
@pytest.mark.parametrize("op", [*CALLS])
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu(op, kind):
    with cuda_backend(kind) as gpu:
        for call in CALLS[op]:
            for rows, dtype in ((1, "float64"), (7, "float32"), (7, "float64")):
                function, arrays = call(np.random.default_rng(0), rows)
                assert_equal(function, [a.astype(dtype) for a in arrays], backend=gpu)
        assert gpu.launched or op in ("Linear", "LinearRelu", "LinearHeads")  # of products, bias and ReLU are CuPy's
        function, arrays = CALLS[op][0](np.random.default_rng(0), 7)
        launched = len(gpu.launched)
        assert_equal(function, [a.astype("float16") for a in arrays], backend=gpu)
        assert len(gpu.launched) == launched  # no kernel: the plain op runs


@each_op
def test_half_precision(op):
    for call in CALLS[op]:
        function, arrays = call(np.random.default_rng(0), 7)
        assert_equal(function, [a.astype("float16") for a in arrays])


@each_op
@pytest.mark.parametrize("layout", ["transposed", "strided", "reversed", "broadcast"])
def test_any_layout(op, layout):
    def laid_out(a: np.ndarray) -> np.ndarray:
        if layout == "transposed":
            return np.array(a, order="F")
        if layout == "strided":
            return np.repeat(np.repeat(a, 2, axis=-1), 3, axis=0)[::3, ..., ::2] if a.ndim > 1 else a.repeat(2)[::2]
        if layout == "reversed":
            return a[::-1].copy()[::-1]
        return np.broadcast_to(a[:1], a.shape)

    for call in CALLS[op]:
        function, arrays = call(np.random.default_rng(3), 7)
        assert_equal(function, [laid_out(a) for a in arrays])


@each_op
def test_each_gradient_alone(op):
    for call in CALLS[op]:
        function, arrays = call(np.random.default_rng(4), 7)
        for i in range(len(arrays)):
            if op == "LayerNorm" and i == 1:  # the residual, which it does not have
                continue
            assert_equal(function, arrays, [i == j for j in range(len(arrays))])


@each_op
@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite(op, strange):
    """They are found in the same places: a fast implementation loses no NaN and makes none."""
    for call in CALLS[op]:
        function, arrays = call(np.random.default_rng(6), 7)
        arrays[0].reshape(-1)[3] = strange
        with np.errstate(all="ignore"):
            ours = run(function, arrays, [True] * len(arrays))
            with plain():
                exact = run(function, arrays, [True] * len(arrays))
        for a, b in zip(ours, exact, strict=True):
            if a is not None:
                np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))


@pytest.mark.parametrize("kernels", ["numpy", "numba"])
def test_gradients_of_a_few_rows_are_added_to_the_sum_of_a_shared_weight(kernels):
    rng = np.random.default_rng(1)
    weight = Tensor(rng.standard_normal((500, 16)).astype(np.float32), requires_grad=True)
    first, second = rng.integers(0, 500, (4, 9)), rng.integers(0, 500, (4, 7))  # with equal ones

    def gradient():
        fast.set_kernels(kernels)
        try:
            x = fast.scaled_embedding(first, weight, scale=4.0).sum(axis=0)
            x = ag.linear(x, weight)  # whose gradient of the weight has all rows, and comes first
            y = fast.scaled_embedding(second, weight, scale=4.0)
            return ag.grad((x * x).sum() + (y * y).sum(), weight)[0].data
        finally:
            fast.set_kernels("numpy")

    class Shown(Observer):
        def after_backward(self, op, g_inputs):
            assert all(g is None or type(g) is np.ndarray for g in g_inputs)

    with observe(Shown()):  # all rows of each, which are added
        expected = gradient()
    found = gradient()
    assert np.array_equal(found, expected)
    assert np.count_nonzero(np.abs(found).sum(axis=1)) == 500
