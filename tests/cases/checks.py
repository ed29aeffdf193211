"""Cases of ops, their register, and the check of a case against differences, complex steps and a plain composition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np

from autograd import functional
from autograd.backend import get_backend
from autograd.engine import Op
from autograd.gradcheck.compare import Options, gradient_error
from autograd.gradcheck.function import GradcheckError
from autograd.tensor import Tensor

Array = np.ndarray
Function = Callable[..., Any]

EXACT = 1e-12  # for complex steps and plain compositions


@dataclass(frozen=True)
class Example:
    """One draw of a case.

    function: maps Tensors to a Tensor, or to a tuple of them
    arrays: its inputs, float64, where the function is smooth within a distance of 0.01
    plain: the same function composed of simpler ops, or computed without the engine: an oracle for a fused op
    torch: the same function of PyTorch's tensors; None if PyTorch has none
    """

    function: Function
    arrays: list[Array]
    plain: Function | None = None
    torch: Function | None = None


class _Torch:
    """PyTorch, imported at its first use: only the comparison with it needs it installed."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("torch"), name)


torch: Any = _Torch()


@dataclass(frozen=True)
class Case:
    """One way of calling one op.

    op: name of its class
    name: what is special about this way of calling it
    draw: maps a random generator to an `Example`, and equal states of the generator to equal examples
    analytic: True if the function computes with complex numbers, which Options(mode="complex") asks for; "cpu" if it
        does so with NumPy alone, as CuPy's function refuses them or is not exact for them
    fast: True to check gradients along random directions only, for functions of many inputs
    """

    op: str
    name: str
    draw: Callable[[np.random.Generator], Example]
    analytic: bool | Literal["cpu"] = True
    fast: bool = False

    def make(self, rng: np.random.Generator) -> tuple[Function, list[Array]]:
        """Return a function, and float64 arrays to differentiate it at."""
        example = self.draw(rng)
        return example.function, example.arrays

    def __str__(self) -> str:
        return f"{self.op}: {self.name}"


# ---- The register ----

_cases: dict[str, list[Case]] = {}


def register(op: str, name: str, analytic: bool | Literal["cpu"] = True) -> Callable[[Callable], Callable]:
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
    """Return the registered cases of an op, given the name of its class; empty for an op of `autograd` without any.

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


# ---- Checks ----


class Errors(NamedTuple):
    """The largest |analytic - other| / max(1, |other|) for each source of comparison; None for a source not used."""

    central: float | None = None
    complex_step: float | None = None
    plain: float | None = None

    def merge(self, other: Errors) -> Errors:
        """Return the worse of each."""
        pairs = zip(self, other, strict=True)
        return Errors(*[max((x for x in pair if x is not None), default=None) for pair in pairs])


def check_example(
    example: Example, *, analytic: bool = True, fast: bool = False, elsewhere: bool = True, device: str = "cpu"
) -> Errors:
    """Compare an example's gradients with central differences, complex steps and its plain composition.

    They must be within 1e-7 + 1e-6 · |d| of central differences d, within 1e-12 of complex steps (unless `analytic` is
    False), and, with the values, within 1e-12 of the plain composition; and pass what else gradcheck looks at, in
    float64 and float32, unless `elsewhere` is False.

    Raises: GradcheckError if they are not
    """
    function, asarray = example.function, get_backend(device).asarray
    inputs = [Tensor(asarray(array), requires_grad=True) for array in example.arrays]
    differences = Options(mode="central", float32=elsewhere, elsewhere=elsewhere, layouts=elsewhere)
    central = gradient_error(function, inputs, atol=None, rtol=None, fast=fast, options=differences)
    complex_step = plain = None
    if analytic:
        steps = Options(mode="complex", elsewhere=False, layouts=False)
        complex_step = gradient_error(function, inputs, atol=EXACT, rtol=EXACT, fast=fast, options=steps)
    if example.plain is not None:
        plain = _compare(function, example.plain, inputs)
    return Errors(central, complex_step, plain)


def check_case(case: Case, rng: np.random.Generator, device: str = "cpu") -> Errors:
    """Draw an example of a case and check it.

    Raises: GradcheckError if it fails
    """
    analytic = device == "cpu" if case.analytic == "cpu" else case.analytic
    return check_example(case.draw(rng), analytic=analytic, fast=case.fast, device=device)


def _compare(function: Callable, plain: Callable, inputs: Sequence[Tensor]) -> float:
    """Compare values, and gradients of a random weighted sum, with the plain composition; return the largest error."""
    results: list[list[Any]] = []
    for f in (function, plain):
        outputs = f(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        results.append([y.numpy() for y in outputs])
        if all(y.requires_grad for y in outputs):
            rng = np.random.default_rng(0)
            weights = [rng.standard_normal(y.shape) for y in outputs]
            gradients = functional.grad(outputs, inputs, weights, allow_unused=True)
            results[-1] += [
                np.zeros(x.shape) if g is None else g.numpy() for g, x in zip(gradients, inputs, strict=True)
            ]
    worst = 0.0
    for ours, theirs in zip(*results, strict=False):  # the plain composition may have values only
        error = abs(ours - theirs) / np.maximum(1, abs(theirs))
        if ours.shape != theirs.shape or not (error <= EXACT).all():
            raise GradcheckError(f"values or gradients differ from those of the plain composition:\n{ours}\n{theirs}")
        worst = max(worst, float(error.max(initial=0)))
    return worst
