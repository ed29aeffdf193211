"""Gradient checks: compare the backward pass of a function with numerical derivatives.

    class Cube(Op):
        def forward(self, x):
            self.save(x)
            return x**3

        def backward(self, g_y):
            (x,) = self.saved
            return 3 * x**2 * g_y

    gradcheck(lambda x: apply(Cube, x), np.random.default_rng(0).standard_normal((2, 3)))

The name `autograd.gradcheck` is the function; `from autograd.gradcheck import Options` reaches the module.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from autograd.gradcheck.adapters import from_pair, from_torch, from_vjp

if TYPE_CHECKING:
    from autograd.gradcheck.compare import Options, check_derivatives, check_elementwise, check_jvp, gradient_error
    from autograd.gradcheck.function import GradcheckError, GradcheckWarning, NondifferentiableError
else:

    def __getattr__(name):  # `import autograd` does not pay for the checker
        if name in __all__:
            return getattr(import_module("autograd.gradcheck.compare"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "GradcheckError",
    "GradcheckWarning",
    "NondifferentiableError",
    "Options",
    "check_derivatives",
    "check_elementwise",
    "check_jvp",
    "from_pair",
    "from_torch",
    "from_vjp",
    "gradcheck",
    "gradient_error",
]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    fast: bool = False,
    order: int = 1,
    precision: str = "float64",
    options: Options | None = None,
) -> bool:
    """Check that the gradients of `func` at `inputs` are its derivatives, within atol + rtol · |numerical derivative|.

    func: maps the inputs, as Tensors, to a Tensor or a tuple of them; outputs that require no gradient are ignored.  It
        must give the same result at every call: set the state of `autograd.random` inside it.  For functions of NumPy
        arrays or of PyTorch tensors, see `from_vjp` and `from_torch`; of an nn.Module in from_torch,
        the gradients of its parameters are checked, too.
    inputs: one input or a sequence.  float64 arrays, and Tensors that require a gradient, are checked, in any memory
        layout; other inputs (integer arrays, other Tensors, Python values) are passed on unchanged.  func may also read
        the Tensors in other ways, as a model reads its parameters.  PyTorch tensors in float64 are taken as arrays; if
        some of them require a gradient, these alone are checked.
    atol, rtol: by default 1e-9 for complex steps, and 1e-7 and 1e-6 for central differences, which `gradcheck` takes
        where func does not compute with complex numbers.
    fast: True to compare one randomly weighted sum of the outputs along one random direction per input, which takes a
        few evaluations per input of any size, instead of each output by each element.
    order: 2 to check the second derivatives, too: `grad(..., create_graph=True)` as a function of the inputs and of the
        incoming gradients.
    precision: "float32" for a function that computes in float32: its inputs are rounded to it, and steps and tolerances
        are those that the measured rounding of its values allows.
    options: `Options`, how the numerical derivatives are computed, and which of the checks below are added or omitted.

    Also checked: the backward pass is linear in the incoming gradient, gives the same result when repeated, when each
    input is frozen in turn, and when a graph of another point is alive; it stays in float64 and changes neither inputs,
    outputs nor the incoming gradient; it is right for other memory layouts, at other points, for inputs of
    other shapes, repeated indices and one array in place of two, and in float32, as far as func takes these; func
    gives the same values under no_grad(); and, unless the mode is "complex", it is differentiable at `inputs`.

    Returns: True

    Warns: GradcheckWarning of what is left open: Tensors that func closes over and that require a gradient, and
        numerical derivatives that rounding in func hides

    Raises: GradcheckError for a wrong gradient, its subclass NondifferentiableError at a kink, a jump or the edge of a
        domain; TypeError or ValueError for what cannot be checked: float32 inputs, no input that requires a gradient,
        a func unsuitable for Options(mode="complex").
    """
    from autograd.gradcheck.compare import gradient_error, second_order_error

    if order not in (1, 2):
        raise ValueError(f"order={order}: gradcheck knows the orders 1 and 2")
    how: dict[str, Any] = {"atol": atol, "rtol": rtol, "fast": fast, "precision": precision, "options": options}
    gradient_error(func, inputs, **how)
    if order == 2:
        second_order_error(func, inputs, **how)
    return True
