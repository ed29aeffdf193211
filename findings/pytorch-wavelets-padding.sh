#!/bin/sh
# pytorch-wavelets 1.3.0: unless the signal is padded with zeros, the gradient of the wavelet transform is not its transpose.
#
# Seen on 2026-11-28 with pytorch-wavelets 1.3.0, PyWavelets 1.9.0, PyTorch 2.13.0, NumPy 2.4.6, Python 3.11.
# Expected before running: a transform is linear, so its backward pass is the transpose of its matrix, for each of the five modes of padding and both
#   directions, as autograd gives for any other convolution; the values are those of PyWavelets, and they are.
# Why: the README says that gradients flow through; losses on coefficients are what the package is for.
# Seen: the backward passes are written by hand as the inverse transform.  It is the transpose for mode "zero" (the default here), and for
#   "periodization" of even length.  With symmetric (PyWavelets' own default), reflect and periodic padding and with "periodization" of odd
#   length, derivatives near the border are wrong by up to 0.99, where the largest is 1.41; the inverse transform's are so, too.
#   Descent to the signal whose coefficients are nearest to noisy ones, a least squares problem, ends at twice the least sum of squares with symmetric padding: 6.77 for 3.38.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q pytorch-wavelets==1.3.0 PyWavelets==1.9.0 torch==2.13.0 numpy==2.4.6 "setuptools==80.9.0"
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import pywt
import torch
from pytorch_wavelets import DWT1DForward, DWT1DInverse

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
changed = False


def matrix(f, size):  # column k is f of the k-th unit vector
    return torch.stack([f(e) for e in torch.eye(size)], 1)


def gradients(f, size):  # row k is the gradient of the k-th value
    return torch.autograd.functional.jacobian(f, torch.randn(size))


right = {("zero", 16, "db3"), ("zero", 15, "db3"), ("periodization", 16, "db3"), ("zero", 16, "bior2.4"), ("zero", 15, "bior2.4")}
right.add(("periodization", 16, "bior2.4"))
for wave in ("db3", "bior2.4"):
    for mode in ("zero", "symmetric", "reflect", "periodic", "periodization"):
        for size in (16, 15):
            transform = DWT1DForward(J=1, wave=wave, mode=mode)

            def forward(x):
                low, (high,) = transform(x[None, None])
                return torch.cat([low.ravel(), high.ravel()])

            x = torch.randn(size)
            values = np.concatenate(pywt.dwt(x.numpy(), wave, mode))
            same = np.allclose(forward(x).numpy(), values, atol=1e-6)
            expected, found = matrix(forward, size), gradients(forward, size)
            error = (found - expected).abs().max().item()
            print(f"{wave}, {mode}, length {size}: values as PyWavelets {same}; largest derivative {expected.abs().max():.3f}, largest error {error:.2g}")
            changed |= (error < 1e-9) != ((mode, size, wave) in right) or not same

for mode in ("zero", "symmetric"):
    inverse = DWT1DInverse(wave="db3", mode=mode)
    high = torch.randn(1, 1, 10)

    def back(low):
        return inverse((low[None, None], [high])).ravel() - inverse((0 * low[None, None], [high])).ravel()

    error = (gradients(back, 10) - matrix(back, 10)).abs().max().item()
    print(f"inverse transform, db3, {mode}: largest error {error:.2g}")
    changed |= (error > 0.1) != (mode == "symmetric")

size = 16
for mode in ("zero", "symmetric"):
    transform = DWT1DForward(J=1, wave="db3", mode=mode)

    def forward(x):
        low, (high,) = transform(x[None, None])
        return torch.cat([low.ravel(), high.ravel()])

    x = torch.cumsum(torch.randn(size), 0)
    noisy = forward(x) + torch.randn(len(forward(x)))
    a = matrix(forward, size)
    least = ((a @ torch.linalg.lstsq(a, noisy[:, None]).solution[:, 0] - noisy) ** 2).sum().item()
    x = torch.zeros(size, requires_grad=True)
    for _ in range(2000):
        loss = ((forward(x) - noisy) ** 2).sum()
        x = (x - 0.1 * torch.autograd.grad(loss, x)[0]).detach().requires_grad_()
    print(f"2,000 steps of descent to noisy coefficients, {mode}: sum of squares {loss.item():.4f}, least {least:.4f}")
    changed |= (loss.item() < least + 1e-6) != (mode == "zero")
raise SystemExit("The behaviour has changed." if changed else 0)
PY
