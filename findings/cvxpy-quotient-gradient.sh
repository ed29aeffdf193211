#!/bin/sh
# CVXPY 1.9.3: the gradient of a quotient takes no notice of its denominator; that of 2 / s is 0.
#
# Seen on 2026-11-27 with cvxpy 1.9.3, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: expression.grad agrees with differences of expression.value, as it does for 70 other atoms tried, products of
#   two variables among them; None, or an error, where an atom has no derivative.
# Why: a quotient of two expressions is valid (quasiconvex, and geometric, programs are made of them), has a value, and its derivatives
#   are 1 / s and -x / s**2.
# Seen: grad treats it as linear.  The derivative of t / s is 1 by t and 0 by s at every point, that of norm(x) / s is the one of norm(x).  For
#   a vector numerator, only the first element gets one.  So diff_pos(t, s), which is t * (1 - s / t), is wrong too.  With a constant denominator,
#   and as t * inv_pos(s), all is right.  linearize(x / y) is no tangent.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q cvxpy==1.9.3 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import cvxpy as cp
import numpy as np
from cvxpy.transforms.linearize import linearize

x, t, s = cp.Variable(3), cp.Variable(), cp.Variable()
x.value, t.value, s.value = np.array([1.0, 2.0, 3.0]), np.array(3.0), np.array(2.0)


def gradient(expression, variable):
    found = expression.grad[variable]
    found = found.toarray() if hasattr(found, "toarray") else found
    return np.asarray(found, float).reshape(variable.size, expression.size)


def differences(expression, variable, h=1e-6):
    start, rows = variable.value.copy(), []
    for e in np.eye(variable.size).reshape((-1, *variable.shape)):
        sides = []
        for step in (h, -h):
            variable.value = start + step * e
            sides.append(np.array(expression.value, float).ravel())
        rows.append((sides[0] - sides[1]) / (2 * h))
    variable.value = start
    return np.array(rows)


changed = False
for name, expression, wrong in (
    ("2 / s", 2 / s, [s]),
    ("t / s", t / s, [t, s]),
    ("norm(x) / s", cp.norm(x) / s, [x, s]),
    ("x / s", x / s, [x, s]),
    ("diff_pos(t, s)", cp.diff_pos(t, s), [t, s]),
    ("t / 2", t / 2, []),
    ("t * inv_pos(s)", t * cp.inv_pos(s), []),
    ("multiply(x, s)", cp.multiply(x, s), []),
):
    for variable in expression.variables():
        found, expected = gradient(expression, variable), differences(expression, variable)
        letter = "x" if variable is x else "t" if variable is t else "s"
        print(f"{name} by {letter}: grad {found.round(4).tolist()}, differences {expected.round(4).tolist()}")
        changed |= np.allclose(found, expected, atol=1e-4) != all(variable is not v for v in wrong)
y = cp.Variable(3)
y.value = np.array([2.0, 2.0, 2.0])
quotient, tangent = x / y, linearize(x / y)
for at in (2.0, 2.1, 2.2):
    y.value = np.full(3, at)
    print(f"y = {at}: x / y = {quotient.value.round(4)}, linearize at y = 2: {tangent.value.round(4)}")
changed |= not np.allclose(tangent.value, [0.5, 1.0, 1.5])
raise SystemExit("The behaviour has changed." if changed else 0)
PY
