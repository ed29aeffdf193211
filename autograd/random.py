"""Counter-based random numbers: a dropout mask is a function of (seed, step, site, position) and of nothing else.

The generator is Philox4x64-10 (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3").  It has no state to
advance, only a key and a counter, so any device can draw the same mask and a resumed run continues with the masks that
it would have had.  The key is (seed, site); the counter is (block, step, 0, 0), where block counts from 1 in steps of
four 64-bit words.  Each element takes 16 bits, in little-endian order: probabilities are multiples of 1/65536.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

LEVELS = 65536  # 16 bits an element


class _Stream(threading.local):
    """Where this thread's draws stand."""

    seed = 0
    step = 0
    site = 0


_stream = _Stream()


def manual_seed(seed: int) -> None:
    """Start over from `seed` (0 to 2⁶⁴ - 1), at step 0."""
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed={seed} is outside 0 … 2**64 - 1; choose a non-negative integer")
    set_state((seed, 0, 0))


def begin_step(step: int) -> None:
    """Number the draws that follow from site 0 of `step`: what one step draws never depends on another."""
    _stream.step, _stream.site = step, 0


def get_state() -> tuple[int, int, int]:
    """(seed, step, site): all that there is to save."""
    return _stream.seed, _stream.step, _stream.site


def set_state(state: tuple[int, int, int]) -> None:
    """Continue from what `get_state` returned."""
    _stream.seed, _stream.step, _stream.site = state


def threshold(p: float) -> int:
    """The 16-bit level below which an element is dropped: P(drop) = threshold / 65536, never all of them.

    Raises: ValueError for a probability outside [0, 1).
    """
    if not 0 <= p < 1:
        raise ValueError(f"dropout probability {p} is outside [0, 1)")
    return min(round(p * LEVELS), LEVELS - 1)  # what is kept is scaled by 1 / P(keep)


def keep_mask(shape: tuple[int, ...], p: float) -> tuple[np.ndarray, float]:
    """A mask that drops with probability `p`, and the factor 1 / P(keep) that preserves the mean.

    Every call takes the next site of the present step.

    Shapes: -> bool `shape`
    """
    drop_below = threshold(p)
    site, _stream.site = _stream.site, _stream.site + 1
    return bits(_stream.seed, _stream.step, site, shape) >= drop_below, LEVELS / (LEVELS - drop_below)


def bits(seed: int, step: int, site: int, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """The 16 random bits of every element.  Shapes: -> uint16 `shape`"""
    size = math.prod(shape)
    counter = np.array([0, step, 0, 0], np.uint64)
    words = np.random.Philox(key=np.array([seed, site], np.uint64), counter=counter).random_raw(-(-size // 4))
    return words.astype("<u8", copy=False).view("<u2")[:size].reshape(shape)
