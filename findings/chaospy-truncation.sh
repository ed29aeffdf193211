#!/bin/sh
# chaospy 4.3.21: a distribution that is truncated on both sides is not normalized, and a large part of its samples lies on the upper bound.
#
# Seen on 2026-11-28 with chaospy 4.3.21, SciPy 1.17.1, NumPy 2.4.6, Python 3.11.
# Expected before running: Trunc(d, lower, upper) has the density of d divided by F(upper) - F(lower), so its cdf is 1 at the upper bound; what
#   holds for one bound holds for two.
# Why: a truncated distribution is the distribution given that the value lies within the bounds.  With one bound all is right, and so is the class
#   TruncNormal, with two.
# Seen: the code divides by F(upper) * (1 - F(lower)).  The cdf of a uniform distribution between 0.4 and 0.6 ends at 0.556 and its density is 2.78 in
#   place of 5.  Sampling inverts this cdf and clips what comes out above: 44 % of the samples are 0.6, their median is 0.58 and
#   their mean 0.54.  Samples of a normal distribution between -1 and 2 have the mean 0.2396 (0.2296).  chaospy.E, which divides by the sum of the
#   weights of its quadrature, is right, and so disagrees with the samples.
#   Issues 77, 371 and 443 of its repository are of errors with one bound and of moments; none is of this.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q chaospy==4.3.21 scipy==1.17.1 numpy==2.4.6
"$dir/venv/bin/python" -W ignore - <<'PY'
import chaospy
import numpy as np
from scipy import stats

changed = False
cases = [
    ("uniform, lower bound", chaospy.Uniform(), stats.uniform(), 0.4, None),
    ("uniform, upper bound", chaospy.Uniform(), stats.uniform(), None, 0.6),
    ("uniform, both", chaospy.Uniform(), stats.uniform(), 0.4, 0.6),
    ("normal, lower bound", chaospy.Normal(), stats.norm(), -1, None),
    ("normal, both", chaospy.Normal(), stats.norm(), -1, 2),
    ("gamma, upper bound", chaospy.Gamma(2), stats.gamma(2), None, 4),
    ("gamma, both", chaospy.Gamma(2), stats.gamma(2), 0.5, 4),
]
for name, whole, reference, lower, upper in cases:
    truncated = chaospy.Trunc(whole, lower=lower, upper=upper)
    a, b = max(truncated.lower[0], reference.support()[0]), truncated.upper[0]
    x = np.linspace(a, b, 5) if upper is not None else np.array([a, a + 0.1, a + 0.2])
    mass = reference.cdf(b) - reference.cdf(a)
    density, expected = truncated.pdf(x), reference.pdf(x) / mass
    cdf, expected_cdf = truncated.cdf(x), (reference.cdf(x) - reference.cdf(a)) / mass
    samples = truncated.sample(200000, seed=0)
    mean = reference.expect(lambda v: v, lb=a, ub=b) / mass
    at_bound = np.mean(samples >= b)
    print(
        f"{name}: cdf at {x[-1]:.1f} {cdf[-1]:.4f}, expected {expected_cdf[-1]:.4f}; density at {x[1]:.2f} {density[1]:.4f}, "
        f"expected {expected[1]:.4f}; samples' mean {samples.mean():.4f}, expected {mean:.4f}; samples on the bound {at_bound:.1%}"
    )
    both = lower is not None and upper is not None
    scale = reference.cdf(b) * (1 - reference.cdf(a))
    changed |= np.allclose(density, expected, rtol=1e-6) == both or np.allclose(cdf, expected_cdf, atol=1e-6) == both
    changed |= both and not np.allclose(density, reference.pdf(x) / scale)
    changed |= both and not np.isclose(at_bound, 1 - mass / scale, atol=0.005)
    changed |= (abs(samples.mean() - mean) > 5 * samples.std() / len(samples) ** 0.5) != both
uniform = chaospy.Trunc(chaospy.Uniform(), 0.4, 0.6)
print("E of the uniform one, both:", float(chaospy.E(uniform)), "median:", float(uniform.inv(0.5)))
raise SystemExit("The behaviour has changed." if changed else 0)
PY
