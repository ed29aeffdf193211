"""The whole check: the gradients at the inputs first, then the same under other circumstances."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autograd import functional
from autograd.gradcheck import variations
from autograd.gradcheck.adapters import as_tuple
from autograd.gradcheck.elsewhere import Elsewhere
from autograd.gradcheck.function import CheckedFunction, GradcheckError, joined
from autograd.gradcheck.jacobians import Comparison
from autograd.gradcheck.numerical import DROWNED, Line, Reference, measured_noise, size_of
from autograd.modes import enable_grad
from autograd.tensor import Tensor

Array = np.ndarray

MODES = ("auto", "central", "complex")


@dataclass(frozen=True)
class Options:
    """Options of `gradcheck`: the numerical derivatives, and the checks to add or omit.

    mode: "complex", Im f(x + ih) / h, with h=1e-20 and atol=rtol=1e-12: exact up to rounding, for functions that
        accept complex numbers; "central", (f(x + t) - f(x - t)) / 2t, with a step t that fits the function, atol=1e-7,
        rtol=1e-6 and the known error of the difference; "auto", complex steps with atol=rtol=1e-9 where they work, and
        central differences otherwise, with the reason in the error message and in the output of `verbose`.
    seed: seed of the random weights and directions, which are never all 1, because a softmax without gradient would
        pass.
    elsewhere: False to call func only at the inputs.  By default, the gradients are also compared with differences at
        the inputs in another order, times factors from -10 to 100, and with random numbers added, where func is
        defined.
    layouts: False to omit other memory layouts of inputs and incoming gradients.
    shapes: False to omit inputs of other shapes (larger, with axes of size 1, empty, of shape (), broadcast in another
        way), repeated indices, inverted masks, and the same array for two inputs.  Like other points, they are used
        only if func accepts them, and omitted by elsewhere=False.
    float32: whether to compare the gradients of float32 inputs with those of float64 inputs.  They may differ by 1e-4
        of the value, 1e-5 of the largest value, and ten times the change caused by moving the inputs by a few
        roundings.  None: only if func accepts float32 arrays and computes the same values with them; omitted by
        elsewhere=False.
    verbose: True to print the kind of numerical derivatives and the largest error.

    Raises: ValueError for an unknown mode
    """

    mode: str = "auto"
    seed: int = 0
    elsewhere: bool = True
    layouts: bool = True
    shapes: bool = True
    float32: bool | None = None
    verbose: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode={self.mode!r} is not one of {', '.join(map(repr, MODES))}")


def gradient_error(
    func: Callable[..., Any],
    inputs: Any,
    *,
    atol: float | None = math.inf,
    rtol: float | None = 0.0,
    fast: bool = False,
    precision: str = "float64",
    options: Options | None = None,
) -> float:
    """Return the largest |analytic - numerical| / max(1, |numerical|) that `gradcheck` with these arguments finds.

    Raises: as gradcheck; but by default, every finite error is within `atol`
    """
    options = options or Options()
    if not all(value is None or value >= 0 for value in (atol, rtol)):
        raise ValueError(f"atol={atol}, rtol={rtol}: tolerances must be at least 0")
    if precision not in ("float64", "float32"):
        raise ValueError(f"precision={precision!r} is not one of 'float64', 'float32'")
    with CheckedFunction(func, inputs, precision=precision) as function:
        rng = np.random.default_rng(options.seed)
        weights, right = variations.check_side_effects(function, rng)
        function.warn_of_others(function.call())
        variations.check_zero(function, right)
        measure_rounding(function, weights, right)
        reference = Reference(function, options.mode, atol, rtol)
        comparison = Comparison(function, reference, weights, right, rng)
        error = comparison.along_directions() if fast else comparison.everywhere()
        variations.check_multiples(function, weights, right)
        variations.check_frozen(function, weights, right, rng)
        if options.layouts:
            variations.check_layouts(function, weights, right, rng)
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            if options.elsewhere:
                elsewhere = Elsewhere(comparison)
                elsewhere.check_points()
                if options.shapes:
                    elsewhere.check_inputs()
            if options.float32 or (options.float32 is None and options.elsewhere and not function.narrow):
                variations.check_float32(function, weights, rng, required=bool(options.float32))
    if options.verbose:
        print(f"gradients right: compared with {reference}, largest error {error:.0e}")
    return error


def measure_rounding(function: CheckedFunction, weights: Array, gradients: Sequence[Array]) -> None:
    """Note how coarsely a function rounds its values, if a small step does not change them as its gradients say."""
    direction = joined([np.where(np.isfinite(x), x, 0) for x in function.points]).astype(float)
    line = Line(function, direction, weights)
    if line.moves:
        slope = line.along(gradients).sum()
        if function.narrow or abs(line(1e-9)[1] - line.middle - 1e-9 * slope) > 1e-10 * line.scale:
            noise = measured_noise(Line(function, direction)).max(initial=0)
            rounding = float(noise / (size_of(function.middle) or 1.0))
            if function.rounding < rounding < DROWNED:
                function.rounding = rounding


# ---- Second derivatives ----


def second_order_error(func: Callable[..., Any], inputs: Any, options: Options | None = None, **how: Any) -> float:
    """Return the largest error of the second derivatives: of the backward pass, as a function of inputs and cotangents.

    how: atol, rtol, fast and precision, as in `gradient_error`

    Raises: GradcheckError for a wrong second derivative; NotImplementedError for an op whose backward pass cannot be
    recorded
    """
    options = replace(options or Options(), float32=False)
    with CheckedFunction(func, inputs, precision=how["precision"]) as function:
        function.select_outputs(function.call())
        rng = np.random.default_rng(options.seed)
        cotangents = [rng.standard_normal(shape) for shape in function.output_shapes]
    count = len(function.arguments)

    def backward_pass(*values: Any) -> tuple[Tensor, ...]:
        """Return the gradients, as a function of all arguments and of the incoming gradients; under no_grad(), too."""
        inputs = [values[i] for i in function.positions]
        frozen = [x for x in inputs if not x.requires_grad]  # by the check; there is a gradient to differentiate anyhow
        for x in frozen:
            x.requires_grad = True
        try:
            with enable_grad():
                outputs = as_tuple(function.func(*values[:count]))
                chosen = [outputs[j] for j in function.outputs]
                found = functional.grad(chosen, inputs, values[count:], create_graph=True, allow_unused=True)
        finally:
            for x in frozen:
                x.requires_grad = False
        return tuple([Tensor(np.zeros(x.shape)) if g is None else g for g, x in zip(found, inputs, strict=True)])

    gradients = backward_pass(*function.arguments, *[Tensor(c, requires_grad=True) for c in cotangents])
    for i, g in zip(function.positions, gradients, strict=True):
        if not g.requires_grad and g.numpy().any():  # a gradient is linear in what arrives: it depends on that at least
            raise GradcheckError(
                f"the gradient of input {i} has no graph, so that its derivatives are lost: backward leaves the graph "
                "(through .data, .numpy() or detach())"
            )
    if not any(g.requires_grad for g in gradients):
        return 0.0  # it is 0 everywhere
    try:
        return gradient_error(backward_pass, [*function.arguments, *cotangents], options=options, **how)
    except GradcheckError as error:
        raise type(error)(
            f"second derivatives (inputs from {count} on are the incoming gradients, outputs are the gradients of "
            f"the inputs): {error}"
        ) from error
