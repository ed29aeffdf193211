"""Arithmetic with the same bits on every version of Python."""

import functools
import operator
from collections.abc import Iterable


def sum_left_to_right(values: Iterable[float]) -> float:
    """Add `values` one after the other; the built-in `sum` compensates rounding errors since Python 3.12."""
    return functools.reduce(operator.add, values, 0.0)
