#!/bin/sh
# MLX 0.32.4: forward mode (mx.jvp) of addmm takes alpha and beta for 1; reverse mode does not.
#
# Seen on 2026-11-27 with mlx 0.32.4 (CPU), NumPy 2.4.6, Python 3.11.
# Expected before running: the tangent of addmm(c, a, b, alpha, beta) = beta c + alpha (a b) is beta dc + alpha (da b + a db), and the product of
#   jvp's tangent with any cotangent equals that of vjp's gradients with the tangents.
# Why: the function is linear in each argument, and its factors are documented; matmul and the same sum written out are right.
# Seen: the value and vjp have the factors, the tangent is dc + da b + a db.  With alpha=0.125, the scale of dot products of 64 elements,
#   a tangent by the factors of the product is 8 times too large; Hessian-vector products by jvp of grad are wrong in the same way.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q "mlx[cpu]==0.32.4" numpy==2.4.6
"$dir/venv/bin/python" - <<'PY'
import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
rng = np.random.default_rng(0)
shapes = ((2, 4), (2, 3), (3, 4))
c, a, b = (mx.array(rng.normal(size=s).astype(np.float32)) for s in shapes)
dc, da, db = (mx.array(rng.normal(size=s).astype(np.float32)) for s in shapes)
w = mx.array(rng.normal(size=(2, 4)).astype(np.float32))
changed = False
for alpha, beta in ((1.0, 1.0), (0.125, 1.0), (1.0, 0.5), (2.0, 3.0)):
    for name, f in (
        ("addmm", lambda c, a, b: mx.addmm(c, a, b, alpha=alpha, beta=beta)),
        ("beta * c + alpha * (a @ b)", lambda c, a, b: beta * c + alpha * (a @ b)),
    ):
        value, tangent = (v[0] for v in mx.jvp(f, [c, a, b], [dc, da, db]))
        expected = beta * dc + alpha * (da @ b + a @ db)
        gradients = mx.vjp(f, [c, a, b], [w])[1]
        backward = sum(float((g * t).sum()) for g, t in zip(gradients, (dc, da, db)))
        print(f"alpha {alpha}, beta {beta}, {name}: first row of jvp {np.array(tangent)[0].round(3)}, right {np.array(expected)[0].round(3)}")
        print(f"  w . jvp {float((w * tangent).sum()):.4f}, vjp(w) . tangents {backward:.4f}")
        right = name != "addmm" or alpha == beta == 1
        changed |= not np.allclose(np.array(value), np.array(beta * c + alpha * (a @ b)), atol=1e-5)
        changed |= abs(float((w * expected).sum()) - backward) > 1e-4
        changed |= np.allclose(np.array(tangent), np.array(expected), atol=1e-4) != right
        changed |= not right and not np.allclose(np.array(tangent), np.array(dc + da @ b + a @ db), atol=1e-4)
zero = mx.zeros_like(c)
curvature = []
for product in (lambda a: mx.addmm(zero, a, b, alpha=0.125), lambda a: 0.125 * (a @ b)):
    slope = mx.grad(lambda a: (product(a) ** 2).sum())
    curvature.append(np.array(mx.jvp(slope, [a], [da])[1][0]))
    print("product of the Hessian with a vector, first row:", curvature[-1][0].round(4))
changed |= not np.allclose(curvature[0], 8 * curvature[1], rtol=1e-3)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
