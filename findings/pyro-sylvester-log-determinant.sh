#!/bin/sh
# Pyro 1.9.2: the log-determinant of a Sylvester flow is of another map than the flow is; the bound of variational inference lies above the evidence.
#
# Seen on 2026-11-28 with pyro-ppl 1.9.2, PyTorch 2.13.0, NumPy 2.4.6, Python 3.11.
# Expected before running: log_abs_det_jacobian is the logarithm of the determinant of the Jacobian of the transform, as those of 20 others in
#   pyro.distributions.transforms are (Planar, Radial, Householder, splines, autoregressive flows).
# Why: the documented y = x + Q R tanh(S Q^T x + b) has, with an orthogonal Q and triangular R and S, the determinant prod(1 + h' diag(R) diag(S)).
# Seen: the code, for rows, multiplies x by S Q^T and then by Q R, in this order; Q does not cancel then, and the product of the diagonals is not the
#   determinant.  At the first parameters (all below 0.01) the difference is below 1e-7; trained ones leave that.  So densities do not sum to 1,
#   and a fit to a normalized target (whose evidence is log 1 = 0) ends with a bound of +2.0, where no bound can be above 0; with the determinant of
#   the Jacobian, the same flow has -0.22.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q pyro-ppl==1.9.2 torch==2.13.0 numpy==2.4.6
"$dir/venv/bin/python" -W ignore - <<'PY'
import pyro.distributions.transforms as transforms
import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
changed = False


def by_jacobian(flow, x):
    rows = torch.autograd.functional.jacobian(lambda v: flow(v).sum(0), x)
    return torch.linalg.slogdet(rows.movedim(0, 1))[1]


x = torch.randn(2000, 3)
for name, flow in (("Planar", transforms.Planar(3)), ("Householder", transforms.Householder(3, 2)), ("Sylvester", transforms.Sylvester(3, 2))):
    for spread in (0, 0.5):
        with torch.no_grad():
            for parameter in flow.parameters():
                parameter.add_(spread * torch.randn_like(parameter))
        found = flow.log_abs_det_jacobian(x, flow(x)).detach()
        difference = (found - by_jacobian(flow, x)).abs().max().item()
        print(f"{name}, parameters moved by {spread}: largest error of the log-determinant {difference:.2g}")
        changed |= (difference > 0.1) != (name == "Sylvester" and spread > 0)

target = torch.distributions.MultivariateNormal(torch.zeros(3), torch.eye(3) + 0.8 * (torch.ones(3, 3) - torch.eye(3)))
base = torch.distributions.Normal(torch.zeros(3), 1.0)
flow = transforms.Sylvester(3, 3)
optimizer = torch.optim.Adam(flow.parameters(), 0.02)


def bound(x, log_determinant):
    y = flow(x)
    return (target.log_prob(y) + log_determinant(x, y) - base.log_prob(x).sum(-1)).mean()


for _ in range(600):
    optimizer.zero_grad()
    (-bound(torch.randn(256, 3), flow.log_abs_det_jacobian)).backward()
    optimizer.step()
with torch.no_grad():
    x = torch.randn(20000, 3)
    found = bound(x, flow.log_abs_det_jacobian).item()
    true = bound(x, lambda x, y: by_jacobian(flow, x)).item()
print(f"lower bound of the evidence 0 after 600 steps: with log_abs_det_jacobian {found:.3f}, with the Jacobian {true:.3f}")
changed |= not found > 0.05 or not true < 0
raise SystemExit("The behaviour has changed." if changed else 0)
PY
