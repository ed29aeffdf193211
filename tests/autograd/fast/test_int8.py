"""Products with weights in 8 bits: exact integers, the same bits by NumPy and by the processor's instruction."""

import os
import platform
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from autograd.fast import cpu_kernels, set_kernels, set_threads
from autograd.fast.int8 import LARGEST, ROWS, Int8Weights, quantise, quantise_inputs

f4 = np.float32
SHAPES = [(1, 512, 200), (5, 130, 65), (9, 2100, 1030), (4, 1, 1), (3, 2100, 1030), (7, 3, 128)]  # rows, in, out


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(f4)


def weights_of(inputs, outputs):
    spread = np.logspace(-3, 3, outputs).astype(f4)[:, None]  # each row has its factor
    return Int8Weights.of(normal(outputs, inputs, seed=1) * spread, normal(outputs, seed=2))


def cases():
    """Rows and weights of every shape, some of them `LARGE`, and with elements whose products are the largest."""
    for rows, inputs, outputs in SHAPES:
        yield normal(rows, inputs), weights_of(inputs, outputs)
    ends = np.where(normal(6, 5000) > 0, f4(1), f4(-1))
    yield ends, Int8Weights.of(np.concatenate([ends, -ends, np.ones_like(ends)]))


def by_definition(x, weights, relu):
    """The sums in integers of 64 bits."""
    q, factors = quantise_inputs(x)
    integers = q[:, : x.shape[1]].astype(np.int64) - 128
    total = integers @ weights.numbers(np.arange(weights.shape[0])).astype(np.int64).T
    out = weights.shape[0]
    y = total.astype(f4) * (factors[:, None] * weights.factors[:out]) + weights.bias[:out]
    return np.maximum(y, 0) if relu else y


def check_kernels(kernels):
    """They give the numbers of the definition, to the bit, and those of each row alone."""
    for (x, weights), relu in product(cases(), (False, True)):
        found = kernels.linear_packed(x, weights, relu)
        np.testing.assert_array_equal(found, by_definition(x, weights, relu))
        for i, row in enumerate(found):
            np.testing.assert_array_equal(kernels.linear_packed(x[i : i + 1], weights, relu)[0], row)
    empty = kernels.linear_packed(np.empty((0, 7), f4), weights_of(7, 3))
    assert empty.shape == (0, 3)
    x = normal(4, 30)
    x[0], x[1, 3], x[2, 5] = 0, np.inf, np.nan
    weights = weights_of(30, 70)
    found = kernels.linear_packed(x, weights)
    np.testing.assert_array_equal(found[0], weights.bias[:70])
    assert np.isnan(found[1:3]).all()
    np.testing.assert_array_equal(found[3:], by_definition(x[3:], weights, relu=False))
    tiny = np.full((1, 30), 1e-38, f4)  # whose reciprocals are infinite
    np.testing.assert_array_equal(kernels.linear_packed(tiny, weights)[0], weights.bias[:70])


@pytest.mark.parametrize("rows", [20, ROWS + 1])
def test_a_row_is_the_nearest_multiple_of_a_factor(rows):
    matrix = normal(rows, 50) * np.logspace(-6, 6, rows).astype(f4)[:, None]
    integers, factors = quantise(matrix)
    assert (np.abs(integers).max(axis=1) == LARGEST).all()
    multiples = integers * factors[:, None]
    assert (np.abs(multiples - matrix) <= 0.5001 * factors[:, None]).all()
    np.testing.assert_array_equal(multiples.astype(np.float64), integers.astype(np.float64) * factors[:, None])


def test_what_is_quantised_stays_when_it_is_quantised_again():
    integers, factors = quantise(normal(300, 40))
    again = quantise(integers * factors[:, None])
    np.testing.assert_array_equal(again[0], integers)
    np.testing.assert_array_equal(again[1], factors)


def test_rows_of_zeros_and_of_no_numbers():
    matrix = normal(4, 6)
    matrix[0], matrix[1, 2], matrix[2, 3] = 0, np.nan, -np.inf
    rows = Int8Weights.of(matrix).rows(np.arange(4))
    assert (rows[0] == 0).all()
    assert np.isnan(rows[1:3]).all()
    assert np.isfinite(rows[3]).all()


def test_numpy_gives_the_exact_sums():
    check_kernels(cpu_kernels())


@pytest.mark.heavy
def test_compiled_products_give_the_same_bits():
    pytest.importorskip("numba", reason="needs Numba")
    x, weights = normal(40, 500), weights_of(500, 1000)
    expected = cpu_kernels().linear_packed(x, weights)
    set_kernels("numba")
    check_kernels(cpu_kernels())
    set_threads(2)
    np.testing.assert_array_equal(cpu_kernels().linear_packed(x, weights), expected)


PROCESSORS = {  # features beside those of the name, and the instruction with the vectors that products are then made of
    "x86-64": ("", "pmaddwd xmm"),
    "haswell": ("+avx2,+fma", "vpmaddubsw ymm"),
    "skylake-avx512": ("+avx2,+fma,+avx512f,+avx512bw", "vpmaddwd zmm"),
    "alderlake": ("+avx2,+fma,+avxvnni", "vpdpbusd ymm"),
    "cascadelake": ("+avx2,+fma,+avx512f,+avx512bw,+avx512vnni", "vpdpbusd zmm"),
}


@pytest.mark.slow  # another processor's code is compiled
@pytest.mark.parametrize("name", PROCESSORS)
def test_every_processor_gives_the_same_bits_by_its_instruction(name, tmp_path):
    pytest.importorskip("numba", reason="needs Numba")
    from numba.core.codegen import get_host_cpu_features

    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("needs a processor of x86-64")
    features, expected = PROCESSORS[name]
    has_all = {*features.split(",")} <= {"", *get_host_cpu_features().split(",")}
    program = f"""
import re
import numpy as np
import pytest
from autograd.fast import cpu_kernels, set_kernels
from autograd.fast.compiled_int8 import linear_int8
from tests.autograd.fast.test_int8 import check_kernels
if {has_all}:
    set_kernels("numba")
    check_kernels(cpu_kernels())
else:  # compiled is what cannot be executed
    linear_int8.compile("void({{0}}, i8, i8, {{1}}, {{2}}, {{2}}, {{1}}, {{1}}, b1, i8, i8, f4[:,::1], i8)".format(
        "i4[:,::1]", "f4[::1]", "i4[::1]"))
code = " ".join(linear_int8.inspect_asm().values())
found = {{" ".join(each) for each in re.findall("(v?pmaddwd|vpmaddubsw|vpdpbusd)[^\\n]*%([xyz]mm)", code)}}
assert {expected!r} in found and len(found) == 1 + ("vpmaddubsw ymm" in found), found
"""
    target = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=os.environ | target, check=True)
