#!/bin/sh
# PyTorch 2.13.0 and NumPy 2.4.6: torch.from_dlpack of a read-only array is a writable tensor, and writing changes the array.
#
# Seen on 2026-11-27 with PyTorch 2.13.0, NumPy 2.4.6, Python 3.11.
# Expected before running: an error or a copy: NumPy marks read-only memory in DLPack 1.0's flags, and PyTorch asks for DLPack 1.0.
#   torch.from_numpy warns about the same array, and np.from_dlpack hands the mark on.
# Seen: no error, no warning, shared memory: the "read-only" array holds what was written.  Of np.broadcast_to(1.0, (3,)), whose three elements
#   are one number, t[0] = 9 changes all three.  An array of data that a program has frozen is changed by an in-place op of a training loop.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
"$dir/venv/bin/python" - <<'PY'
import warnings

import numpy as np
import torch

warned = {}
for name in ("from_dlpack", "from_numpy"):
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tensor = getattr(torch, name)(frozen)
    if name == "from_dlpack":
        tensor[0] = 9
    warned[name] = [str(w.message).split(",")[0] for w in caught]
    print(f"torch.{name}: warnings {warned[name]}, the array {frozen}, writable: {frozen.flags.writeable}")
    changed = name == "from_dlpack" and frozen[0] != 9
    if changed:
        raise SystemExit("The behaviour has changed.")
one = np.broadcast_to(np.float64(1), (3,))
torch.from_dlpack(one)[0] = 9
print("np.broadcast_to(1, (3,)) after t[0] = 9:", one, " np.from_dlpack is writable:", np.from_dlpack(frozen).flags.writeable)
right = warned["from_numpy"] and not np.from_dlpack(frozen).flags.writeable
raise SystemExit(0 if not warned["from_dlpack"] and one.tolist() == [9, 9, 9] and right else "The behaviour has changed.")
PY
