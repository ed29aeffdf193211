"""Copies of weights in lower precision, which the products of mixed precision read.

An optimizer that changes a weight writes the copy in the same pass.  A copy belongs to an array; what changes the array
through a Tensor makes the copy out of date, writing into `Tensor.data` does not.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from autograd import safety
from autograd.fast.table import kernels_of

Array = Any

_copies: dict[int, tuple[weakref.ref, Array, int]] = {}  # by id of the array: the array, its copy, the time of the copy


def keep(array: Array, copy: Array, *, is_current: bool = True) -> None:
    """Keep a copy of an array: the one to use, or memory for the next one."""
    key = id(array)

    def forget(gone: weakref.ref) -> None:
        if key in _copies and _copies[key][0] is gone:
            del _copies[key]

    _copies[key] = weakref.ref(array, forget), copy, safety.now() if is_current else -1


def last(array: Array) -> Array | None:
    """Return the copy that was last kept, perhaps out of date: memory for the next one."""
    known = _copies.get(id(array))
    return known[1] if known is not None and known[0]() is array else None


def current(array: Array) -> Array | None:
    """Return the copy that is up to date, if there is one."""
    copy = last(array)
    return copy if copy is not None and safety.last_change(array) <= _copies[id(array)][2] else None


def copy_of(array: Array, dtype: Any) -> Array:
    """Return the array as `dtype`: the copy that is up to date, or a new one.

    A new one is not used again: after `w.data -= g`, which counts no change, it would be out of date.
    """
    copy = current(array)
    if copy is None or copy.dtype != dtype:
        copy = array.astype(dtype)
        keep(array, copy, is_current=False)
    return copy


def for_product(x: Array, weight: Array) -> Array:
    """Return the weight in the precision of x, if x is bfloat16 and the weight is not."""
    return weight if weight.dtype == x.dtype or x.dtype.name != "bfloat16" else copy_of(weight, x.dtype)


def for_products(x: Array, weights: Sequence[Array]) -> Sequence[Array]:
    """`for_product` of several weights; new copies lie side by side in memory."""
    if x.dtype.name != "bfloat16" or all(weight.dtype == x.dtype for weight in weights):
        return weights
    copies = [current(weight) for weight in weights]
    if any(copy is None for copy in copies):
        copies = kernels_of([x]).side_by_side([copy_of(weight, x.dtype) for weight in weights])
        for weight, copy in zip(weights, copies, strict=True):
            keep(weight, copy, is_current=False)
    return copies
