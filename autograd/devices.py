"""Devices by name, how many GPUs there are, and what goes to one by itself."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.backend import CPU, Backend, gpu_backend
from autograd.gpu_check import fault_of_gpu


def get_backend(device: str = "cpu") -> Backend:
    """The backend of a device name: "cpu", "cuda" (the first GPU) or "cuda:N", which becomes this thread's device.

    Raises: ValueError for a device that this installation cannot use.
    """
    if device == "cpu":
        return CPU
    match = re.fullmatch(r"cuda(?::(\d+))?", device)
    if match is None:
        raise ValueError(f"device {device!r} is not one of 'cpu', 'cuda', 'cuda:0', 'cuda:1', …")
    index = int(match[1] or 0)
    try:
        fault = fault_of_gpu(index)
        if fault is None:
            sys.modules["cupy"].cuda.Device(index).use()
            return gpu_backend(index)
    except (ImportError, RuntimeError) as error:
        fault = f"cannot be used: {type(error).__name__}: {error}"
    raise ValueError(f"device {device!r} {fault}")


def device_count() -> int:
    """The number of GPUs; 0 without CuPy or a driver."""
    try:
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount())  # makes no context on any of them
    except (ImportError, RuntimeError):
        return 0


def on_device(backend: Backend, inputs: Sequence[Any], arrays: list[Any]) -> list[Any]:
    """Copy NumPy arrays that are used together with GPU arrays to the GPU, as constants.

    Raises: ValueError if one of them requires a gradient, which would be on another device than the Tensor.
    """
    for x, a in zip(inputs, arrays, strict=True):
        if getattr(x, "requires_grad", False) and isinstance(a, np.ndarray):
            raise ValueError(
                "a Tensor that requires a gradient is on the CPU and another input on a GPU; move it first: "
                "x.to(device), or model.to(device)"
            )
    return [backend.asarray(a) if isinstance(a, np.ndarray) else a for a in arrays]
