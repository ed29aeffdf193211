"""Sums over the buffers of several ranks in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = Any

BLOCK_BYTES = 256 * 1024  # stays in the level-2 cache while one buffer after the other is added to it


def to_bfloat16(x: Array, xp: Any = np) -> Array:
    """Round float32 to bfloat16, to nearest, ties to even; NaN stays NaN.

    Shapes: float32 [n] -> uint16 [n], the bits of bfloat16
    """
    bits = x.view(xp.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return xp.where(xp.isnan(x), (bits >> 16) | 0x0040, rounded).astype(xp.uint16)


def from_bfloat16(bits: Array, xp: Any = np) -> Array:
    """Convert bfloat16 to float32, exactly.  Shapes: uint16 [n], the bits of bfloat16 -> float32 [n]"""
    return (bits.astype(xp.uint32) << 16).view(xp.float32)


def chunk_of(part: slice, rank: int, size: int) -> slice:
    """Split `part` into `size` contiguous chunks of nearly equal length; return the chunk of `rank`."""
    length = part.stop - part.start
    return slice(part.start + length * rank // size, part.start + length * (rank + 1) // size)


def sum_rows(rows: Sequence[Array], part: slice, into: Sequence[Array]) -> None:
    """into[i][part] = rows[0][part] + rows[1][part] + … for each i, in this order, so the rounding never depends on i.

    uint16 rows are bfloat16: their sum is computed in float32 and rounded once.
    """
    block_length = BLOCK_BYTES // rows[0].itemsize
    for start in range(part.start, part.stop, block_length):
        block = slice(start, min(start + block_length, part.stop))
        if rows[0].dtype == np.uint16:
            total = from_bfloat16(rows[0][block])
            for row in rows[1:]:
                total += from_bfloat16(row[block])
            total = to_bfloat16(total)
        else:
            total = rows[0][block].copy()
            for row in rows[1:]:
                total += row[block]
        for row in into:
            row[block] = total
