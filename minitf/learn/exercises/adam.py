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

from minitf.learn.expect import equal, true, unchanged


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

G = [np.array([0.5, -2.0, 1e-3]), np.array([-0.25, -1.0, 2e-3]), np.array([1.0, 0.5, -1e-3])]


def _run(
    steps, eps=1e-2, *, betas=(0.9, 0.98), correct1=True, correct2=True, inside=False, absolute=False, root=True,
    first=1, exchanged=False, inverted=False, linear=False,
):  # fmt: skip
    p, m, v = np.array([1.0, 2.0, 3.0]), np.zeros(3), np.zeros(3)
    b1, b2 = betas[::-1] if exchanged else betas
    with np.errstate(all="ignore"):
        for t, g in enumerate(G[:steps], first):
            old, new = ((1 - b1, 1 - b2), (b1, b2)) if inverted else ((b1, b2), (1 - b1, 1 - b2))
            m = old[0] * m + new[0] * g
            v = old[1] * v + new[1] * (abs(g) if absolute else g**2)
            mh = m / (1 - (b1 * t if linear else b1**t)) if correct1 else m
            vh = v / (1 - (b2 * t if linear else b2**t)) if correct2 else v
            if inside:
                divisor = np.sqrt(vh + eps)
            else:
                divisor = (np.sqrt(vh) if root else vh) + eps
            p = p - 0.1 * mh / divisor
    return p


def _of(answer, steps, **betas):
    p, m, v = np.array([1.0, 2.0, 3.0]), np.zeros(3), np.zeros(3)
    for t, g in enumerate(G[:steps], 1):
        answer.adam_step(p, g, m, v, t, 0.1, eps=1e-2, **betas)
    return p, m, v


def _mistakes(steps):
    return {
        "nothing has changed: update the arrays in place (parameter -= …)": np.array([1.0, 2.0, 3.0]),
        "no bias correction: m and v are used as they are": _run(steps, correct1=False, correct2=False),
        "no bias correction of m": _run(steps, correct1=False),
        "no bias correction of v": _run(steps, correct2=False),
        "eps is inside the root; it is added after it": _run(steps, inside=True),
        "v is made of |g| where g² is meant": _run(steps, absolute=True),
        "the root of v̂ is missing": _run(steps, root=False),
        "β₁ and β₂ are exchanged": _run(steps, exchanged=True),
        "steps count from 1: the bias correction is that of the next step": _run(steps, first=2),
        "the sign is wrong: the update goes against the gradient": 2 * np.array([1.0, 2.0, 3.0]) - _run(steps),
        "eps is missing, or not the one given": _run(steps, eps=0.0),
        "β and 1 - β are exchanged: most of the old moment is kept": _run(steps, inverted=True),
        "the bias correction is 1 - β^t, a power; here it is 1 - β · t": _run(steps, linear=True),
        "neither bias correction nor eps": _run(steps, eps=0.0, correct1=False, correct2=False),
    }


def check_first_step(answer):
    """the first step"""
    before = G[0].copy()
    p = _of(answer, 1)[0]
    equal("the parameter after step 1", p, _run(1), _mistakes(1))
    unchanged("g", before, G[0])


def check_moments(answer):
    """the moments after the first step"""
    _, m, v = _of(answer, 1)
    true(
        m.any() and v.any(),
        "m or v stays 0 for the caller: update them in place (m *= beta1; m += …), `m = …` makes another",
    )
    corrected = "the corrected moment is kept; keep the one without correction, and correct it for the update alone"
    equal("m after step 1", m, 0.1 * G[0], {corrected: G[0]})
    equal("v after step 1", v, 0.02 * G[0] ** 2, {corrected: G[0] ** 2})


def check_three_steps(answer):
    """three steps"""
    equal("the parameter after step 3", _of(answer, 3)[0], _run(3), _mistakes(3))


def check_other_betas(answer):
    """other values of β₁ and β₂"""
    mistakes = {
        "beta1 is not used: 0.9 is its default": _run(3, betas=(0.9, 0.7)),
        "beta2 is not used: 0.98 is its default": _run(3, betas=(0.5, 0.98)),
        "beta1 and beta2 are not used: 0.9 and 0.98 are their defaults": _run(3),
    }
    p = _of(answer, 3, beta1=0.5, beta2=0.7)[0]
    equal("the parameter after step 3", p, _run(3, betas=(0.5, 0.7)), mistakes)
