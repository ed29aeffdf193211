"""Sums over the buffers of several processes on one host, which all of them can see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = Any

BLOCK_BYTES = 256 * 1024  # stays in the second-level cache while one buffer after the other is added to it


def to_bfloat16(x: Array, xp: Any = np) -> Array:
    """The upper halves of float32 numbers, rounded to nearest, ties to even; NaN stays NaN.

    Shapes: float32 [n] -> uint16 [n], the bits of bfloat16
    """
    bits = x.view(xp.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return xp.where(xp.isnan(x), (bits >> 16) | 0x0040, rounded).astype(xp.uint16)


def from_bfloat16(bits: Array, xp: Any = np) -> Array:
    """Shapes: uint16 [n], the bits of bfloat16 -> float32 [n], exact"""
    return (bits.astype(xp.uint32) << 16).view(xp.float32)


def own_part(part: slice, rank: int, size: int) -> slice:
    """What of a part of the buffer one of `size` processes adds up: nearly equal runs, in order."""
    length = part.stop - part.start
    return slice(part.start + length * rank // size, part.start + length * (rank + 1) // size)


def sum_rows(rows: Sequence[Array], part: slice, into: Sequence[Array]) -> None:
    """into[i][part] = rows[0][part] + rows[1][part] + … for each i, always in this order, so with the same rounding.

    Numbers in uint16 are bits of bfloat16: they are added up in float32 and rounded once.
    """
    block = BLOCK_BYTES // rows[0].itemsize
    for start in range(part.start, part.stop, block):
        some = slice(start, min(start + block, part.stop))
        if rows[0].dtype == np.uint16:
            total = from_bfloat16(rows[0][some])
            for row in rows[1:]:
                total += from_bfloat16(row[some])
            total = to_bfloat16(total)
        else:
            total = rows[0][some].copy()
            for row in rows[1:]:
                total += row[some]
        for row in into:
            row[some] = total
