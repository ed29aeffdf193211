"""Every fused kernel in plain array code: runs on NumPy and on CuPy, and defines what is right."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


class Backend:
    """One device's way to compute.  `xp` is its array module."""

    xp: Any = np

    def asarray(self, a: Any) -> Array:
        """`a` as an array of this backend: 0-d arrays from scalars, arrays as they are."""
        return self.xp.asarray(a)
