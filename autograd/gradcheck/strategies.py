"""Hypothesis strategies for inputs of ops: shapes, and arrays in any memory layout.

    @given(arrays(shapes(min_ndim=1), away_from=(0,)))
    def test_my_op(x):
        gradcheck(my_op, x)

Hypothesis chooses shapes, memory layouts and a seed, and simplifies them if a test fails.  The numbers come from
NumPy's generator with that seed, which is about a hundred times as fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.gradcheck import draw

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError("autograd.testing.strategies needs Hypothesis: pip install hypothesis") from error

Array = np.ndarray
Shape = tuple[int, ...]
Shapes = Shape | st.SearchStrategy[Shape]


def shapes(min_ndim: int = 0, max_ndim: int = 3, min_side: int = 0, max_side: int = 4) -> st.SearchStrategy[Shape]:
    """Shapes, by default also empty ones and ()."""
    return st.lists(st.integers(min_side, max_side), min_size=min_ndim, max_size=max_ndim).map(tuple)


def rngs() -> st.SearchStrategy[np.random.Generator]:
    """NumPy generators; a failing test prints their seed."""
    return st.integers(0, 2**32 - 1).map(_SeededGenerator)


class _SeededGenerator(np.random.Generator):
    """A generator whose repr shows its seed."""

    def __init__(self, seed: int):
        super().__init__(np.random.PCG64(seed))
        self.seed = seed

    def __repr__(self) -> str:
        return f"np.random.default_rng({self.seed})"


def _shape(draw_from: st.DrawFn, given: Shapes | None) -> Shape:
    return given if isinstance(given, tuple) else draw_from(shapes() if given is None else given)


@st.composite
def arrays(
    draw_from: st.DrawFn,
    shape: Shapes | None = None,
    *,
    low: float = -2.0,
    high: float = 2.0,
    away_from: Sequence[float] = (),
    distinct: bool = False,
    any_layout: bool = True,
    negative_strides: bool = True,
    read_only: bool = True,
) -> Array:
    """float64 arrays of numbers between `low` and `high`, in any memory layout.

    any_layout: False for arrays in C order only
    negative_strides: False for functions that refuse arrays with negative strides, as PyTorch does
    read_only: False for functions that refuse arrays that are read-only
    away_from: points, such as kinks of the function, from which all numbers are at least 0.05 away; a number that is
        nearer is moved to between 0.05 and 0.1 away, even if that is not between `low` and `high`
    distinct: True for numbers around 0 that are at least 0.05 apart (`low` and `high` are ignored), for functions that
        compare their inputs

    Raises: ValueError for points of away_from that differ by 0.2 or less
    """
    if any(0 < abs(one - other) <= 4 * draw.GAP for one in away_from for other in away_from):
        raise ValueError(f"away_from={away_from}: points must be more than {4 * draw.GAP} apart")
    shape, rng = _shape(draw_from, shape), draw_from(rngs())
    x = draw.distinct(rng, shape)[0] if distinct else draw.away_from(rng, shape, away_from, low, high)
    x = np.array(x, order="C")
    if not any_layout:
        return x
    return draw_from(layouts(x, negative_strides=negative_strides, read_only=read_only))


@st.composite
def layouts(draw_from: st.DrawFn, array: Array, *, negative_strides: bool = True, read_only: bool = True) -> Array:
    """Return the array in other memory layouts: by columns, reversed, with gaps, within a larger array, read-only.

    negative_strides, read_only: False to leave these out
    """
    if not draw_from(st.booleans()):
        return array
    order = draw_from(st.permutations(range(array.ndim)))
    steps = [draw_from(st.sampled_from([1, 2, -1, -2] if negative_strides else [1, 2])) for _ in range(array.ndim)]
    margin, gap = draw_from(st.integers(0, 1)), np.nan if array.dtype.kind in "fc" else 0
    inside: tuple[Any, ...] = (*[slice(margin, margin + n) for n in array.shape], ...)
    view = draw.arrange(np.pad(array, margin, constant_values=gap), order, steps)[inside]
    view.flags.writeable = not read_only or draw_from(st.booleans())
    return view
