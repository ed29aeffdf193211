#!/bin/sh
# statsmodels 0.15.0: the Hessian of ZeroInflatedPoisson has zeros where the two parts of the model meet, so its standard errors are too small.
#
# Seen on 2026-11-27 with statsmodels 0.15.0, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: hessian(p) is the derivative of score(p), in full; fit() takes its standard errors from it.
# Why: one zero count may come from either part, so inflation and mean are correlated; the method computes these second derivatives ("d2l/dpdw").
# Seen: it then copies the lower triangle, where they are still 0, over the upper one.  Score and both diagonal blocks are right.
#   With logit inflation, the default, 500 counts give standard errors 0.180 and 0.061 for the two constants, in place of 0.232 and 0.077;
#   in 150 simulations the intervals meant to hold 95 % hold 89 % for both.  fit(cov_type="HC0") uses the same matrix.  inflation="probit",
#   which differentiates numerically, is right.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q statsmodels==0.15.0 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from statsmodels.discrete.count_model import ZeroInflatedPoisson

rng = np.random.default_rng(0)
truth = np.array([-0.5, 0.8, 0.2, 0.5])


def simulate():
    x = np.column_stack([np.ones(500), rng.normal(size=500)])
    zero = rng.random(500) < 1 / (1 + np.exp(-(x @ truth[:2])))
    return ZeroInflatedPoisson(np.where(zero, 0, rng.poisson(np.exp(x @ truth[2:]))), x, exog_infl=x)


def differences(f, p, h=1e-5):
    return np.array([(f(p + h * e) - f(p - h * e)) / (2 * h) for e in np.eye(len(p))])


model = simulate()
fit = model.fit(disp=0)
found, expected = model.hessian(fit.params), differences(model.score, fit.params)
print("hessian\n", found.round(3), "\ndifferences of score\n", expected.round(3))
print("standard errors:", fit.bse.round(4), " from differences:", np.sqrt(np.diag(np.linalg.inv(-expected))).round(4))
changed = not np.allclose(model.score(fit.params + 0.1), differences(model.loglike, fit.params + 0.1), rtol=1e-5)
changed |= not np.allclose(found[:2, :2], expected[:2, :2], rtol=1e-4)
changed |= not np.allclose(found[2:, 2:], expected[2:, 2:], rtol=1e-4)
changed |= bool(found[:2, 2:].any()) or abs(expected[:2, 2:]).min() < 1

held, right, estimates, claimed = [], [], [], []
while len(held) < 150:
    model = simulate()
    fit = model.fit(disp=0, maxiter=200)
    error = abs(fit.params - truth)
    exact = np.sqrt(np.diag(np.linalg.inv(-differences(model.score, fit.params))))
    held.append(error < 1.96 * fit.bse)
    right.append(error < 1.96 * exact)
    estimates.append(fit.params)
    claimed.append(fit.bse)
print("spread of 150 estimates:", np.std(estimates, axis=0).round(4), " mean standard error:", np.mean(claimed, axis=0).round(4))
print("95 % intervals that hold the truth:", np.mean(held, axis=0).round(3), " with the full Hessian:", np.mean(right, axis=0).round(3))
changed |= not (np.mean(held, axis=0)[[0, 2]] < 0.92).all() or np.mean(right) < 0.93
raise SystemExit("The behaviour has changed." if changed else 0)
PY
