#!/bin/sh
# Warp 1.19.0: gradients of remainders are lost: mod(x, y) and x % y by y, mod of vectors by both, frac(x).
#
# Seen on 2026-11-27 with warp-lang 1.19.0, NumPy 2.4.6, Python 3.11, on its CPU device.
# Expected before running: mod(x, y) = x - y * trunc(x / y) has the derivatives 1 and -trunc(x / y), of numbers and of each element of
#   vectors, and frac(x) = x - trunc(x) has 1; PyTorch returns these for fmod and frac.
# Seen: mod(7.3, 2.0) has [1, 0] in place of [1, -3]; mod of two vectors has zeros for both; frac has 0.  Nothing is said, and step by step
#   a coordinate that is wrapped into a cell or a period that is fitted does not move.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q warp-lang==1.19.0 numpy==2.4.6
cat > "$dir/remainders.py" <<'PY'
import sys

import numpy as np
import warp as wp

wp.config.quiet = True
wp.config.kernel_cache_dir = sys.argv[1]


@wp.kernel
def remainders(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    out[0] = wp.mod(x[0], y[0])
    out[1] = x[1] % y[1]
    out[2] = wp.mod(wp.vec2d(x[2], x[2]), wp.vec2d(y[2], y[2]))[0]
    out[3] = wp.frac(x[3]) + y[3]


def values(x, y):
    out = wp.zeros(4, dtype=wp.float64)
    wp.launch(remainders, dim=1, inputs=[wp.array(x), wp.array(y)], outputs=[out], device="cpu")
    return out.numpy()


x, y, h = np.array([7.3, 7.3, 7.3, 7.3]), np.array([2.0, 2.0, 2.0, 0.0]), 1e-6
inputs = [wp.array(v, requires_grad=True) for v in (x, y)]
out = wp.zeros(4, dtype=wp.float64, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(remainders, dim=1, inputs=inputs, outputs=[out], device="cpu")
tape.backward(grads={out: wp.array(np.ones(4))})
by_x, by_y = (v.grad.numpy() for v in inputs)
expected = [(values(x + h, y) - values(x - h, y)) / (2 * h), (values(x, y + h) - values(x, y - h)) / (2 * h)]
print("mod, %, mod of vectors, frac at 7.3 (modulo 2):", out.numpy())
print("gradient by x:", by_x, " differences:", expected[0].round(6))
print("gradient by y:", by_y, " differences:", expected[1].round(6))
right = np.allclose(expected, [[1, 1, 1, 1], [-3, -3, -3, 1]], atol=1e-6)
raise SystemExit(0 if right and by_x.tolist() == [1, 1, 0, 0] and by_y.tolist() == [0, 0, 0, 1] else "The behaviour has changed.")
PY
"$dir/venv/bin/python" "$dir/remainders.py" "$dir/kernels"
