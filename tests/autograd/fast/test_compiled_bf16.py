"""Products of factors that are rounded to bfloat16, by the processor's instruction, are those of the definition."""

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs Numba")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml-dtypes, to round as it does")

from autograd.fast import compiled_bf16  # noqa: E402
from autograd.fast.compiled import CompiledKernels  # noqa: E402
from autograd.fast.compiled_bf16 import IS_AVAILABLE  # noqa: E402

f4 = np.float32
SHAPES = [(1, 1, 1), (3, 5, 7), (8, 2, 32), (33, 64, 40), (70, 31, 97), (260, 1030, 300), (9, 2050, 33)]  # M, K, N

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not IS_AVAILABLE, reason="needs a processor with AVX-512 BF16"),
]


@pytest.fixture(scope="module")
def kernels():
    kernels = CompiledKernels()
    kernels.set_precision("bf16")
    return kernels


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(f4)


def rounded(x):
    return x.astype(ml_dtypes.bfloat16).astype(np.float64)


def layouts(x):
    """The matrix in rows, in columns, and with gaps."""
    wide = np.zeros((x.shape[0], 2 * x.shape[1]), f4)
    wide[:, ::2] = x
    return x, np.asfortranarray(x), wide[:, ::2]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_product_is_that_of_rounded_factors(kernels, shape):
    m, inner, n = shape
    a, b, bias, total = normal(m, inner), normal(inner, n, seed=1), normal(n, seed=2), normal(m, n, seed=3)
    expected, terms = rounded(a) @ rounded(b), np.abs(rounded(a)) @ np.abs(rounded(b))
    bound = 2.0**-23 * (2 + inner / 4) * (terms + 1)  # of sums in float32, in any order, by far
    for first in layouts(a):
        for second in layouts(b):
            found = kernels.product(first, second)
            assert found.dtype == f4
            assert (np.abs(found - expected) <= bound).all()
            np.testing.assert_array_equal(found, kernels.product(a, b))  # the same bits
    for relu in (False, True):
        y = expected + bias
        assert (np.abs(kernels.linear(a, b.T, bias, relu) - (np.maximum(y, 0) if relu else y)) <= bound).all()
    np.testing.assert_array_equal(kernels.linear(a, b.T, None, True), np.maximum(kernels.product(a, b), 0))
    assert (np.abs(kernels.add_product_(total.copy(), a, b) - (expected + total)) <= bound).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_integers_are_exact(kernels, shape):
    m, inner, n = shape
    rng = np.random.default_rng(0)
    a, b, total = (rng.integers(-9, 10, each).astype(f4) for each in ((m, inner), (inner, n), (m, n)))
    np.testing.assert_array_equal(kernels.product(a, b), a @ b)
    np.testing.assert_array_equal(kernels.product(a, np.asfortranarray(b)), a @ b)
    np.testing.assert_array_equal(kernels.product(np.asfortranarray(a), b), a @ b)
    np.testing.assert_array_equal(kernels.add_product_(total.copy(), a, b), total + a @ b)


def test_factors_are_rounded_as_by_definition(kernels):
    """To the nearest, ties to even; NaN of any bits stays NaN, and what is beyond the largest bfloat16 is ∞."""
    bits = np.concatenate([
        np.arange(0x3F7F0000, 0x3F820000, 0x1000), np.arange(0x7F7E0000, 0x7F830000, 0x1000), [0x7FFFFFFF, 0x7F800001],
        np.random.default_rng(0).integers(0x00800000, 0x7F000000, 500),
    ]).astype(np.uint32)  # fmt: skip
    x = np.concatenate([bits, bits | np.uint32(0x80000000)]).view(f4)
    one = np.ones((1, 1), f4)
    with np.errstate(invalid="ignore"):  # in a cast of NaN
        expected = x.astype(ml_dtypes.bfloat16).astype(f4)
    for found in (kernels.product(x[:, None], one)[:, 0], kernels.product(one, x[None])[0]):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(kernels.linear(one, x[:, None], None)[0], expected)


def test_what_is_not_finite_stays_in_its_rows_and_columns(kernels):
    a, b = normal(20, 40), normal(40, 50)
    a[3, 7], b[5, 49] = np.nan, np.inf
    found = kernels.linear(a, np.ascontiguousarray(b.T), None, relu=True)
    assert np.isnan(found[3]).all()
    assert not np.isfinite(found[a[:, 5] > 0, 49]).any()
    np.testing.assert_array_equal(np.isfinite(np.delete(found, 3, axis=0)[:, :49]), True)


def test_threads_do_not_change_a_bit(kernels):
    threaded = CompiledKernels()
    threaded.set_threads(3)
    threaded.set_precision("bf16")
    x, w, g = normal(700, 300), normal(500, 300, seed=1), normal(700, 500, seed=2)
    for each in (
        lambda k: k.linear(x, w, w[:, 0].copy(), True),
        lambda k: k.product(g, w),
        lambda k: k.product(g.T, x),
    ):
        np.testing.assert_array_equal(each(threaded), each(kernels))
    a, b = normal(37, 2100), normal(2100, 70)
    np.testing.assert_array_equal(kernels.product(a, b)[5:14, 20:61], kernels.product(a[5:14], b[:, 20:61]))


def test_parts_that_are_packed_one_after_the_other_do_not_change_a_bit(kernels, monkeypatch):
    a, b, bias, total = normal(70, 2100), normal(2100, 100, seed=1), normal(100, seed=2), normal(70, 100, seed=3)

    def products():
        yield kernels.linear(a, b.T, bias, relu=True)
        yield kernels.linear(a, np.ascontiguousarray(b.T), bias)
        yield kernels.product(np.asfortranarray(a), b)
        yield kernels.add_product_(total.copy(), a, b)

    whole = list(products())
    monkeypatch.setattr(compiled_bf16, "INNER", 2 * compiled_bf16.PAIRS)
    monkeypatch.setattr(compiled_bf16, "PACKED_BYTES", 1)
    for found, expected in zip(products(), whole, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_other_dtypes_and_empty_matrices_are_not_rounded(kernels):
    a = normal(4, 3).astype(np.float64)
    np.testing.assert_array_equal(kernels.product(a, a.T), a @ a.T)
    assert kernels.product(np.empty((0, 3), f4), normal(3, 2)).shape == (0, 2)
    np.testing.assert_array_equal(kernels.product(np.empty((2, 0), f4), np.empty((0, 3), f4)), np.zeros((2, 3)))
