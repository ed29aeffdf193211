"""Copies of weights in lower precision, which the products of mixed precision read.

A copy belongs to a leaf Tensor, as its attribute `low` (`Parameter` of minitf has one).  An optimizer that changes the
leaf writes the copy in the same pass.  What changes the leaf through a Tensor makes the copy out of date, so that it is
not read; writing into `Tensor.data` does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograd import safety

Array = Any


class LowPrecision:
    """The copy of an array, and up to which change of it the copy is up to date."""

    __slots__ = ("copy", "since", "source")

    def __init__(self, source: Array, copy: Array):
        self.source, self.copy, self.since = source, copy, -1

    def note_written(self) -> None:
        """Say that the copy now has the numbers of the array."""
        safety.note_change(self.copy)
        self.since = safety.now()

    def is_current(self, array: Array) -> bool:
        """Whether this is a copy of the array as it is."""
        return array is self.source and safety.last_change(array) <= self.since


def in_precision_of(x: Array, leaf: Any, a: Array) -> Array:
    """Return the array of a leaf in the precision of x, if x is bfloat16 and it is not.

    leaf: None where no gradient is wanted; then there is no copy to be found
    """
    if a.dtype == x.dtype or x.dtype.name != "bfloat16":
        return a
    low = getattr(leaf, "low", None)
    return low.copy if low is not None and low.is_current(a) else a.astype(x.dtype)


def all_in_precision_of(x: Array, leaves: Sequence[Any], arrays: Sequence[Array]) -> list[Array]:
    """`in_precision_of` of several arrays."""
    return [in_precision_of(x, leaf, a) for leaf, a in zip(leaves, arrays, strict=True)]
