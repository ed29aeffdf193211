#!/bin/sh
# Keras 3.15.1: with PyTorch as backend, symmetric padding and strided average pooling with "same" padding give other numbers than NumPy and JAX.
#
# Seen on 2026-11-28 with keras 3.15.1, PyTorch 2.13.0, JAX 0.10.2, NumPy 2.4.6, Python 3.11.
# Expected before running: keras.ops.pad is numpy.pad, and keras.ops.average_pool leaves padding out of its means, on every backend.
# Why: the modes of pad are NumPy's, and weights are moved between backends, so a layer must compute the same function in each.
# Seen: right with JAX.  With PyTorch "symmetric" repeats the border: 1 2 3 4 padded by two on the left begins 1 1 1 for 2 1 1.  The mean of the
#   last window of three at stride 2 over 0 ... 7 is 6.67 for 6.5: the border element counts twice.  Keras's own repository mended both in
#   July 2026 (pull requests 23230 and 23233); the newest release has neither.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q keras==3.15.1 torch==2.13.0 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat > "$dir/program.py" <<'PY'
import sys

import keras
import numpy as np

x = np.arange(1.0, 5.0, dtype="float32")
padded = keras.ops.convert_to_numpy(keras.ops.pad(x, ((2, 1),), mode="symmetric"))
plane = np.arange(12.0, dtype="float32").reshape(3, 4)
padded2 = keras.ops.convert_to_numpy(keras.ops.pad(plane, ((1, 2), (2, 1)), mode="symmetric"))
signal = np.arange(8.0, dtype="float32").reshape(1, 8, 1)
pooled = keras.ops.convert_to_numpy(keras.ops.average_pool(signal, 3, 2, "same"))[0, :, 0]
print(keras.backend.backend(), "pad", padded, "pooled", pooled)
print("pad of a matrix as NumPy's:", np.allclose(padded2, np.pad(plane, ((1, 2), (2, 1)), mode="symmetric")), padded2[0])
expected = [1, 3, 5, 6.5]
same = np.allclose(padded2, np.pad(plane, ((1, 2), (2, 1)), mode="symmetric")), np.allclose(pooled, expected)
raise SystemExit(0 if same == ((True, True) if sys.argv[1] == "jax" else (False, False)) else "The behaviour has changed.")
PY
KERAS_BACKEND=jax JAX_PLATFORMS=cpu "$dir/venv/bin/python" -W ignore "$dir/program.py" jax
KERAS_BACKEND=torch "$dir/venv/bin/python" -W ignore "$dir/program.py" torch
