#!/bin/sh
# HIPS autograd 1.9.1: the gradients of chi2.logpdf and chi2.pdf by x are 0 as soon as the degrees of freedom are not a whole number.
#
# Seen on 2026-11-28 with autograd 1.9.1, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: grad(chi2.logpdf)(x, df) is (df / 2 - 1) / x - 1 / 2 for every df > 0, the derivative of the value returned.
# Why: SciPy's density, which is called for the value, holds for real df > 0; chi-squared variables of 7.5 degrees of freedom are usual, as in the
#   approximations of Welch and Satterthwaite; and the gradient of autograd's own gamma.logpdf at (x / 2, df / 2) is half of it.
# Seen: right for whole numbers, 0 for all others, without a word.  Where BFGS fits one factor to 200 values whose right one is 3, it finds 2.89
#   with 8 degrees of freedom and stays where it began, at 1, with 7.5; with differences it finds 2.89 then too.  chi2.cdf's is right.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q autograd==1.9.1 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import autograd.numpy as np
from autograd import elementwise_grad, grad
from autograd.scipy.stats import chi2, gamma
from scipy.optimize import minimize

x = np.array([0.7, 2.0, 5.0, 11.0])
h = 1e-6
changed = False
for df in (8.0, 7.5):
    whole = df == 8
    for name in ("logpdf", "pdf", "cdf"):
        f = getattr(chi2, name)
        found, expected = elementwise_grad(f)(x, df), (f(x + h, df) - f(x - h, df)) / (2 * h)
        print(f"df {df}: {name} by x: autograd {found.round(4)}, differences {expected.round(4)}")
        right = np.allclose(found, expected, rtol=1e-5, atol=1e-8)
        changed |= right != (whole or name == "cdf") or (not right and bool(found.any()))
        if name == "logpdf":
            by_gamma = elementwise_grad(lambda x: gamma.logpdf(x / 2, df / 2))(x)
            changed |= not np.allclose(by_gamma, expected, rtol=1e-5)

    y = 3 * np.random.default_rng(0).chisquare(df, size=200)

    def cost(p):
        return -np.mean(chi2.logpdf(y / np.exp(p[0]), df)) + p[0]

    fits = {name: minimize(cost, [0.0], jac=jac, method="BFGS") for name, jac in (("autograd", grad(cost)), ("differences", None))}
    factors = {name: float(np.exp(fit.x[0])) for name, fit in fits.items()}
    costs = {name: float(fit.fun) for name, fit in fits.items()}
    print(f"df {df}: factor {factors}, cost {costs}")
    changed |= not abs(factors["differences"] - 3) < 0.3
    changed |= (abs(factors["autograd"] - factors["differences"]) < 0.01) != whole
raise SystemExit("The behaviour has changed." if changed else 0)
PY
