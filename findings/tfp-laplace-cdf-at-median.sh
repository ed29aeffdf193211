#!/bin/sh
# TensorFlow Probability 0.25.0: the derivative of Laplace.cdf at the median is 0, where the density is largest.
#
# Seen on 2026-11-28 with tensorflow-probability 0.25.0 (JAX substrate), JAX 0.4.35 (the import fails with 0.10), NumPy 2.2.6, Python 3.11.
# Expected before running: the derivative of cdf by the value is prob, everywhere; cdf of a Laplace distribution is differentiable at its median,
#   with the slope 1 / (2 scale).  That of Normal, Logistic, Cauchy and Gumbel is right there; so is Laplace's a millionth beside.
# Seen: 0 at value = loc, by value and by loc; log_cdf and the logarithm of prob are right.  The formula is 1/2 - sign(z) expm1(-|z|) / 2,
#   and the derivatives of sign and of |z| are both 0 at 0.
#   So Newton's method for the median, started there with scale 1, divides by 0: x - (cdf(x) - p) / slope is -inf for p = 0.4.
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
loc, scale = 0.3, 1.2
families = {
    "Normal": tfd.Normal,
    "Logistic": tfd.Logistic,
    "Cauchy": tfd.Cauchy,
    "Gumbel": tfd.Gumbel,
    "Laplace": tfd.Laplace,
}
for name, family in families.items():
    for x in (loc, loc + 1e-6):
        by_value = float(jax.grad(lambda x: family(loc, scale).cdf(x))(x))
        by_loc = float(jax.grad(lambda m: family(m, scale).cdf(x))(loc))
        log_slope = float(jax.grad(lambda x: family(loc, scale).log_cdf(x))(x))
        density, cdf = float(family(loc, scale).prob(x)), float(family(loc, scale).cdf(x))
        print(f"{name} at {x}: density {density:.4f}, derivative of cdf {by_value:.4f}, by loc {by_loc:.4f}; of log_cdf, times cdf, {log_slope * cdf:.4f}")
        wrong = name == "Laplace" and x == loc
        changed |= not np.allclose([by_value, by_loc], [0, 0] if wrong else [density, -density], atol=1e-6)
        changed |= not np.isclose(log_slope * cdf, density)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
