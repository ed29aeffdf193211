"""Adam: moments with bias correction

    m = β₁ m + (1 - β₁) g            v = β₂ v + (1 - β₂) g²
    m̂ = m / (1 - β₁^t)               v̂ = v / (1 - β₂^t)
    parameter = parameter - rate · m̂ / (√v̂ + eps)

t counts steps from 1. m and v start at 0 and are small in the first steps; the bias correction makes up for it.
All three arrays are updated in place; the gradient is not changed.

Shapes: parameter, g, m, v of one shape; step = t -> None
Source: section 5.3; Kingma & Ba 2015
"""

import numpy as np

from additions.course.expect import true, unchanged


def adam_step(parameter, g, m, v, step, rate, beta1=0.9, beta2=0.98, eps=1e-9):
    """Update parameter, m and v in place."""
    # solution
    m *= beta1
    m += (1 - beta1) * g
    v *= beta2
    v += (1 - beta2) * g**2
    m_hat = m / (1 - beta1**step)
    v_hat = v / (1 - beta2**step)
    parameter -= rate * m_hat / (np.sqrt(v_hat) + eps)
    # end


HINTS = (
    "m = β₁ m + … gives the name m to another array, and the caller's is unchanged; m *= beta1, m += … or m[...] = … "
    "change it.",
    "The moments are kept without correction; m̂ and v̂ are used for this step's update alone.",
    "eps is added after the root: rate * m_hat / (np.sqrt(v_hat) + eps).",
)

M_HAT, V_HAT = "m / (1 - beta1**step)", "v / (1 - beta2**step)"
BEGIN = "    m *= beta1\n"
KEPT = "the corrected moment is kept; keep the one without correction, and correct it for the update alone"
MISTAKES = (
    ("nothing has changed: update the arrays in place (parameter -= …)",
     "parameter -= rate", "parameter = parameter - rate"),
    ("no bias correction: m and v are used as they are", M_HAT, "m", V_HAT, "v"),
    ("no bias correction of m", M_HAT, "m"),
    ("no bias correction of v", V_HAT, "v"),
    ("the root of v̂ is missing", "np.sqrt(v_hat)", "v_hat"),
    ("steps count from 1: the bias correction is that of the next step", BEGIN, f"    step += 1\n{BEGIN}"),
    ("the sign is wrong: the update goes against the gradient", "parameter -= rate", "parameter += rate"),
    ("β and 1 - β are exchanged: most of the old moment is kept",
     BEGIN, "    m *= 1 - beta1\n", "(1 - beta1) * g", "beta1 * g",
     "    v *= beta2\n", "    v *= 1 - beta2\n", "(1 - beta2) * g", "beta2 * g"),
    ("the bias correction is 1 - β^t, a power; here it is 1 - β · t",
     "beta1**step", "beta1 * step", "beta2**step", "beta2 * step"),
    ("neither bias correction nor eps", M_HAT, "m", V_HAT, "v", "(np.sqrt(v_hat) + eps)", "np.sqrt(v_hat)"),
    (KEPT, f"m_hat = {M_HAT}", "m /= 1 - beta1**step\n    m_hat = m"),
    (KEPT, f"v_hat = {V_HAT}", "v /= 1 - beta2**step\n    v_hat = v"),
    ("beta1 is not used: 0.9 is its default", BEGIN, f"    beta1 = 0.9\n{BEGIN}"),
    ("beta2 is not used: 0.98 is its default", BEGIN, f"    beta2 = 0.98\n{BEGIN}"),
    ("beta1 and beta2 are not used: 0.9 and 0.98 are their defaults", BEGIN, f"    beta1, beta2 = 0.9, 0.98\n{BEGIN}"),
)  # fmt: skip

G = [np.array([0.5, -2.0, 1e-3]), np.array([-0.25, -1.0, 2e-3]), np.array([1.0, 0.5, -1e-3])]


def _of(answer, steps, **betas):
    p, m, v = np.array([1.0, 2.0, 3.0]), np.zeros(3), np.zeros(3)
    for t, g in enumerate(G[:steps], 1):
        answer.adam_step(p, g, m, v, t, 0.1, eps=1e-2, **betas)
    return p, m, v


def check_first_step(answer):
    """the first step"""
    before = G[0].copy()
    yield "the parameter after step 1", _of(answer, 1)[0]
    unchanged("g", before, G[0])


def check_moments(answer):
    """the moments after the first step"""
    _, m, v = _of(answer, 1)
    true(
        m.any() and v.any(),
        "m or v stays 0 for the caller: update them in place (m *= beta1; m += …), `m = …` makes another",
    )
    yield "m after step 1", m
    yield "v after step 1", v


def check_three_steps(answer):
    """three steps"""
    yield "the parameter after step 3", _of(answer, 3)[0]


def check_other_betas(answer):
    """other values of β₁ and β₂"""
    yield "the parameter after step 3", _of(answer, 3, beta1=0.5, beta2=0.7)[0]
