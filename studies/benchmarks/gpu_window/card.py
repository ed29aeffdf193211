"""The card, the versions of what computes on it, every kernel compiled, and the self-test of each precision.

The exit status is 1 if anything is missing: also nvmath-python, without which there are no epilogues and no graphs.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import time

from common import SMALL, get_backend, put

from autograd.fast import cuda_source

PACKAGES = (
    "numpy", "ml-dtypes", "sentencepiece", "safetensors", "sacrebleu", "filelock", "threadpoolctl", "tqdm", "pytest",
    "hypothesis", "cupy-cuda13x", "nvmath-python", "nvidia-cuda-nvrtc", "nvidia-cublas", "nvidia-nccl-cu13", "torch",
)  # fmt: skip


def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def main() -> int:
    gpu = get_backend("cuda")
    properties, runtime = gpu.xp.cuda.runtime.getDeviceProperties(0), gpu.xp.cuda.runtime
    put(
        "card", name=properties["name"].decode(), capability=gpu.device.compute_capability, cores=os.cpu_count(),
        multiprocessors=properties["multiProcessorCount"], gib=round(properties["totalGlobalMem"] / 2**30, 1),
        driver=runtime.driverGetVersion(), runtime=runtime.runtimeGetVersion(), python=sys.version.split()[0],
        nccl=gpu.nccl.get_version() if gpu.nccl.available else None,
    )  # fmt: skip
    put("versions", **{package: version_of(package) for package in PACKAGES})
    put("programs", **{name: shutil.which(name) for name in ("nvcc", "g++", "compute-sanitizer", "ncu")})
    start = time.perf_counter()
    kinds = ("bf16",) if SMALL else ("bf16", "float", "double")
    gpu.compile(list(dict.fromkeys(name for kind in kinds for name in cuda_source.names(kind))))
    registers = {name: each.num_regs for name, each in gpu._functions.items()}
    spilled = {name: each.local_size_bytes for name, each in gpu._functions.items() if each.local_size_bytes}
    put("compiled", kernels=len(registers), s=round(time.perf_counter() - start, 1), stack_bytes=spilled, **registers)
    for precision in ("bf16", "float32", "tf32", "float64"):
        try:
            gpu.set_precision(precision)
            put("self-test", precision=precision, right=True)
        except ValueError as error:
            put("self-test", precision=precision, right=False, error=str(error))
            return 1
    if not gpu.uses_epilogues:
        print(
            "cuBLASLt cannot be used: without epilogues and graphs, no time means anything; pip install nvmath-python"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
