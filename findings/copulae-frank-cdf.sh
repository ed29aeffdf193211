#!/bin/sh
# copulae 0.8.0: where a probability is below 0.01, the cdf of a Frank copula is 100 times too large; tail dependence and derivatives are wrong too.
#
# Seen on 2026-11-28 with copulae 0.8.0, NumPy 2.2.6, SciPy 1.15.3, Python 3.11.
# Expected before running: cdf is the integral of pdf, at most the smaller of its arguments, and rises with them; drho and dtau are the derivatives of
#   rho and tau by the parameter; coefficients of tail dependence are probabilities.
# Why: so it is for Clayton and Gumbel copulas in the same package, and for a Frank copula whose arguments are larger than 0.01.
# Seen: C(0.005, 0.6) is 0.555 with parameter 4, for 0.0046; the cdf falls from 0.524 to 0.010 between 0.009 and 0.011.  The method ipsi has a
#   branch for small arguments that writes its result into an array which is not the returned one.  pdf and random are right.
#   drho is -0.235 in place of 0.097 (a Debye function of order 1 for one of order 2), dtau 0.244 in place of 0.075.  The
#   upper tail dependence of a Gumbel copula of parameter 2 is 2.83, as 2 - 2**(1/2) became 2 * 2**(1/2); that of a Student copula lacks a
#   denominator, 1 + rho: 0.175 in place of 0.253.  None of it is among the issues found.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q copulae==0.8.0 numpy==2.2.6 scipy==1.15.3
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from copulae import ClaytonCopula, FrankCopula, GumbelCopula, StudentCopula
from scipy import stats

changed = False
theta = 4.0
frank = FrankCopula(theta=theta)
formula = {
    "Frank": lambda u, v: -np.log1p(np.expm1(-theta * u) * np.expm1(-theta * v) / np.expm1(-theta)) / theta,
    "Clayton": lambda u, v: (u**-2.0 + v**-2.0 - 1) ** -0.5,
    "Gumbel": lambda u, v: np.exp(-np.sqrt(np.log(u) ** 2 + np.log(v) ** 2)),
}
points = np.array([(0.3, 0.6), (0.011, 0.6), (0.009, 0.6), (0.005, 0.6), (0.3, 0.005), (0.005, 0.005)])
for name, copula in (("Frank", frank), ("Clayton", ClaytonCopula(theta=2.0)), ("Gumbel", GumbelCopula(theta=2.0))):
    found, expected = copula.cdf(points), formula[name](*points.T)
    print(f"{name}: C at {points.tolist()}: {found.round(4)}, expected {expected.round(4)}")
    small = (points < 0.01).any(1) & (name == "Frank")
    changed |= (~np.isclose(found, expected, rtol=1e-6)).tolist() != small.tolist()
    h = 1e-4
    u, v = points[0]
    corners = copula.cdf(np.array([(u + h, v + h), (u - h, v - h), (u + h, v - h), (u - h, v + h)]))
    mixed = (corners[0] + corners[1] - corners[2] - corners[3]) / (4 * h * h)
    changed |= not np.isclose(np.ravel(copula.pdf(points))[0], mixed, rtol=1e-5)

samples = np.asarray(frank.random(400000, seed=0))
share = np.mean((samples < points[3]).all(1))
print(f"share of samples below (0.005, 0.6): {share:.5f}")
changed |= not np.isclose(share, formula["Frank"](0.005, 0.6), rtol=0.1)

for name in ("rho", "tau"):
    values = [getattr(FrankCopula(theta=t), name) for t in (theta + 1e-4, theta - 1e-4)]
    slope, found = (values[0] - values[1]) / 2e-4, getattr(frank, "d" + name)()
    print(f"Frank: derivative of {name} {found:.4f}, differences {slope:.4f}")
    changed |= abs(found - slope) < 0.1 * abs(slope)

tail = GumbelCopula(theta=2.0).lambda_
upper = (tail() if callable(tail) else tail).upper
q = 1e-6
limit = (1 - 2 * (1 - q) + formula["Gumbel"](1 - q, 1 - q)) / q
print(f"Gumbel: upper tail dependence {upper:.4f}, limit of the conditional probability {limit:.4f}")
changed |= upper < 1
changed |= not np.isclose(limit, 2 - 2**0.5, atol=1e-3)

student = StudentCopula(dim=2, df=4)
student.params = (4, 0.5)
found, expected = float(np.ravel(student.lambda_.upper)[0]), 2 * stats.t(5).cdf(-np.sqrt(5 * (1 - 0.5) / (1 + 0.5)))
print(f"Student: tail dependence {found:.4f}, expected {expected:.4f}")
changed |= np.isclose(found, expected, rtol=0.1)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
