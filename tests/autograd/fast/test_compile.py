"""The kernels as CUDA's own compilers take them; needs no GPU."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from autograd.fast import cuda_source as kernels

ARCHITECTURES = ["sm_75", "sm_80", "sm_90", "sm_100"]
TAKEN = [(kind, each) for kind in sorted(kernels.WIDE) for each in ARCHITECTURES if (kind, each) != ("bf16", "sm_75")]


def program(names: list[str]) -> str:
    """The kernels' text, and a use of each name, without which a template is not compiled."""
    uses = ", ".join(f"(void*){name}" for name in names)
    return f"{kernels.source()}\nvoid* every_kernel[] = {{{uses}}};\n"


def compile_with_nvcc(folder: Path, names: list[str], architecture: str) -> None:
    code = folder / "kernels.cu"
    code.write_text(program(names))
    flags = ["-std=c++17", f"-arch={architecture}", "-cubin", "-Werror", "all-warnings", "-o", str(folder / "k.cubin")]
    subprocess.run(["nvcc", *flags, str(code)], check=True, timeout=900)


needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc, of the CUDA toolkit")


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "architecture"), TAKEN)
def test_nvcc_takes_every_kernel_without_a_warning(tmp_path: Path, kind: str, architecture: str) -> None:
    compile_with_nvcc(tmp_path, kernels.names(kind), architecture)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="needs CuPy and NVRTC: pip install '.[gpu]'")
@pytest.mark.parametrize("kind", sorted(kernels.WIDE))
def test_nvrtc_takes_every_kernel_under_its_name(kind: str) -> None:
    """What CuPy does on a GPU, up to the load: compile, and find each kernel by its C++ expression."""
    from cupy.cuda.compiler import _NVRTCProgram

    names = kernels.names(kind)
    compiled = _NVRTCProgram(kernels.source(), "kernels.cu", name_expressions=names, method="cubin")
    binary, mapping = compiled.compile(("-arch=sm_90", "-std=c++17"))
    assert binary
    assert set(mapping) == set(names)
