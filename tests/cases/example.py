"""An example of this project's own cases: it may also name the same function of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from autograd import testing


@dataclass(frozen=True)
class Example(testing.Example):
    """One draw of a case.

    torch: the same function of PyTorch's tensors; None if PyTorch has none
    """

    torch: Callable[..., Any] | None = None


class _Torch:
    """PyTorch, imported at its first use: only the comparison with it needs it installed."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("torch"), name)


torch: Any = _Torch()
