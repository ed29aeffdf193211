#!/bin/sh
# GPy 1.15.0: GP.predict_jacobian with a linear kernel returns negative variances (-0.998 in place of 0.0017).
#
# Seen on 2026-11-27 with GPy 1.15.0, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: the variance of the slope of the posterior, which is what the joint posterior of two near points says.
# Why: it is d2k/dx dx2 minus what the data explain, and for k = variance * x * x2 the mixed derivative is the variance.
# Seen: Linear.gradients_XX returns zeros, the derivative of k(x, x2) by x alone, twice; so only "minus what the data explain" is left.
#   RBF's is right.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q GPy==1.15.0 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import GPy
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(12, 1))
y = 1.5 * x + 0.1 * rng.normal(size=(12, 1))
at, h = 0.3, 1e-3
changed = False
for kernel in (GPy.kern.Linear(1), GPy.kern.RBF(1)):
    model = GPy.models.GPRegression(x, y, kernel, noise_var=0.01)
    slope, variance = model.predict_jacobian(np.array([[at]]))
    mean, joint = model.predict_noiseless(np.array([[at + h], [at - h]]), full_cov=True)
    expected = (joint[0, 0] + joint[1, 1] - 2 * joint[0, 1]) / (2 * h) ** 2
    second = kernel.gradients_XX(np.ones((1, 1)), np.array([[at]]), np.array([[0.7]])).item()
    k = {(s, t): kernel.K(np.array([[at + s]]), np.array([[0.7 + t]])).item() for s in (h, -h) for t in (h, -h)}
    mixed = (k[h, h] - k[h, -h] - k[-h, h] + k[-h, -h]) / (2 * h) ** 2
    print(f"{kernel.name}: variance of the slope {variance.item():.6f}, by the joint posterior {expected:.6f}")
    print(f"{kernel.name}: gradients_XX {second:.6f}, differences of the kernel {mixed:.6f}")
    wrong = kernel.name == "linear"
    changed |= abs(slope.item() - (mean[0, 0] - mean[1, 0]) / (2 * h)) > 1e-4
    changed |= (variance.item() < -0.9 and expected > 0) != wrong or (abs(second - mixed) > 1e-4) != wrong
raise SystemExit("The behaviour has changed." if changed else 0)
PY
