"""Every CUDA kernel compiled by NVRTC, without a GPU: its registers, stack and spills for several GPUs.

    python studies/benchmarks/gpu_registers.py --architectures sm_80 sm_90 sm_100

Needs CuPy and NVRTC (`pip install '.[gpu]'`), but no GPU and no driver.  Prints the table of which
docs/gpu.md has some rows; the exit status is 1 if a kernel of float or bf16 spills registers to memory.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

from autograd.fast import cuda_source as kernels

REPORT = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers",
    re.DOTALL,
)
Found = tuple[int, int, int]  # registers, bytes of stack, bytes of spills written and read


def compiled(names: list[str], architecture: str) -> dict[str, Found]:
    """What the assembler reports of each kernel.  Raises: NVRTC's error where it refuses the source"""
    from cupy_backends.cuda.libs import nvrtc

    program = nvrtc.createProgram(kernels.source(), "kernels.cu", [], [])
    for name in names:
        nvrtc.addNameExpression(program, name)
    nvrtc.compileProgram(program, [f"-arch={architecture}", "-std=c++17", "--ptxas-options=-v"])
    by_symbol = {nvrtc.getLoweredName(program, name): name for name in names}
    found = read_report(nvrtc.getProgramLog(program), by_symbol)
    if missing := {*names} - {*found}:
        raise RuntimeError(f"the assembler reports nothing of {sorted(missing)}")
    return found


def read_report(log: str, by_symbol: dict[str, str]) -> dict[str, Found]:
    """The figures in the assembler's report, by the kernels' names."""
    return {
        by_symbol[symbol]: (int(registers), int(stack), int(stores) + int(loads))
        for symbol, stack, stores, loads, registers in REPORT.findall(log)
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architectures", nargs="+", default=["sm_80", "sm_90", "sm_100"])
    args = parser.parse_args()

    names = list(dict.fromkeys(name for kind in kernels.WIDE for name in kernels.names(kind)))
    found = {architecture: compiled(names, architecture) for architecture in args.architectures}
    print("| kernel | " + " | ".join(args.architectures) + " |")
    print("|---" * (1 + len(found)) + "|")
    for name in names:
        cells = [text_of(each[name]) for each in found.values()]
        print(f"| `{name}` | " + " | ".join(cells) + " |")
    spilled = [name for name in names if "double" not in name and any(each[name][2] for each in found.values())]
    print(f"\n{len(names)} kernels, {len(found)} architectures; of float and bf16, {len(spilled)} spill")
    return 1 if spilled else 0


def text_of(found: Found) -> str:
    """Registers, and bytes spilled where there are any."""
    registers, _, spills = found
    return f"{registers}" + (f", {spills} B spilled" if spills else "")


if __name__ == "__main__":
    sys.exit(main())
