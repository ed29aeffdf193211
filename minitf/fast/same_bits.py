"""Results that do not depend on which sentences are decoded together: products of shapes that give equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd.backend import backend_of
from minitf.config.model import PAD

Array = Any

TRIED = 8
"""Rows that are tried with each weight, to find products in which equal rows have equal results: few may differ."""
WIDTH_STEP = 8
"""The number to a multiple of which `same_bits` pads sources; those of one width are computed alike."""


def padded_width(length: int) -> int:
    """Return the width to which a source of `length` tokens is padded."""
    return -(-length // WIDTH_STEP) * WIDTH_STEP


def padded(source: Array) -> Array:
    """Return the source in its padded width.  Shapes: int [B, S] -> [B, padded_width(S)]"""
    b, s = source.shape
    wide = backend_of([source]).xp.full((b, padded_width(s)), PAD, source.dtype)
    wide[:, :s] = source
    return wide


def rows_computed_alike(decoder: Any) -> int:
    """Rows of a product with which equal rows give equal results, as tried with all weights; one always does.

    decoder: an `InferenceTransformer`, whose `rows_at_a_time` is changed
    """
    rng = np.random.default_rng(0)
    backend = decoder.backend
    for rows in backend.rows_alike:
        decoder.rows_at_a_time = rows
        results = []
        for weights in (each for each in decoder.weights.values() for _ in range(TRIED)):
            x = rng.standard_normal((1, len(weights.w))).astype(decoder.dtype).repeat(rows, 0)
            results.append(backend.to_host(decoder._product(backend.asarray(x), weights)))
        if all((y == y[:1]).all() for y in results):
            return int(rows)
    return 1
