"""The CPU's kernels against their plain definitions, in every size and layout, whatever the number of threads."""

import numpy as np
import pytest
import threadpoolctl

from autograd.fast import CpuKernels, Kernels, cpu_products
from tests.helpers.kernel_calls import KERNELS
from tests.helpers.marks import parametrize_some

SERIAL = {"embedding_backward"}  # one thread: equal indices meet
SMALL = [(name, shape) for name, (_, shapes, _, _) in KERNELS.items() for shape in shapes]
LARGE = [(name, shape) for name, (_, _, shapes, _) in KERNELS.items() for shape in shapes]
FIRST_LARGE = [place for place, (name, _) in enumerate(LARGE) if place == 0 or LARGE[place - 1][0] != name]
DIVIDED_COLUMNS = LARGE.index(("linear", (300, 21, 2500)))  # where threads take columns, and not rows
every_small_case = pytest.mark.parametrize(("name", "shape"), SMALL, ids=lambda x: str(x).replace(" ", ""))
every_large_case = pytest.mark.parametrize(("name", "shape"), LARGE, ids=lambda x: str(x).replace(" ", ""))
every_dtype = pytest.mark.parametrize(
    ("kernels", "dtype"),
    [("numpy", np.float32), ("numpy", np.float64), ("numba", np.float32)],  # in float64, compiled ones are NumPy's
    ids=["float32", "float64", "float32-compiled"],
    indirect=["kernels"],
)
every_way = parametrize_some(
    ("threads", "kernels", "dtype"),
    [
        *((2, "numpy", np.float32), (2, "numba", np.float32), (2, "numpy", np.float64)),
        *((None, "numpy", np.float32), (None, "numpy", np.float64), (None, "numba", np.float32)),
    ],
    keep=2,
    ids=["threads-float32", "threads-compiled", "threads-float64", "float32", "float64", "compiled"],
    indirect=["kernels"],
)


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


