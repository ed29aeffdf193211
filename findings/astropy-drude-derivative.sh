#!/bin/sh
# Astropy 8.0.2: Drude1D.fit_deriv returns a wrong derivative by x_0; fits follow it, and report half the standard error of x_0.
#
# Seen on 2026-11-27 with astropy 8.0.2, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: the derivative of evaluate by each parameter, as the fit_deriv of Lorentz1D, Voigt1D and 30 more models do.
# Why: the derivative of x / x_0 is -x / x_0**2; fit_deriv has -x / x_0 there, besides another factor of the width that does not cancel.
# Seen: at x = 0.95, all parameters 1: 1.535 in place of -0.424.  A fit to noisy data still ends at the minimum, with more steps,
#   and with calc_uncertainties=True the standard error of x_0 is 0.0028; with estimate_jacobian=True it is 0.0057.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q astropy==8.0.2 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from astropy.modeling import fitting
from astropy.modeling.physical_models import Drude1D

changed = False
h = 1e-6
for x, p in ((0.95, (1.0, 1.0, 1.0)), (2.0, (1.0, 3.0, 0.8))):
    found = np.array(Drude1D.fit_deriv(x, *p))
    expected = [(Drude1D.evaluate(x, *(p + h * e)) - Drude1D.evaluate(x, *(p - h * e))) / (2 * h) for e in np.eye(3)]
    print(f"x = {x}, amplitude, x_0, fwhm = {p}: fit_deriv {found.round(4)}, differences {np.round(expected, 4)}")
    changed |= (abs(found - expected) > 1e-2).tolist() != [False, True, False]
x = np.linspace(1, 6, 60)
y = Drude1D(1.0, 3.0, 0.8)(x) + np.random.default_rng(0).normal(0, 0.03, 60)
errors = []
for estimate in (False, True):
    fit = fitting.TRFLSQFitter(calc_uncertainties=True)(Drude1D(0.8, 2.5, 1.0), x, y, estimate_jacobian=estimate)
    print(f"estimate_jacobian={estimate}: {fit.parameters.round(4)}, standard errors {np.round(fit.stds.stds, 4)}")
    errors.append(fit.stds.stds[1])
changed |= not 0.4 < errors[0] / errors[1] < 0.6
raise SystemExit("The behaviour has changed." if changed else 0)
PY
