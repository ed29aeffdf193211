#!/bin/sh
# statsmodels 0.15.0: the score of TruncatedLFGeneralizedPoisson is that of another model, also with every default; fit() ends beside the maximum.
#
# Seen on 2026-11-27 with statsmodels 0.15.0, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: score(p) is the derivative of loglike(p), and fit() ends where it is 0.
# Why: loglike is that of counts with the power p of the constructor (default 2), less the log of the probability of being kept.
# Seen: the score of that probability is made with a new GeneralizedPoisson that is not given p, and whose own default is 1.  At p=1 the score
#   is right; TruncatedLFNegativeBinomialP, whose default agrees (2), is wrong at p=1.
#   fit() of 1,682 counts ends at the log-likelihood -3320.1 (BFGS, with a warning that it did not converge) or -3486.6 (L-BFGS, whose
#   mle_retvals say that it did, dispersion 0.66 for 0.3); Nelder-Mead, which takes no score, finds -3313.0 and a dispersion of 0.26.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q statsmodels==0.15.0 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from statsmodels.discrete.truncated_model import TruncatedLFGeneralizedPoisson, TruncatedLFNegativeBinomialP
from statsmodels.distributions.discrete import genpoisson_p

rng = np.random.default_rng(0)
x = np.column_stack([np.ones(2000), rng.normal(size=2000)])
y = genpoisson_p.rvs(np.exp(x @ [1.0, 0.5]), 0.3, 2, random_state=1)
kept = y > 0
changed = False
p, h = np.array([1.0, 0.5, 0.3]), 1e-6
for model, power, right in (
    (TruncatedLFGeneralizedPoisson, None, False),
    (TruncatedLFGeneralizedPoisson, 2, False),
    (TruncatedLFGeneralizedPoisson, 1, True),
    (TruncatedLFNegativeBinomialP, None, True),
    (TruncatedLFNegativeBinomialP, 1, False),
):
    m = model(y[kept], x[kept], **({} if power is None else {"p": power}))
    expected = np.array([(m.loglike(p + h * e) - m.loglike(p - h * e)) / (2 * h) for e in np.eye(3)])
    print(f"{model.__name__}, p={power or 'default'}: score {m.score(p).round(2)}, differences {expected.round(2)}")
    changed |= np.allclose(m.score(p), expected, rtol=1e-3, atol=0.01) != right
model, top = TruncatedLFGeneralizedPoisson(y[kept], x[kept]), {}
for method in ("bfgs", "lbfgs", "nm"):
    fit = model.fit(method=method, maxiter=2000, disp=0)
    print(f"{method}: {fit.params.round(4)}, log-likelihood {fit.llf:.2f}, converged: {fit.mle_retvals['converged']}")
    top[method] = fit.llf
changed |= not (top["bfgs"] < top["nm"] - 2 and top["lbfgs"] < top["nm"] - 2)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
