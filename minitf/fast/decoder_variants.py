"""Parts of `InferenceTransformer` for the layers of Table 1 in place of self-attention, and for weights to show."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd import Tensor, no_grad
from autograd.backend import Backend, backend_of
from minitf.model.mixing import Mixing

Array = Any


def mixed(
    x: Array, layer: Mixing, shape: tuple[int, int], mask: Array | None, backend: Backend, one_by_one: bool
) -> Array:
    """Another layer of Table 1 in place of self-attention.

    one_by_one: compute each sentence by itself, since a product of the layer takes in all sentences given

    Shapes: x [≥ B · S, D], mask bool [B, 1, 1, S] -> [B · S, D]
    """
    b, s = shape
    rows = x[: b * s].reshape(b, s, -1)
    whole = backend.xp.ones((b, 1, 1, s), bool) if mask is None else mask
    with no_grad():
        if one_by_one:
            y = backend.xp.concatenate([layer(Tensor(rows[i : i + 1]), whole[i : i + 1]).data for i in range(b)])
        else:
            y = layer(Tensor(rows), whole).data
    return y.reshape(b * s, -1)


def showing_weights(q: Array, k: Array) -> tuple[Array, Array, Array]:
    """Return queries, keys and values of which attention makes its own weights: each value is a row of the identity.

    Shapes: q [B, H, n, K], k [B, H, S, K] -> the same, and [B, H, S, S]
    """
    q, k = [a.astype(np.float32) if a.dtype.name == "bfloat16" else a for a in (q, k)]
    xp = backend_of([k]).xp
    unit = xp.eye(k.shape[2], dtype=k.dtype)
    return q, k, xp.broadcast_to(unit, (*k.shape[:2], *unit.shape))
