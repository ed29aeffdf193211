#!/bin/sh
# Taichi 1.7.4: forward mode takes a product of matrices for a constant, so the derivative of M v by v is 0.
#
# Seen on 2026-11-28 with taichi 1.7.4, NumPy 2.4.6, Python 3.11, on its CPU backend in double precision.
# Expected before running: ti.ad.FwdMode and kernel.grad() give the same derivatives of the same kernel, those of differences.
# Why: https://docs.taichi-lang.org/docs/differentiable_programming offers both modes for the same kernels, and forward mode is right for
#   numbers, for the same product written out, for determinant, trace, transpose and cross.
# Seen: with w = M @ v, forward mode returns [0, 0] for the sum of w in place of the sums of M's columns, and zeros by A for
#   elements of A @ A; where v enters by another way too, only that part is left, so a Jacobian looks plausible.  Reverse mode is
#   right for all of them.  Nothing is said, though other operations on whole vectors stop in forward mode with an error.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q taichi==1.7.4 numpy==2.4.6
cat > "$dir/products.py" <<'PY'
import numpy as np
import taichi as ti

ti.init(arch=ti.cpu, default_fp=ti.f64, log_level=ti.ERROR, offline_cache=False)
x = ti.field(ti.f64, shape=4, needs_grad=True, needs_dual=True)
loss = ti.field(ti.f64, shape=(), needs_grad=True, needs_dual=True)
m = ti.Matrix([[1.0, 2.0], [3.0, 4.0]])


@ti.kernel
def determinant():
    loss[None] += ti.Matrix([[x[0], x[1]], [x[2], x[3]]]).determinant()


@ti.kernel
def product_written_out():
    v = ti.Vector([x[0], x[1]])
    loss[None] += (m[0, 0] * v[0] + m[0, 1] * v[1]) + (m[1, 0] * v[0] + m[1, 1] * v[1])


@ti.kernel
def matrix_times_vector():
    w = m @ ti.Vector([x[0], x[1]])
    loss[None] += w[0] + w[1]


@ti.kernel
def residual_block():
    w = m @ ti.Vector([x[0], x[1]])
    loss[None] += (w[0] + x[0]) * x[2] + (w[1] + x[1]) * x[3]


@ti.kernel
def square_of_matrix():
    a = ti.Matrix([[x[0], x[1]], [x[2], x[3]]])
    square = a @ a
    loss[None] += square[0, 0] + square[0, 1]


def value(f, at):
    x.from_numpy(at)
    loss[None] = 0
    f()
    return loss[None]


at, changed = np.array([1.3, 0.7, 1.1, 1.9]), ti.__version__ != (1, 7, 4)
for f, right in (
    (determinant, True),
    (product_written_out, True),
    (matrix_times_vector, False),
    (residual_block, False),
    (square_of_matrix, False),
):
    expected = np.array([value(f, at + h) - value(f, at - h) for h in 1e-5 * np.eye(4)]) / 2e-5
    value(f, at)
    x.grad.fill(0)
    loss.grad[None] = 1
    f.grad()
    reverse, forward = x.grad.to_numpy(), []
    for direction in np.eye(4):
        x.from_numpy(at)
        loss[None] = 0
        with ti.ad.FwdMode(loss=loss, param=x, seed=direction.tolist()):
            f()
        forward.append(loss.dual[None])
    print(f"{f.__name__}: forward {np.round(forward, 4)}, reverse {reverse.round(4)}, differences {expected.round(4)}")
    changed |= not np.allclose(reverse, expected, atol=1e-5) or np.allclose(forward, expected, atol=1e-5) != right
raise SystemExit("The behaviour has changed." if changed else 0)
PY
"$dir/venv/bin/python" "$dir/products.py"
