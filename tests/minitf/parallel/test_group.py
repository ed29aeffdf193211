"""Sums over buffers, and bfloat16."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitf.parallel.group import chunk_of, from_bfloat16, sum_rows, to_bfloat16


@given(st.lists(st.floats(width=32), min_size=1, max_size=30))
def test_bfloat16_is_the_nearest_number_with_8_bits(values):
    for x in map(np.float32, values):
        found = to_bfloat16(np.array([x], np.float32))[0]
        below = int(x.view(np.uint32)) >> 16  # towards zero; the next one has one more
        if np.isnan(x):
            assert np.isnan(from_bfloat16(np.array([found], np.uint16))[0])
            continue
        if below & 0x7FFF >= 0x7F7F:  # the largest finite one, or ∞
            continue
        low, high = (abs(Fraction(float(np.uint32(bits << 16).view(np.float32)))) for bits in (below, below + 1))
        exact, middle = abs(Fraction(float(x))), (low + high) / 2
        assert found == below + (exact > middle or (exact == middle and below % 2 == 1))


def test_bfloat16_rounds_ties_to_even():
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8], np.float32)
    assert from_bfloat16(to_bfloat16(x)).tolist() == [1.0, 1 + 2 * 2**-7, -1.0]


@given(length=st.integers(0, 100), size=st.integers(1, 20), start=st.integers(0, 9))
def test_chunk_ofs_cover_a_part(length, size, start):
    parts = [chunk_of(slice(start, start + length), rank, size) for rank in range(size)]
    assert parts[0].start == start
    assert parts[-1].stop == start + length
    assert all(a.stop == b.start for a, b in pairwise(parts))
    assert max(p.stop - p.start for p in parts) - min(p.stop - p.start for p in parts) <= 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_are_in_the_order_of_ranks(dtype):
    rng = np.random.default_rng(0)
    rows = [(rng.standard_normal(200_000) * 10.0**rank).astype(dtype) for rank in range(4)]
    before = [row.copy() for row in rows]
    sum_rows(rows, slice(5, 199_990), into=rows)
    expected = ((before[0] + before[1]) + before[2]) + before[3]
    for row, old in zip(rows, before, strict=True):
        assert row[5:199_990].tobytes() == expected[5:199_990].tobytes()
        assert (row[:5] == old[:5]).all()
        assert (row[199_990:] == old[199_990:]).all()


def test_sums_of_bfloat16_are_rounded_once():
    """1 + 2⁻⁹ + 2⁻⁹ + … is lost if every sum is rounded."""
    rows = [to_bfloat16(np.array([1.0 if rank == 0 else 2**-9], np.float32)) for rank in range(9)]
    sum_rows(rows, slice(0, 1), into=rows)
    assert from_bfloat16(rows[3]).tolist() == [1 + 2 * 2**-7]
