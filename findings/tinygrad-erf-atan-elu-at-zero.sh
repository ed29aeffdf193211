#!/bin/sh
# tinygrad 0.14.0: the gradients of erf, atan, asin, acos and elu are 0 at exactly 0.
#
# Seen on 2026-11-27 with tinygrad 0.14.0, NumPy 2.4.6, Python 3.11, on its PYTHON device, which needs no compiler.
# Expected before running: the derivatives of smooth functions: erf'(0) = 2/sqrt(pi), atan'(0) = asin'(0) = 1, acos'(0) = -1; elu'(0) = 1
#   from both sides (alpha = 1).
# Why: 0 is the input of every zero weight, zero padding and every element that ReLU or dropout has set to 0.
# Seen: 0 for all five; at 1e-3 on either side of it the gradients are right.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q tinygrad==0.14.0 numpy==2.4.6
XDG_CACHE_HOME="$dir" DEV=PYTHON "$dir/venv/bin/python" -W ignore - <<'PY'
import math

from tinygrad import Tensor

changed = False
for name, expected in (("erf", 2 / math.sqrt(math.pi)), ("atan", 1.0), ("asin", 1.0), ("acos", -1.0), ("elu", 1.0)):
    x = Tensor([-1e-3, 0.0, 1e-3])
    y = getattr(x, name)()
    gradient = y.sum().gradient(x)[0].tolist()
    values = y.tolist()
    slope = (values[2] - values[0]) / 2e-3
    print(f"{name}: gradient at -0.001, 0, 0.001: {gradient}; at 0 expected {expected:.4f}, differences {slope:.4f}")
    beside_right = all(abs(gradient[i] - expected) < 1e-2 for i in (0, 2))
    changed |= gradient[1] != 0 or not beside_right or abs(slope - expected) > 1e-2
raise SystemExit("The behaviour has changed." if changed else 0)
PY
