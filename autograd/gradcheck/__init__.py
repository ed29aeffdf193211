"""Gradients held against numerical derivatives: is a backward pass the derivative of its forward pass?

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
    mode: str = "central",
    seed: int = 0,
) -> bool:
    """True if the gradients of `func` at `inputs` are its derivatives, within atol + rtol · |numerical derivative|.

    func: takes the inputs as Tensors and returns a Tensor or a tuple of them; outputs that require no gradient are left
        out.  It must give the same result at every call: fix the state of `autograd.random` inside it.
    inputs: one input or a sequence.  Checked are float64 arrays, and Tensors that require a gradient, in any memory
        layout; all else (integer arrays, other Tensors, Python values) is passed on as it is.  func may also reach the
        Tensors in other ways, as a model reaches its parameters.
    mode: "central", (f(x + eps) - f(x - eps)) / 2 eps, with eps=1e-6, atol=1e-5, rtol=1e-3; or "complex",
        Im f(x + i eps) / eps, with eps=1e-20 and atol=rtol=1e-12: exact up to rounding, for functions that can compute
        with complex numbers.
    fast: compare one randomly weighted sum of the outputs along one random direction an input, instead of each output
        by each element: two evaluations an input, whatever its size.
    seed: of the random weights and directions; never ones, by which a softmax without any gradient would pass.
    raise_exception: False to return False instead of raising GradcheckError.

    Also checked: that the backward pass is linear in the gradient that arrives, gives the same when repeated, stays in
    float64 and changes neither inputs, outputs nor that gradient; that func gives the same values without recording;
    and, by central differences, that it is differentiable here.

    Raises: GradcheckError where a gradient is wrong, NondifferentiableError (one of them) at a kink, a jump or the
        edge of a domain; TypeError or ValueError for what cannot be checked: float32 inputs, nothing to differentiate,
        a func that mode="complex" does not suit.
    """
    try:
        _worst_error(func, inputs, eps, atol, rtol, fast, mode, seed)
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
    atol: float = math.inf,
    rtol: float = 0.0,
    fast: bool = False,
    mode: str = "central",
    seed: int = 0,
) -> float:
    """The largest |analytic - numerical| / max(1, |numerical|) that `gradcheck` with these arguments meets.

    Raises: as gradcheck; but any error will do unless there is an atol
    """
    return _worst_error(func, inputs, eps, atol, rtol, fast, mode, seed)


def _worst_error(
    func: Callable[..., Any],
    inputs: Any,
    eps: float | None,
    atol: float | None,
    rtol: float | None,
    fast: bool,
    mode: str,
    seed: int,
) -> float:
    # imported when needed, so that `import autograd` need not
    import numpy as np

    from autograd.gradcheck.compare import Comparison
    from autograd.gradcheck.function import CheckedFunction
    from autograd.gradcheck.numerical import METHODS

    if mode not in METHODS:
        raise ValueError(f"mode={mode!r} is not one of {', '.join(map(repr, METHODS))}")
    method = METHODS[mode]
    eps = method.EPS if eps is None else eps
    atol = method.ATOL if atol is None else atol
    rtol = method.RTOL if rtol is None else rtol
    if not (eps > 0 and atol >= 0 and rtol >= 0):
        raise ValueError(f"eps={eps}, atol={atol}, rtol={rtol}: eps must be positive, the tolerances at least 0")
    with CheckedFunction(func, inputs) as function:
        comparison = Comparison(function, lambda: method(function, eps), atol, rtol, np.random.default_rng(seed))
        return comparison.along_directions() if fast else comparison.everywhere()
