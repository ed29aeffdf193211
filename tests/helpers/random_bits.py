"""Masks and random bits of `autograd.random` as arrays."""

from __future__ import annotations

import math

import numpy as np

from autograd import random


def keep_mask(shape: tuple[int, ...], p: float) -> tuple[np.ndarray, float]:
    """The next mask, and its factor 1 / P(keep).  Shapes: -> bool `shape`"""
    mask = random.next_mask(shape, p)
    return mask.array(), mask.scale


def bits(seed: int, step: int, site: int, shape: tuple[int, ...], first_row: int = 0) -> np.ndarray:
    """The 16 random bits of every element of rows `first_row`, … of an array.  Shapes: -> uint16 `shape`"""
    start = first_row * math.prod(shape[1:])
    return random._elements(seed, step, site, start, math.prod(shape)).reshape(shape)
