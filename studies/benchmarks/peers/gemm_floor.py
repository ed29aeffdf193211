"""The floor under a training step on this CPU: only the matrix products it cannot avoid.

Times every GEMM of the forward and backward pass of a Transformer training step (no attention
scores, no element-wise work, no optimizer), through NumPy's BLAS into preallocated outputs.

    python gemm_floor.py --config base --batch 64 --length 32
    OPENBLAS_CORETYPE=SkylakeX python gemm_floor.py ...

Prints one JSON line: seconds, target tokens per second, GFLOP/s and the kernels that the BLAS picked.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workload import add_arguments, chosen, report


def product(rows, inner, columns, runs=5):
    """Best time of (rows, inner) @ (inner, columns) and of its two gradients, in float32."""
    x = np.random.rand(rows, inner).astype(np.float32)
    w = np.random.rand(inner, columns).astype(np.float32)
    y = np.empty((rows, columns), np.float32)
    dx, dw = np.empty_like(x), np.empty_like(w)
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        np.matmul(x, w, out=y)
        np.matmul(y, w.T, out=dx)
        np.matmul(x.T, y, out=dw)
        best = min(best, time.perf_counter() - start)
    return best, 6 * rows * inner * columns


def main():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args()
    sizes = chosen(args)
    layers, d, ff, vocabulary = (sizes[field] for field in ("layers", "d_model", "d_ff", "vocab_size"))
    rows = args.batch * args.length
    square, up = product(rows, d, d), product(rows, d, ff)
    down, logits = product(rows, ff, d), product(rows, d, vocabulary)
    # encoder layer: 4 square + ffn; decoder layer: 8 square + ffn
    counts = [(square, 12 * layers), (up, 2 * layers), (down, 2 * layers), (logits, 1)]
    seconds = sum(cost[0] * count for cost, count in counts)
    flops = sum(cost[1] * count for cost, count in counts)
    blas = [i.get("architecture") for i in threadpool_info()]
    report("gemm floor", "train", seconds, rows, config=args.config, gflops=round(flops / seconds / 1e9, 1), blas=blas)


if __name__ == "__main__":
    main()
