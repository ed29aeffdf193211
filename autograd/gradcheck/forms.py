"""Checks of derivatives that come in other forms than a backward pass: gradients, Hessians, slopes, forward mode."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograd.gradcheck.adapters import from_vjp, names_of
from autograd.gradcheck.compare import Options, gradient_error
from autograd.gradcheck.diagnosis import likely_cause
from autograd.gradcheck.factors import Evidence
from autograd.gradcheck.function import CheckedFunction, GradcheckError, GradcheckWarning, NondifferentiableError
from autograd.gradcheck.numerical import UNRELIABLE, Derivatives, Line, size_of, slope, worst_of

Array = np.ndarray
Function = Callable[..., Any]

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
        zeros = [np.zeros_like(part) for part in point]
        found = [np.zeros(part.shape) for part in point]
        for k, part in enumerate(point):
            for index in np.ndindex(*part.shape):
                zeros[k][index] = 1
                found[k][index] = (g * along(point, zeros)).sum()
                zeros[k][index] = 0
        return tuple(found)

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
    def same_shape(x: Array) -> Array:
        return _shaped(f(x), x.shape, "function")

    with CheckedFunction(from_vjp(same_shape, lambda g, x: g), [points], precision=precision) as function:
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
