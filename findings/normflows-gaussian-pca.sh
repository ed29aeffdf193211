#!/bin/sh
# normflows 1.7.3: the log-density of GaussianPCA has the determinant of the covariance in place of its logarithm, and a constant of the wrong sign.
#
# Seen on 2026-11-28 with normflows 1.7.3, PyTorch 2.13.0, NumPy 2.4.6, SciPy 1.17.1, Python 3.11.
# Expected before running: by its description, log_prob is the logarithm of the density of N(loc, W'W + sigma^2 I), sigma being the noise level, as
#   those of DiagGaussian and GaussianMixture are of theirs; samples have this covariance, and a fit by maximum likelihood finds that of its data.
#   (The source, read before the first run, told otherwise.)
# Why: the logarithm of the density is -d/2 log(2 pi) - 1/2 log det(S) - 1/2 (z - loc)' S^-1 (z - loc).
# Seen: GaussianPCA.log_prob and forward compute d/2 log(2 pi) - 1/2 det(S) - ...: densities that sum to 13 and 19 in place of 1.  The
#   constant does no harm to a fit, the determinant does: the fitted covariance is that of the data divided by the (d + 1)-th root of its
#   determinant, here a third of it.  Samples have no noise: they lie on a line where latent_dim is 1, and sigma has no influence on them.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q normflows==1.7.3 torch==2.13.0 numpy==2.4.6 scipy==1.17.1
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import torch
from normflows import NormalizingFlow
from normflows.distributions import DiagGaussian, GaussianMixture, GaussianPCA
from scipy.stats import multivariate_normal

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
changed = False


def covariance(pca):
    return (pca.W.T @ pca.W + torch.exp(2 * pca.log_sigma) * torch.eye(2)).detach().numpy()


def pca(W, sigma):
    found = GaussianPCA(2, len(W), sigma)
    found.W.data = torch.tensor(W)
    return found


diagonal = DiagGaussian(2)
diagonal.log_scale.data = torch.tensor([[0.5, -0.3]])
mixture = GaussianMixture(1, 2, [[0.0, 0.0]], [[1.5, 0.7]])
axis = torch.linspace(-15, 15, 601)
grid = torch.cartesian_prod(axis, axis)
point = torch.tensor([1.0, -0.5])
for name, distribution, S in (
    ("DiagGaussian", diagonal, np.diag(np.exp([1.0, -0.6]))),
    ("GaussianMixture", mixture, np.diag([1.5**2, 0.7**2])),
    ("GaussianPCA", pca([[1.0, 0.5]], 0.3), None),
    ("GaussianPCA", pca([[1.0, 0.5]], 1.0), None),
):
    S = covariance(distribution) if S is None else S
    with torch.no_grad():
        total = torch.exp(distribution.log_prob(grid)).sum().item() * (axis[1] - axis[0]).item() ** 2
        at = distribution.log_prob(point[None]).item()
        samples = np.cov(distribution(200000)[0].numpy().T)
    expected = multivariate_normal(cov=S).logpdf(point.numpy())
    print(f"{name}, covariance {S.round(3).tolist()}:")
    print(f"  sum of the density {total:.3f}; log-density at {point.tolist()} {at:.4f}, expected {expected:.4f}")
    print(f"  covariance of samples {samples.round(3).tolist()}")
    wrong = name == "GaussianPCA"
    changed |= (abs(total - 1) > 1e-3) != wrong or (abs(at - expected) > 1e-6) != wrong or (abs(samples - S).max() > 0.05) != wrong

data = torch.randn(5000, 2) @ torch.linalg.cholesky(torch.tensor([[9.0, 3.0], [3.0, 4.0]])).T
C = np.cov(data.numpy().T, bias=True)
torch.manual_seed(1)
model = NormalizingFlow(GaussianPCA(2, 2), [])
optimizer = torch.optim.Adam(model.parameters(), 0.02)
for _ in range(3000):
    optimizer.zero_grad()
    model.forward_kld(data).backward()
    optimizer.step()
fitted = covariance(model.q0)
print(f"covariance of the data {C.round(3).tolist()}, of the fit {fitted.round(3).tolist()}")
changed |= abs(fitted - C / np.linalg.det(C) ** (1 / 3)).max() > 0.05
raise SystemExit("The behaviour has changed." if changed else 0)
PY
