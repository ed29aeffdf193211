"""Parameters, their initial values, and values loaded into them."""

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator  # NumPy itself imports them when they are first used

from autograd import Tensor
from autograd.backend import backend_of
from autograd.creation import next_generator
from autograd.tensor import note_change
from minitf.errors import UserError
from minitf.system.files import atomic_write, os_errors_explained

__all__ = ["Initializer", "Parameter"]

Array = Any


class Parameter(Tensor):
    """A Tensor that is trained.

    low: its copy in lower precision, if it has one, which an optimizer writes in the same pass
    """

    __slots__ = ("low",)
    low: Any

    def __init__(self, data: Any):
        super().__init__(data, requires_grad=True)
        self.low = None


class Initializer:
    """Initial values of parameters, from one random generator: seed and architecture determine them.

    Layers that are given none draw from `PROCESS`.  Without a seed, random parameters have shape and dtype, and take no
    memory until weights are loaded.
    """

    def __init__(self, seed: int | None, dtype: Any = np.float32):
        self.rng = None if seed is None else Generator(PCG64(seed))
        self.dtype = np.dtype(dtype)

    def glorot_uniform(self, n_out: int, n_in: int, gain: float = 1.0) -> Parameter:
        """Uniform in ±gain · √(6 / (n_in + n_out)).  Shapes: -> [n_out, n_in]  Source: Glorot & Bengio 2010"""
        if self.rng is None:
            return self._outline(n_out, n_in)
        bound = gain * math.sqrt(6 / (n_in + n_out))
        return Parameter(self.rng.uniform(-bound, bound, (n_out, n_in)).astype(self.dtype))

    def normal(self, rows: int, width: int) -> Parameter:
        """Normal with standard deviation 1/√width, so that embeddings times √d_model have unit variance."""
        if self.rng is None:
            return self._outline(rows, width)
        return Parameter((self.rng.standard_normal((rows, width)) * width**-0.5).astype(self.dtype))

    def _outline(self, *shape: int) -> Parameter:
        return Parameter(np.broadcast_to(self.dtype.type(), shape))

    def zeros(self, size: int) -> Parameter:
        """Shapes: -> [size]"""
        return Parameter(np.zeros(size, self.dtype))

    def ones(self, size: int) -> Parameter:
        """Shapes: -> [size]"""
        return Parameter(np.ones(size, self.dtype))


class ProcessInitializer(Initializer):
    """Initial values from the seed that `autograd.random.manual_seed` sets, in float32.

    Each array has a site of its own in the stream of random numbers, as a dropout mask has: layers made one after the
    other differ, and are the same again after the same seed.
    """

    def __init__(self) -> None:
        self.dtype = np.dtype(np.float32)

    @property
    def rng(self) -> Generator:  # type: ignore[override]
        """The generator of the next array."""
        return next_generator()


PROCESS = ProcessInitializer()


def require_fit(into: Mapping[str, Any], arrays: Mapping[str, Array], what: str) -> None:
    """Raises: ValueError if the names or shapes of two sets of arrays differ; the message has the first few"""
    missing, unknown = sorted(into.keys() - arrays.keys()), sorted(arrays.keys() - into.keys())
    if missing or unknown:
        raise ValueError(f"{what} do not fit: missing {missing[:3] or 'none'}, unknown {unknown[:3] or 'none'}")
    for name, array in into.items():
        if array.shape != arrays[name].shape:
            raise ValueError(f"{what} do not fit: {name} has shape {arrays[name].shape}, expected {array.shape}")


def load_arrays(into: Mapping[str, Array], arrays: Mapping[str, Array], what: str) -> None:
    """Copy arrays into those of the same names, on their device.  Raises: as `require_fit`"""
    require_fit(into, arrays, what)
    for name, array in into.items():
        array[...] = backend_of([array]).asarray(arrays[name])


def load_parameters(named: Mapping[str, Parameter], arrays: Mapping[str, np.ndarray], *, copy: bool = True) -> None:
    """`Module.load_parameters`, of parameters by name."""
    require_fit(named, arrays, "the weights")
    for name, parameter in named.items():
        array = backend_of([parameter.data]).asarray(arrays[name])
        if copy and _is_writeable(parameter.data):
            parameter.data[...] = array
            note_change(parameter.data)
        else:  # another array: nothing that refers to the old one sees a change
            parameter.data = array.astype(parameter.dtype, copy=copy or not _is_writeable(array))


def _is_writeable(array: Any) -> bool:
    return bool(getattr(array.flags, "writeable", True))  # arrays of CuPy always are


# ---- Files -------------------------------------------------------------------------------------------------------


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name to a file of the safetensors format.  Raises: UserError if the system refuses"""
    from safetensors.numpy import save  # deferred: a step that saves nothing does not need it

    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    with atomic_write(path, chosen=True) as file:
        file.write(content)


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file, by name.  Raises: UserError if it cannot be read, or is none"""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    with os_errors_explained(f"read {os.fspath(path)}"), open(path, "rb") as file:
        content = file.read()
    try:
        return load(content)
    except SafetensorError as error:
        raise UserError(f"{os.fspath(path)} is no complete safetensors file: {error}") from error