@pytest.mark.parametrize("kernels", ["numpy", "numba"], indirect=True)
@pytest.mark.parametrize("threads", [None, 1, 3])
def test_adam_for_many_arrays(threads, backend_with):
    """Small ones that are worth waking threads for together, and large ones; two keep copies, one is not contiguous."""
    rng = np.random.default_rng(0)
    sizes = [20_000, 3, 30_000, 200_000, 1, 25_000, 28_000, 30_000, 5, 6, (30, 40), (400, 500)]
    arrays = [[*(rng.standard_normal(n).astype(np.float32) for _ in range(3)), rng.random(n).astype(np.float32)]
              for n in sizes]  # fmt: skip
    arrays[-1] = [a.T for a in arrays[-1]]
    settings = {"step_size": 0.01, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9, "gradient_scale": 0.5}
    updated = []
    for backend in (Kernels(), backend_with(threads)):
        own = [[a.copy(order="K") for a in each] for each in arrays]
        copies = {n: np.zeros(n, np.float16) for n in (3, 200_000)}
        backend.adam_all_([(*each, copies.get(each[0].size if each[0].ndim == 1 else 0)) for each in own], **settings)
        for place, copy in zip((1, 3), copies.values(), strict=True):
            np.testing.assert_array_equal(copy, own[place][0].astype(np.float16))
        updated.append(own)
    for plain, ours in zip(*updated, strict=True):
        for expected, found in zip(plain, ours, strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


def test_no_override_is_forgotten():
    own = {name for each in CpuKernels.__mro__[: CpuKernels.__mro__.index(Kernels)] for name in vars(each)}
    shared = {name for name in own if callable(getattr(Kernels, name, None))}
    alone = {"adam_all_", "place_of", "rows_from"}  # have tests of their own
    assert {name for name in shared if not name.startswith("__")} == {*KERNELS, *alone}


@pytest.mark.heavy
@every_way
@every_small_case
def test_small_inputs(name, shape, threads, dtype, backend_with):
    for args, kwargs in cases(name, shape, dtype):
        expected = run(Kernels(), name, args, kwargs)
        assert_close(run(backend_with(threads), name, args, kwargs), expected, dtype, args)


@pytest.mark.heavy
@parametrize_some(
    ("kernels", "dtype"),
    [("numpy", np.float32), ("numba", np.float32), ("numpy", np.float64)],
    keep=2,
    ids=["float32", "float32-compiled", "float64"],
    indirect=["kernels"],
)
@parametrize_some(("name", "shape"), LARGE, keep=[*FIRST_LARGE, DIVIDED_COLUMNS], ids=lambda x: str(x).replace(" ", ""))
def test_large_inputs_to_the_bit_for_any_number_of_threads(name, shape, dtype, backend_with):
    backends = [backend_with(threads) for threads in (1, 2, 3)]
    for args, kwargs in cases(name, shape, dtype):
        first, *others = [run(backend, name, args, kwargs) for backend in backends]
        assert_close(first, run(Kernels(), name, args, kwargs), dtype, args)
        for other in others:
            for y, expected in zip(other, first, strict=True):
                np.testing.assert_array_equal(y, expected)
        assert_close(run(backend_with(None), name, args, kwargs), first, dtype, args)


@pytest.mark.heavy
@every_dtype
@pytest.mark.parametrize("alike", [True, False], ids=["rows alike", "by shape alone"])
def test_products_to_the_bit_however_the_threads_divide_them(dtype, alike, backend_with, monkeypatch):
    """With odd sizes, whose last rows the BLAS computes in another order than the others."""
    if not alike:
        monkeypatch.setattr(cpu_products, "_computes_rows_alike", lambda dtype: False)
    rng = np.random.default_rng(0)
    for m, inner, n in [(601, 530, 203), (1003, 130, 517), (97, 1201, 700), (2049, 65, 301)]:
        x, w = rng.standard_normal((m, inner)).astype(dtype), rng.standard_normal((n, inner)).astype(dtype)
        backends = [backend_with(threads) for threads in (1, 2, 3, 5)]
        for call in (lambda b: b.linear(x, w, None), lambda b: b.product(x, w.T), lambda b: b.product(w, x.T)):  # noqa: B023
            first, *others = map(call, backends)
            for other in others:
                np.testing.assert_array_equal(other, first)


def test_whether_rows_are_computed_alike_is_found_whatever_the_threads_of_the_blas():
    found = set()
    for threads in (1, 2, 3):
        with threadpoolctl.threadpool_limits(threads, user_api="blas"):
            found.add(cpu_products._computes_rows_alike.__wrapped__(np.dtype(np.float32)))
    assert len(found) == 1


@pytest.mark.heavy
@pytest.mark.parametrize("kernels", ["numpy", "numba"], indirect=True)
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
    assert bool(tasks) == (name not in SERIAL)


LAYOUTS = {
    "fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(np.repeat(a, 2, axis=-1), 3, axis=0)[::3][..., ::2],
    "read-only": lambda a: np.lib.stride_tricks.as_strided(a, writeable=False),
    # strided as well
    "reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "heads last": lambda a: np.ascontiguousarray(a.swapaxes(-2, -3)).swapaxes(-2, -3) if a.ndim > 2 else a,
}
WITH_WEIGHTS = {"linear", "layer_norm"}  # read-only where a file is mapped; Numba compiles every kernel again for such
LAID_OUT = [(name, layout) for name in KERNELS for layout in LAYOUTS]
MANY_LAID_OUT = [
    place
    for place, (name, layout) in enumerate(LAID_OUT)
    if layout in ("fortran", "strided") or (layout == "read-only" and name in WITH_WEIGHTS)
]


@pytest.mark.heavy
@every_way
@parametrize_some(("name", "layout"), LAID_OUT, keep=MANY_LAID_OUT)
def test_layouts(name, layout, threads, dtype, backend_with):
    shape = next(shape for shape in KERNELS[name][1] if min(shape) > 1)
    overwritten = KERNELS[name][3]
    for args, kwargs in cases(name, shape, dtype):
        laid_out = [
            LAYOUTS[layout](a) if isinstance(a, np.ndarray) and not (layout == "read-only" and i in overwritten) else a
            for i, a in enumerate(args)
        ]
        expected = run(Kernels(), name, args, kwargs)
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
        expected = run(Kernels(), name, args, kwargs)
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
    assert_close(run(CpuKernels(), name, args, {}), run(Kernels(), name, args, {}), np.float64)


# ---- Memory ----


@pytest.mark.parametrize("kernels", ["numpy", "numba"], indirect=True)
@pytest.mark.parametrize("threads", [None, 2])
def test_attention_joins_its_heads_without_a_copy(threads, backend_with):
    """What the docstring of `heads_last_empty` promises, for the result and for all three gradients."""
    backend = backend_with(threads)
    (args, _), *_ = cases("attention", (2, 3, 4, 5), np.float32)
    (backward, _), *_ = cases("attention_backward", (2, 3, 4, 5), np.float32)
    for y in (backend.attention(*args)[0], *backend.attention_backward(*backward)):
        b, h, t, width = y.shape
        assert np.shares_memory(y, y.swapaxes(1, 2).reshape(b, t, h * width))


@pytest.mark.parametrize("kernels", ["numpy", "numba"], indirect=True)
@pytest.mark.parametrize("threads", [None, 2])
def test_gradients_of_attention_in_memory_that_is_given(threads, backend_with):
    """Between the columns of other arrays, as the gradients of projections that are one product."""
    backend = backend_with(threads)
    for args, _ in cases("attention_backward", (2, 3, 4, 5), np.float32):
        expected = backend.attention_backward(*args)
        rows = [np.full((2, 9, 3 * g.shape[-1]), np.nan, np.float32) for g in expected]  # [B, T, H · K]
        places = [
            a[:, : g.shape[2]].reshape(2, g.shape[2], 3, -1).swapaxes(1, 2) for a, g in zip(rows, expected, strict=True)
        ]
        for given in (places, [places[0], None, places[2]]):
            found = backend.attention_backward(*args, given)
            for place, one, other in zip(given, found, expected, strict=True):
                assert one is place or place is None
                np.testing.assert_array_equal(one, other)
        for a, g in zip(rows, expected, strict=True):
            assert np.isnan(a[:, g.shape[2] :]).all()
        odd = backend.attention_backward(*args, [place[..., :1] for place in places])  # not of the gradients' shapes
        for one, other in zip(odd, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_arrays_side_by_side_are_stacked_without_a_copy():
    backend = CpuKernels()
    apart = [np.ones((2, 3), np.float32), np.zeros((4, 3), np.float32)]
    together = backend.side_by_side(apart)
    for arrays in (apart, together):
        np.testing.assert_array_equal(backend.stacked(arrays), np.concatenate(apart))
    assert backend.are_side_by_side(together)
    stacked = backend.stacked(together)
    together[1][0, 0] = 7
    assert stacked[2, 0] == 7
    assert stacked.flags.c_contiguous
    for a in together:
        a.flags.writeable = False  # as weights are that are mapped from a file
    read_only = backend.stacked(together)
    np.testing.assert_array_equal(read_only, stacked)
    assert np.shares_memory(read_only, stacked)


def test_what_does_not_lie_side_by_side_is_copied():
    backend = CpuKernels()
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
