"""The CPU's kernels against their plain definitions, in every size and layout, whatever the number of threads."""

import math

import numpy as np
import pytest

from autograd.backend import Backend, CpuBackend

DTYPES = [np.float32, np.float64]


# ---- What the kernels are called with ----


def normal(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


def norm_parameters(rng, width, dtype):
    return 1 + 0.1 * normal(rng, width, dtype), normal(rng, width, dtype)


def product(rng, dtype, m, inner, n):
    yield (normal(rng, (m, inner), dtype), normal(rng, (inner, n), dtype)), {}


def linear(rng, dtype, m, inner, n):
    x, weight, bias = normal(rng, (m, inner), dtype), normal(rng, (n, inner), dtype), normal(rng, n, dtype)
    yield (x, weight, bias), {}
    yield (x, weight, None), {}
    yield (x, weight, bias), {"relu": True}
    yield (x, weight, bias.astype(np.float64)), {}


def linear_of_few(rng, dtype, m, inner, n):
    x, w, bias = normal(rng, (m, inner), dtype), normal(rng, (inner, n), dtype), normal(rng, n, dtype)
    for rows_at_a_time in (None, max(m // 4, 1) if m % 4 == 0 else 1):
        yield (x, w, bias), {"relu": True, "rows_at_a_time": rows_at_a_time}
        yield (x, w, None), {"rows_at_a_time": rows_at_a_time}


def keep_where(rng, dtype, *shape):
    x, keep = normal(rng, shape, dtype), rng.random(shape) < 0.7
    yield (x, keep), {}
    yield (np.where(keep, x, [math.nan, math.inf, -math.inf][len(shape) % 3]).astype(dtype), keep), {}
    yield (x, keep[:1] if len(keep) else keep), {}


def sum_rows(rng, dtype, rows, width):
    yield (normal(rng, (rows, width), dtype),), {}
    yield (rng.integers(-9, 9, (rows, width)).astype(dtype),), {}


def relu(rng, dtype, *shape):
    x = normal(rng, shape, dtype)
    yield (x,), {}
    yield (
        (np.where(x > 1, [math.nan, math.inf, -math.inf][len(shape) % 3], np.where(x < -1, -0.0, x)).astype(dtype),),
        {},
    )


def relu_backward(rng, dtype, *shape):
    y, g_y = np.maximum(normal(rng, shape, dtype), 0), normal(rng, shape, dtype)
    yield (g_y, y), {}
    yield (np.where(y > 0.5, g_y, math.nan).astype(dtype), np.where(y > 1, math.inf, y).astype(dtype)), {}


def dropout(rng, dtype, *shape):
    yield (normal(rng, shape, dtype), rng.random(shape) < 0.7, 65536 / 45875), {}


def layer_norm(rng, dtype, rows, width):
    yield (3 + normal(rng, (rows, width), dtype), *norm_parameters(rng, width, dtype), 1e-6), {}
    yield (normal(rng, (rows, width), dtype), *norm_parameters(rng, width, np.float64), 0.5), {}


def dropout_add_layer_norm(rng, dtype, rows, width):
    x, residual = normal(rng, (rows, width), dtype), 3 + normal(rng, (rows, width), dtype)
    keep = rng.random((rows, width)) < 0.7
    yield (x, residual, keep, 65536 / 45875, *norm_parameters(rng, width, dtype), 1e-6), {}
    yield (x, residual, None, 1.0, *norm_parameters(rng, width, dtype), 1e-6), {}
    yield (x, residual.astype(np.float64), keep, 1.5, *norm_parameters(rng, width, dtype), 1e-6), {}


def layer_norm_backward(rng, dtype, rows, width):
    inverse_std = (0.5 + rng.random((rows, 1))).astype(dtype)
    normalised = normal(rng, (rows, width), dtype)
    yield (normal(rng, (rows, width), dtype), normalised, inverse_std, norm_parameters(rng, width, dtype)[0]), {}


def embedding_backward(rng, dtype, rows, width):
    for vocabulary, index_dtype in ((1, np.int64), (50, np.int64), (200, np.uint8)):  # 200 · width is no uint8
        yield (normal(rng, (rows, width), dtype), rng.integers(0, vocabulary, rows, index_dtype), vocabulary + 2), {}


def attention_masks(rng, b, h, t, s):
    """None, padded keys, a causal triangle, and one of any kind; queries that may attend to nothing among them."""
    yield None
    yield np.arange(s) < rng.integers(0, s + 1, (b, 1, 1, 1))
    yield np.tri(t, s, dtype=bool)
    yield rng.random((b, h, t, s)) < 0.5


def attention(rng, dtype, b, h, t, s, k=3, m=5):
    q, key, v = (normal(rng, (b, h, n, width), dtype) for n, width in ((t, k), (s, k), (s, m)))
    for mask in attention_masks(rng, b, h, t, s):
        yield (q, key, v, mask, None, 1.0, 0.7), {}
    yield (q, key, v, mask, rng.random((b, h, t, s)) < 0.8, 1.25, 0.7), {}


def attention_backward(rng, dtype, b, h, t, s, k=3, m=5):
    q, key, v = (normal(rng, (b, h, n, width), dtype) for n, width in ((t, k), (s, k), (s, m)))
    g_y, p = normal(rng, (b, h, t, m), dtype), rng.random((b, h, t, s)).astype(dtype)
    p[..., :1, :] = 0  # a query that may attend to nothing
    yield (g_y, q, key, v, (p,), None, 1.0, 0.7), {}
    yield (g_y, q, key, v, (p,), rng.random((b, h, t, s)) < 0.8, 1.25, 0.7), {}


def masked_softmax_(rng, dtype, b, h, t, s):
    for mask in attention_masks(rng, b, h, t, s):
        yield (5 * normal(rng, (b, h, t, s), dtype), mask), {}
    yield (normal(rng, (t, s), dtype), np.tri(t, s, dtype=bool)), {}


def softmax_backward_(rng, dtype, b, h, t, s):
    yield (normal(rng, (b, h, t, s), dtype), rng.random((b, h, t, s)).astype(dtype)), {}
    yield (normal(rng, (t, s), dtype), rng.random((t, s)).astype(dtype)), {}


def cross_entropy(rng, dtype, rows, classes):
    for smoothing, offset in ((0.0, 0), (0.1, 200 if dtype == np.float32 else 1000)):  # whose exponential is infinite
        yield (3 * normal(rng, (rows, classes), dtype) + offset, rng.integers(0, classes, rows), smoothing), {}


def normal_distribution(rng, dtype, *shape):
    yield (np.asarray(4 * rng.standard_normal(shape), dtype),), {}


def top_tokens(rng, dtype, rows, classes):
    for logits in (normal(rng, (rows, classes), dtype), rng.integers(0, 9, (rows, classes)).astype(dtype)):  # many ties
        logits[rng.random(logits.shape) < 0.2] = -math.inf
        logits[:, -1] = 1  # a sum of nothing is no number
        some = np.isin(np.arange(classes), [0, 2, classes // 2])
        for barred, count in ((some, 8), (~some, 8), (some & False, 1), (some, 2), (some, classes + 2)):
            yield (logits, barred, min(count, classes)), {}


def scale_rows_(rng, dtype, rows, width):
    few = np.where(rng.random(rows) < 0.1, rng.random(rows), 1)
    for factors in (rng.random(rows), np.zeros(rows), few, few + 1):
        yield (normal(rng, (rows, width), dtype), factors.astype(dtype)), {}


def adam_(rng, dtype, *shape):
    parameter, gradient, m = (normal(rng, shape, dtype) for _ in range(3))
    settings = {"step_size": 0.01, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9}
    for scale in (1.0, 1 / 700):
        yield (parameter, gradient, m, rng.random(shape).astype(dtype)), {**settings, "gradient_scale": scale}


ROWS = [(0, 5), (1, 1), (1, 7), (3, 5), (65, 513)]
ROWS_LARGE = [(900, 160)]  # several blocks, and enough to wake the other threads
PRODUCTS = [(0, 3, 4), (2, 0, 4), (2, 3, 0), (1, 1, 1), (5, 3, 4), (300, 20, 30)]
PRODUCTS_LARGE = [(900, 50, 60), (40, 2500, 30), (2100, 33, 40), (257, 257, 33)]
HEADS = [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0), (1, 1, 1, 1), (2, 3, 4, 5), (3, 2, 5, 4)]
HEADS_LARGE = [(10, 4, 40, 90)]

KERNELS = {  # name: what it is called with, in small and in large, and for which arguments it overwrites
    "product": (product, PRODUCTS, PRODUCTS_LARGE, ()),
    "linear": (linear, PRODUCTS, [(900, 50, 60), (2100, 33, 40)], ()),
    "linear_of_few": (linear_of_few, PRODUCTS, [(12, 300, 3000)], ()),
    "keep_where": (keep_where, [*ROWS, (4,), (2, 3, 4)], [(900, 160), (140_000,)], ()),
    "dropout": (dropout, [*ROWS, (4,), (2, 3, 4)], [(900, 160), (140_000,)], ()),
    "layer_norm": (layer_norm, ROWS, ROWS_LARGE, ()),
    "dropout_add_layer_norm": (dropout_add_layer_norm, ROWS, ROWS_LARGE, ()),
    "sum_rows": (sum_rows, ROWS, [(900, 160), (140_000, 1)], ()),
    "relu": (relu, [*ROWS, (4,), ()], [(900, 160), (140_000,)], ()),
    "relu_backward": (relu_backward, [*ROWS, (4,), ()], [(900, 160), (140_000,)], ()),
    "layer_norm_backward": (layer_norm_backward, ROWS, ROWS_LARGE, ()),
    "embedding_backward": (embedding_backward, [*ROWS, (4, 0)], ROWS_LARGE, ()),
    "attention": (attention, HEADS, HEADS_LARGE, ()),
    "attention_backward": (attention_backward, HEADS, HEADS_LARGE, ()),
    "masked_softmax_": (masked_softmax_, HEADS, HEADS_LARGE, (0,)),
    "softmax_backward_": (softmax_backward_, HEADS, HEADS_LARGE, (0,)),
    "cross_entropy": (cross_entropy, ROWS, ROWS_LARGE, ()),
    "cross_entropy_": (cross_entropy, ROWS, ROWS_LARGE, (0,)),
    "normal_distribution": (normal_distribution, [*ROWS, (4,), ()], [(900, 160), (140_000,)], ()),
    "scale_rows_": (scale_rows_, ROWS, ROWS_LARGE, (0,)),
    "top_tokens": (top_tokens, [*ROWS, (3, 1000), (2, 777)], [(6, 37_000), (900, 160)], ()),
    "adam_": (adam_, [*ROWS, (4,), (2, 3, 4), ()], [(900, 160), (140_000,)], (0, 2, 3)),
}
SERIAL = {"embedding_backward"}  # one thread: equal indices meet
SMALL = [(name, shape) for name, (_, shapes, _, _) in KERNELS.items() for shape in shapes]
LARGE = [(name, shape) for name, (_, _, shapes, _) in KERNELS.items() for shape in shapes]
every_small_case = pytest.mark.parametrize(("name", "shape"), SMALL, ids=lambda x: str(x).replace(" ", ""))
every_large_case = pytest.mark.parametrize(("name", "shape"), LARGE, ids=lambda x: str(x).replace(" ", ""))
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)


def cases(name, shape, dtype):
    return list(KERNELS[name][0](np.random.default_rng(len(shape)), dtype, *shape))


def run(backend, name, args, kwargs):
    """Everything the kernel returns and everything it overwrites; what it must not overwrite is unchanged."""
    overwritten = KERNELS[name][3]
    own = [a.copy("K") if i in overwritten else a for i, a in enumerate(args)]
    kept = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    result = getattr(backend, name)(*own, **kwargs)
    for i, (before, after) in enumerate(zip(kept, args, strict=True)):
        if isinstance(before, np.ndarray):
            np.testing.assert_array_equal(after, before, err_msg=f"argument {i} of {name} was changed")
    return [np.asarray(a) for a in (*flat(result), *(own[i] for i in overwritten))]


def flat(result):
    """All arrays of a result: those that attention keeps for its backward pass stand in a tuple of their own."""
    if isinstance(result, tuple):
        return [a for each in result for a in flat(each)]
    return [] if result is None else [result]


def assert_close(ours, exact, dtype, args=()):
    """Equal up to the rounding of the largest number among results and arguments."""
    eps = float(np.finfo(dtype).eps)
    numbers = [np.abs(a[np.isfinite(a)]).max(initial=1) for a in (*args, *exact) if getattr(a, "dtype", None) == dtype]
    for y, expected in zip(ours, exact, strict=True):
        assert y.shape == expected.shape
        assert y.dtype == expected.dtype
        np.testing.assert_allclose(y, expected, rtol=32 * eps, atol=32 * eps * float(max(numbers, default=1)))


# ---- Equal to the definition ----


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_adam_for_many_arrays(threads, backend_with):
    """Small ones that are worth waking threads for together, and a large one; one keeps a copy."""
    rng = np.random.default_rng(0)
    sizes = [20_000, 3, 30_000, 200_000, 1, 25_000, 28_000, 30_000, 5, 6, 7]
    arrays = [[*(rng.standard_normal(n).astype(np.float32) for _ in range(3)), rng.random(n).astype(np.float32)]
              for n in sizes]  # fmt: skip
    settings = {"step_size": 0.01, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9, "gradient_scale": 0.5}
    updated = []
    for backend in (Backend(), backend_with(threads)):
        own = [[a.copy() for a in each] for each in arrays]
        copy = np.zeros(3, np.float16)
        backend.adam_all_([(*each, copy if len(each[0]) == 3 else None) for each in own], **settings)
        np.testing.assert_array_equal(copy, own[1][0].astype(np.float16))
        updated.append(own)
    for plain, ours in zip(*updated, strict=True):
        for expected, found in zip(plain, ours, strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


def test_no_override_is_forgotten():
    shared = {name for name in vars(CpuBackend) if name in vars(Backend) and callable(getattr(Backend, name))}
    assert {name for name in shared if not name.startswith("__")} == {*KERNELS, "adam_all_"}


@every_dtype
@pytest.mark.parametrize("threads", [None, 2])
@every_small_case
def test_small_inputs(name, shape, threads, dtype, backend_with):
    for args, kwargs in cases(name, shape, dtype):
        expected = run(Backend(), name, args, kwargs)
        assert_close(run(backend_with(threads), name, args, kwargs), expected, dtype, args)


@every_dtype
@every_large_case
def test_large_inputs_to_the_bit_for_any_number_of_threads(name, shape, dtype, backend_with):
    backends = [backend_with(threads) for threads in (1, 2, 3)]
    for args, kwargs in cases(name, shape, dtype):
        first, *others = [run(backend, name, args, kwargs) for backend in backends]
        assert_close(first, run(Backend(), name, args, kwargs), dtype, args)
        for other in others:
            for y, expected in zip(other, first, strict=True):
                np.testing.assert_array_equal(y, expected)
        assert_close(run(backend_with(None), name, args, kwargs), first, dtype, args)


@every_large_case
def test_large_inputs_are_spread_over_the_threads(name, shape, backend_with):
    """Otherwise the test above would compare one thread with itself."""
    backend = backend_with(3)
    tasks = []

    class Pool:
        def submit(self, task):
            tasks.append(task)
            return pool.submit(task)

    pool, backend._pool = backend._pool, Pool()
    for args, kwargs in cases(name, shape, np.float32)[:1]:
        run(backend, name, args, kwargs)
    assert len(tasks) == (0 if name in SERIAL else 2)


LAYOUTS = {
    "fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(np.repeat(a, 2, axis=-1), 3, axis=0)[::3][..., ::2],
    "reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "heads last": lambda a: np.ascontiguousarray(a.swapaxes(-2, -3)).swapaxes(-2, -3) if a.ndim > 2 else a,
    "read-only": lambda a: np.lib.stride_tricks.as_strided(a, writeable=False),
}


@every_dtype
@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KERNELS)
def test_layouts(name, layout, threads, dtype, backend_with):
    shape = next(shape for shape in KERNELS[name][1] if min(shape) > 1)
    overwritten = KERNELS[name][3]
    for args, kwargs in cases(name, shape, dtype):
        laid_out = [
            LAYOUTS[layout](a) if isinstance(a, np.ndarray) and not (layout == "read-only" and i in overwritten) else a
            for i, a in enumerate(args)
        ]
        expected = run(Backend(), name, args, kwargs)
        assert_close(run(backend_with(threads), name, laid_out, kwargs), expected, dtype, args)


# ---- Dtypes ----


def random_half(name):
    shape = next(shape for shape in KERNELS[name][1] if min(shape) > 1)
    for args, kwargs in cases(name, shape, np.float32):
        yield [a.astype(np.float16) if getattr(a, "dtype", None) == np.float32 else a for a in args], kwargs


@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.parametrize("name", KERNELS)
def test_half_precision(name, threads, backend_with):
    for args, kwargs in random_half(name):
        kwargs = {**kwargs, **({"eps": 1e-3} if name == "adam_" else {})}  # 1e-9 is 0 in half precision
        expected = run(Backend(), name, args, kwargs)
        for y, exact in zip(run(backend_with(threads), name, args, kwargs), expected, strict=True):
            assert y.dtype == exact.dtype
            np.testing.assert_allclose(y, exact, rtol=4e-3, atol=4e-3)


ONES = np.ones((2, 3), int)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("dropout", (np.arange(6).reshape(2, 3), np.tri(2, 3, dtype=bool), 1.25)),
        ("layer_norm", (np.arange(6).reshape(2, 3) ** 2, np.ones(3, int), np.zeros(3, int), 1e-6)),
        ("dropout_add_layer_norm", (np.arange(6).reshape(2, 3), ONES, None, 1.0, *ONES, 0.1)),
        ("cross_entropy", (np.arange(6).reshape(2, 3), np.array([0, 2]), 0.1)),
        ("linear", (np.arange(6).reshape(2, 3), np.ones((4, 3), int), np.arange(4))),
        ("keep_where", (np.arange(6).reshape(2, 3), np.tri(2, 3, dtype=bool))),
        ("product", (np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2))),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_integers_are_not_cut_off(name, args):
    """A result written into an array of the input's dtype would lose what comes after the point."""
    assert_close(run(CpuBackend(), name, args, {}), run(Backend(), name, args, {}), np.float64)


# ---- Memory ----


@pytest.mark.parametrize("threads", [None, 2])
def test_attention_joins_its_heads_without_a_copy(threads, backend_with):
    """What the docstring of `heads_last_empty` promises, for the result and for all three gradients."""
    backend = backend_with(threads)
    (args, _), *_ = cases("attention", (2, 3, 4, 5), np.float32)
    (backward, _), *_ = cases("attention_backward", (2, 3, 4, 5), np.float32)
    for y in (backend.attention(*args)[0], *backend.attention_backward(*backward)):
        b, h, t, width = y.shape
        assert np.shares_memory(y, y.swapaxes(1, 2).reshape(b, t, h * width))
