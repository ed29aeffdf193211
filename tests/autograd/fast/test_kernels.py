"""The kernels of a CPU: what the comparisons of whole ops leave open."""

import numpy as np
import pytest

from autograd.fast import cpu_kernels, numpy_training, set_kernels, set_threads
from autograd.fast.table import TABLE
from tests.helpers.marks import parametrize_some


@pytest.fixture(params=["numpy", "numba"])
def kernels(request):
    if request.param == "numba":
        pytest.importorskip("numba", reason="needs Numba")
    set_kernels(request.param)
    return cpu_kernels()


# ---- The table ----


def test_the_fastest_kernel_that_takes_the_arguments_computes(kernels, monkeypatch):
    ran = []

    def noting(device, function):
        return lambda *arguments: ran.append(device) or function(*arguments)

    for device in kernels.devices:
        found = TABLE["add_bias_", device]
        monkeypatch.setitem(TABLE, ("add_bias_", device), found._replace(function=noting(device, found.function)))
    kernels.use(*kernels.devices)
    x, bias = np.ones((3, 4), np.float32), np.ones(4, np.float32)
    for array in (x, x.astype(np.float64), np.asfortranarray(x)):
        kernels.add_bias_(array, bias, False)
    assert ran == [kernels.devices[0], "numpy", "numpy"]


def test_every_compiled_kernel_has_one_of_numpy_to_fall_back_on():
    pytest.importorskip("numba", reason="needs Numba")
    set_kernels("numba")
    for name, device in TABLE:
        if device == "numba":
            assert (name, "numpy") in TABLE


# ---- Products ----


