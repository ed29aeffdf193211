"""Steps of a small model for compute-sanitizer: heads of 64, sentences of more than a tile, bf16 and float32.

Without CuPy's memory pool, in which arrays lie side by side and what is beyond the end of one is in another; with
`pool` as an argument, with it.
"""

from __future__ import annotations

import sys

from common import base_model, batch_of, put

from autograd import random
from minitf.training.optim import compute_gradients

SIZES = {"layers": 1, "vocab_size": 301, "d_model": 128, "d_ff": 192, "heads": 2, "dropout": 0.1}


def main() -> None:
    import cupy

    if "pool" not in sys.argv:
        cupy.cuda.set_allocator(None)
    for precision in ("bf16", "float32"):
        model, optimizer, gpu = base_model(precision, **SIZES, attention_dropout=0.1)
        for number, (rows, length) in enumerate(((3, 20), (2, 70)), 1):
            random.begin_step(number)
            optimizer.zero_grad()
            loss, _ = compute_gradients(model, batch_of(rows, length, 301), 0.1)
            norm = optimizer.gradient_norm()
            optimizer.step(1e-3, 1 / (rows * length))
            put("small step", precision=precision, rows=rows, length=length, loss=float(loss), norm=norm)
        gpu.top_tokens(gpu.xp.arange(1505, dtype="f4").reshape(5, 301), gpu.xp.zeros(301, bool), 4)
    gpu.device.synchronize()


if __name__ == "__main__":
    main()
