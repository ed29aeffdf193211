"""Versions of software and hardware, which a run records because bits may differ between them."""

import hashlib
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

VERSION = "0.1.0"
"""Of this project; pyproject.toml reads it from here."""


def environment_facts() -> dict[str, str]:
    """Versions of this project, Python, NumPy, its matrix library, the system and the processor; of Numba, if used."""
    import numpy as np  # deferred: `--help` needs no NumPy

    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    from autograd.backend import CPU

    compiled = {} if CPU.kernels == "numpy" else {CPU.kernels: version(CPU.kernels)}
    return {
        "minitf": VERSION,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "blas": f"{blas.get('name', 'unknown')} {blas.get('version', 'unknown')}",
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": str(os.cpu_count()),
        **compiled,
    }


NUMERICAL_VARIABLES = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("OPENBLAS_CORETYPE", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "NVIDIA_TF32_OVERRIDE", "CUPY_TF32"),
)
"""Environment variables that change how libraries compute."""


def rank_facts() -> dict[str, str]:
    """What all ranks of a job must have in common; the machines may differ."""
    facts = {name: value for name, value in environment_facts().items() if name in ("python", "numpy", "blas")}
    for name in ("sentencepiece", "safetensors", "numba", "cupy-cuda13x"):
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            facts[name] = "not installed"
    facts |= {name: os.environ.get(name, "not set") for name in NUMERICAL_VARIABLES}
    return {"the version of minitf": VERSION, "the code": code_digest()[:16], **facts}


def code_digest() -> str:
    """SHA-256 of the sources of both packages."""
    digest = hashlib.sha256()
    for package in ("autograd", "minitf"):
        spec = find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent
        for path in sorted(each for each in folder.rglob("*") if each.suffix in (".py", ".cu")):
            digest.update(f"{package}/{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Describe the facts that differ, one sentence each: `numpy was 2.3.1 and is 2.4.6`."""
    names = [*before, *(name for name in now if name not in before)]
    return [
        f"{name} was {before.get(name, 'not recorded')} and is {now.get(name, 'not recorded')}"
        for name in names
        if before.get(name) != now.get(name)
    ]
