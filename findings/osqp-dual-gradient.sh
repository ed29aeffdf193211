#!/bin/sh
# OSQP 1.1.3: the gradient through the dual solution has the wrong sign where a constraint holds at its lower bound.
#
# Seen on 2026-11-28 with osqp 1.1.3, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: after solve(), adjoint_derivative_compute(dx, dy) gives the gradient of dx . x + dy . y, with the primal and the dual
#   solution that solve() returned, by P, q, A, l and u.
# Why: it is the vector-Jacobian product of a layer that solves a quadratic program; with dy left out it is right.
# Seen: with dx only, all five agree with differences.  With dy, the part of each constraint at its upper bound is right; that of one at its
#   lower bound is negated, and so is that of an equality whose multiplier is negative.  In one variable, x**2 + q x with x >= 1, y is
#   -(2 + q) there, and the derivative of y by q comes out as +1.  Where bounds of both kinds are active, the sum has neither the right size
#   nor the right sign.  With dy negated by hand for constraints whose multiplier is negative, everything agrees.
#   An open issue of osqp-python (156) says that the test of a dy other than 0 was switched off in 2024, not that it is wrong.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q osqp==1.1.3 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import osqp
from scipy import sparse


def solve(P, q, A, l, u):
    solver = osqp.OSQP()
    accuracy = {"eps_abs": 1e-11, "eps_rel": 1e-11, "max_iter": 100000}
    solver.setup(sparse.csc_matrix(np.triu(P)), q, sparse.csc_matrix(A), l, u, verbose=False, polishing=True, **accuracy)
    return solver, solver.solve()


def adjoint(problem, dx, dy):
    solver, _ = solve(*problem)
    solver.adjoint_derivative_compute(dx=dx, dy=dy)
    dP, dA = solver.adjoint_derivative_get_mat(as_dense=True, dP_as_triu=False)
    dq, dl, du = solver.adjoint_derivative_get_vec()
    return [np.asarray(dP), np.asarray(dq), np.asarray(dA), np.asarray(dl) + np.asarray(du)]


def differences(problem, dx, dy, h=1e-5):  # the last one: both bounds of a constraint moved at once
    out = []
    for k in range(4):
        slope = np.zeros(problem[k].shape)
        for index in np.ndindex(slope.shape):
            values = []
            for step in (h, -h):
                moved = [a.copy() for a in problem]
                for j in (k, 4) if k == 3 else (k,):
                    moved[j][index] += step
                moved[0] = (moved[0] + moved[0].T) / 2
                result = solve(*moved)[1]
                values.append(dx @ result.x + dy @ result.y)
            slope[index] = (values[0] - values[1]) / (2 * h)
        out.append(slope)
    return out


changed = False
one = np.ones(1)
for l, u, q in ((1.0, 5.0, 0.5), (-1.0, 3.0, -9.0)):
    problem = [np.array([[2.0]]), np.array([q]), np.array([[1.0]]), np.array([l]), np.array([u])]
    found, expected = adjoint(problem, 0 * one, one), differences(problem, 0 * one, one)
    y = solve(*problem)[1].y[0]
    print(f"x**2 + {q} x for x in [{l}, {u}]: y = {y:.3f}; derivatives of y by P, q, A, bounds")
    print(f"  found {[round(float(v.ravel()[0]), 3) for v in found]}, differences {[round(float(v.ravel()[0]), 3) for v in expected]}")
    sign = -1 if y < 0 else 1
    changed |= not all(np.allclose(v, sign * w, atol=1e-4) for v, w in zip(found, expected))

rng = np.random.default_rng(0)
M, A = rng.normal(size=(4, 4)), rng.normal(size=(5, 4))
q, z = rng.normal(size=4), rng.normal(size=4)
l, u = A @ z - 0.1 - 0.5 * rng.random(5), A @ z + 0.1 + 0.5 * rng.random(5)
l[0] = u[0]
problem = [M @ M.T + np.eye(4), q, A, l, u]
x, y = (getattr(solve(*problem)[1], name) for name in "xy")
print(f"4 variables, 5 constraints, the first an equality: y = {y.round(3)}")
dx, dy = rng.normal(size=4), rng.normal(size=5)
for name, cotangents, given, right in (
    ("dx alone", (dx, 0 * dy), (dx, 0 * dy), True),
    ("dx and dy", (dx, dy), (dx, dy), False),
    ("dx and dy, negated where y < 0", (dx, dy), (dx, np.where(y < 0, -dy, dy)), True),
):
    found, expected = adjoint(problem, *given), differences(problem, *cotangents)
    print(f"{name}: by q {found[1].round(3)}, differences {expected[1].round(3)}")
    changed |= all(np.allclose(v, w, atol=1e-3) for v, w in zip(found, expected)) != right
raise SystemExit("The behaviour has changed." if changed else 0)
PY