@pytest.mark.heavy
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alike", [True, False], ids=["rows alike", "by shape alone"])
def test_products_to_the_bit_however_the_threads_divide_them(dtype, alike, monkeypatch):
    """With odd sizes, whose last rows the BLAS computes in another order than the others."""
    if not alike:
        monkeypatch.setattr(numpy_training, "_computes_rows_alike", lambda dtype: False)
    kernels, rng = cpu_kernels(), np.random.default_rng(0)
    for m, inner, n in [(1003, 130, 517), (97, 1201, 301)]:
        x, w, g = (rng.standard_normal(shape).astype(dtype) for shape in ((m, inner), (n, inner), (m, n)))
        exact = x.astype(np.float64) @ w.T
        found = []
        for threads in (1, 2, 3, 5):
            set_threads(threads)
            gradients = *kernels.products((g, w), (g.T, x)), kernels.sum_rows(g)
            found.append([kernels.linear(x, w, None), kernels.product(w, x.T), kernels.add_product_(g.copy(), x, w.T)])
            found[-1] += gradients
        np.testing.assert_allclose(found[0][0], exact, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(found[0][2], g + exact, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(found[0][4], g.astype(np.float64).T @ x, rtol=1e-4, atol=1e-3)
        for other in found[1:]:
            for one, first in zip(other, found[0], strict=True):
                np.testing.assert_array_equal(one, first)


@parametrize_some("threads", [2, None])
@pytest.mark.parametrize("shape", [(1, 3, 4), (7, 90, 6), (11, 300, 3003), (23, 700, 1100), (4, 2048, 512)], ids=str)
def test_products_of_few_rows(shape, threads, kernels):
    """With weights as a model has them, and contiguous."""
    if threads is not None:
        set_threads(threads)
    rng, (rows, n_in, n_out) = np.random.default_rng(0), shape
    x, w, bias = (rng.standard_normal(size).astype(np.float32) for size in ((rows, n_in), (n_in, n_out), (n_out,)))
    exact = np.maximum(x.astype(np.float64) @ w + bias, 0)
    for weights in (w, np.asfortranarray(w)):
        np.testing.assert_allclose(kernels.linear_of_few(x, weights, bias, True), exact, rtol=1e-4, atol=1e-4)


# ---- Adam, norms and the search ----


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_adam_for_many_arrays(threads, kernels):
    """Small ones that are worth waking threads for together, and large ones; two keep copies, one is not contiguous."""
    if threads is not None:
        set_threads(threads)
    rng = np.random.default_rng(0)
    sizes = [20_000, 3, 30_000, 200_000, 1, 25_000, 5, (30, 40), (400, 500)]
    arrays = [[*(rng.standard_normal(n).astype(np.float32) for _ in range(3)), rng.random(n).astype(np.float32)]
              for n in sizes]  # fmt: skip
    arrays[-1] = [a.T for a in arrays[-1]]
    copies = {3: np.zeros(200_000, np.float16), 1: np.zeros(3, np.float16)}
    exact = []
    for parameter, gradient, m, v in arrays:
        g = gradient.astype(np.float64) * 0.5
        new_m, new_v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g * g
        exact.append((parameter - 0.01 * new_m / (np.sqrt(new_v) + 1e-9), new_m, new_v))
    settings = {"step_size": 0.01, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9, "gradient_scale": 0.5}
    kernels.adam_all_([(*each, copies.get(i)) for i, each in enumerate(arrays)], **settings)
    for (parameter, _, m, v), expected in zip(arrays, exact, strict=True):
        for found, one in zip((parameter, m, v), expected, strict=True):
            np.testing.assert_allclose(found, one, rtol=2e-6, atol=2e-6)
    for i, copy in copies.items():
        np.testing.assert_array_equal(copy, arrays[i][0].astype(np.float16))


def search_of(rng, rows, classes, dtype):
    for logits in (rng.standard_normal((rows, classes)), rng.integers(0, 9, (rows, classes))):  # many ties
        logits = logits.astype(dtype)
        logits[rng.random(logits.shape) < 0.2] = -np.inf
        logits[:, -1] = 1  # a sum of nothing is no number
        some = np.isin(np.arange(classes), [0, 2, classes // 2])
        for barred, count in ((some, 8), (~some, 8), (some & False, 1), (some, 2), (some, classes + 2)):
            yield logits, barred, min(count, classes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 7), (3, 1000), (2, 777), (20, 9001)], ids=str)
def test_the_largest_logits(shape, dtype, kernels):
    set_threads(2)
    for logits, barred, count in search_of(np.random.default_rng(0), *shape, dtype):
        allowed = np.where(barred, -np.inf, logits)
        expected = np.argsort(-allowed, axis=1, kind="stable")[:, :count]
        ids, values, log_total = kernels.top_tokens(logits, barred, count)
        np.testing.assert_array_equal(ids, expected)
        np.testing.assert_array_equal(values, np.take_along_axis(allowed, expected, 1))
        np.testing.assert_allclose(log_total, np.log(np.exp(logits.astype(np.float64)).sum(axis=1)), rtol=1e-6)


# ---- Memory ----


@pytest.mark.parametrize("threads", [None, 2])
def test_attention_joins_its_heads_without_a_copy(threads, kernels):
    """What the docstring of `heads_last_empty` promises, for the result and for all three gradients."""
    if threads is not None:
        set_threads(threads)
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 3, n, 5)).astype(np.float32) for n in (4, 6, 6))
    y, kept = kernels.attention(q, k, v, None, None, 1.0, 0.5)
    for a in (y, *kernels.attention_backward(q, q, k, v, kept, None, 1.0, 0.5)):
        b, h, t, width = a.shape
        assert np.shares_memory(a, a.swapaxes(1, 2).reshape(b, t, h * width))


def test_what_does_not_lie_side_by_side_is_copied():
    backend = cpu_kernels()
    memory = np.arange(24.0).reshape(8, 3)
    first, second, third = memory[:2], memory[2:5], memory[5:]
    mapped = [np.frombuffer(memory.tobytes(), count=6, offset=48 * i).reshape(2, 3) for i in range(2)]
    for arrays in ([second, first], [first, third], [first, memory[2:5].view("<i8")], [memory[::2], third], mapped):
        assert not backend.are_side_by_side(arrays)
        stacked = backend.stacked(arrays)
        np.testing.assert_array_equal(stacked, np.concatenate(arrays))
        assert not any(np.shares_memory(stacked, a) for a in arrays)
    assert backend.are_side_by_side([second, third])
    np.testing.assert_array_equal(backend.stacked([second, third]), memory[2:])
