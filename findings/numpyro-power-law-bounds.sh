#!/bin/sh
# NumPyro 0.22.0: the gradients of DoublyTruncatedPowerLaw.log_prob by low and high are of the density, not of its logarithm; inference goes astray.
#
# Seen on 2026-11-27 with numpyro 0.22.0, JAX 0.10.2, NumPy 2.4.6, Python 3.11.
# Expected before running: jax.grad of log_prob and cdf agrees with differences, by all three parameters, as those of the sibling
#   LowerTruncatedPowerLaw and of the other truncated distributions do.
# Why: log_prob has the term -log(Z(alpha, low, high)); its derivative by high is -high**alpha / Z, whatever the value is.
# Seen: a derivative rule of its own gives one that depends on the value and, unless alpha is -1, even has the wrong sign: at alpha -1.5,
#   bounds 0.2 and 2, value 0.7, +0.065 by high for -0.116, 2.04 by low for 3.66.  At alpha -1 the factor is off, and cdf's derivative by
#   high has the wrong sign.  Those by value and alpha are right, and so are those of icdf, so samples are differentiated well.
#   With a normal prior (3, 0.3) on the upper bound and 50 values, SVI with AutoDelta ends at 3.29; the largest posterior density is at 2.69.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q numpyro==0.22.0 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
JAX_PLATFORMS=cpu "$dir/venv/bin/python" -W ignore - <<'PY'
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoDelta

changed = False
h = 1e-6
law = dist.DoublyTruncatedPowerLaw
functions = {
    "log_prob": lambda p: law(p[0], p[1], p[2]).log_prob(p[3]),
    "cdf": lambda p: law(p[0], p[1], p[2]).cdf(p[3]),
    "icdf": lambda p: law(p[0], p[1], p[2]).icdf(p[3]),
}
wrong = {("log_prob", -1.5): [1, 2], ("log_prob", -1.0): [1, 2], ("cdf", -1.0): [2], ("cdf", -1.5): [], ("icdf", -1.5): [], ("icdf", -1.0): []}
for (name, alpha), columns in wrong.items():
    p = np.array([alpha, 0.2, 2.0, 0.7])
    found = np.asarray(jax.grad(functions[name])(p))
    expected = np.array([float(functions[name](p + h * e) - functions[name](p - h * e)) / (2 * h) for e in np.eye(4)])
    if alpha == -1.0:
        expected[0] = found[0]
    print(f"{name}, alpha {alpha}: by low, high, value: jax.grad {found[1:].round(4)}, differences {expected[1:].round(4)}")
    changed |= np.flatnonzero(abs(found - expected) > 1e-3).tolist() != columns

x = law(-1.5, 0.2, 2.0).sample(jax.random.PRNGKey(0), (50,))


def model():
    high = numpyro.sample("high", dist.TruncatedNormal(3.0, 0.3, low=x.max()))
    numpyro.sample("x", law(-1.5, 0.2, high), obs=x)


guide = AutoDelta(model, init_loc_fn=numpyro.infer.init_to_value(values={"high": 3.0}))
svi = SVI(model, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
found = float(svi.run(jax.random.PRNGKey(1), 1000, progress_bar=False).params["high_auto_loc"])
grid = np.linspace(x.max() + 1e-6, 8, 4000)
density = np.asarray(jax.vmap(lambda b: law(-1.5, 0.2, b).log_prob(x).sum())(grid)) - ((grid - 3.0) / 0.3) ** 2 / 2
best = grid[density.argmax()]
print(f"upper bound of the largest posterior density: SVI {found:.3f}, grid {best:.3f}")
changed |= abs(found - best) < 0.3
raise SystemExit("The behaviour has changed." if changed else 0)
PY
