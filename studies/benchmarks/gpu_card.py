"""The card, its driver and the versions of what computes on it; exit status 1 if it cannot be used."""

from __future__ import annotations

import argparse
import importlib.metadata
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

NEEDED = (
    "numpy", "ml-dtypes", "sentencepiece", "safetensors", "sacrebleu", "threadpoolctl", "tqdm", "pytest", "hypothesis",
)  # fmt: skip
OTHERS = (
    "cupy-cuda13x", "cupy-cuda12x", "nvmath-python", "nvidia-cuda-nvrtc", "nvidia-nccl-cu13", "sacremoses", "torch",
)  # fmt: skip


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    warnings.simplefilter("always")  # a warning of CuPy's is printed and decides nothing
    print("Python", sys.version)
    for package in (*NEEDED, *OTHERS):
        print(f"{package:20}{version_of(package)}")
    for program in ("g++", "nvcc", "compute-sanitizer", "ncu", "nsys"):
        print(f"{program:20}{shutil.which(program) or 'not installed'}")
    if shutil.which("nvidia-smi"):
        subprocess.run(["nvidia-smi"], check=False)
    try:
        import cupy

        from autograd.devices import get_backend

        backend = get_backend("cuda")
        runtime, nvrtc = cupy.cuda.runtime, cupy.cuda.nvrtc
        properties = runtime.getDeviceProperties(0)
        show("card", lambda: properties["name"].decode())
        show("compute capability", lambda: backend.device.compute_capability)
        show("multiprocessors", lambda: properties["multiProcessorCount"])
        show("memory, GiB", lambda: f"{properties['totalGlobalMem'] / 2**30:.1f}")
        show("driver", runtime.driverGetVersion)
        show("runtime", runtime.runtimeGetVersion)
        show("NVRTC", nvrtc.getVersion)
        show("NCCL", lambda: backend.nccl.get_version() if backend.nccl.available else "not found")
        show("cuBLASLt", lambda: "used" if backend.uses_epilogues else "not used: nvmath-python is not installed")
        backend.set_precision("bf16")
        y = backend.product(backend.asarray(FOUR).astype("bfloat16"), backend.asarray(FOUR).astype("bfloat16"))
        if y.get().astype(float).tolist() != [[4.0] * 4] * 4:
            raise RuntimeError(f"a bf16 product of ones is {y.get().tolist()}")
    except Exception as error:  # whatever it is, it is why no other part can run
        print(f"no GPU can be used: {type(error).__name__}: {error}")
        return 1
    print("a bf16 product of ones is right")
    missing = [package for package in NEEDED if version_of(package) == NOT_INSTALLED]
    if missing:
        print(f"other parts need packages that are not installed: {', '.join(missing)}")
    return 1 if missing else 0


FOUR = [[1.0] * 4] * 4
NOT_INSTALLED = "not installed"


def version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return NOT_INSTALLED


def show(name: str, value: Callable[[], Any]) -> None:
    """Print a property; one that cannot be read does not hide the others."""
    try:
        print(f"{name:20}{value()}")
    except Exception as error:
        print(f"{name:20}unknown ({type(error).__name__}: {error})")


if __name__ == "__main__":
    sys.exit(main())
