#!/bin/sh
# MONAI 1.6.1: with a triangular kernel of the default size, the local cross-correlation of any two images is 0, and so is its gradient.
#
# Seen on 2026-11-28 with monai 1.6.1, PyTorch 2.13.0, NumPy 2.4.6, Python 3.11.
# Expected before running: LocalNormalizedCrossCorrelationLoss(kernel_type="triangular") of an image with itself is -1, as with the other two kernels
#   (the documents call -1 a perfect correlation); the weights of a triangle of 3 are 1, 2, 1, those of 7 are 1, 2, 3, 4, 3, 2, 1.
# Why: kernel_size=3 is the default, "must be odd" is the only condition, and the triangle is a box convolved with a box of (size + 1) / 2.
# Seen: make_triangular_kernel makes the box shorter by one where (size + 1) / 2 is even, that is for the sizes 3, 7, 11, 15 ..., and pads with
#   zeros.  A triangle of 3 is 0, 1, 0: a window of one pixel, in which nothing varies.  The loss is 0 for equal images as for different ones, and a
#   registration that starts one pixel beside the minimum gets a gradient of 0; by rectangular or gaussian windows it is drawn to it.  A size of
#   7 gives the numbers of 5, 11 those of 9.  A report of 2026 about the gaussian kernel (MONAI 8780) was repaired; none was found for this one.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q monai==1.6.1 torch==2.13.0 numpy==2.4.6
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import torch
from monai.losses import LocalNormalizedCrossCorrelationLoss

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def kernel_of(kind, size):
    distance = np.abs(np.arange(size) - size // 2)
    return {"rectangular": np.ones(size), "triangular": size // 2 + 1 - distance, "gaussian": np.exp(-0.5 * (3 * distance / size) ** 2)}[kind]


def definition(a, b, kernel):
    """The mean of the squared correlation in every window, zeros outside; negated."""
    weights = np.outer(kernel, kernel) / kernel.sum() ** 2
    half, size = len(kernel) // 2, len(kernel)
    a, b = (np.pad(v[0, 0].numpy(), half) for v in (a, b))
    values = []
    for i in range(a.shape[0] - 2 * half):
        for j in range(a.shape[1] - 2 * half):
            u, v = a[i : i + size, j : j + size], b[i : i + size, j : j + size]
            du, dv = u - (weights * u).sum(), v - (weights * v).sum()
            values.append((weights * du * dv).sum() ** 2 / ((weights * du * du).sum() * (weights * dv * dv).sum()))
    return -np.mean(values)


x, y = torch.rand(1, 1, 12, 12), torch.rand(1, 1, 12, 12)
changed = False
for kind in ("rectangular", "gaussian", "triangular"):
    for size in (3, 5, 7, 9, 11):
        loss = LocalNormalizedCrossCorrelationLoss(spatial_dims=2, kernel_size=size, kernel_type=kind, smooth_dr=1e-12)
        itself, other = loss(x, x).item(), loss(x, y).item()
        expected = [definition(x, v, kernel_of(kind, size)) for v in (x, y)]
        print(f"{kind} {size}: with itself {itself:.4f} ({expected[0]:.4f}), with another {other:.4f} ({expected[1]:.4f} by the definition)")
        wrong = kind == "triangular" and size in (3, 7, 11)
        changed |= (abs(itself - expected[0]) + abs(other - expected[1]) > 1e-3) != wrong
        changed |= kind == "triangular" and size == 3 and abs(itself) + abs(other) > 1e-6

grid = torch.arange(24.0)
for kind in ("rectangular", "gaussian", "triangular"):
    loss = LocalNormalizedCrossCorrelationLoss(spatial_dims=1, kernel_type=kind)
    shift = torch.tensor(1.0, requires_grad=True)
    fixed, moved = (torch.exp(-((grid - 12 - s) ** 2) / 18)[None, None] for s in (0.0, shift))
    value = loss(moved, fixed)
    value.backward()
    print(f"{kind}, default size, an image one pixel beside the other: loss {value.item():.4f}, gradient by the shift {shift.grad.item():.4f}")
    changed |= (abs(shift.grad.item()) < 1e-6) != (kind == "triangular")
raise SystemExit("The behaviour has changed." if changed else 0)
PY
