"""A case held against all that is known about it: differences, complex steps, and its plain composition."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from autograd import engine
from autograd.backend import get_backend
from autograd.gradcheck import GradcheckError, gradient_error
from autograd.tensor import Tensor
from autograd.testing.case import Case, Example

EPS = 5e-6  # about where rounding and truncation of central differences are equal: 1e-10 for numbers around 1
ATOL, RTOL = 1e-7, 1e-6  # for central differences; functions of numbers around 1000 lose three digits
EXACT = 1e-12  # for complex steps and plain compositions


class Errors(NamedTuple):
    """The worst |analytic - other| / max(1, |other|), by what it was held against; None for what it was not."""

    central: float | None = None
    complex_step: float | None = None
    plain: float | None = None

    def merge(self, other: Errors) -> Errors:
        """The worse of each."""
        pairs = zip(self, other, strict=True)
        return Errors(*[max((x for x in pair if x is not None), default=None) for pair in pairs])


def check_example(example: Example, *, analytic: bool = True, fast: bool = False, device: str = "cpu") -> Errors:
    """Gradients must be within 1e-7 + 1e-6 · |d| of central differences d, and within 1e-12 of complex steps.

    Values and gradients must be within 1e-12 of those of the plain composition.

    Raises: GradcheckError where they are not.
    """
    asarray = get_backend(device).asarray
    inputs = [Tensor(asarray(array), requires_grad=True) for array in example.arrays]
    central = gradient_error(example.function, inputs, eps=EPS, atol=ATOL, rtol=RTOL, fast=fast)
    complex_step = plain = None
    if analytic:
        complex_step = gradient_error(example.function, inputs, atol=EXACT, rtol=EXACT, fast=fast, mode="complex")
    if example.plain is not None:
        plain = _compare(example.function, example.plain, inputs)
    return Errors(central, complex_step, plain)


def check_case(case: Case, rng: np.random.Generator, device: str = "cpu") -> Errors:
    """Draw an example of a case and check it.

    Raises: GradcheckError where it fails.
    """
    return check_example(case.draw(rng), analytic=case.analytic, fast=case.fast, device=device)


def _compare(function: Callable, plain: Callable, inputs: Sequence[Tensor]) -> float:
    """Hold values, and gradients of a random weighted sum, against the plain composition; return the worst error."""
    results: list[list[Any]] = []
    for f in (function, plain):
        outputs = f(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        results.append([y.numpy() for y in outputs])
        if all(y.requires_grad for y in outputs):
            rng = np.random.default_rng(0)
            weights = [rng.standard_normal(y.shape) for y in outputs]
            gradients = engine.grad(outputs, inputs, weights, allow_unused=True)
            results[-1] += [
                np.zeros(x.shape) if g is None else g.numpy() for g, x in zip(gradients, inputs, strict=True)
            ]
    worst = 0.0
    for ours, theirs in zip(*results, strict=False):  # the plain one may have values only
        error = abs(ours - theirs) / np.maximum(1, abs(theirs))
        if ours.shape != theirs.shape or not (error <= EXACT).all():
            raise GradcheckError(f"values or gradients differ from those of the plain composition:\n{ours}\n{theirs}")
        worst = max(worst, float(error.max(initial=0)))
    return worst


# ---- Tables ----


@dataclass
class Row:
    """What came of checking all cases of an op (or a layer)."""

    name: str
    cases: int
    examples: int = 0
    errors: Errors = field(default_factory=Errors)
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        numbers = "".join(f"{'-' if error is None else f'{error:.0e}':>10}" for error in self.errors)
        verdict = "" if not self.failures else "  FAILED"
        return f"{self.name:28}{self.cases:6}{self.examples:10}{numbers}{self.seconds:8.1f}{verdict}"


HEADER = f"{'':28}{'cases':>6}{'examples':>10}{'central':>10}{'complex':>10}{'plain':>10}{'seconds':>8}"


def check_cases(name: str, cases: Sequence[Case], examples: int, seed: int = 0, device: str = "cpu") -> Row:
    """Check so many examples of each case; failures are told in the row, the first of each case."""
    row = Row(name, len(cases))
    if not cases:
        row.failures.append(f"{name} has no case; write one in autograd/testing")
    start = time.perf_counter()
    for case in cases:
        for k in range(examples):
            try:
                row.errors = row.errors.merge(check_case(case, np.random.default_rng([seed, k]), device))
            except Exception as error:  # of whatever kind: it is told, and the other cases are still checked
                row.failures.append(f"{case} (example {k}): {type(error).__name__}: {error}")
                break
            row.examples += 1
    row.seconds = time.perf_counter() - start
    return row


def summary(rows: Iterable[Row], what: str) -> str:
    """One line on all rows."""
    rows = list(rows)
    errors = Errors()
    for row in rows:
        errors = errors.merge(row.errors)
    failed = [row.name for row in rows if row.failures]
    cases, examples = sum(row.cases for row in rows), sum(row.examples for row in rows)
    if failed:
        return f"FAILED: {len(failed)} of {len(rows)} {what}: {', '.join(failed)}"
    worst = [f"{error:.0e} {by}" for error, by in zip(errors, _BY, strict=True) if error is not None]
    return f"{len(rows)} {what}, {cases} cases, {examples} examples; worst error {', '.join(worst)}"


_BY = ("by central differences", "by complex steps", "from plain compositions")
