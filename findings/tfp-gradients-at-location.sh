#!/bin/sh
# TensorFlow Probability 0.25.0: at the location, the gradient of GeneralizedExtremeValueCDF's log-determinant is another number, LambertWTail's is nan.
#
# Seen on 2026-11-28 with tensorflow-probability 0.25.0 (JAX substrate), JAX 0.4.35 (the import fails with 0.10), NumPy 2.2.6, Python 3.11.
# Expected before running: the derivatives of these bijectors at loc (shift) are the limits of those beside it: both are smooth there.
# Why: loc is where an optimizer starts, and a bijector with the location 0 sees the value 0 often; GumbelCDF and MoyalCDF are right there.
# Seen: forward_log_det_jacobian of GeneralizedExtremeValueCDF has the slope +0.8333 at loc, and -0.3333 a millionth beside, with scale 1.2 and
#   concentration 0.4.  LambertWTail's inverse has the slope nan at its shift and 1 beside; its values are right.  Power(3).inverse, the
#   cube root, is right for negative numbers, and its slope is nan at each of them (its values there were nan until issue 1263 of 2021 was closed).
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q tensorflow-probability==0.25.0 jax==0.4.35 jaxlib==0.4.35 numpy==2.2.6
JAX_PLATFORMS=cpu "$dir/venv/bin/python" -W ignore - <<'PY'
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
from tensorflow_probability.substrates.jax import bijectors as tfb

changed = False
h = 1e-6
loc, scale = np.float64(0.2), np.float64(1.2)
extreme = tfb.GeneralizedExtremeValueCDF(loc, scale, np.float64(0.4))
gumbel, moyal = tfb.GumbelCDF(loc, scale), tfb.MoyalCDF(loc, scale)
tail, cube = tfb.LambertWTail(loc, scale, np.float64(0.2)), tfb.Power(np.float64(3.0))


def log_determinant(bijector):
    return lambda x: bijector.forward_log_det_jacobian(x, event_ndims=0)


for name, f, x, right in (
    ("GumbelCDF, log-determinant", log_determinant(gumbel), 0.2, True),
    ("MoyalCDF, log-determinant", log_determinant(moyal), 0.2, True),
    ("GeneralizedExtremeValueCDF, log-determinant", log_determinant(extreme), 0.200001, True),
    ("GeneralizedExtremeValueCDF, log-determinant", log_determinant(extreme), 0.2, False),
    ("LambertWTail, inverse", tail.inverse, 0.200001, True),
    ("LambertWTail, inverse", tail.inverse, 0.2, False),
    ("Power(3), inverse", cube.inverse, 0.343, True),
    ("Power(3), inverse", cube.inverse, -0.343, False),
    ("Power(3), inverse", cube.inverse, -2.0, False),
):
    x = np.float64(x)
    value, found = (float(v) for v in jax.value_and_grad(f)(x))
    expected = float(f(x + h) - f(x - h)) / (2 * h)
    print(f"{name} at {x}: {value:.6f}; derivative {found:.4f}, differences {expected:.4f}")
    changed |= (abs(found - expected) < 1e-3) != right or not np.isfinite([value, expected]).all()
raise SystemExit("The behaviour has changed." if changed else 0)
PY
