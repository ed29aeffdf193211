"""Tables of position encodings, as files hold them."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitf.convert.stored_arrays import Array
from minitf.model.transformer import sinusoids

KINDS = ("sinusoidal-halves", "sinusoidal-concatenated", "sinusoidal")


def recognised(table: Array) -> dict[str, Any]:
    """The fields of the configuration that a table stands for: sinusoids, or else learned positions."""
    length, d_model = table.shape
    rows = min(length, 256)
    tolerance = 2e-3 if table.dtype == np.float16 else 1e-4
    for kind in KINDS if d_model % 2 == 0 and d_model >= 4 else ():
        for first in (0, 1, 2):
            if np.allclose(table[:rows], sinusoids(first + rows, d_model, kind)[first:], atol=tolerance, rtol=0):
                return {"positions": kind, "first_position": first}
    return {"positions": "learned", "max_positions": length}
