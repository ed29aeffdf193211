"""Gradient checks: compare the backward pass of a function with numerical derivatives.

    class Cube(Op):
        def forward(self, x):
            self.save(x)
            return x**3

        def backward(self, g_y):
            (x,) = self.saved
            return 3 * x**2 * g_y

    gradcheck(lambda x: apply(Cube, x), np.random.default_rng(0).standard_normal((2, 3)))

The name `autograd.gradcheck` is the function; `from autograd.gradcheck import GradcheckError` reaches the module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

__all__ = ["GradcheckError", "NondifferentiableError", "gradcheck", "gradient_error"]


class GradcheckError(RuntimeError):
    """A gradient is wrong, or cannot be checked at this point."""


class NondifferentiableError(GradcheckError):
    """The function has a kink, a jump or the edge of its domain at this point."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    raise_exception: bool = True,
    fast: bool = False,
    mode: str = "auto",
    seed: int = 0,
    float32: bool = False,
    elsewhere: bool = True,
    layouts: bool = True,
    verbose: bool = False,
) -> bool:
    """Check that the gradients of `func` at `inputs` are its derivatives, within atol + rtol · |numerical derivative|.

    func: maps the inputs, as Tensors, to a Tensor or a tuple of them; outputs that require no gradient are ignored.  It
        must give the same result at every call: set the state of `autograd.random` inside it.  For functions of NumPy
        arrays or of PyTorch tensors, see `autograd.testing.from_vjp` and `from_torch`.
    inputs: one input or a sequence.  float64 arrays, and Tensors that require a gradient, are checked, in any memory
        layout; other inputs (integer arrays, other Tensors, Python values) are passed on unchanged.  func may also read
        the Tensors in other ways, as a model reads its parameters.
    mode: "complex", Im f(x + i eps) / eps, with eps=1e-20 and atol=rtol=1e-12: exact up to rounding, for functions that
        compute with complex numbers; "central", (f(x + eps) - f(x - eps)) / 2 eps, with eps=1e-6, atol=1e-7, rtol=1e-6
        and what is known of the error of the difference; "auto", complex steps with atol=rtol=1e-9 where they work, and
        central differences elsewhere, with the reason in the error message and in what `verbose` prints.
    fast: True to compare one randomly weighted sum of the outputs along one random direction per input, which takes a
        few evaluations per input of any size, instead of each output by each element.
    seed: of the random weights and directions, which are never all 1: a softmax without gradient would pass then.
    float32: True to compare the gradients of float32 inputs with those of float64 inputs, too.  They may differ by 1e-4
        of the value, 1e-5 of the largest value, and ten times what moving the inputs by a few roundings changes.
    elsewhere: False to call func at the inputs only.  By default, the gradients are also compared with differences at
        the inputs in another order, times factors from -10 to 100, and with random numbers added, as far as func is
        defined there.
    layouts: False to omit other memory layouts of inputs and incoming gradients.
    raise_exception: False to return False instead of raising GradcheckError.
    verbose: True to print what the gradients were compared with, and the largest error.

    Also checked: the backward pass is linear in the incoming gradient, gives the same result when repeated, when each
    input is frozen in turn, and when a graph of another point is alive; it stays in float64 and changes neither inputs,
    outputs nor the incoming gradient; func gives the same values under no_grad(); and, unless mode is "complex", it is
    differentiable at `inputs`.

    Raises: GradcheckError for a wrong gradient, its subclass NondifferentiableError at a kink, a jump or the edge of a
        domain; TypeError or ValueError for what cannot be checked: float32 inputs, no input that requires a gradient,
        a func unsuitable for mode="complex".
    """
    try:
        gradient_error(
            func, inputs, eps=eps, atol=atol, rtol=rtol, fast=fast, mode=mode, seed=seed, float32=float32,
            elsewhere=elsewhere, layouts=layouts, verbose=verbose,
        )  # fmt: skip
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradient_error(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float | None = None,
    atol: float | None = math.inf,
    rtol: float | None = 0.0,
    fast: bool = False,
    mode: str = "auto",
    seed: int = 0,
    float32: bool = False,
    elsewhere: bool = True,
    layouts: bool = True,
    verbose: bool = False,
) -> float:
    """The largest |analytic - numerical| / max(1, |numerical|) that `gradcheck` with these arguments finds.

    Raises: as gradcheck; but by default, every finite error is within `atol`
    """
    # imported at the first check, for the start-up time of `import autograd`
    import numpy as np

    from autograd.gradcheck.compare import Comparison
    from autograd.gradcheck.complex_step import METHODS
    from autograd.gradcheck.function import CheckedFunction
    from autograd.gradcheck.variations import check_variations

    if mode not in METHODS:
        raise ValueError(f"mode={mode!r} is not one of {', '.join(map(repr, METHODS))}")
    if not all(value is None or value >= 0 for value in (atol, rtol)) or (eps is not None and not eps > 0):
        raise ValueError(f"eps={eps}, atol={atol}, rtol={rtol}: eps must be positive, the tolerances at least 0")
    with CheckedFunction(func, inputs) as function:
        rng = np.random.default_rng(seed)
        comparison = Comparison(function, lambda: METHODS[mode](function, eps, atol, rtol), rng)
        error = comparison.along_directions() if fast else comparison.everywhere()
        check_variations(
            function, comparison.weights, comparison.gradients, rng,
            elsewhere=elsewhere, layouts=layouts, float32=float32, atol=atol or 0.0, rtol=rtol or 0.0,
        )  # fmt: skip
    if verbose:
        print(f"gradients right: compared with {comparison.numerical.describe()}, largest error {error:.0e}")
    return error
