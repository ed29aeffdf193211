"""The table of fast implementations: (name, device) -> a function, with a guard that says which arguments it takes.

Devices of a CPU are "numpy" and "numba".  A kernel is looked up by its name, from the fastest device to the
slowest, and the first one whose guard takes the arguments computes.  A GPU's kernels are methods of its backend, of the
same names (cuda.py).  Whole ops have guards, too (ops.py): where they say no, the plain op runs.

    @entry("numba", rows_of_float32)
    def sum_rows(x): ...

    kernels_of([x]).sum_rows(x)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from autograd.backend import CPU, Backend, backend_of

__all__ = ["TABLE"]

Array = Any
Guard = Callable[..., bool]


class Entry(NamedTuple):
    """A function of the table.

    guard: with the function's arguments, whether it takes them; None: all that get there
    """

    function: Callable[..., Any]
    guard: Guard | None


TABLE: dict[tuple[str, str], Entry] = {}


def entry(device: str, guard: Guard | None = None, name: str | None = None) -> Callable[[Any], Any]:
    """Decorator: enter a function into the table, by its own name or another, with the docstring of NumPy's."""

    def enter(function: Any) -> Any:
        key = name or function.__name__
        if function.__doc__ is None and (key, "numpy") in TABLE:
            function.__doc__ = TABLE[key, "numpy"].function.__doc__
        TABLE[key, device] = Entry(function, guard)
        return function

    return enter


class Kernels:
    """The kernels of one device, by name, as attributes; what is not in the table is asked of the backend.

    devices: where a kernel is looked for, the fastest first
    """

    def __init__(self, backend: Backend, *devices: str):
        self.backend, self.devices = backend, devices

    def use(self, *devices: str) -> None:
        """Look for kernels on these devices from now on."""
        backend = self.backend
        vars(self).clear()  # what was found before
        self.backend, self.devices = backend, devices

    @property
    def kernels(self) -> str:
        """The name by which a user chooses these kernels of a CPU."""
        return "numba" if "numba" in self.devices else "numpy"

    @property
    def uses_epilogues(self) -> bool:
        """Whether products add a bias of the type of their result, and apply ReLU, themselves, as a GPU's may."""
        return self.backend is not CPU and self.backend.uses_epilogues  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        found = [TABLE[name, device] for device in self.devices if (name, device) in TABLE]
        if not found:
            return getattr(self.backend, name)
        kernel = vars(self)[name] = found[0].function if found[0].guard is None else _first_that_takes(name, found)
        return kernel


def _first_that_takes(name: str, entries: list[Entry]) -> Callable[..., Any]:
    def kernel(*arguments: Any, **settings: Any) -> Any:
        for function, guard in entries:
            if guard is None or guard(*arguments, **settings):
                return function(*arguments, **settings)
        kinds = ", ".join(f"{a.dtype} {a.shape}" for a in arguments if hasattr(a, "dtype"))
        raise NotImplementedError(f"no kernel {name} takes {kinds or 'these arguments'}")

    return kernel


cpu = Kernels(CPU, "numpy")


def kernels_on(backend: Backend) -> Kernels:
    """Return the kernels of a device."""
    if backend is CPU:
        return cpu
    attributes = vars(backend)  # a GPU's kernels are kept on its backend
    if "table" not in attributes:
        attributes["table"] = Kernels(backend)
    kernels: Kernels = attributes["table"]
    return kernels


def kernels_of(arrays: Iterable[Any]) -> Kernels:
    """Return the kernels of the device of arrays: of a GPU if one of them is on a GPU, else of the CPU."""
    return kernels_on(backend_of(arrays))


def cpu_kernels() -> Kernels:
    """Return the kernels that compute on the CPU."""
    return cpu
