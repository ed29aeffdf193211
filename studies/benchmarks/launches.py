"""GPU launches of a training step, and the bytes that they read and write, counted without a GPU.

    python studies/benchmarks/launches.py --config base --batch 500 --length 50

The step runs over the tests' stand-in for CuPy; kernels and matrix products are counted and not computed, so the
numbers in its arrays mean nothing.  Bytes are those of the arrays that a launch is given, for each argument: what a
cache saves, or a kernel reads twice, is left out.  Copies from the host and allocations are not launches.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # also where it is imported, by its tests
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

import numpy as np

from autograd import random
from autograd.devices import get_backend
from minitf.training.optim import batch_loss
from tests.emulation import cupy_stand_in, nvmath_stand_in
from train_step import prepared
from workload import add_arguments

SIZES = {0: 4, 1: 8, 14: 2}  # bytes of cuBLAS's types


class Counter:
    """Launches and bytes by name: kernels of this project, matrix products, and operations of CuPy."""

    def __init__(self) -> None:
        self.launches: collections.Counter[str] = collections.Counter()
        self.bytes: collections.Counter[str] = collections.Counter()

    def add(self, name: str, size: int) -> None:
        self.launches[name] += 1
        self.bytes[name] += size

    def gemm(self, *given: Any) -> None:
        """cublasGemmEx."""
        _, _, _, m, n, k, _, _, a_type, _, _, b_type, _, _, _, c_type, *_ = given
        self.add("matrix product", m * k * SIZES[a_type] + k * n * SIZES[b_type] + m * n * SIZES[c_type])

    def lt_matmul(self, lt: Any) -> Any:
        """cublasLtMatmul, of matrices in the layouts that `lt` makes."""
        layouts: dict[int, int] = {}  # bytes by handle
        create = lt.matrix_layout_create

        def layout(kind: int, rows: int, columns: int, ld: int) -> int:
            handle: int = create(kind, rows, columns, ld)
            layouts[handle] = rows * columns * SIZES[kind]
            return handle

        def matmul(*given: Any) -> None:
            adds = ctypes.c_float.from_address(given[7]).value != 0
            self.add("matrix product", sum(layouts[given[i]] for i in (4, 6, 11)) + adds * layouts[given[9]])

        lt.matrix_layout_create = layout
        return matmul

    def operation(self, name: str, inputs: Any, result: Any) -> None:
        """An operation of CuPy: a launch, unless its result is a view."""
        given = cupy_stand_in._arrays(tuple(inputs) if isinstance(inputs, list) else inputs)
        if isinstance(result, cupy_stand_in.ndarray) and result.base is None and not any(result is a for a in given):
            self.add(f"CuPy: {name}", sum(a.nbytes for a in given) + result.nbytes)


class NoEmulator:
    """In the place of the emulator: kernels are launched, and do nothing."""

    def launch(self, *_: Any) -> None:
        pass


@contextmanager
def counted(counter: Counter, epilogues: bool = False) -> Iterator[Any]:
    """Inside this block, the backend of "cuda" counts what it launches; `epilogues`: with cuBLASLt."""
    nvmath: Any = nvmath_stand_in.module(set()) if epilogues else None
    if epilogues:
        lt = nvmath["nvmath.bindings.cublasLt"]
        lt.matmul = counter.lt_matmul(lt)
    array, function = cupy_stand_in.ndarray, cupy_stand_in._Function
    originals = array.__array_ufunc__, array.__getattr__, function.__call__, cupy_stand_in._empty

    def ufunc(self: Any, called: Any, method: str, *inputs: Any, **given: Any) -> Any:
        result = originals[0](self, called, method, *inputs, **given)
        if result is NotImplemented:  # a gradient that is computed where it is added
            return result
        counter.operation(called.__name__, inputs, result) if "out" not in given else counter.add(
            f"CuPy: {called.__name__}", sum(a.nbytes for a in cupy_stand_in._arrays(inputs)) + result.nbytes
        )
        return result

    def attribute(self: Any, name: str) -> Any:
        method = originals[1](self, name)

        def call(*args: Any, **given: Any) -> Any:
            result = method(*args, **given)
            counter.operation(name, (self, *args), result)
            return result

        return call

    def call(self: Any, *args: Any, **given: Any) -> Any:
        result = originals[2](self, *args, **given)
        counter.operation(getattr(self._function, "__name__", "?"), args, result)
        return result

    array.__array_ufunc__, array.__getattr__, function.__call__ = ufunc, attribute, call  # type: ignore[method-assign]
    try:
        with cupy_stand_in.installed(NoEmulator(), nvmath=nvmath) as cupy:  # type: ignore[arg-type]
            sys.modules["cupy_backends.cuda.libs.cublas"].gemmEx = counter.gemm  # type: ignore[attr-defined]
            cupy.empty = lambda shape, dtype=float: array(
                np.zeros(shape, dtype)
            )  # pages that nothing touches cost none
            cupy.zeros = lambda shape, dtype=float: _zeroed(counter, array(np.zeros(shape, dtype)))
            backend = get_backend("cuda")
            launch = backend._launch

            def kernel(name: str, grid: Any, block: Any, *arguments: Any, shared: int = 0) -> None:
                size = sum(a.nbytes for a in arguments if isinstance(a, array))
                if name.startswith("adam_"):  # its arrays are in a list: four are read, three and a bf16 copy written
                    size = int(arguments[0].get()[:, 6].sum()) * (7 * 4 + 2)
                counter.add(name.split("<")[0], size)
                launch(name, grid, block, *arguments, shared=shared)

            backend._launch = kernel
            yield backend
    finally:
        array.__array_ufunc__, array.__getattr__, function.__call__ = originals[:3]  # type: ignore[method-assign]


def _zeroed(counter: Counter, a: Any) -> Any:
    counter.add("CuPy: zeros", a.nbytes)
    return a


def count_step(args: argparse.Namespace) -> dict[str, Counter]:
    """Launches and bytes of the forward pass, the backward pass and the update of the third step."""
    counter = Counter()
    parts = {}
    with counted(counter, args.epilogues):
        model, optimizer, batch = prepared(args, "cuda", "bfloat16")
        for number in range(3):
            random.begin_step(number)
            optimizer.zero_grad()
            counter.__init__()  # type: ignore[misc]
            loss, _ = batch_loss(model, batch, label_smoothing=0.1)
            parts["forward"] = _taken(counter)
            loss.backward()
            parts["backward"] = _taken(counter)
            optimizer.step(1e-4, 1 / batch.target_out.size)
            parts["Adam"] = _taken(counter)
    return parts


def _taken(counter: Counter) -> Counter:
    taken = Counter()
    taken.launches, taken.bytes = counter.launches, counter.bytes
    counter.__init__()  # type: ignore[misc]
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--epilogues", action="store_true", help="bias and its gradient in products, by cuBLASLt")
    args = parser.parse_args()
    if args.config in ("base", "big"):
        args.batch, args.length = args.batch or 500, args.length or 50
    parts = count_step(args)
    print(f"{'':34}{'launches':>9}{'GB':>8}")
    for name, part in parts.items():
        print(f"{name:34}{part.launches.total():9}{part.bytes.total() / 1e9:8.2f}")
        for each, launches in part.launches.most_common():
            print(f"  {each:32}{launches:9}{part.bytes[each] / 1e9:8.2f}")
    launches, size = (sum(getattr(part, what).total() for part in parts.values()) for what in ("launches", "bytes"))
    print(f"{'in all':34}{launches:9}{size / 1e9:8.2f}")


if __name__ == "__main__":
    main()
