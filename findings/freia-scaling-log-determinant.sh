#!/bin/sh
# FrEIA 0.2: the log-determinant of LearnedElementwiseScaling has the wrong sign in reverse, and its init_scale does nothing.
#
# Seen on 2026-11-28 with FrEIA 0.2, PyTorch 2.13.0, NumPy 2.4.6, Python 3.11.
# Expected before running: module(x, rev=True) returns the inverse of x and the log-determinant of its Jacobian, which is that of the forward
#   direction, negated; so do the coupling blocks, ActNorm, AllInOneBlock, OrthogonalTransform and InvertibleSigmoid of the package.
#   LearnedElementwiseScaling((4,), init_scale=2) begins with a factor of 2, as its documentation says.
# Seen: the log-determinant is sum(s) in both directions, while the values are those of exp(s) and exp(-s).  The factor begins with 1 whatever
#   init_scale is: the code has log(init_scale) times a tensor of zeros.  A flow that is trained through its reverse
#   direction, from data to latents, is paid for a scale that it should be fined for: after 100 steps on data of standard deviation 1 it is 32,000.
# Reported: init_scale in issue 117 of its repository (2022, open); pull request 118, merged then, may be about it: 0.2 shows both.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q FrEIA==0.2 torch==2.13.0 numpy==2.4.6
"$dir/venv/bin/python" -W ignore - <<'PY'
import contextlib
import io

import torch

with contextlib.redirect_stdout(io.StringIO()):
    import FrEIA.modules as modules

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
changed = False
dims = [(4,)]


def network(inputs, outputs):
    return torch.nn.Sequential(torch.nn.Linear(inputs, 8), torch.nn.Tanh(), torch.nn.Linear(8, outputs))


for name, module in (
    ("RNVPCouplingBlock", modules.RNVPCouplingBlock(dims, subnet_constructor=network)),
    ("AllInOneBlock", modules.AllInOneBlock(dims, subnet_constructor=network)),
    ("InvertibleSigmoid", modules.InvertibleSigmoid(dims)),
    ("LearnedElementwiseScaling", modules.LearnedElementwiseScaling(dims)),
):
    module = module.double()
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.data += 0.3 * torch.randn_like(parameter)
    x = torch.randn(1, 4)
    for reverse in (False, True):
        if reverse:
            x = module([x], rev=False)[0][0].detach()
        found = float(module([x], rev=reverse)[1])
        jacobian = torch.autograd.functional.jacobian(lambda v: module([v[None]], rev=reverse)[0][0][0], x[0])
        expected = torch.linalg.slogdet(jacobian)[1].item()
        print(f"{name}, {'reverse' if reverse else 'forward'}: log-determinant {found:.4f}, of the Jacobian {expected:.4f}")
        wrong = name == "LearnedElementwiseScaling" and reverse
        changed |= abs(found + expected if wrong else found - expected) > 1e-8 or (wrong and abs(found) < 0.01)

module = modules.LearnedElementwiseScaling(dims, init_scale=2.0)
print(f"init_scale=2: 1 becomes {module([torch.ones(1, 4)])[0][0].tolist()[0]}")
changed |= module([torch.ones(1, 4)])[0][0].tolist()[0] != [1.0] * 4

data = torch.randn(1000, 4)
optimizer = torch.optim.SGD(module.parameters(), 0.1)
for _ in range(100):  # maximum likelihood: latents are the reverse of the data
    latents, log_determinant = module([data], rev=True)
    loss = (0.5 * latents[0] ** 2).sum(1).mean() - log_determinant.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"fit to data of standard deviation {data.std().item():.3f}, 100 steps: scale {module.s.exp().tolist()[0]}")
changed |= not (module.s.exp() > 100).all()
raise SystemExit("The behaviour has changed." if changed else 0)
PY
