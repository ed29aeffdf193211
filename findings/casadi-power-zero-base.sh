#!/bin/sh
# CasADi 3.8.2: the derivative of x**y by the exponent y is nan at x = 0, y > 0, where the function is constantly 0.
#
# Seen on 2026-11-27 with casadi 3.8.2, NumPy 2.4.6, Python 3.11.
# Expected before running: 0: 0**y is 0 for every y > 0, and x**y log(x) tends to 0 as x does.  JAX and PyTorch return 0 here.
# Why: the rule x**y * log(x), taken as it stands, is 0 * -inf = nan.
# Seen: jacobian(x**y, [x, y]) at (0, 2) is [0, nan], at (1e-300, 2) [2e-300, -0]; with y a constant, the derivative by x is right.
#   So a power law with a free exponent has no gradient as soon as one data point is 0.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q casadi==3.8.2 numpy==2.4.6
"$dir/venv/bin/python" - <<'PY'
import casadi
import numpy as np

x, y = casadi.SX.sym("x"), casadi.SX.sym("y")
f = casadi.Function("f", [x, y], [x**y])
g = casadi.Function("g", [x, y], [casadi.jacobian(x**y, casadi.vertcat(x, y))])
h = 1e-6
changed = False
for at in ((0.0, 2.0), (0.0, 1.0), (0.0, 0.5), (1e-300, 2.0), (1.5, 2.0)):
    found = np.array(g(*at)).ravel()
    expected = float(f(at[0], at[1] + h) - f(at[0], at[1] - h)) / (2 * h)
    print(f"x, y = {at}: derivative by y {found[1]}, differences {expected:.6f}")
    changed |= not np.isnan(found[1]) if at[0] == 0 else abs(found[1] - expected) > 1e-5
    changed |= at[0] == 0 and expected != 0
raise SystemExit("The behaviour has changed." if changed else 0)
PY
