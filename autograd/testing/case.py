"""A case: one way of calling one op, with inputs drawn at random; and the list of all cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import numpy as np

from autograd.engine import Op

Array = np.ndarray
Function = Callable[..., Any]


@dataclass(frozen=True)
class Example:
    """What one draw of a case gives.

    function: Tensors to a Tensor, or to a tuple of them
    arrays: its inputs, float64, where the function is smooth in a neighbourhood of at least 0.01
    plain: the same function from simpler ops or none of our own, an oracle for a fused op
    """

    function: Function
    arrays: list[Array]
    plain: Function | None = None


@dataclass(frozen=True)
class Case:
    """One way of calling one op.

    op: name of the class in `Op.registry`
    name: what is special about this way of calling it
    draw: from a random generator to an `Example`, the same one from the same state of the generator
    analytic: can the function compute with complex numbers, as gradcheck's mode="complex" asks?
    fast: has it so many inputs that gradients are checked along random directions only?
    """

    op: str
    name: str
    draw: Callable[[np.random.Generator], Example]
    analytic: bool = True
    fast: bool = False

    def make(self, rng: np.random.Generator) -> tuple[Function, list[Array]]:
        """A function, and float64 arrays to differentiate it at."""
        example = self.draw(rng)
        return example.function, example.arrays

    def __str__(self) -> str:
        return f"{self.op}: {self.name}"


_cases: dict[str, list[Case]] = {}
_BUILT_IN = ("cases_elementwise", "cases_shape", "cases_network", "cases_corners")


def register(op: str, name: str, analytic: bool = True) -> Callable[[Callable], Callable]:
    """Decorator: the function below it, from a random generator to an `Example`, is a case of `op`.

    Raises: ValueError where the op has a case of this name already.
    """

    def add(draw: Callable[[np.random.Generator], Example]) -> Callable:
        cases = _cases.setdefault(op, [])
        if any(case.name == name for case in cases):
            raise ValueError(f"op {op} has a case named {name!r} already; choose another name")
        cases.append(Case(op, name, draw, analytic))
        return draw

    return add


def cases_for(op: str) -> list[Case]:
    """All cases of an op, by the name of its class; empty for an op that has none.

    Raises: ValueError for a name that is neither in `Op.registry` nor among the cases.
    """
    _load()
    if op not in _cases and op not in Op.registry:
        known = sorted({*Op.registry, *_cases})
        close = get_close_matches(op, known, n=3, cutoff=0.5) or get_close_matches(op.title(), known, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"choose from {', '.join(known)}"
        raise ValueError(f"there is no op {op!r}; {hint}")
    return list(_cases.get(op, ()))


def all_cases() -> Iterator[Case]:
    """Every case, ops in alphabetical order."""
    _load()
    for op in sorted(_cases):
        yield from _cases[op]


def _load() -> None:
    """The cases of this package's own ops register themselves when first asked for."""
    for module in _BUILT_IN:
        import_module(f"autograd.testing.{module}")
