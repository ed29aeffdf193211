#!/bin/sh
# entmax 1.3: the Hessian of its losses is 0, and that of entmax15 nan as soon as an output is 0; neither raises an error.
#
# Seen on 2026-11-27 with entmax 1.3, PyTorch 2.13.0, NumPy 2.4.6, Python 3.11.
# Expected before running: the Hessian agrees with differences of the gradient, as that of cross_entropy, which these losses take the place of;
#   or an error, as PyTorch's once_differentiable is there for.  The documents say nothing of second derivatives.
# Why: the first derivatives are right (to 1e-10), and between the points where an output becomes 0 all of these functions are smooth.
# Seen: a loss keeps its gradient as a number, so differentiating again gives exactly 0 for a convex function that is curved (0.30 in the first
#   element here, 0.50 for sparsemax_loss): a Newton step, a gradient penalty or a Hessian-vector product silently lacks this part.  The
#   backward pass of the activations holds powers of the output, whose slopes are infinite at an output of 0, times 0: one 0 among the outputs,
#   which is what these functions are for, makes every element nan.  Without a 0 they are right, and so is sparsemax.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q entmax==1.3 torch==2.13.0 numpy==2.4.6
"$dir/venv/bin/python" -W ignore - <<'PY'
import entmax
import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
sparse, c, target = torch.tensor([1.5, -0.3, -2.2, 0.6, -1.1]), torch.tensor([-1.4, 0.4, 0.8, -0.7, 0.2]), torch.tensor([1])
dense = sparse / 10
h = 1e-5


def gradient(f, x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(f(x), x)[0]


changed = False
for name, f, x, seen in (
    ("sparsemax_loss", lambda x: entmax.sparsemax_loss(x[None], target).sum(), sparse, "zeros"),
    ("entmax15_loss", lambda x: entmax.entmax15_loss(x[None], target).sum(), sparse, "zeros"),
    ("entmax_bisect_loss, 1.7", lambda x: entmax.entmax_bisect_loss(x[None], target, 1.7, 80).sum(), sparse, "zeros"),
    ("cross_entropy", lambda x: torch.nn.functional.cross_entropy(x[None], target), sparse, "right"),
    ("entmax15", lambda x: c @ entmax.entmax15(x), sparse, "nan"),
    ("entmax_bisect, 1.7", lambda x: c @ entmax.entmax_bisect(x, 1.7, n_iter=80), sparse, "nan"),
    ("entmax15, no output is 0", lambda x: c @ entmax.entmax15(x), dense, "right"),
):
    slopes = torch.stack([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in torch.eye(5)])
    found = torch.autograd.functional.hessian(f, x)
    expected = torch.stack([(gradient(f, x + h * e) - gradient(f, x - h * e)) / (2 * h) for e in torch.eye(5)])
    print(f"{name}: gradient off by {(gradient(f, x) - slopes).abs().max():.0e}; Hessian, first row:")
    print("   found", found[0].numpy().round(4), " differences", expected[0].numpy().round(4))
    changed |= not torch.allclose(gradient(f, x), slopes, atol=1e-8) or bool(expected.abs().max() < 0.05)
    kinds = {"zeros": bool((found == 0).all()), "nan": bool(found.isnan().all())}
    changed |= not kinds.get(seen, torch.allclose(found, expected, atol=1e-6))
raise SystemExit("The behaviour has changed." if changed else 0)
PY
