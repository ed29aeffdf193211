#!/bin/sh
# PyTensor 3.0.7: set_subtensor with a repeated index gives a gradient to the value that was overwritten.
#
# Seen on 2026-11-27 with pytensor 3.0.7, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: y = set_subtensor(x[[0, 0]], v) is NumPy's x[[0, 0]] = v: one of the two values stays, the other reaches no output
#   and has the gradient 0.  NumPy leaves open which one stays (in practice the last); in any case the two gradients add up to c0.
# Seen: the last one stays, and for sum(c * y) the gradient by v is [c0, c0] in place of [0, c0].  The backward pass reads the gradient at
#   each index, without asking which value stayed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q pytensor==3.0.7 numpy==2.4.6 scipy==1.17.1
PYTENSOR_FLAGS="cxx=,linker=py,mode=FAST_COMPILE,base_compiledir=$dir/compiled" "$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import pytensor
import pytensor.tensor as pt

x, v = pt.dvector("x"), pt.dvector("v")
c = np.array([1.5, -2.0, 0.5])
y = pt.set_subtensor(x[[0, 0]], v)
loss = (c * y).sum()
value = pytensor.function([x, v], loss)
gradient = pytensor.function([x, v], pytensor.grad(loss, v), on_unused_input="ignore")
at = np.array([1.0, 2.0, 3.0])
w = np.array([10.0, 20.0])
h = 1e-6
expected = np.array([(value(at, w + h * e) - value(at, w - h * e)) / (2 * h) for e in np.eye(2)])
found = gradient(at, w)
print("y =", pytensor.function([x, v], y)(at, w), " gradient by v:", found, " differences:", expected.round(6))
raise SystemExit(0 if np.allclose(found, c[0]) and np.allclose(expected, [0, c[0]], atol=1e-6) else "The behaviour has changed.")
PY
