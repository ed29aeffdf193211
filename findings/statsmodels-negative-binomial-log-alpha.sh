#!/bin/sh
# statsmodels 0.15.0: the Hessian of NegativeBinomial (NB1, NB2) is not the derivative of its score.
#
# Seen on 2026-11-27 with statsmodels 0.15.0, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: hessian(p) is the derivative of score(p), which is the derivative of loglike(p), as the
#   docstrings of the three methods say ("hessian" is the matrix of second derivatives of the log-likelihood).
# Why: the last parameter of a new model is log(alpha).  loglike and score follow it (chain rule: a factor alpha), and
#   hessian does not: with a = log(alpha), the cross terms need alpha * d2l/(db dalpha), the last element
#   alpha^2 * d2l/dalpha^2 + alpha * dl/dalpha.
# Seen: the cross terms lack the factor alpha (0.4966 here) and the last diagonal element is -67.79 in place of -8.83 (nb1), -93.00 in
#   place of -31.43 (nb2); the block of the coefficients is right.  fit(method="minimize", min_method="Newton-CG"), which maximises in log(alpha),
#   ends with a log-likelihood of nan, while fit(method="bfgs") finds the maximum.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q statsmodels==0.15.0 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import statsmodels.api as sm

rng = np.random.default_rng(1)
x = sm.add_constant(rng.normal(size=(300, 2)) * 0.5)
y = rng.poisson(np.exp(x @ [0.8, 0.3, -0.4]) * rng.gamma(2, 0.5, 300)).astype(float)
p = np.array([0.8, 0.3, -0.4, -0.7])
h = 1e-5


def differences(f):
    return np.array([(f(p + h * e) - f(p - h * e)) / (2 * h) for e in np.eye(4)])


changed = False
for method in ("nb1", "nb2"):
    model = sm.NegativeBinomial(y, x, loglike_method=method)
    found, expected = model.hessian(p), differences(model.score)
    print(method, "score is right:", np.allclose(model.score(p), differences(model.loglike), rtol=1e-5))
    print(method, "hessian, last row:    ", found[-1].round(4))
    print(method, "differences of score: ", expected[-1].round(4))
    ratio = expected[-1, :-1] / found[-1, :-1]
    print(method, "ratio of cross terms: ", ratio.round(6), "alpha:", np.exp(p[-1]).round(6))
    changed |= not np.allclose(model.score(p), differences(model.loglike), rtol=1e-5)
    changed |= not np.allclose(found[:-1, :-1], expected[:-1, :-1], rtol=1e-5)
    changed |= not np.allclose(ratio, np.exp(p[-1]), rtol=1e-4)
    changed |= bool(np.isclose(found[-1, -1], expected[-1, -1], rtol=0.1))
best = sm.NegativeBinomial(y, x).fit(method="bfgs", disp=0).llf
newton = sm.NegativeBinomial(y, x).fit(method="minimize", min_method="Newton-CG", maxiter=200, disp=0).llf
print("log-likelihood by bfgs:", round(best, 4), " by Newton-CG with this Hessian:", newton)
changed |= bool(np.isclose(best, newton, rtol=1e-6))
raise SystemExit("The behaviour has changed." if changed else 0)
PY
