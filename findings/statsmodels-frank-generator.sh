#!/bin/sh
# statsmodels 0.15.0: the first and second derivatives of the Frank copula's generator have the wrong sign.
#
# Seen on 2026-11-28 with statsmodels 0.15.0, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: deriv and deriv2 are the derivatives of evaluate, for all generators in statsmodels.distributions.copula.transforms.
# Why: the generator phi of an Archimedean copula falls and is convex; Kendall's tau is 1 + 4 times the integral of phi / phi' (Genest and MacKay).
# Seen: right for Clayton and independence.  Frank's deriv is positive and its deriv2 negative, though evaluate falls and is convex; so tau by
#   the formula, for theta 2, is 1.786, beyond any correlation, where FrankCopula(2).tau() and the derivative of evaluate say 0.214.
#   The library's own densities are right: they take absolute values.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q statsmodels==0.15.0 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from scipy.integrate import quad
from statsmodels.distributions.copula import transforms
from statsmodels.distributions.copula.api import ClaytonCopula, FrankCopula

t, h = np.array([0.1, 0.3, 0.6, 0.9]), 1e-4
changed = False
for name, parameters, copula in (("Clayton", (2.0,), ClaytonCopula(2.0)), ("Frank", (2.0,), FrankCopula(2.0)), ("Indep", (), None)):
    generator = getattr(transforms, "Transf" + name)()

    def phi(t):
        return generator.evaluate(t, *parameters)

    first = (phi(t + h) - phi(t - h)) / (2 * h)
    second = (phi(t + h) - 2 * phi(t) + phi(t - h)) / h**2
    found, found2 = generator.deriv(t, *parameters), generator.deriv2(t, *parameters)
    print(f"{name}: deriv {found.round(3)}, differences {first.round(3)}; deriv2 {found2.round(2)}, differences {second.round(2)}")
    sign = -1 if name == "Frank" else 1
    changed |= not np.allclose(found, sign * first, rtol=1e-3) or not np.allclose(found2, sign * second, rtol=1e-3)
    changed |= not (first < 0).all() or not (second > 0).all()
    if copula is not None:
        by_deriv = 1 + 4 * quad(lambda s: phi(s) / generator.deriv(s, *parameters), 0, 1)[0]
        print(f"  tau: by the formula {by_deriv:.4f}, by the library {copula.tau():.4f}")
        changed |= abs((by_deriv if sign == 1 else 2 - by_deriv) - copula.tau()) > 1e-4
raise SystemExit("The behaviour has changed." if changed else 0)
PY
