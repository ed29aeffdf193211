#!/bin/sh
# SciPy 1.17.1: the derivative that special.obl_rad2(m, n, c, x) returns beside the value is not the derivative of the value (n - m odd).
#
# Seen on 2026-11-27 with SciPy 1.17.1 (the newest that pip installs on Python 3.11), NumPy 2.4.6.
# Expected before running: the second of the two returned numbers is the derivative of the first by x, as its documentation says.
# Besides: the two kinds solve ((x^2 + 1) R')' + ... R = 0, so (x^2 + 1) (R1 R2' - R1' R2) is a constant, by their asymptotic forms 1 / c.
# Seen at (m, n, c, x) = (1, 2, 2, 0.6): derivative -0.3559, while the values rise by 0.5768; at (1, 4, 2, 0.6) 32.70 in place of 4.187.
#   For n - m even the two agree.  In none of the six cases printed does the product with obl_rad1 have that constant.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q scipy==1.17.1 numpy==2.4.6
"$dir/venv/bin/python" - <<'PY'
from scipy.special import obl_rad1, obl_rad2

c, x, h = 2.0, 0.6, 1e-5
changed = False
for m, n in ((1, 1), (1, 2), (1, 3), (1, 4), (2, 4), (2, 5)):
    value, found = obl_rad2(m, n, c, x)
    slope = (obl_rad2(m, n, c, x + h)[0] - obl_rad2(m, n, c, x - h)[0]) / (2 * h)
    r1, d1 = obl_rad1(m, n, c, x)
    relation = (r1 * found - d1 * value) * c * (x * x + 1)
    print(f"obl_rad2({m}, {n}, {c}, {x}): derivative {found:.6g}, differences {slope:.6g}; Wronskian / expected {relation:.4f}")
    agrees = abs(found - slope) < 1e-3 * abs(slope)
    changed |= agrees != ((n - m) % 2 == 0) or abs(relation - 1) < 1e-2
raise SystemExit("The behaviour has changed." if changed else 0)
PY
