#!/bin/sh
# TensorFlow Probability 0.25.0: the inverse of Softfloor is not its inverse, and log-densities of softly rounded variables are off by up to 0.6.
#
# Seen on 2026-11-28 with tensorflow-probability 0.25.0 (JAX substrate), JAX 0.4.35 (the import fails with 0.10), NumPy 2.2.6, SciPy 1.15.3,
#   Python 3.11; the source of 0.26.0.dev20261027 is the same here.
# Expected before running: inverse(forward(x)) is x, as it is for SoftClip beside it, and log_prob of a TransformedDistribution is that of its samples.
# Why: Softfloor computes g(x) + s, with s = sigmoid(-0.5 / temperature) and a g that rounds softly; its inverse is g^-1(y - s).
# Seen: Softfloor._inverse computes g^-1(y) - s: it takes the whole part of y before it subtracts s.  Only a cache hides it: the very array that forward
#   returned comes back as x; a copy of it does not.  At a temperature of 0.2 the inverse is wrong by up to 0.08, at 0.1 a log-density by up to
#   0.6.  In the limits 0 and infinity the mistake vanishes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q tensorflow-probability==0.25.0 jax==0.4.35 jaxlib==0.4.35 numpy==2.2.6 scipy==1.15.3
"$dir/venv/bin/python" -W ignore - <<'PY'
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
from scipy.optimize import brentq
from scipy.stats import norm
from tensorflow_probability.substrates.jax import bijectors as tfb
from tensorflow_probability.substrates.jax import distributions as tfd

changed = False
standard = tfd.Normal(np.float64(0), np.float64(1))
for name, make in (
    ("SoftClip(-3, 3)", lambda: tfb.SoftClip(np.float64(-3), np.float64(3))),
    ("Softfloor(0.1)", lambda: tfb.Softfloor(np.float64(0.1))),
    ("Softfloor(0.2)", lambda: tfb.Softfloor(np.float64(0.2))),
    ("Softfloor(0.5)", lambda: tfb.Softfloor(np.float64(0.5))),
):
    bijector = make()

    def forward(x):
        return np.asarray(make().forward(x))

    x = np.linspace(-2, 2, 101) + 0.0013
    y = bijector.forward(x)
    roots = [brentq(lambda v, target=target: float(forward(v)) - target, -4, 4, xtol=1e-13) for target in np.asarray(y)[::20]]
    of_root = abs(np.asarray(roots) - x[::20]).max()
    of_cache = abs(np.asarray(bijector.inverse(y)) - x).max()
    of_copy = abs(np.asarray(make().inverse(np.array(y))) - x).max()
    h = 1e-5
    expected = norm.logpdf(x) - np.log((forward(x + h) - forward(x - h)) / (2 * h))
    of_density = abs(np.asarray(tfd.TransformedDistribution(standard, make()).log_prob(np.array(y))) - expected).max()
    print(f"{name}: error of x by a root of forward {of_root:.1e}, by inverse {of_cache:.1e}, by inverse of a copy {of_copy:.1e}")
    print(f"  largest error of the log-density of a standard normal variable that is mapped so: {of_density:.1e}")
    wrong = name.startswith("Softfloor")
    changed |= of_root > 1e-6 or of_cache > 1e-6 or (of_copy > 1e-3) != wrong or (of_density > 1e-3) != wrong

temperature = np.float64(0.2)
shift = 1 / (1 + np.exp(0.5 / temperature))
y = np.asarray(tfb.Softfloor(temperature).forward(x))
moved = np.asarray(tfb.Softfloor(temperature).inverse(y - shift)) + shift
print(f"Softfloor(0.2), inverse(y - s) + s: error {abs(moved - x).max():.1e}")
changed |= abs(moved - x).max() > 1e-6
raise SystemExit("The behaviour has changed." if changed else 0)
PY
