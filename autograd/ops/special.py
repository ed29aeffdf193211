"""The normal distribution and the error function, which NumPy lacks, from its elementary functions."""

from __future__ import annotations

import math
from typing import Any

Array = Any

# (1 + 2z) · exp(z²) · erfc(z) for all z ≥ 0 as a polynomial in t = (z - 3.75) / (z + 3.75), highest power first:
# interpolation at the Chebyshev nodes, computed with 60 digits.
# Source: M. M. Shepherd and J. G. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in 0 ≤ x < ∞",
# Mathematics of Computation 36 (1981), 249-253
_FLOAT64 = (
    -3.7980647235900285e-11, 4.2433038251096756e-10, 5.485084520083625e-10, -5.169080644815932e-09,
    -4.396921916762906e-09, 3.866242066283792e-08, 2.4301839484503084e-08, -2.586489910718322e-07,
    -5.827501862768691e-08, 1.7516189406943677e-06, -9.728413451815077e-07, -1.1444134389658475e-05,
    2.238390827660038e-05, 5.1649093885821704e-05, -0.0002901539781378384, 0.0002937136669846131,
    0.0017556258321915355, -0.009746579558275152, 0.02836227742154398, -0.05869339858961116,
    0.09230432116019638, -0.10880393014175023, 0.08227673849015109, 0.0035854154854644583,
    -0.14024059858554702, 1.2375126308378275,
)  # fmt: skip
_FLOAT32 = (
    1.8780736285192822e-05, 2.1987965983870166e-05, -0.0002851543388991308, 0.00033034420935822574,
    0.001752209498690462, -0.009770286714565772, 0.028363473790408853, -0.05868533658608146,
    0.09230412174644181, -0.10880525203898243, 0.08227675095346368, 0.0035854974289632052,
    -0.1402405987127234, 1.2375126300030113,
)  # fmt: skip


def normal_distribution(xp: Any, x: Array) -> tuple[Array, Array]:
    """The density φ(x) = exp(-x²/2) / √(2π) and the distribution Φ(x) = ∫ φ up to x = erfc(-x/√2) / 2.

    Accurate to a few roundings, relative to the larger of Φ(x) and 1 - Φ(x); the small one loses what rounding x²
    costs, a factor of 1 + x².  One formula serves all x, because choosing formulas by masks takes longer than any.

    Shapes: x [...], float32 or float64 -> [...], [...] in the same dtype
    """
    z = xp.minimum(xp.abs(x), 40)  # both are at their limits, and ∞ would make NaNs below
    z = z * math.sqrt(0.5)
    density = xp.exp(-z * z)
    tail = _polynomial(xp, _FLOAT32 if x.dtype == xp.float32 else _FLOAT64, 1 - 7.5 / (z + 3.75))
    tail /= 2 + 4 * z
    tail *= density  # erfc(z) / 2 = 1 - Φ(|x|)
    density *= 1 / math.sqrt(2 * math.pi)
    return density, tail + (1 - 2 * tail) * (x >= 0)  # Φ is the tail for x < 0, else 1 - tail


def erf(xp: Any, x: Array) -> Array:
    """2/√π · ∫ exp(-t²) from 0 to x, accurate to a few roundings: a power series below 1, 1 - erfc(|x|) above.

    Shapes: x [...], float32 or float64 -> [...] in the same dtype
    """
    z = xp.minimum(xp.abs(x), 40)  # at its limit, and ∞ would make NaNs below
    tail = _polynomial(xp, _FLOAT32 if x.dtype == xp.float32 else _FLOAT64, 1 - 7.5 / (z + 3.75))
    tail *= xp.exp(-z * z) / (1 + 2 * z)  # erfc(z)
    inside = xp.minimum(z, 1)
    return xp.where(z < 1, x * _polynomial(xp, _ERF_SERIES, inside * inside), xp.copysign(1 - tail, x))


_ERF_SERIES = tuple(
    [2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(20, -1, -1)]
)  # erf(x) / x in powers of x², highest first


def _polynomial(xp: Any, coefficients: tuple[float, ...], t: Array) -> Array:
    """Σ coefficients · powers of t, by Horner's rule, in place."""
    value = xp.full(t.shape, coefficients[0], t.dtype)
    for coefficient in coefficients[1:]:
        value *= t
        value += coefficient
    return value
