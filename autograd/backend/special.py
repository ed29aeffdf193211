"""Special functions that NumPy lacks, from its elementary ones."""

from __future__ import annotations

import math
from typing import Any

Array = Any

# W. J. Cody, "Rational Chebyshev approximations for the error function", Mathematics of Computation 23 (1969),
# 631-637; the coefficients as in his program CALERF.  Numerators and denominators, highest power first.
_NEAR = (  # erf(x) / x in x², |x| ≤ 0.46875
    (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
_MIDDLE = (  # exp(x²) · erfc(x) in x, 0.46875 ≤ x ≤ 4
    (
        2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1,
        2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
        1.23033935479799725e3,
    ),
    (
        1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
        3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
    ),
)  # fmt: skip
_FAR = (  # (1/√π - x · exp(x²) · erfc(x)) · x² in 1/x², x ≥ 4
    (
        1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
        1.60837851487422766e-2, 6.58749161529837803e-4,
    ),
    (
        1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1, 6.05183413124413191e-2,
        2.33520497626869185e-3,
    ),
)  # fmt: skip


def erfc(xp: Any, x: Array) -> Array:
    """erfc(x) = 1 - erf(x) = 2/√π ∫ₓ^∞ exp(-t²) dt, with small *relative* error also where it is tiny.

    Relative error below 1e-15 · (1 + x²) in float64; x is float32 or float64, and so is the result.

    Source: Cody (1969), see above
    """
    flat = xp.asarray(x).reshape(-1)
    size = xp.abs(flat)
    result = xp.empty(flat.shape, flat.dtype)
    near, far = size <= 0.46875, size > 4
    result[near] = _near(flat[near])
    middle = ~(near | far)
    result[middle] = _middle(xp, size[middle])
    result[far] = _far(xp, size[far])
    reflected = (flat < 0) & ~near
    result[reflected] = 2 - result[reflected]
    return result.reshape(xp.shape(x))


def _near(x: Array) -> Array:
    return 1 - x * _rational(_NEAR, x * x)


def _middle(xp: Any, x: Array) -> Array:
    return _exp_minus_square(xp, x) * _rational(_MIDDLE, x)


def _far(xp: Any, x: Array) -> Array:
    with_limit = xp.minimum(x, 30)  # erfc is 0 long before, and 1/x² of an infinite x is harmless but 0 · ∞ is not
    inverse_square = 1 / (with_limit * with_limit)
    series = (1 / math.sqrt(math.pi) - inverse_square * _rational(_FAR, inverse_square)) / with_limit
    return _exp_minus_square(xp, with_limit) * series


def _rational(coefficients: tuple[tuple[float, ...], tuple[float, ...]], z: Array) -> Array:
    """The quotient of two polynomials in z, by Horner's rule."""
    above, below = coefficients
    numerator, denominator = above[0] * z + above[1], below[0] * z + below[1]
    for a, b in zip(above[2:], below[2:], strict=True):
        numerator = numerator * z + a
        denominator = denominator * z + b
    return numerator / denominator


def _exp_minus_square(xp: Any, x: Array) -> Array:
    """exp(-x²) without the rounding error of x², which the exponential would magnify: x = rounded to 1/16 + rest."""
    rounded = xp.trunc(x * 16) / 16
    return xp.exp(-rounded * rounded) * xp.exp(-(x - rounded) * (x + rounded))
