#!/bin/sh
# POT 0.9.7: ot.solve(M, a, b, reg, grad="envelope") returns a wrong gradient by the weights a and b, for its default reg_type "KL".
#
# Seen on 2026-11-27 with POT 0.9.7.post1, PyTorch 2.13.0, NumPy 2.4.6, Python 3.11.
# Expected before running: what grad="autodiff" gives for the value; "envelope" is documented as its memory-saving form for the value.
#   Gradients are compared along changes of a that keep its sum, as only those have a meaning.
# Why: value = <P, M> + reg KL(P | a b^T) holds a and b themselves; the dual potentials that are the gradient of this value are
#   reg * (log u - log a), where u is the scaling of Sinkhorn's iteration.
# Seen: reg * log u, for both reg_types: right for "entropy", wrong by reg * log(a) for "KL"; by the cost matrix both are right.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q POT==0.9.7.post1 torch==2.13.0 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import ot
import torch

rng = np.random.default_rng(0)
M = torch.tensor(rng.random((5, 4)))
a, b = (torch.tensor(rng.dirichlet(np.full(n, 3.0))) for n in (5, 4))
v = torch.tensor([1.0, -1.0, 0.5, -0.25, -0.25], dtype=torch.float64)  # the sum of a stays
reg, h = 0.5, 1e-5
changed = False
for reg_type in ("KL", "entropy"):

    def value(a, grad):
        return ot.solve(M, a, b, reg=reg, reg_type=reg_type, grad=grad, max_iter=1000, tol=1e-12).value

    expected = (value(a + h * v, "detach") - value(a - h * v, "detach")).item() / (2 * h)
    for grad in ("autodiff", "envelope"):
        weights = a.clone().requires_grad_()
        value(weights, grad).backward()
        found = (weights.grad * v).sum().item()
        missing = reg * (torch.log(a) * v).sum().item() if (reg_type, grad) == ("KL", "envelope") else 0.0
        print(f"{reg_type}, {grad}: slope {found:.6f}, differences {expected:.6f}, reg * log(a) along it {missing:.6f}")
        changed |= abs(found - expected - missing) > 1e-5
raise SystemExit("The behaviour has changed." if changed else 0)
PY
