"""Counter-based random numbers: a dropout mask is a function of (seed, step, site, position) alone.

The generator is Philox4x64-10 (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3").  It has no state to
advance, only a key and a counter, so any device can generate the same mask and a resumed run gets the masks that an
uninterrupted run would have.  The key is (seed, site); the counter is (block, step, 0, 0), where block counts from 1 in
steps of four 64-bit words.  Each element takes 16 bits, in little-endian order: probabilities are multiples of 1/65536.

An array may hold some rows (sentences) of a batch whose other rows are in other processes.  It gets its rows of the
mask of the whole batch, so that the result does not depend on how the batch is split.
"""

from __future__ import annotations

import itertools
import math
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["begin_step", "manual_seed", "next_mask"]

LEVELS = 65536  # 16 bits per element
SITES_PER_BATCH = 2**32  # more than any graph has


class _Stream(threading.local):
    """The position in the random numbers, for each thread; any but the main thread begins with a seed of its own."""

    step = 0
    site = 0
    first_row = 0

    def __init__(self) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        self.seed = 0 if is_main else int(np.random.SeedSequence(next(_threads)).generate_state(1, np.uint64)[0])


_threads = itertools.count(1)
_stream = _Stream()


def manual_seed(seed: int) -> None:
    """Set the seed of this thread (0 to 2⁶⁴ - 1) and start again at step 0."""
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed={seed} is outside 0 … 2**64 - 1; choose a non-negative integer")
    set_state((seed, 0, 0))
    set_first_row(0)


def begin_step(step: int, batch: int = 0, first_row: int = 0) -> None:
    """Start at the first site of a batch of `step`, so that its masks do not depend on any other batch.

    first_row: index of the arrays' first row in the whole batch
    """
    _stream.step, _stream.site = step, batch * SITES_PER_BATCH
    set_first_row(first_row)


def get_state() -> tuple[int, int, int]:
    """(seed, step, site): the complete state of the generator."""
    return _stream.seed, _stream.step, _stream.site


def set_state(state: tuple[int, int, int]) -> None:
    """Restore a state that `get_state` returned."""
    _stream.seed, _stream.step, _stream.site = state


def get_first_row() -> int:
    """Index of the arrays' first row in the whole batch; not part of the state, but a position in the masks."""
    return _stream.first_row


def set_first_row(row: int) -> None:
    """Treat the arrays that follow as rows `row`, `row` + 1, … of the whole batch."""
    if row < 0:
        raise ValueError(f"first_row={row} is negative; rows count from 0")
    _stream.first_row = row


def threshold(p: float) -> int:
    """The 16-bit number below which an element is dropped: P(drop) = threshold / 65536, less than 1.

    Raises: ValueError for a probability outside [0, 1).
    """
    if not 0 <= p < 1:
        raise ValueError(f"dropout probability {p} is outside [0, 1)")
    return min(round(p * LEVELS), LEVELS - 1)  # kept elements are scaled by 1 / P(keep)


@dataclass(frozen=True)
class Mask:
    """The parameters of a dropout mask, from which any device can compute its elements."""

    seed: int
    step: int
    site: int
    shape: tuple[int, ...]
    first_row: int
    drop_below: int

    @property
    def scale(self) -> float:
        """1 / P(keep), the factor for kept elements that preserves the mean."""
        return LEVELS / (LEVELS - self.drop_below)

    @property
    def first(self) -> int:
        """Index of the first element in the flattened mask of the whole batch."""
        return self.first_row * math.prod(self.shape[1:])

    def array(self) -> np.ndarray:
        """True where an element is kept.  Shapes: -> bool `shape`"""
        return self.elements(0, math.prod(self.shape)).reshape(self.shape)

    def elements(self, start: int, stop: int) -> np.ndarray:
        """Some elements of the flattened mask: True where kept.  Shapes: -> bool [stop - start]"""
        found = _elements(self.seed, self.step, self.site, self.first + start, stop - start)
        return found >= self.drop_below


def next_mask(shape: tuple[int, ...], p: float) -> Mask:
    """The mask of the next site, which drops each element with probability `p`: its rows from `first_row` on."""
    drop_below = threshold(p)
    site, _stream.site = _stream.site, _stream.site + 1
    return Mask(_stream.seed, _stream.step, site, tuple(shape), _stream.first_row, drop_below)


def _elements(seed: int, step: int, site: int, start: int, size: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """The random bits of the elements `start`, … of a flattened array.  Shapes: -> uint16 [size]"""
    block, skipped = divmod(start, 16)  # a block of four words has 16 elements
    counter = np.array([block, step, 0, 0], np.uint64)
    philox = np.random.Philox(key=np.array([seed, site], np.uint64), counter=counter)
    count = -(-(skipped + size) // 4)
    # the generator's own words, as of `philox.random_raw`, which keeps the interpreter lock meanwhile
    words = np.random.Generator(philox).integers(0, 2**64 - 1, count, np.uint64, endpoint=True)
    return words.astype("<u8", copy=False).view("<u2")[skipped : skipped + size]
