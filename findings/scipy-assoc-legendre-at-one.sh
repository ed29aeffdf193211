#!/bin/sh
# SciPy 1.17.1: special.assoc_legendre_p(n, m, z, norm=True) is not normalised at z = 1 and -1; second derivatives there are wrong without norm too.
#
# Seen on 2026-11-27 with SciPy 1.17.1 (the newest that pip installs on Python 3.11), NumPy 2.4.6.
# Expected before running: at z = 1 what it is at z = 1 - 1e-9: for an even order m these functions are polynomials in z.
# Why: P_n^0(1) = 1, and the factor of norm=True is sqrt((2 n + 1) / 2 (n - m)! / (n + m)!), as the documentation says.
# Seen: the branch for |z| = 1 does not know norm: values and both derivatives are those of norm=False (1 in place of 1.2247 for n = 1, m = 0).
#   With norm=False too, the second derivative for m = -2 is -0.25 for every n (n = 3: -0.75), and 0 for m = -4 (n = 4: 0.0208).
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q scipy==1.17.1 numpy==2.4.6
"$dir/venv/bin/python" - <<'PY'
import math

import numpy as np
from scipy.special import assoc_legendre_p

changed = False
for n, m, norm in ((1, 0, True), (2, 0, True), (2, 2, True), (2, 0, False), (2, -2, False), (3, -2, False), (4, -4, False)):
    at, beside, inside = (assoc_legendre_p(n, m, z, norm=norm, diff_n=2) for z in (1.0, 1 - 1e-9, 0.5))
    h = 1e-4
    slopes = [(assoc_legendre_p(n, m, 0.5 + h, norm=norm, diff_n=2) - assoc_legendre_p(n, m, 0.5 - h, norm=norm, diff_n=2)) / (2 * h)]
    plain = assoc_legendre_p(n, m, 1.0, norm=False, diff_n=2)
    print(f"n={n}, m={m}, norm={norm}: value and two derivatives at 1 {at.round(4)}, at 1 - 1e-9 {beside.round(4)}")
    changed |= not np.allclose(inside[1:], slopes[0][:2], rtol=1e-5)  # inside, the derivatives are right
    wrong = norm or m < -2 or (n, m) == (3, -2)
    changed |= bool(np.allclose(at, beside, rtol=1e-4, atol=1e-5)) == wrong or not np.array_equal(at, plain)
factor = assoc_legendre_p(1, 0, 0.5, norm=True)[0] / assoc_legendre_p(1, 0, 0.5)[0]
changed |= not math.isclose(factor, math.sqrt(1.5), rel_tol=1e-12)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
