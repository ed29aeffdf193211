#!/bin/sh
# Astropy 8.0.2: non-linear fitters do not find a polynomial that has a domain, even in exact data; LinearLSQFitter does.
#
# Seen on 2026-11-27 with astropy 8.0.2, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: the coefficients of the data, 1, 0.5 and 0.2: the residuals are linear in them, and the minimum is 0.
# Why: TRFLSQFitter and the others follow fit_deriv unless estimate_jacobian=True.  The model maps x from domain to window before it
#   evaluates the polynomial; the derivatives by the coefficients are those of the mapped x.
# Seen: fit_deriv takes x as it is.  From zeros, the fit ends at (0.71, -0.06, 0.01) for Chebyshev1D, with nothing more than the warning that
#   the model is linear; Legendre1D, Hermite1D, Polynomial1D do the same.  With estimate_jacobian=True, or without a domain, it is exact.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q astropy==8.0.2 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from astropy.modeling import fitting, models

x = np.linspace(0, 10, 30)
right = [1.0, 0.5, 0.2]
changed = False
for polynomial in (models.Chebyshev1D, models.Legendre1D, models.Hermite1D, models.Polynomial1D):
    truth = polynomial(2, domain=[0, 10])
    truth.parameters = right
    h, given = 1e-6, truth.fit_deriv(x, *right)
    sides = [polynomial(2, domain=[0, 10]) for _ in range(2)]
    for side, step in zip(sides, (h, -h)):
        side.parameters = [1.0, 0.5 + step, 0.2]
    slope = (sides[0](x) - sides[1](x)) / (2 * h)
    print(f"{polynomial.__name__}: derivative by c1 at x = 10: fit_deriv {given[-1][1]:.4f}, differences {slope[-1]:.4f}")
    changed |= abs(given[-1][1] - slope[-1]) < 1
    for fitter in (fitting.TRFLSQFitter, fitting.LMLSQFitter):
        found = fitter()(polynomial(2, domain=[0, 10]), x, truth(x)).parameters
        estimated = fitter()(polynomial(2, domain=[0, 10]), x, truth(x), estimate_jacobian=True).parameters
        print(f"  {fitter.__name__}: {found.round(3)}, with estimate_jacobian=True {estimated.round(3)}")
        changed |= bool(np.allclose(found, right, atol=0.1)) or not np.allclose(estimated, right, atol=1e-5)
    linear = fitting.LinearLSQFitter()(polynomial(2, domain=[0, 10]), x, truth(x)).parameters
    changed |= not np.allclose(linear, right)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
