#!/bin/sh
# geoopt 0.5.1: on the canonical Stiefel manifold, steps do not go along the tangent vector; projecting a tangent vector changes it.
#
# Seen on 2026-11-28 with geoopt 0.5.1, PyTorch 2.13.0, NumPy 2.4.6, Python 3.11.
# Expected before running: the derivative of retr(x, t v) and expmap(x, t v) by t at 0 is v, and proju(x, v) is v, for v in the tangent space at x; so the
#   slope of a function along retr(x, t v) is the inner product of v with egrad2rgrad.
# Why: the first is what a retraction is, the second what a projection is; so it is for EuclideanStiefel, Sphere, PoincareBall,
#   Stereographic and SymmetricPositiveDefinite.
# Seen: CanonicalStiefel moves along v - x v.T x, which is v with its part x x.T v doubled: its Cayley transform is of v x.T - x v.T, and lacks
#   the factor 1 - x x.T / 2 that the formula has on both sides.  proju(x, v) is the conversion of gradients, the same v - x v.T x.  The inner product
#   is right, so the slope along a step is 6.84 where the gradient says 6.09.  On UpperHalf and BoundedDomain, proju is the conversion of
#   gradients too: tangent vectors, which are all symmetric matrices there, are multiplied by functions of the point.
#   Not among the issues found.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q geoopt==0.5.1 torch==2.13.0 numpy==2.4.6
"$dir/venv/bin/python" -W ignore - <<'PY'
import geoopt
import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
changed = False
h = 1e-6
cases = [
    (geoopt.CanonicalStiefel(), (5, 2)),
    (geoopt.EuclideanStiefel(), (5, 2)),
    (geoopt.Sphere(), (5,)),
    (geoopt.PoincareBall(), (5,)),
    (geoopt.Stereographic(k=0.6), (5,)),
    (geoopt.SymmetricPositiveDefinite(), (3, 3)),
]
for manifold, shape in cases:
    x, g = manifold.random(*shape), torch.randn(*shape)
    v = manifold.proju(x, g)
    if isinstance(manifold, geoopt.CanonicalStiefel):
        print("v is tangent:", bool((x.T @ v + v.T @ x).abs().max() < 1e-12))
    speeds = [(step(x, h * v) - step(x, -h * v)) / (2 * h) for step in (manifold.retr, manifold.expmap)]
    errors = [(u - v).abs().max().item() for u in (*speeds, manifold.proju(x, v))]
    slope = sum(sign * (manifold.retr(x, sign * h * v) * g).sum() for sign in (1, -1)) / (2 * h)
    inner = manifold.inner(x, manifold.egrad2rgrad(x, g), v).sum()
    name = type(manifold).__name__
    print(f"{name}: error of the velocity of retr {errors[0]:.1g}, of expmap {errors[1]:.1g}, of proju {errors[2]:.1g}; slope {slope:.4f}, inner product {inner:.4f}")
    wrong = isinstance(manifold, geoopt.CanonicalStiefel)
    changed |= any((error > 0.01) != wrong for error in errors) or (abs(slope - inner) > 0.01) != wrong
    if wrong:
        changed |= not all(torch.allclose(u, v - x @ v.T @ x, atol=1e-6) for u in (*speeds, manifold.proju(x, v)))

for manifold in (geoopt.UpperHalf(), geoopt.BoundedDomain()):
    z = manifold.random(3, 3)
    u = torch.randn(3, 3, dtype=torch.complex128)
    u = u + u.T
    speed = (manifold.retr(z, h * u) - manifold.retr(z, -h * u)) / (2 * h)
    once, twice = manifold.proju(z, u), manifold.proju(z, manifold.proju(z, u))
    name = type(manifold).__name__
    print(f"{name}: error of the velocity of retr {(speed - u).abs().max():.1g}; norm of u {u.norm():.3f}, of proju(u) {once.norm():.3f}, twice {twice.norm():.3f}")
    changed |= bool((speed - u).abs().max() > 1e-6) or torch.allclose(once, u, rtol=0.01)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
