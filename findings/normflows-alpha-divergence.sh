#!/bin/sh
# normflows 1.7.3: the alpha divergence is 0 at its default alpha, and with dreg=True its gradient is of something else.
#
# Seen on 2026-11-28 with normflows 1.7.3, PyTorch 2.13.0, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: reverse_alpha_div(num_samples) is a loss to minimise; an alpha divergence tends to a Kullback-Leibler divergence at alpha = 1.
#   dreg=True is another estimator of the same gradient, with less variance, as the doubly reparametrized gradient of its reference is.  (The
#   source, read before the first run, told otherwise.)
# Why: with w = p / q and samples from q, Renyi's divergence is log E[w^alpha] / (alpha - 1), here known by integration.  The doubly
#   reparametrized gradient of log E[w^alpha] weights d log w by alpha ((1 - alpha) v + alpha v^2), where the v are w^alpha, scaled to the sum 1.
# Seen: NormalizingFlow.reverse_alpha_div multiplies by sign(alpha - 1) where Renyi's divergence divides by alpha - 1: at alpha = 1, its default, loss and
#   gradient are 0, and a flow learns nothing.  The gradients of sign(alpha - 1) log E[w^alpha] at 0.5, 0.9, 1.1 and 2 are right.  With
#   dreg=True the v have the mean 1, not the sum 1, so that the part with v^2 is as many times too large as there are samples, and the
#   sign of alpha - 1 is missing: the gradient by the shift is 1.9 times the right one at 0.5 and 9 times at 0.9 and 1.1, and that by
#   the logarithm of the scale has the wrong sign at 2.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q normflows==1.7.3 torch==2.13.0 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import torch
from normflows import NormalizingFlow
from normflows.distributions import DiagGaussian
from normflows.flows import AffineConstFlow
from scipy.integrate import quad
from scipy.stats import norm

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
changed = False


def model_at(shift, log_scale):
    flow = AffineConstFlow(1)
    flow.t.data[:], flow.s.data[:] = shift, log_scale
    return NormalizingFlow(DiagGaussian(1, trainable=False), [flow], DiagGaussian(1, trainable=False)), flow


def divergence(alpha, shift, log_scale):
    def integrand(x):
        return np.exp(alpha * norm.logpdf(x) + (1 - alpha) * norm.logpdf(x, shift, np.exp(log_scale)))

    return np.sign(alpha - 1) * np.log(quad(integrand, -20, 20)[0])


model, flow = model_at(0.5, 0.2)
loss = model.reverse_alpha_div(100000)
loss.backward()
print(f"default alpha: loss {loss.item()}, gradient by shift and log-scale {flow.t.grad.item()}, {flow.s.grad.item()}")
changed |= loss.item() != 0 or flow.t.grad.item() != 0 or flow.s.grad.item() != 0

h = 1e-5
for alpha in (0.5, 0.9, 1.1, 2.0):
    expected = [
        (divergence(alpha, 0.5 + h, 0.2) - divergence(alpha, 0.5 - h, 0.2)) / (2 * h),
        (divergence(alpha, 0.5, 0.2 + h) - divergence(alpha, 0.5, 0.2 - h)) / (2 * h),
    ]
    print(f"alpha {alpha}, gradient by shift and log-scale: by integration {expected[0]:.3f}, {expected[1]:.3f}")
    for dreg in (False, True):
        found = []
        for _ in range(20):
            model, flow = model_at(0.5, 0.2)
            model.reverse_alpha_div(100000, alpha=alpha, dreg=dreg).backward()
            found.append([flow.t.grad.item(), flow.s.grad.item()])
        mean, error = np.mean(found, 0), np.std(found, 0) / 20**0.5
        print(f"  reverse_alpha_div with dreg={dreg}: {mean[0]:.3f}, {mean[1]:.3f} (standard error {error.max():.3f})")
        changed |= (abs(mean - expected).max() > 0.02) != dreg
raise SystemExit("The behaviour has changed." if changed else 0)
PY
