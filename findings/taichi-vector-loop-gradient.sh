#!/bin/sh
# Taichi 1.7.4: reverse mode through a loop that steps a vector is wrong: each step back reads elements of the last step's vector.
#
# Seen on 2026-11-28 with taichi 1.7.4, NumPy 2.4.6, Python 3.11, on its CPU backend in double precision.
# Expected before running: the gradient of a loss at the end of a loop agrees with differences, whether a state is held as two numbers or as
#   one vector, in a loop of the device or in one unrolled by ti.static.
# Why: https://docs.taichi-lang.org/docs/differentiable_programming promises gradients for kernels with loops over local variables; the state here is
#   local, no field is written but the loss, once.
# Seen: exact with numbers and with an unrolled loop.  With a vector in the loop: v = M v (3 steps) has [3.51, 24.04] by M's diagonal in place of
#   [3.21, 13.40]; v[0] *= s has 5.21 in place of 4.72; the place of a mass after 25 steps on a spring has the derivative -0.13 by its
#   first velocity in place of 0.76, and descent that throws it at a target comes to rest at a loss of 4.34; the same with four numbers at
#   0.73.  Nothing is said.  v = v * s is right, so a simple test passes.  A fork, Quadrants, has an issue (797, July 2026) about the same;
#   Taichi's newest release has it.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q taichi==1.7.4 numpy==2.4.6
cat > "$dir/loops.py" <<'PY'
import numpy as np
import taichi as ti

ti.init(arch=ti.cpu, default_fp=ti.f64, log_level=ti.ERROR, offline_cache=False)
x = ti.field(ti.f64, shape=4, needs_grad=True)
loss = ti.field(ti.f64, shape=(), needs_grad=True)


@ti.kernel
def scaled_vector():
    for _ in range(1):
        v = ti.Vector([x[0], x[1]])
        for _step in range(3):
            v = v * x[2]
        loss[None] += v[0] + 2 * v[1]


@ti.kernel
def scaled_element():
    for _ in range(1):
        v = ti.Vector([x[0], x[1]])
        for _step in range(3):
            v[0] *= x[2]
        loss[None] += v[0] + 2 * v[1]


@ti.kernel
def matrix_steps():
    for _ in range(1):
        m = ti.Matrix([[x[2], 0.3], [-0.2, x[3]]])
        v = ti.Vector([x[0], x[1]])
        for _step in range(3):
            v = m @ v
        loss[None] += v[0] + 2 * v[1]


@ti.kernel
def matrix_steps_unrolled():
    for _ in range(1):
        m = ti.Matrix([[x[2], 0.3], [-0.2, x[3]]])
        v = ti.Vector([x[0], x[1]])
        for _step in ti.static(range(3)):
            v = m @ v
        loss[None] += v[0] + 2 * v[1]


@ti.kernel
def mass_as_numbers():
    for _ in range(1):
        p0, p1, v0, v1 = x[0], x[1], x[2], x[3]
        for _step in range(25):
            square = p0 * p0 + p1 * p1
            v0 -= 0.1 * p0 * square
            v1 -= 0.1 * p1 * square
            p0 += 0.1 * v0
            p1 += 0.1 * v1
        loss[None] += (p0 - 1) ** 2 + (p1 - 0.5) ** 2 + 0.1 * (x[2] ** 2 + x[3] ** 2)


@ti.kernel
def mass_as_vectors():
    for _ in range(1):
        p, v = ti.Vector([x[0], x[1]]), ti.Vector([x[2], x[3]])
        for _step in range(25):
            v -= 0.1 * p * p.norm_sqr()
            p += 0.1 * v
        loss[None] += (p[0] - 1) ** 2 + (p[1] - 0.5) ** 2 + 0.1 * (x[2] ** 2 + x[3] ** 2)


def value(f, at):
    x.from_numpy(at)
    loss[None] = 0
    f()
    return loss[None]


def gradient(f, at):
    value(f, at)
    x.grad.fill(0)
    loss.grad[None] = 1
    f.grad()
    return x.grad.to_numpy()


start, changed = np.array([1.3, 0.7, 1.1, 1.9]), ti.__version__ != (1, 7, 4)
for f, right in (
    (scaled_vector, True),
    (scaled_element, False),
    (matrix_steps_unrolled, True),
    (matrix_steps, False),
    (mass_as_numbers, True),
    (mass_as_vectors, False),
):
    found = gradient(f, start)
    expected = np.array([value(f, start + h) - value(f, start - h) for h in 1e-5 * np.eye(4)]) / 2e-5
    same = np.allclose(found, expected, atol=1e-5)
    print(f"{f.__name__}: gradient {found.round(4)}" + ("" if same else f", differences {expected.round(4)}"))
    changed |= same != right

ends = []
for f in (mass_as_numbers, mass_as_vectors):
    at = start.copy()
    for _ in range(500):
        at[2:] -= 0.2 * gradient(f, at)[2:]
    ends.append(value(f, at))
    print(f"500 steps of descent by the velocity, {f.__name__}: {at[2:].round(4)}, loss {ends[-1]:.4f}")
changed |= ends[1] - ends[0] < 1
raise SystemExit("The behaviour has changed." if changed else 0)
PY
"$dir/venv/bin/python" "$dir/loops.py"
