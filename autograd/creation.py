"""Tensors made of a shape alone, moved to another device, or exchanged with another library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from autograd import random
from autograd.backend import Backend, backend_of, get_backend
from autograd.functional import custom_gradient
from autograd.tensor import Tensor, attach, new_tensor

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["from_dlpack", "next_generator", "ones", "randn", "zeros"]


def zeros(*shape: int | Sequence[int], dtype: DTypeLike = np.float64, requires_grad: bool = False) -> Tensor:
    """A Tensor of zeros: `zeros(2, 3)` or `zeros((2, 3))`, in NumPy's float64 unless `dtype` says another."""
    return Tensor(np.zeros(_one_sequence("zeros", shape), dtype), requires_grad)


def ones(*shape: int | Sequence[int], dtype: DTypeLike = np.float64, requires_grad: bool = False) -> Tensor:
    """A Tensor of ones; see `zeros`."""
    return Tensor(np.ones(_one_sequence("ones", shape), dtype), requires_grad)


def randn(*shape: int | Sequence[int], dtype: DTypeLike = np.float64, requires_grad: bool = False) -> Tensor:
    """A Tensor of numbers from the normal distribution of mean 0 and variance 1; see `zeros`.

    `autograd.random.manual_seed` sets the seed, from which the numbers of one call after the other follow.
    """
    drawn = next_generator().standard_normal(_one_sequence("randn", shape))
    return Tensor(np.asarray(drawn, dtype), requires_grad)


def _one_sequence(name: str, shape: tuple[Any, ...]) -> Any:
    """The sizes as one sequence.  Raises: TypeError for a dtype by place, where NumPy has it"""
    if len(shape) == 1:
        return shape[0]
    if any(not hasattr(size, "__index__") for size in shape):
        raise TypeError(f"{name} takes sizes, or one sequence of them, found {shape}; write dtype= before a dtype")
    return shape


def next_generator() -> np.random.Generator:
    """NumPy's generator for the next random array: seed, step and site determine its numbers, as those of a mask."""
    seed, step, site = random.get_state()
    random.set_state((seed, step, site + 1))
    return np.random.Generator(np.random.PCG64([seed, step, site]))


# ---- Other devices ----


def to(x: Tensor, device: str) -> Tensor:
    """x on a device: "cpu", "cuda", "cuda:1", …; x itself, if it is there. Its gradient comes back to the device of x.

    A leaf moved so is no leaf: `grad` is that of the leaf it was moved from, or set `requires_grad` after the move.
    Another dtype is `x.astype(dtype)`.

    Raises: ValueError for a device that this installation cannot use
    """
    backend, home = get_backend(device), backend_of([x.data])
    return x if backend is home else _moved(x, home, backend)


def _moved(x: Tensor, home: Backend, backend: Backend) -> Tensor:
    @custom_gradient
    def moved(x: Tensor) -> tuple[Tensor, Any]:
        return new_tensor(backend.asarray(x.numpy())), lambda g: _moved(g, backend, home)

    return moved(x)


# ---- Arrays of PyTorch, JAX, CuPy and others, without a copy ----
#
# Source: the Python array API standard, "Data interchange mechanisms"

CPU_TYPES = (1, 3)
"""DLPack's numbers of memory that a processor reads: its own, and that pinned for a GPU."""


def from_dlpack(x: Any) -> Tensor:
    """Return a Tensor of the memory of another library's array, on the same device: a change of one is one of both.

    The Tensor requires no gradient, and nothing notices that the other library has changed it. JAX's arrays cannot be
    changed; neither can the Tensor of one.

    Raises: BufferError for what the other library does not lend, such as an array that requires a gradient; TypeError
        for what is no array; RuntimeError for a dtype that NumPy lacks, such as bfloat16
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack takes another library's array, found {type(x).__name__}; write Tensor(x)")
    kind, index = x.__dlpack_device__()
    if kind in CPU_TYPES:
        return Tensor(np.from_dlpack(x))
    return Tensor(get_backend(f"cuda:{index}").xp.from_dlpack(x))


def _lend(self: Tensor, **options: Any) -> Any:
    """Lend the memory of the data to another library, which may write into it.  Raises: BufferError with a gradient"""
    if self.requires_grad:
        raise BufferError(
            "x requires a gradient, and another library would not record it; lend x.detach(), or detach() the result"
        )
    return self.data.__dlpack__(**options)


attach(to=to, __dlpack__=_lend, __dlpack_device__=lambda self: self.data.__dlpack_device__())
