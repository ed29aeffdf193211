#!/bin/sh
# PyTensor 3.0.7: the gradient of hyp2f1(a, b, c, z) by a (or b) is wrong where a (or b) is a negative integer.
#
# Seen on 2026-11-27 with pytensor 3.0.7, NumPy 2.4.6, SciPy 1.17.1, mpmath 1.4.1, Python 3.11.
# Expected before running: the derivative of a smooth function; at a = -2 the series of 2F1 ends, but its derivative by a does not.
# Why: 2F1 = sum_k (a)_k (b)_k / (c)_k z^k / k!.  At a = -2, (a)_k is 0 from k = 3, and d(a)_k/da is not:
#   it is (a)_k times a difference of digammas, 0 times infinity.  So every term from k = 3 counts in the derivative.
# Seen: only the terms up to k = 2 are summed: 0.2250 in place of 0.2952 (a = -2, b = 1.5, c = 0.5, z = 0.3), 3.0 in place of 1.8129 by b at
#   b = -1; a millionth beside the integer the gradient is right.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q pytensor==3.0.7 numpy==2.4.6 scipy==1.17.1 mpmath==1.4.1
PYTENSOR_FLAGS="cxx=,linker=py,mode=FAST_COMPILE,base_compiledir=$dir/compiled" "$dir/venv/bin/python" -W ignore - <<'PY'
import mpmath
import pytensor
import pytensor.tensor as pt

v = [pt.dscalar(n) for n in "abcz"]
y = pt.hyp2f1(*v)
changed = False
for name, k, at in (("a", 0, (-2.0, 1.5, 0.5, 0.3)), ("b", 1, (3.0, -1.0, 0.2, 0.2))):
    gradient = pytensor.function(v, pytensor.grad(y, v[k]), on_unused_input="ignore")

    def of_one(t, k=k, at=at):
        return mpmath.hyp2f1(*(t if i == k else u for i, u in enumerate(at)))

    expected = float(mpmath.diff(of_one, at[k]))
    beside = [u + 1e-6 * (i == k) for i, u in enumerate(at)]
    found, near = float(gradient(*at)), float(gradient(*beside))
    print(f"d hyp2f1{at}/d{name}: PyTensor {found:.6f}, mpmath {expected:.6f}, PyTensor at {name} + 1e-6 {near:.6f}")
    changed |= abs(found - expected) < 1e-2 or abs(near - expected) > 1e-3
raise SystemExit("The behaviour has changed." if changed else 0)
PY
