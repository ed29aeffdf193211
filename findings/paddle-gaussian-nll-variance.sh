#!/bin/sh
# PaddlePaddle 3.3.1: gaussian_nll_loss gives the variance no gradient; a network that should learn it never does.
#
# Seen on 2026-11-27 with paddlepaddle 3.3.1 (CPU), NumPy 2.4.6, Python 3.11.
# Expected before running: the gradients of the loss by input and by variance agree with differences.
# Why: the loss is made to train a network that predicts both, as its documentation says, and that only the clamping of the variance is left out
#   of differentiation, "and so the gradients are unaffected by it".
# Seen: the variance is clamped where nothing is recorded, and the result takes its place: variance.grad is None, without a word.  The
#   gradient by input is right.  The same formula written out has both.  Of 400 numbers with mean 2 and variance 9, 500 steps of Adam from
#   0 and 1 find the mean; the variance is 1 to the last bit.  With the formula, it is 9.  nn.GaussianNLLLoss is the same.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q paddlepaddle==3.3.1 numpy==2.4.6
GLOG_minloglevel=3 "$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import paddle

paddle.set_device("cpu")
changed = False
rng = np.random.default_rng(0)


def written_out(mean, y, variance):
    return (0.5 * (paddle.log(variance) + (mean - y) ** 2 / variance)).mean()


losses = {
    "gaussian_nll_loss": paddle.nn.functional.gaussian_nll_loss,
    "GaussianNLLLoss": paddle.nn.GaussianNLLLoss(),
    "the formula": written_out,
}
values = [np.array([0.3, -1.2]), np.array([1.0, 0.5]), np.array([0.7, 1.9])]
h = 1e-6
for name, loss in losses.items():
    mean, y, variance = (paddle.to_tensor(v, stop_gradient=i == 1) for i, v in enumerate(values))
    loss(mean, y, variance).backward()
    for what, position, tensor in (("input", 0, mean), ("variance", 2, variance)):
        expected = []
        for e in np.eye(2):
            sides = [[v + s * e if i == position else v for i, v in enumerate(values)] for s in (h, -h)]
            up, down = (float(loss(*map(paddle.to_tensor, side))) for side in sides)
            expected.append((up - down) / (2 * h))
        found = None if tensor.grad is None else tensor.grad.numpy()
        print(f"{name}, by {what}: grad {found}, differences {np.round(expected, 6)}")
        right = found is not None and np.allclose(found, expected, atol=1e-6)
        changed |= right != (what == "input" or name == "the formula")

y = paddle.to_tensor(rng.normal(2, 3, 400))
for name in ("gaussian_nll_loss", "the formula"):
    mean = paddle.to_tensor(np.zeros(1), stop_gradient=False)
    log_variance = paddle.to_tensor(np.zeros(1), stop_gradient=False)
    adam = paddle.optimizer.Adam(0.05, parameters=[mean, log_variance])
    for _ in range(500):
        losses[name](mean.expand([400]), y, log_variance.exp().expand([400])).backward()
        adam.step()
        adam.clear_grad()
    print(f"{name}: mean {mean.item():.3f}, variance {log_variance.exp().item():.3f}; of the numbers: {y.mean().item():.3f}, {float(np.var(y.numpy())):.3f}")
    changed |= abs(mean.item() - y.mean().item()) > 0.05
    changed |= (log_variance.item() == 0) != (name != "the formula")
raise SystemExit("The behaviour has changed." if changed else 0)
PY
