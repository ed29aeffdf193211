"""GPUs: how many there are, why one cannot be used, and what goes to one by itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

OLDEST_GPU = 75  # compute capability 7.5, Turing: the oldest that CUDA 13 compiles for


def device_count() -> int:
    """The number of GPUs; 0 without CuPy or a driver."""
    try:
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount())  # makes no context on any of them
    except (ImportError, RuntimeError):
        return 0


def on_device(backend: Any, inputs: Sequence[Any], arrays: list[Any]) -> list[Any]:
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


# ---- Why a GPU cannot be used: CuPy, CUDA, the driver or the GPU itself ----


def fault_of_gpu(index: int) -> str | None:
    """Return why no GPU can be used, checking CuPy, CUDA, driver and GPU in this order; None if one can.

    Raises: RuntimeError for any other error that CUDA reports
    """
    try:
        import cupy
    except ModuleNotFoundError as error:
        return f"needs CuPy, which is not installed ({error}); pip install '.[gpu]' in the project's directory"
    runtime = cupy.cuda.runtime
    version, driver = runtime.runtimeGetVersion(), runtime.driverGetVersion()
    extra = "gpu" if version >= 13000 else "gpu-cuda12"
    missing = _missing_cuda_libraries()
    if missing:
        return f"needs CUDA's libraries; {', '.join(missing)} cannot be found; pip install '.[{extra}]'"
    if not driver:
        return "cannot be used: there is no NVIDIA driver (libcuda) on this computer"
    least = version // 1000
    if driver < 1000 * least:
        instead = ", or pip install '.[gpu-cuda12]' in a new environment" if least > 12 <= driver // 1000 else ""
        return (
            f"cannot be used: the NVIDIA driver is for CUDA {driver // 1000}.{driver % 1000 // 10}, and this CuPy "
            f"needs one for CUDA {least}.0 at least; install a newer driver{instead}"
        )
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return f"cannot be used: CuPy finds no NVIDIA GPU ({error})"
    if index >= count:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        shown = "" if visible is None else f", by CUDA_VISIBLE_DEVICES={visible}"
        return f"is not there: this computer has {count} GPU(s), counted from cuda:0{shown}"
    capability = int(cupy.cuda.Device(index).compute_capability)
    if capability < OLDEST_GPU:
        return (
            f"is too old: its compute capability is {capability // 10}.{capability % 10}, and "
            f"{OLDEST_GPU // 10}.{OLDEST_GPU % 10} is the least (Turing: RTX 20, T4)"
        )
    return None


def _missing_cuda_libraries() -> list[str]:
    """The libraries that every use needs and that CuPy would not find: cuBLAS, and NVRTC, which compiles kernels."""
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    except ImportError:  # CuPy was not installed from its wheel, and brings them otherwise
        return []
    missing = []
    for name in ("nvrtc", "cublasLt", "cublas"):
        try:
            load_nvidia_dynamic_lib(name)
        except DynamicLibNotFoundError:
            missing.append(name)
    return missing
