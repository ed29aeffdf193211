"""The most probable tokens of each row, by a kernel that does not sort whole rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd.fast import kernels_of
from minitf.decoding import candidates

Array = Any


def top_tokens(logits: Array, barred: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`candidates.top_tokens`, without sorting whole rows."""
    kernels = kernels_of([logits])
    return kernels.top_tokens(logits, kernels.asarray(barred), count)


def accelerate_search() -> None:
    """Find the most probable tokens with kernels from now on."""
    candidates.top_tokens = top_tokens
