#!/bin/sh
# SMT 2.15.0: the derivatives of KPLS with corr="pow_exp" lack a sign; an optimizer that follows them does not find the minimum.
#
# Seen on 2026-11-27 with smt 2.15.0, NumPy 2.4.6, SciPy 1.17.1, scikit-learn 1.6.1, Python 3.11.
# Expected before running: predict_derivatives is the derivative of predict_values, and predict_variance_derivatives that of
#   predict_variances, for each correlation that KPLS takes.
# Why: they are for corr="squar_exp" and "abs_exp", and those of Kriging without PLS (KRG) are for "pow_exp" too.
# Seen: the correlation is exp(-theta |x - x_i|**p), whose derivative has the sign of x - x_i.  For "pow_exp" that sign is 1 everywhere: each
#   training point on the right of x counts as if it were on its left.  The sign is missing at the default power 1.9 and at any other; values
#   and fit are right.  With 40 points of (x - 0.3)**2 + (y + 0.2)**2, the derivatives at (0.5, 0.4) are (-1.66, -1.20) in place of (0.46, 1.20),
#   and L-BFGS-B, which finds the minimum by differences of the prediction, ends with them at (0.62, 0.51), where the prediction is 0.62.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q smt==2.15.0 numpy==2.4.6 scipy==1.17.1 scikit-learn==1.6.1
OPENBLAS_NUM_THREADS=1 "$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from scipy.optimize import minimize
from smt.surrogate_models import KPLS, KRG

x = np.random.default_rng(0).uniform(-1, 1, (40, 2))
y = (x[:, :1] - 0.3) ** 2 + (x[:, 1:] + 0.2) ** 2
at, h = np.array([[0.5, 0.4], [-0.6, 0.1]]), 1e-5
changed = False
for cls, corr, right in ((KPLS, "pow_exp", False), (KPLS, "squar_exp", True), (KPLS, "abs_exp", True), (KRG, "pow_exp", True)):
    model = cls(corr=corr, nugget=1e-6, n_start=1, seed=0, print_global=False, **({"n_comp": 2} if cls is KPLS else {}))
    model.set_training_values(x, y)
    model.train()
    for values, derivatives in (
        (model.predict_values, model.predict_derivatives),
        (model.predict_variances, model.predict_variance_derivatives),
    ):
        found = np.column_stack([derivatives(at, k) for k in (0, 1)])
        expected = np.column_stack([(values(at + h * e) - values(at - h * e)) / (2 * h) for e in np.eye(2)])
        print(f"{cls.__name__}, {corr}: {derivatives.__name__} {found.round(4).tolist()}, differences {expected.round(4).tolist()}")
        changed |= np.allclose(found, expected, rtol=1e-2, atol=1e-5) != right
    for jac in (lambda p: np.array([model.predict_derivatives(p[None], k).item() for k in (0, 1)]), None):
        if corr != "abs_exp":  # its prediction has kinks
            end = minimize(lambda p: model.predict_values(p[None]).item(), [0.9, 0.9], jac=jac, bounds=[(-1, 1)] * 2)
            print(f"  minimum with {'derivatives' if jac else 'differences'}: {end.x.round(2)}, prediction {end.fun:.3f}")
            changed |= bool(np.allclose(end.x, [0.3, -0.2], atol=0.05)) != (right or jac is None)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
