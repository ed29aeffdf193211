"""Exchange of arrays with PyTorch, JAX, CuPy and others, without a copy, by the DLPack protocol.

Source: the Python array API standard, "Data interchange mechanisms"
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd.devices import get_backend
from autograd.tensor import Tensor

CPU_TYPES = (1, 3)
"""DLPack's numbers of memory that a processor reads: its own, and that pinned for a GPU."""


def from_dlpack(x: Any) -> Tensor:
    """Return a Tensor of the memory of another library's array, on the same device: a change of one is one of both.

    The Tensor requires no gradient, and nothing notices that the other library has changed it. JAX's arrays cannot be
    changed; neither can the Tensor of one.

    Raises: BufferError for what the other library does not lend, such as an array that requires a gradient; TypeError
        for what is no array; RuntimeError for a dtype that NumPy lacks, such as bfloat16
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack takes another library's array, found {type(x).__name__}; write Tensor(x)")
    kind, index = x.__dlpack_device__()
    if kind in CPU_TYPES:
        return Tensor(np.from_dlpack(x))
    return Tensor(get_backend(f"cuda:{index}").xp.from_dlpack(x))


def _lend(self: Tensor, **options: Any) -> Any:
    """Lend the memory of the data to another library, which may write into it.  Raises: BufferError with a gradient"""
    if self.requires_grad:
        raise BufferError(
            "x requires a gradient, and another library would not record it; lend x.detach(), or detach() the result"
        )
    return self.data.__dlpack__(**options)


def _device(self: Tensor) -> tuple[int, int]:
    """Return DLPack's number of the kind of device, and which it is."""
    return self.data.__dlpack_device__()


Tensor.__dlpack__ = _lend  # type: ignore[assignment, method-assign]
Tensor.__dlpack_device__ = _device  # type: ignore[assignment, method-assign]
