#!/bin/sh
# geomstats 2.8.0: the sectional curvature of multinomial and categorical distributions is the radius of their sphere.
#
# Seen on 2026-11-28 with geomstats 2.8.0 (NumPy backend), NumPy 2.2.6, SciPy 1.15.3, Python 3.11.
# Expected before running: sectional_curvature is that of the metric beside it, so the distance of two geodesics that start at right angles falls
#   behind that of straight lines by K t**4 / 3, squared; so it does for the sphere, the hyperbolic plane and normal distributions of the package.
# Why: the Fisher metric of n draws makes the simplex a part of a sphere of radius 2 sqrt(n), as its dist and exp say, and the curvature of a sphere is
#   1 / radius**2: 1 / 4 for categorical distributions, 1 / (4 n) for multinomial ones.
# Seen: it returns 2 sqrt(n), 8 times too much for one draw and 216 times for nine: it rises with n, where the manifold becomes flatter.
#   The documentation gives this formula, and above it the definition, K(x, y) = <R(x, y) x, y>, which it does not satisfy.
#   Added in 2022 (geomstats, pull request 1722); not among the issues found.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q geomstats==2.8.0 numpy==2.2.6 scipy==1.15.3
GEOMSTATS_BACKEND=numpy MPLBACKEND=Agg "$dir/venv/bin/python" -W ignore - <<'PY'
import logging

import numpy as np

logging.disable(logging.CRITICAL)
from geomstats.geometry.hypersphere import Hypersphere
from geomstats.information_geometry.categorical import CategoricalDistributions
from geomstats.information_geometry.multinomial import MultinomialDistributions
from geomstats.information_geometry.normal import UnivariateNormalDistributions

changed = False


def measured(metric, point, a, b, t):
    a = a / metric.norm(a, point)
    b = b - metric.inner_product(a, b, point) * a
    b = b / metric.norm(b, point)
    distance = metric.dist(metric.exp(t * a, point), metric.exp(t * b, point))
    return float(3 * (2 * t**2 - distance**2) / t**4)


def matrix(point, n):  # Fisher information of n draws
    return n * np.diag(1 / point)


point, a, b = np.array([0.3, 0.5, 0.2]), np.array([1.0, -1.0, 0.0]), np.array([0.5, 0.5, -1.0])
cases = [
    ("sphere", Hypersphere(2), (np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])), 1.0, 1.0),
    ("normal distributions", UnivariateNormalDistributions(), (np.array([0.4, 1.2]), np.array([1.0, 0.0]), np.array([0.0, 1.0])), -0.5, -0.5),
    ("categorical distributions", CategoricalDistributions(2), (point, a, b), 1 / 4, 2.0),
]
for n in (2, 4, 9):
    cases.append((f"multinomial distributions, {n} draws", MultinomialDistributions(2, n), (point, a, b), 1 / (4 * n), 2 * n**0.5))
for name, space, (x, u, v), expected, returned in cases:
    metric = space.metric
    scale = abs(expected) ** -0.5
    curvature = measured(metric, x, u, v, 0.1 * scale)
    found = float(np.ravel(metric.sectional_curvature(u, v, x))[0])
    print(f"{name}: sectional_curvature {found:.4f}, measured by exp and dist {curvature:.4f}")
    changed |= not np.isclose(curvature, expected, rtol=0.02) or not np.isclose(found, returned, rtol=1e-6)
    if x is point:
        draws = getattr(space, "n_draws", 1)
        changed |= not np.isclose(float(metric.squared_norm(u, x)), u @ matrix(x, draws) @ u)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
