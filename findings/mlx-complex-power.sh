#!/bin/sh
# MLX 0.32.4: the gradient of a complex power has the wrong sign by the imaginary part; z**2 and z*z disagree.
#
# Seen on 2026-11-27 with mlx 0.32.4 (CPU), NumPy 2.4.6, Python 3.11.
# Expected before running: with z = x + i y, the gradients of real(z**p) and imag(z**p) by the real arrays x and y agree with differences.
# Why: x and y are real and so is the result; no convention for complex gradients is left to choose.  real(z * z), square(z), exp(z),
#   log(z), sqrt(z), division and matmul are right.
# Seen: power does not conjugate its derivative.  At z = 1 + 2i, real(z**2) = x**2 - y**2 has the gradient (2, 4) in place of (2, -4),
#   real(z * z) the right one; imag(z**2) has (-4, 2) in place of (4, 2).  Forward mode is right.  300 steps of descent on |z**2 - (-3 + i)|**2
#   from 1.5 + 0.5i find a root of -3 + i with z * z; with z**2 they end at 0, where the loss is 10.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q "mlx[cpu]==0.32.4" numpy==2.4.6
"$dir/venv/bin/python" - <<'PY'
import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
point, h = (1.0, 2.0), 1e-3
changed = False
for name, f, right in (
    ("real(z**2)", lambda z: mx.real(z**2), False),
    ("imag(z**2)", lambda z: mx.imag(z**2), False),
    ("real(z**2.5)", lambda z: mx.real(z**2.5), False),
    ("real(z * z)", lambda z: mx.real(z * z), True),
    ("imag(square(z))", lambda z: mx.imag(mx.square(z)), True),
    ("real(exp(z))", lambda z: mx.real(mx.exp(z)), True),
    ("imag(log(z))", lambda z: mx.imag(mx.log(z)), True),
    ("imag(1 / z)", lambda z: mx.imag(1 / z), True),
):

    def of(x, y):
        return f(x + 1j * y)

    at = [mx.array(v) for v in point]
    found = np.array([float(g) for g in mx.grad(of, argnums=(0, 1))(*at)])
    forward = np.array([float(mx.jvp(of, at, [mx.array(a), mx.array(b)])[1][0]) for a, b in ((1.0, 0.0), (0.0, 1.0))])
    sides = [[float(of(mx.array(point[0] + s * a), mx.array(point[1] + s * b))) for s in (h, -h)] for a, b in ((1, 0), (0, 1))]
    expected = np.array([(up - down) / (2 * h) for up, down in sides])
    print(f"{name}: grad {found.round(3)}, jvp {forward.round(3)}, differences {expected.round(3)}")
    changed |= np.allclose(found, expected, atol=0.02) != right or not np.allclose(forward, expected, atol=0.02)


def descend(square):
    def loss(x, y):
        z = square(x + 1j * y) - mx.array(-3 + 1j)
        return mx.real(z) ** 2 + mx.imag(z) ** 2

    x, y = mx.array(1.5), mx.array(0.5)
    for _ in range(300):
        by_x, by_y = mx.grad(loss, argnums=(0, 1))(x, y)
        x, y = x - 0.01 * by_x, y - 0.01 * by_y
    return float(x), float(y), float(loss(x, y))


for name, square, right in (("z * z", lambda z: z * z, True), ("z**2", lambda z: z**2, False)):
    x, y, loss = descend(square)
    print(f"descent with {name}: z = {x:.4f} + {y:.4f}i, loss {loss:.6f}")
    changed |= (loss < 1e-4) != right
raise SystemExit("The behaviour has changed." if changed else 0)
PY
