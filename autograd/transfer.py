"""Tensors on another device."""

from __future__ import annotations

from typing import Any

from autograd.backend import Backend, backend_of
from autograd.devices import get_backend
from autograd.functional import custom_gradient
from autograd.tensor import Tensor, attach, new_tensor


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


attach(to=to)
