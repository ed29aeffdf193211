#!/bin/sh
# george 0.4.4: with a full matrix as metric, the gradients of the kernel and of the likelihood are wrong, and the names are of other parameters.
#
# Seen on 2026-11-27 with george 0.4.4, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: get_gradient is the derivative of get_value by the parameter vector, get_x1_gradient that by x1, and
#   grad_log_likelihood that of log_likelihood, as they are with a number or a vector as metric.
# Why: the value is exp(-r' inv(L L') r / 2), the parameters are the elements of L below the diagonal and the logarithms of those on it.
# Seen: the value is right.  The derivatives by the logarithms are too large by exp(1 / L_ii) / L_ii, 2.7 and more; those by x lack
#   inv(L'); for L_10 they are right.  From the same start and with this gradient, BFGS stops 4 below the maximum of the log-likelihood
#   that it finds without, CG 0.7.  In three dimensions the elements are in the order of rows and the names in that of columns:
#   "log_L_1_1" is L_20, so freeze_parameter("metric:log_L_1_1") holds another one.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q george==0.4.4 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from george import GP
from george.kernels import ExpSquaredKernel
from scipy.optimize import minimize

changed = False
h = 1e-6
rng = np.random.default_rng(0)
x = rng.uniform(-2, 2, (60, 2))


def differences(f, p):
    return np.array([(f(p + h * e) - f(p - h * e)) / (2 * h) for e in np.eye(len(p))])


for metric in (np.array([1.0, 0.8]), np.array([[1.0, 0.3], [0.3, 0.8]])):
    kernel = ExpSquaredKernel(metric, ndim=2)
    start = kernel.get_parameter_vector()

    def value(p):
        kernel.set_parameter_vector(p)
        return kernel.get_value(x[:1], x[1:2])[0, 0]

    expected = differences(value, start)
    value(start)
    found = kernel.get_gradient(x[:1], x[1:2])[0, 0]
    by_x = kernel.get_x1_gradient(x[:1], x[1:2])[0, 0]
    expected_by_x = differences(lambda q: kernel.get_value(q[None], x[1:2])[0, 0], x[0])
    inverse = np.linalg.inv(np.diag(metric) if metric.ndim == 1 else metric)
    d = x[0] - x[1]
    changed |= not np.isclose(value(start), np.exp(-d @ inverse @ d / 2))
    print(f"metric {metric.tolist()}: {kernel.get_parameter_names()}")
    print(f"  by parameters: get_gradient {found.round(4)}, differences {expected.round(4)}")
    print(f"  by x1: get_x1_gradient {by_x.round(4)}, differences {expected_by_x.round(4)}")
    if metric.ndim == 1:
        changed |= not np.allclose(found, expected, atol=1e-6) or not np.allclose(by_x, expected_by_x, atol=1e-6)
    else:
        diagonal = np.exp(start[[0, 2]])
        changed |= not np.allclose(found[[0, 2]] / expected[[0, 2]], np.exp(1 / diagonal) / diagonal, rtol=1e-3)
        changed |= not np.isclose(found[1], expected[1], atol=1e-6) or bool(np.allclose(by_x, expected_by_x, atol=1e-3))

difference = x[:, None] - x[None]
inverse = np.linalg.inv([[1.0, 0.6], [0.6, 0.8]])
covariance = 2 * np.exp(-np.einsum("ijk,kl,ijl->ij", difference, inverse, difference) / 2) + 0.01 * np.eye(60)
y = np.linalg.cholesky(covariance) @ rng.normal(size=60)
gp = GP(1.0 * ExpSquaredKernel(np.array([[2.0, 0.1], [0.1, 2.0]]), ndim=2))
gp.compute(x, 0.1)
start = gp.get_parameter_vector()


def cost(p):
    gp.set_parameter_vector(p)
    return -gp.log_likelihood(y, quiet=True)


def slope(p):
    gp.set_parameter_vector(p)
    return -gp.grad_log_likelihood(y, quiet=True)


print("grad_log_likelihood", -slope(start).round(3), " differences", -differences(cost, start).round(3))
changed |= bool(np.allclose(slope(start), differences(cost, start), rtol=0.1))
for method in ("BFGS", "CG"):
    given, estimated = (minimize(cost, start, jac=jac, method=method).fun for jac in (slope, None))
    print(f"{method}: log-likelihood {-given:.3f} with the gradient, {-estimated:.3f} with differences")
    changed |= given < estimated + 0.1
matrix = np.array([[1.0, 0.3, 0.2], [0.3, 0.8, 0.1], [0.2, 0.1, 0.9]])
named = ExpSquaredKernel(matrix, ndim=3).get_parameter_dict()
print("in three dimensions:", {k: round(float(v), 4) for k, v in named.items()})
factor = np.linalg.cholesky(matrix)
changed |= not np.isclose(named["metric:log_L_1_1"], factor[2, 0]) or not np.isclose(named["metric:L_0_2"], np.log(factor[1, 1]))
raise SystemExit("The behaviour has changed." if changed else 0)
PY
