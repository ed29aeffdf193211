#!/bin/sh
# PaddlePaddle 3.3.1: an element that stands in several windows of unfold or as_strided gets the gradient of one of them, not of all.
#
# Seen on 2026-11-27 with paddlepaddle 3.3.1 (CPU), NumPy 2.4.6, Python 3.11.
# Expected before running: the gradient of the sum of unfold(x, 0, 3, 1), for 5 elements, is 1, 2, 3, 2, 1: the number of windows each is in.
# Why: the gradient of a view adds up; windows in steps shorter than their size, the moving average, are what the function is for.
# Seen: all are 1.  The gradient of a window overwrites that of the one before: of three windows with the gradients 1 to 9, the elements get
#   1, 4, 7, 8, 9 in place of 1, 6, 15, 14, 9.  as_strided and Tensor.unfold do the same; windows that do not overlap are right, and so are conv1d and
#   indexing, which give the same values.
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
numbers = np.array([0.4, -1.3, 0.8, 2.1, -0.6])
w = paddle.to_tensor(np.arange(1.0, 10.0).reshape(3, 3))
kernel = paddle.to_tensor([0.5, -1.0, 2.0], dtype="float64")
rows = paddle.to_tensor(np.arange(3)[:, None] + np.arange(3))
cases = (
    ("sum of unfold", lambda x: paddle.unfold(x, 0, 3, 1).sum(), False),
    ("weighted sum of unfold", lambda x: (paddle.unfold(x, 0, 3, 1) * w).sum(), False),
    ("weighted sum of Tensor.unfold", lambda x: (x.unfold(0, 3, 1) * w).sum(), False),
    ("weighted sum of as_strided", lambda x: (paddle.as_strided(x, [3, 3], [1, 1]) * w).sum(), False),
    ("weighted sum by index", lambda x: (x[rows] * w).sum(), True),
    ("windows without overlap", lambda x: (paddle.unfold(x, 0, 2, 2) * w[:2, :2]).sum(), True),
    ("squared filter by unfold", lambda x: (paddle.matmul(paddle.unfold(x, 0, 3, 1), kernel) ** 2).sum(), False),
    ("squared filter by conv1d", lambda x: (paddle.nn.functional.conv1d(x.reshape([1, 1, 5]), kernel.reshape([1, 1, 3])) ** 2).sum(), True),
)
value = {}
for name, f, right in cases:
    x = paddle.to_tensor(numbers, stop_gradient=False)
    y = f(x)
    y.backward()
    found, h = x.grad.numpy(), 1e-6
    expected = [(f(paddle.to_tensor(numbers + h * e)).item() - f(paddle.to_tensor(numbers - h * e)).item()) / (2 * h) for e in np.eye(5)]
    print(f"{name}: {y.item():.4f}, grad {found.round(4)}, differences {np.round(expected, 4)}")
    changed |= np.allclose(found, expected, atol=1e-5) != right
    value[name] = y.item()
changed |= not np.isclose(value["squared filter by unfold"], value["squared filter by conv1d"])
raise SystemExit("The behaviour has changed." if changed else 0)
PY
