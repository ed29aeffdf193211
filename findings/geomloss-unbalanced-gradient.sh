#!/bin/sh
# geomloss 0.3.1: SamplesLoss("sinkhorn", reach=...) is followed by a gradient that is too small by (rho + eps/2) / (rho + eps).
#
# Seen on 2026-11-27 with geomloss 0.3.1, PyTorch 2.13.0, NumPy 2.4.6, Python 3.11; geomloss 0.2.6 gives the same numbers.
# Expected before running: the gradient of the returned loss by the points, to the accuracy of the iteration, as it is without reach.
# Why: at the optimum of the dual problem, the gradient by the points is the transport plan times that of the cost; by the source code, the
#   values are to be scaled by rho + eps/2 and the gradients by rho + eps (eps = blur**p, rho = reach**p).
# Seen: gradients are scaled by rho + eps/2 as well, 0.8333 (p = 1) and 0.9000 (p = 2) times the differences of the loss at blur 0.5 and
#   reach 1.  The factor for gradients stands in a method backward() of a torch.nn.Module, which PyTorch never calls.  Without reach: 1.000.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q geomloss==0.3.1 torch==2.13.0 numpy==2.4.6
"$dir/venv/bin/python" -W ignore - <<'PY'
import geomloss
import numpy as np
import torch

rng = np.random.default_rng(0)
x, y, v = (torch.tensor(rng.normal(size=(n, 2))) for n in (5, 4, 5))
a, b = (torch.tensor(rng.dirichlet(np.full(n, 3.0))) for n in (5, 4))
blur, h = 0.5, 1e-4
changed = False
for p in (1, 2):
    for reach in (None, 1.0, 0.5):
        options = {"p": p, "blur": blur, "reach": reach, "scaling": 0.999, "diameter": 8.0, "debias": False}
        loss = geomloss.SamplesLoss("sinkhorn", backend="tensorized", **options)
        point = x.clone().requires_grad_()
        loss(a, point, b, y).backward()
        found = (point.grad * v).sum().item()
        expected = (loss(a, x + h * v, b, y) - loss(a, x - h * v, b, y)).item() / (2 * h)
        ratio = 1.0 if reach is None else (reach**p + blur**p / 2) / (reach**p + blur**p)
        print(f"p={p}, reach={reach}: gradient {found:.5f}, differences {expected:.5f}, ratio {found / expected:.4f}; {ratio:.4f}")
        changed |= abs(found / expected - ratio) > 3e-3
raise SystemExit("The behaviour has changed." if changed else 0)
PY
