#!/bin/sh
# TensorFlow Probability 0.25.0: the gradient of NoncentralChi2.log_prob by df has the wrong sign, those of cdf and quantile by df are 0.
#
# Seen on 2026-11-28 with tensorflow-probability 0.25.0 (JAX substrate), JAX 0.4.35 (the import fails with 0.10), NumPy 2.2.6, SciPy 1.17.1, Python 3.11.
# Expected before running: jax.grad of log_prob, cdf and quantile by both parameters agrees with differences, as those of Chi2 do, whose df is
#   differentiable in all three; or an error, where a derivative does not exist.  The class says of gradients nothing.
# Why: log_prob has df in a power, which is differentiated, and as order of a Bessel function, which is not: log_bessel_ive says that its gradient
#   by the order is not defined, and hands on 0.  The sum of a right and a missing term is a number that looks like any other.
# Seen: at df 3, noncentrality 1.2, value 2: +0.128 for -0.129.  cdf by df is 0 in place of -0.135, quantile by either parameter is 0 in place of
#   about 1; the values of all three are right, and so are the other gradients.
#   Of 400 values with df 3, the likelihood is largest at df 2.85; ascent by the gradient is at 34.8 after 300 steps, and goes on.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q tensorflow-probability==0.25.0 jax==0.4.35 jaxlib==0.4.35 numpy==2.2.6 scipy==1.17.1
JAX_PLATFORMS=cpu "$dir/venv/bin/python" -W ignore - <<'PY'
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

jax.config.update("jax_enable_x64", True)
from tensorflow_probability.substrates.jax import distributions as tfd

changed = False
h = 1e-4
reference = {"log_prob": stats.ncx2.logpdf, "cdf": stats.ncx2.cdf, "quantile": stats.ncx2.ppf}
wrong = {"log_prob": [0], "cdf": [0], "quantile": [0, 1]}
for name, values in (("log_prob", (0.5, 2.0, 5.0)), ("cdf", (0.5, 2.0, 5.0)), ("quantile", (0.1, 0.5, 0.9))):
    f = jax.jit(jax.value_and_grad(lambda p: getattr(tfd.NoncentralChi2(p[0], p[1]), name)(p[2])))
    for value in values:
        p = np.array([3.0, 1.2, value])
        found_value, found = (np.asarray(v) for v in f(p))
        expected = np.array([(reference[name](q[2], q[0], q[1]) - reference[name](r[2], r[0], r[1])) / (2 * h) for q, r in zip(p + h * np.eye(3), p - h * np.eye(3))])
        print(f"{name}({value}) by df, noncentrality, value: jax.grad {found.round(4)}, differences {expected.round(4)}")
        changed |= not np.isclose(found_value, reference[name](value, 3.0, 1.2), rtol=1e-5)
        changed |= np.flatnonzero(abs(found - expected) > 1e-3 * abs(expected)).tolist() != wrong[name]
        central = float(jax.grad(lambda d: getattr(tfd.Chi2(d), name)(value))(3.0))
        sibling = {"log_prob": stats.chi2.logpdf, "cdf": stats.chi2.cdf, "quantile": stats.chi2.ppf}[name]
        changed |= not np.isclose(central, (sibling(value, 3 + h) - sibling(value, 3 - h)) / (2 * h), rtol=1e-3)

x = stats.ncx2.rvs(3.0, 1.2, size=400, random_state=0)
slope = jax.jit(jax.grad(lambda df: jnp.mean(tfd.NoncentralChi2(df, 1.2).log_prob(x))))
df = 3.0
for _ in range(300):
    df += 0.5 * float(slope(df))
grid = np.linspace(0.5, 6, 5501)
best = grid[np.argmax([stats.ncx2.logpdf(x, d, 1.2).sum() for d in grid[::50]]) * 50]
print(f"df of the largest likelihood: ascent by the gradient {df:.2f}, grid {best:.2f}")
changed |= abs(df - best) < 0.5
raise SystemExit("The behaviour has changed." if changed else 0)
PY
