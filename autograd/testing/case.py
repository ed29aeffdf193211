"""A case, which is one way of calling one op with random inputs, and the register of all cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from autograd.engine import Op

Array = np.ndarray
Function = Callable[..., Any]


@dataclass(frozen=True)
class Example:
    """One draw of a case.

    function: maps Tensors to a Tensor, or to a tuple of them
    arrays: its inputs, float64, where the function is smooth within a distance of 0.01
    plain: the same function composed of simpler ops, or computed without the engine: an oracle for a fused op
    """

    function: Function
    arrays: list[Array]
    plain: Function | None = None


@dataclass(frozen=True)
class Case:
    """One way of calling one op.

    op: name of its class
    name: what is special about this way of calling it
    draw: maps a random generator to an `Example`, and equal states of the generator to equal examples
    analytic: True if the function computes with complex numbers, which gradcheck's mode="complex" asks for
    fast: True to check gradients along random directions only, for functions of many inputs
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


def register(op: str, name: str, analytic: bool = True) -> Callable[[Callable], Callable]:
    """Decorator: register a function from a random generator to an `Example` as a case of `op`.

    Raises: ValueError if the op already has a case of this name
    """

    def add(draw: Callable[[np.random.Generator], Example]) -> Callable:
        cases = _cases.setdefault(op, [])
        if any(case.name == name for case in cases):
            raise ValueError(f"op {op} has a case named {name!r} already; choose another name")
        cases.append(Case(op, name, draw, analytic))
        return draw

    return add


def cases_for(op: str) -> list[Case]:
    """The registered cases of an op, given the name of its class; empty for an op of `autograd` without any.

    Raises: ValueError for a name that is neither in `Op.registry` nor among the cases
    """
    if op not in _cases and op not in Op.registry:
        known = sorted({*Op.registry, *_cases})
        close = get_close_matches(op, known, n=3, cutoff=0.5) or get_close_matches(op.title(), known, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"choose from {', '.join(known)}"
        raise ValueError(f"there is no op {op!r}; {hint}")
    return list(_cases.get(op, ()))


def all_cases() -> Iterator[Case]:
    """Every registered case, ops in alphabetical order."""
    for op in sorted(_cases):
        yield from _cases[op]
