#!/bin/sh
# statsmodels 0.15.0: TruncatedLFPoisson takes the logarithm of the exposure twice, so its estimates are of no model at all.
#
# Seen on 2026-11-27 with statsmodels 0.15.0, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: the same fit with exposure=t as with offset=log(t): "Log(exposure) is added to the linear prediction with
#   coefficient equal to 1."
# Why: Poisson and ZeroInflatedPoisson give the same numbers both ways.
# Seen: the constructor stores log(t), and hands that on as the exposure of the untruncated model in its likelihood.  For exposures
#   between 2 and 20 the constant is 0.174 with exposure=t and -1.504 with offset=log(t); the truth is -1.5, at more than 100 standard errors.
#   With exposures below 1, the log-likelihood is nan.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q statsmodels==0.15.0 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from statsmodels.discrete.count_model import ZeroInflatedPoisson
from statsmodels.discrete.discrete_model import Poisson
from statsmodels.discrete.truncated_model import TruncatedLFPoisson

rng = np.random.default_rng(0)
x = np.column_stack([np.ones(2000), rng.normal(size=2000)])
t = rng.uniform(2, 20, 2000)
y = rng.poisson(t * np.exp(x @ [-1.5, 0.5]))
k = y > 0
changed = False
for model, same in ((Poisson, True), (ZeroInflatedPoisson, True), (TruncatedLFPoisson, False)):
    a = model(y[k], x[k], exposure=t[k]).fit(disp=0, maxiter=200)
    b = model(y[k], x[k], offset=np.log(t[k])).fit(disp=0, maxiter=200)
    print(f"{model.__name__}: exposure=t {a.params.round(4)}, log-likelihood {a.llf:.2f}")
    print(f"{' ' * len(model.__name__)}  offset=log(t) {b.params.round(4)}, log-likelihood {b.llf:.2f}")
    changed |= np.allclose(a.params, b.params, atol=0.01) != same
    if model is TruncatedLFPoisson:
        print("standard errors with exposure=t:", a.bse.round(4))
        changed |= not (np.allclose(b.params, [-1.5, 0.5], atol=0.06) and abs(a.params[0] + 1.5) > 1)
small = TruncatedLFPoisson(y[k], x[k], exposure=t[k] / 40).loglike([1.0, 0.5])
print("log-likelihood with exposures below 1:", small)
changed |= not np.isnan(small)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
