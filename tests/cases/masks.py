"""Dropout in a case: the same masks at every call, and its plain composition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograd import random
from tests.cases import draw
from tests.helpers.random_bits import keep_mask


def same_masks(rng: draw.Rng, *functions: Callable) -> list[Callable]:
    """The functions, each of which draws the masks of one and the same state of `autograd.random` at every call."""
    state = int(rng.integers(2**32)), int(rng.integers(100)), int(rng.integers(10))

    def fixed(function: Callable) -> Callable:
        def call(*tensors: Any) -> Any:
            random.set_state(state)
            return function(*tensors)

        return call

    return [fixed(function) for function in functions]


def plain_dropout(x: Any, p: float) -> Any:
    """Dropout as a product; x itself for p = 0."""
    if not p:
        return x
    keep, scale = keep_mask(x.shape, p)
    return x * (keep * scale)
