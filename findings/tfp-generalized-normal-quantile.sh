#!/bin/sh
# TensorFlow Probability 0.25.0: no gradient of GeneralizedNormal.quantile by scale, power or the probability is a number, anywhere.
#
# Seen on 2026-11-28 with tensorflow-probability 0.25.0 (JAX substrate), JAX 0.4.35 (the import fails with 0.10), NumPy 2.2.6, Python 3.11.
# Expected before running: the derivatives of quantile agree with differences, as those of Normal, Laplace, StudentT and Gamma do.  By scale it
#   is (quantile - loc) / scale, and by the probability it is 1 / prob(quantile).
# Why: a sample by inversion, quantile(u), is differentiated by the parameters; the values of quantile are right.
# Seen: nan at each probability, by scale, power and probability; by loc it is 1.  The formula takes the branches for p < 1/2 and p > 1/2 of both
#   igammacinv(1 / power, 2 p) and igammainv(1 / power, 2 p - 1), one of whose arguments is always outside of [0, 1], and selects with
#   where: the value nan is left out, but nan * 0 in the gradient is not.  Laplace, in the same library, doubles its where for this reason.
#   So a fit of the parameters to three quantiles is nan after one step; at power 2, Normal's fit of the same ends at the right scale.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q tensorflow-probability==0.25.0 jax==0.4.35 jaxlib==0.4.35 numpy==2.2.6
JAX_PLATFORMS=cpu "$dir/venv/bin/python" -W ignore - <<'PY'
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
from tensorflow_probability.substrates.jax import distributions as tfd

changed = False
h = 1e-5


def generalized(p):
    return tfd.GeneralizedNormal(p[0], p[1], p[2]).quantile(p[3])


def normal(p):  # the same distribution where the power is 2
    return tfd.Normal(p[0], p[1] / np.sqrt(2)).quantile(p[3])


for p in (0.001, 0.1, 0.3, 0.7, 0.9, 0.999):
    point = np.array([0.2, 1.1, 2.0, p])
    value, found = (np.asarray(v) for v in jax.value_and_grad(generalized)(point))
    expected = np.array([float(generalized(point + h * e) - generalized(point - h * e)) / (2 * h) for e in np.eye(4)])
    known, known_gradient = (np.asarray(v) for v in jax.value_and_grad(normal)(point))
    print(f"p = {p}: quantile {value:.4f}, Normal's {known:.4f}; by loc, scale, power, p:")
    print(f"  jax.grad {found.round(4)}, differences {expected.round(4)}, Normal's {known_gradient.round(4)}")
    changed |= not np.isclose(value, known) or np.isfinite(found).tolist() != [True, False, False, False]
    changed |= not np.allclose(expected[[0, 1, 3]], known_gradient[[0, 1, 3]], rtol=1e-3)

p = np.array([0.1, 0.6, 0.95])
target = np.asarray(tfd.Normal(0.0, 1.0).quantile(p))
ends = []
for name, f in (("GeneralizedNormal", generalized), ("Normal", normal)):

    def loss(scale):
        return sum((f([0.0, scale, 2.0, q]) - t) ** 2 for q, t in zip(p, target))

    scale = 2.0
    for _ in range(50):
        scale = scale - 0.1 * float(jax.grad(loss)(scale))
    ends.append(scale)
    print(f"50 steps of descent by the scale, {name}: {scale:.4f}; right {np.sqrt(2):.4f}")
changed |= not np.isnan(ends[0]) or abs(ends[1] - np.sqrt(2)) > 1e-3
raise SystemExit("The behaviour has changed." if changed else 0)
PY
