#!/bin/sh
# MONAI 1.6.1: the divergence in SURELoss adds derivatives of every pixel by the others of its row; it is three times the right one for a blur of rows.
#
# Seen on 2026-11-28 with monai 1.6.1, PyTorch 2.13.0, NumPy 2.4.6, Python 3.11.
# Expected before running: up to the noise of the probes, the loss is the mean squared error times the divergence of the operator (the trace of its
#   Jacobian) over the number of pixels, so it is the same for an image and an operator as for both turned by 90 degrees.
# Why: Stein's estimator has the trace, which is the mean of b . (f(x + eps b) - f(x)) / eps over normal probes b.
# Seen: sure_loss_function sums all entries of the matrix product b^T (f(x + eps b) - f(x)), where the sum of its diagonal is the scalar product.  The
#   other entries pair a pixel with those in other columns of the same row; they have the mean 0 only for operators that do not mix columns.
#   The mean of three neighbours in a row has the divergence 1/3 a pixel, and the loss has 1; with three in a column it is right.  For a small
#   convolutional network the loss is 3 times the right one, and 2.3 times for the same image turned by 90 degrees.  No report was found.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q monai==1.6.1 torch==2.13.0 numpy==2.4.6
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import torch
from monai.losses import SURELoss

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
n, eps, draws = 20, 1e-4, 1000
kernel = torch.ones(1, 1, 1, 3) / 3
network = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.Tanh(), torch.nn.Conv2d(4, 1, 3, padding=1)).requires_grad_(False)
for layer in (network[0], network[2]):
    layer.weight.abs_()  # a network that smooths, more along rows than along columns
    layer.weight[..., ::2, :] *= 0.3
operators = {
    "half of every pixel": lambda v: v / 2,
    "mean of three in a column": lambda v: torch.nn.functional.conv2d(v, kernel.mT, padding=(1, 0)),
    "mean of three in a row": lambda v: torch.nn.functional.conv2d(v, kernel, padding=(0, 1)),
    "convolutional network": network,
    "the same, image turned": lambda v: network(v.mT).mT,
}
x, target = torch.rand(1, 1, n, n), torch.rand(1, 1, n, n)
changed = False
for name, f in operators.items():
    at, aim = (x.mT, target.mT) if "turned" in name else (x, target)
    jacobian = torch.autograd.functional.jacobian(lambda v: f(v.reshape(x.shape)).reshape(-1), at.reshape(-1))
    error = ((f(at) - aim) ** 2).mean().item()
    library, right = [], []
    for _ in range(draws):
        probe = torch.randn_like(x)
        library.append(SURELoss(perturb_noise=probe, eps=eps)(f, at, aim).item())
        right.append(error * (probe * (f(at + eps * probe) - f(at))).sum().item() / eps / n**2)
    (found, spread), (mean, _) = [(np.mean(v), np.std(v) / draws**0.5) for v in (library, right)]
    expected = error * jacobian.trace().item() / n**2
    print(f"{name}: loss {found:.4f} (standard error {spread:.4f}), by the scalar product {mean:.4f}, by the trace {expected:.4f}")
    mixes_columns = name not in ("half of every pixel", "mean of three in a column")
    changed |= abs(mean - expected) > 0.05 * expected or (found < 2 * expected if mixes_columns else abs(found - expected) > 5 * spread)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
