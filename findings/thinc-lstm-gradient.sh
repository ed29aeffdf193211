#!/bin/sh
# Thinc 9.1.1: the gradient of LSTM on a CPU leaves out the first time step, and has the weights themselves added to it.
#
# Seen on 2026-11-27 with thinc 9.1.1, NumPy 2.4.6, Python 3.11.
# Expected before running: the callback that LSTM returns gives the derivatives of its output, as those of Linear, LayerNorm, Mish and 20 more
#   layers of this library do (they agree with differences).
# Why: a model of with_padded(LSTM(nO, nI)) is trained with just that; with one time step, the output depends on the input.
# Seen: the loop back in time ends before the first step, and the gradient of the weights starts from the weights in place of zeros.  With
#   sequences of one step, the gradient by the input is 0, and that by the two matrices is the matrices, to the bit.  With three steps, that by
#   the first input is 0.  300 steps of SGD towards the outputs of another LSTM leave a squared error of 0.139; with differences, 0.023.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q thinc==9.1.1 numpy==2.4.6
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
from thinc.api import LSTM, NumpyOps, set_current_ops, with_padded

set_current_ops(NumpyOps())
rng = np.random.default_rng(0)


def normal(*shape):
    return rng.normal(size=shape).astype("f")


def differences(f, start, h=1e-2):
    out = np.zeros(start.size)
    for k in range(start.size):
        sides = []
        for step in (h, -h):
            moved = start.copy()
            moved.flat[k] += step
            sides.append(f(moved))
        out[k] = (sides[0] - sides[1]) / (2 * h)
    return out.reshape(start.shape)


def lstm(x):
    model = with_padded(LSTM(4, 3))
    model.initialize(X=[x])
    layer = model.layers[0]
    layer.set_param("LSTM", normal(*layer.get_param("LSTM").shape) * 0.5)
    return model, layer


changed = False
for steps in (1, 3):
    x, w = normal(steps, 3), normal(steps, 4)
    model, layer = lstm(x)
    start = layer.get_param("LSTM").copy()

    def loss(x, weights=start):
        layer.set_param("LSTM", weights)
        return float((model.predict([x])[0].astype("d") * w).sum())

    expected, expected_weights = differences(loss, x), differences(lambda v: loss(x, v), start)
    layer.set_param("LSTM", start.copy())
    layer.set_grad("LSTM", np.zeros_like(start))
    found = model([x], is_train=True)[1]([w.copy()])[0]
    found_weights = layer.get_grad("LSTM")
    print(f"{steps} time steps: gradient by the input {found.astype('d').round(4).tolist()}")
    print(f"  differences {expected.round(4).tolist()}")
    print(f"  by the weights: {found_weights[:4].round(4)}, differences {expected_weights[:4].round(4)}, weights {start[:4].round(4)}")
    changed |= bool(found[0].any()) or abs(expected[0]).max() < 0.01
    matrices = np.r_[0:48, 64:128]
    changed |= steps == 1 and not np.array_equal(found_weights[matrices], start[matrices])
    changed |= bool(np.allclose(found_weights, expected_weights, atol=0.1))

x = normal(5, 3)
teacher, _ = lstm(x)
target = teacher.predict([x])[0]
ends = []
model, layer = lstm(x)
start = layer.get_param("LSTM").copy()
for method in ("callback", "differences"):
    weights = start.copy()
    for _ in range(300):
        layer.set_param("LSTM", weights.copy())
        if method == "callback":
            layer.set_grad("LSTM", np.zeros_like(weights))
            output, back = model([x], is_train=True)
            back([2 * (output[0] - target)])
            slope = layer.get_grad("LSTM")
        else:

            def error(v):
                layer.set_param("LSTM", v)
                return float(((model.predict([x])[0] - target).astype("d") ** 2).sum())

            slope = differences(error, weights)
        weights = (weights - 0.05 * slope).astype("f")
    layer.set_param("LSTM", weights)
    ends.append(float(((model.predict([x])[0] - target) ** 2).sum()))
    print(f"300 steps of SGD with {method}: squared error {ends[-1]:.4f}, largest weight {abs(weights).max():.4f}")
changed |= ends[0] < 3 * ends[1]
raise SystemExit("The behaviour has changed." if changed else 0)
PY
