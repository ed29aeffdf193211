#!/bin/sh
# PyTensor 3.0.7: the gradient of cumprod is nan where a factor is 0; that of prod at the same numbers is right.
#
# Seen on 2026-11-27 with pytensor 3.0.7, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: what prod does: its gradient with a zero among the factors is the product of the others.
# Why: cumprod is a polynomial; d/dx_i of sum_j c_j prod_{k<=j} x_k = sum_{j>=i} c_j prod_{k<=j, k!=i} x_k, which needs no division.
# Seen: for [2, 0, 3], the sum of cumprod has the gradient [1, 8, 0]; PyTensor gives [1, nan, 0] (it divides by the input: 0/0).
#   pt.prod gives [0, 6, 0], as it should: the two meet in the last element of cumprod, and disagree.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q pytensor==3.0.7 numpy==2.4.6 scipy==1.17.1
PYTENSOR_FLAGS="cxx=,linker=py,mode=FAST_COMPILE,base_compiledir=$dir/compiled" "$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import pytensor
import pytensor.tensor as pt

x = pt.dvector("x")
at = np.array([2.0, 0.0, 3.0])
h = 1e-6
changed = False
for name, y in (("cumprod, summed", pt.cumprod(x).sum()), ("cumprod, last element", pt.cumprod(x)[-1]), ("prod", pt.prod(x))):
    value = pytensor.function([x], y)
    found = pytensor.function([x], pytensor.grad(y, x))(at)
    expected = np.array([(value(at + h * e) - value(at - h * e)) / (2 * h) for e in np.eye(3)])
    print(f"{name} at {at}: gradient {found}, differences {expected.round(6)}")
    right = np.allclose(found, expected, atol=1e-6)
    changed |= right if name.startswith("cumprod") else not right
    changed |= name.startswith("cumprod") and not np.isnan(found[1])
raise SystemExit("The behaviour has changed." if changed else 0)
PY
