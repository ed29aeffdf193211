"""Matrix products with factors in bfloat16, beside those of the BLAS in float32: of a linear layer and its gradients.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python studies/benchmarks/bf16_products.py --threads 2

Both take turns, and the best time of each counts: with one thread, its processor time, which other programs on the
machine lengthen less.  Packing is part of a product.  Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

import numpy as np

from autograd.fast import cpu_kernels
from minitf.system.process import set_up_device
from side_by_side import machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--shape", type=int, nargs=3, default=[2048, 512, 2048], metavar=("ROWS", "IN", "OUT"))
    args = parser.parse_args()
    clock = time.thread_time if args.threads == 1 else time.perf_counter
    set_up_device(args.threads, precision="bf16", kernels="numba")
    kernels, rng, (rows, n_in, n_out) = cpu_kernels(), np.random.default_rng(0), args.shape
    x, w, g = (rng.standard_normal(s).astype(np.float32) for s in ((rows, n_in), (n_out, n_in), (rows, n_out)))
    print(f"{machine()}; threads: {args.threads}\n")
    print("| product | Gflop/s in bfloat16 | in float32 | ratio |\n|---|---|---|---|")
    for name, a, b in (("x Wᵀ", x, w.T), ("g W", g, w), ("gᵀ x", g.T, x)):
        best = {True: float("inf"), False: float("inf")}
        for _ in range(args.rounds):
            for rounds in best:
                kernels.in_bfloat16 = rounds
                start = clock()
                kernels.product(a, b)
                best[rounds] = min(best[rounds], clock() - start)
        ours, theirs = (2 * rows * n_in * n_out / best[rounds] / 1e9 for rounds in best)
        print(f"| {name} | {ours:.0f} | {theirs:.0f} | {ours / theirs:.2f} |")


if __name__ == "__main__":
    main()
