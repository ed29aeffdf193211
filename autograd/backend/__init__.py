"""How arrays compute.  Everything that depends on the device lives in this package and nowhere else.

`Backend` (reference.py) defines every fused kernel in plain array code, for NumPy and CuPy alike; `CpuBackend`
(cpu.py) overrides what pays on a CPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from autograd.backend.cpu import CpuBackend
from autograd.backend.reference import Backend

__all__ = ["Backend", "CpuBackend", "as_operand", "backend_of", "get_backend", "silent"]

CPU = CpuBackend()


def backend_of(arrays: Iterable[Any]) -> Backend:
    """The backend that owns these arrays; Python scalars belong to any."""
    return CPU


def get_backend(device: str = "cpu") -> Backend:
    """The backend of a device name.

    Raises: ValueError for a device that this installation cannot use.
    """
    if device == "cpu":
        return CPU
    raise ValueError(f"device {device!r} is not available; this version computes on 'cpu'")


def as_operand(x: Any) -> Any:
    """What an op sees of an argument that is no Tensor: arrays as they are, lists as arrays, scalars as Python scalars.

    NumPy's own scalars have a dtype that wins over an array's (`float32_array * np.float64(2)` is float64); as Python
    numbers they follow the array they meet.
    """
    if isinstance(x, np.generic):
        return x.item()
    return np.asarray(x) if isinstance(x, (list, tuple)) else x


def silent() -> np.errstate:
    """Context manager and decorator: NumPy computes with ∞ and NaN without warnings.  CuPy never warns."""
    return np.errstate(all="ignore")
