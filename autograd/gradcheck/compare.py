"""The whole check: the gradients at the inputs first, then the same under other circumstances; other derivatives."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autograd import functional
from autograd.gradcheck import variations
from autograd.gradcheck.adapters import GradcheckWarning, Wrapped, as_tuple, from_vjp, names_of
from autograd.gradcheck.diagnosis import likely_cause
from autograd.gradcheck.elsewhere import Elsewhere
from autograd.gradcheck.factors import Evidence
from autograd.gradcheck.function import CheckedFunction, GradcheckError, NondifferentiableError, parts_of
from autograd.gradcheck.jacobians import Comparison
from autograd.gradcheck.numerical import UNRELIABLE, Derivatives, Line, measure_rounding, size_of, slope, worst_of
from autograd.modes import enable_grad
from autograd.tensor import Tensor

Array = np.ndarray
Function = Callable[..., Any]

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
        comparison = Comparison(function, weights, right, rng, options.mode, atol, rtol)
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
        print(f"gradients right: compared with {comparison.reference}, largest error {error:.0e}")
    return error


# ---- Second derivatives ----


def second_order_error(func: Callable[..., Any], inputs: Any, options: Options | None = None, **how: Any) -> float:
    """Return the largest error of the second derivatives: of the backward pass, as a function of inputs and cotangents.

    how: atol, rtol, fast and precision, as in `gradient_error`

    Raises: GradcheckError for a wrong second derivative; NotImplementedError for an op whose backward pass cannot be
    recorded
    """
    options = replace(options or Options(), float32=False)
    with CheckedFunction(func, inputs, precision=how["precision"]) as function:
        outputs = function.call()
        function.select_outputs(outputs)
        if any(isinstance(node, Wrapped) for node in functional.ancestors([outputs[j] for j in function.outputs])):
            raise NotImplementedError(
                "order=2 is for ops of autograd; check the gradient of a NumPy or PyTorch function as a function of g "
                "and x: from_vjp(vjp, …), or from_torch of torch.autograd.grad(f(x), x, g, create_graph=True)"
            )
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


# ---- Derivatives in other forms: gradients and Hessians, slopes, forward mode ----

HERE = Options(mode="central", elsewhere=False, layouts=False, float32=False)  # at the points that are given, alone
SHOWN = 40  # points of an element-wise function that a likely cause is looked for in
TANGENT_NAMES = {"v", "dx", "t", "tangent", "tangents", "direction", "u", "x_dot", "xdot", "dot"}


def check_derivatives(
    f: Function, gradient: Function, hessian: Function | None = None, *, at: Any, atol: float | None = None,
    rtol: float | None = None, precision: str = "float64",
) -> bool:  # fmt: skip
    """Check the gradient of a scalar function, and its Hessian, at one point: ∇f by f, ∇²f by ∇f.

    f: maps an array to a number, as a log-likelihood or a loss does; gradient: to an array of the same shape, as a
        score; hessian: to an array of shape (n, n) for n elements, or of the shape of the point twice.
    at: the point; other points are not tried.
    atol, rtol, precision: as in `gradcheck`

    Returns: True

    Raises: as `gradcheck`
    """
    point = np.asarray(at, np.float64)
    given = {"atol": atol, "rtol": rtol, "precision": precision}

    def number(x: Array) -> Array:
        value = np.asarray(f(x))
        if value.size != 1:
            raise TypeError(f"f returned an array of shape {value.shape}: return one number")
        return value.reshape(())

    def slopes(x: Array) -> Array:
        return _shaped(gradient(x), x.shape, "gradient")

    def rows(g: Array, x: Array) -> Array:
        assert hessian is not None
        return (g.reshape(-1) @ _shaped(hessian(x), (x.size, x.size), "hessian")).reshape(x.shape)

    _check("", number, lambda g, x: g * slopes(x), [point], given)
    if hessian is not None:
        _check("the Hessian, compared with derivatives of the gradient, which is right: ", slopes, rows, [point], given)
    return True


def check_elementwise(
    f: Function, df: Function, d2f: Function | None = None, *, at: Any, atol: float | None = None,
    rtol: float | None = None, precision: str = "float64",
) -> bool:  # fmt: skip
    """Check the derivative of an element-wise function, and its second derivative, at many points at once.

    f, df, d2f: map an array to one of the same shape, as a link, a kernel, a density or a special function does
    at: the points, an array of any shape; no others are tried
    atol, rtol, precision: as in `gradcheck`

    Returns: True

    Raises: GradcheckError for a wrong derivative, its subclass NondifferentiableError for one that is not between the
        slopes to the left and to the right of a kink, and for NaN
    """
    points = np.asarray(at, np.float64)
    given = points, atol, rtol, precision
    _check_slopes("", f, df, *given)
    if d2f is not None:
        _check_slopes("the second derivative, compared with that of the first, which is right: ", df, d2f, *given)
    return True


def check_jvp(
    f: Function, jvp: Function, x: Any, *, vjp: Function | None = None, atol: float | None = None,
    rtol: float | None = None, precision: str = "float64",
) -> bool:  # fmt: skip
    """Check a derivative by forward mode against differences, and the vjp of the same function, if there is one.

    f: as for `from_vjp`, with one output
    jvp: jvp(x, v) returns the derivative of f at x along v, in the shape of the output; v comes first if the names of
        the parameters say so.  For several inputs, x and v are tuples.
    x: one input or a sequence; the point, no other is tried
    vjp: vjp(g, *inputs), as for `from_vjp`
    atol, rtol, precision: as in `gradcheck`

    Returns: True

    Raises: as `gradcheck`; the error says which of jvp and vjp is wrong
    """
    several = isinstance(x, (tuple, list)) and all(isinstance(part, np.ndarray) for part in x)
    inputs = [np.asarray(part, np.float64) for part in (x if several else [x])]
    given = {"atol": atol, "rtol": rtol, "precision": precision}
    v_first = bool(TANGENT_NAMES.intersection(names_of(jvp)[:1]))

    def along(point: Sequence[Array], v: Sequence[Array]) -> Array:
        pair = (tuple(point), tuple(v)) if several else (point[0], v[0])
        return np.asarray(jvp(*pair[::-1]) if v_first else jvp(*pair))

    def columns(g: Array, *point: Array) -> tuple[Array, ...]:
        """The vjp that the jvp stands for: g · (J e) for each unit vector e."""
        shapes, size = [part.shape for part in point], sum(part.size for part in point)
        units = (np.eye(1, size, k, dtype=precision)[0] for k in range(size))
        products = [(g * along(point, parts_of(unit, shapes))).sum() for unit in units]
        return tuple(parts_of(np.array(products, np.float64), shapes))

    _check("the derivative by forward mode: ", f, columns, inputs, given)
    rng, point = np.random.default_rng(0), [part.astype(precision) for part in inputs]
    one, other = ([rng.standard_normal(part.shape).astype(precision) for part in inputs] for _ in range(2))
    both = along(point, [2 * a + b for a, b in zip(one, other, strict=True)])
    sums = 2 * along(point, one) + along(point, other)
    if not np.allclose(both, sums, rtol=1e-3 if precision == "float32" else 1e-7, atol=1e-4 * abs(sums).max(initial=0)):
        raise GradcheckError(
            "the derivative by forward mode is not linear in the direction: jvp(x, 2u + v) is not 2 jvp(x, u) + "
            "jvp(x, v)"
        )
    if vjp is not None:
        _check("reverse mode disagrees with forward mode, which is right: ", f, vjp, inputs, given)
    return True


def _check(what: str, f: Function, vjp: Function, inputs: Sequence[Array], given: dict[str, Any]) -> None:
    """Check a vjp at the inputs alone; the error begins with `what`."""
    try:
        gradient_error(from_vjp(f, vjp), inputs, options=HERE, **given)
    except GradcheckError as error:
        raise type(error)(f"{what}{error}") from error


def _check_slopes(
    what: str, f: Function, df: Function, points: Array, atol: float | None, rtol: float | None, precision: str
) -> None:
    passing_on = from_vjp(lambda x: _shaped(f(x), x.shape, "function"), lambda g, x: g)
    with CheckedFunction(passing_on, [points], precision=precision) as function:
        function.select_outputs(function.call())
        x, y = function.points[0].reshape(-1), function.middle
        analytic = np.asarray(_shaped(df(function.points[0].copy()), points.shape, "derivative"), float).reshape(-1)
        if np.isnan(y).any():
            raise NondifferentiableError(f"{what}the function is NaN at {x[np.isnan(y)][0]:.10g}")
        sizes = np.where((abs(x) > 1) | ((abs(x) < 1e-10) & (x != 0)), abs(x), 1.0)
        found = slope(Line(function, np.where(np.isfinite(x), sizes, 0)))
    values, error, left, right = (part / sizes for part in (found.value, found.error, found.left, found.right))
    least = (1e-9 if precision == "float64" else 1e-5) * np.nan_to_num(abs(y), posinf=0) / sizes
    tolerance = 1e-6 if precision == "float64" else 1e-4
    allowed = least if atol is None else atol, tolerance if rtol is None else rtol
    smooth = np.isfinite(x) & ~found.kink
    wrong = Derivatives(analytic, values, error, *allowed).wrong & smooth
    if wrong.any():
        place = worst_of(analytic, values, wrong)
        some = np.unique([place, *np.flatnonzero(wrong)[:SHOWN], *np.flatnonzero(smooth)[:SHOWN]])
        evidence = Evidence(
            np.diag(analytic[some]), np.diag(values[some]), some.shape, x[some], {"x": x[some], "y": y[some]},
            noise=float(error[some].max()),
        )  # fmt: skip
        raise GradcheckError(
            f"{what}wrong derivative at {wrong.sum()} of {x.size} points, most at x = {x[place]:.10g}:\n"
            f"  analytic   {analytic[place]:.10g}\n  numerical  {values[place]:.10g}, to ±{error[place]:.0e}\n"
            f"likely cause: {likely_cause(evidence) or 'no known mistake fits these numbers'}"
        )
    slack = 1e-2 * np.fmax(abs(left), abs(right))
    between = (analytic >= np.fmin(left, right) - slack) & (analytic <= np.fmax(left, right) + slack)
    kinks = found.kink & np.isfinite(x) & np.isfinite(analytic) & ~between
    if kinks.any():
        place = int(np.argmax(kinks))
        raise NondifferentiableError(
            f"{what}the function is not differentiable at x = {x[place]:.10g}: its slope is {left[place]:.6g} to the "
            f"left and {right[place]:.6g} to the right, and the derivative given {analytic[place]:.6g}; leave it out"
        )
    unknown = smooth & ~(error <= np.fmax(np.fmax(UNRELIABLE * abs(values), least), 1e-6 * size_of(values)))
    if unknown.any():
        warnings.warn(
            f"{what}the derivative is not reliable at {unknown.sum()} points, such as x = {x[unknown][0]:.10g}: "
            "rounding in the function hides it",
            GradcheckWarning,
            stacklevel=3,
        )


def _shaped(found: Any, shape: tuple[int, ...], what: str) -> Array:
    found = np.asarray(found)
    if found.size != np.prod(shape, dtype=int):
        raise TypeError(f"the {what} has shape {found.shape}: return one of shape {shape}")
    return found.reshape(shape)
