"""NCCL with one rank: sums and a broadcast keep their numbers; a step with buckets has the gradients of one without."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from common import OneRank, base_model, batch_of, put

from autograd import random
from minitf.fast.step_graphs import StepGraphs
from minitf.parallel.group import GradientBuckets, NcclGroup
from minitf.training.optim import compute_gradients


def main() -> None:
    model, optimizer, gpu = base_model()
    batch, cupy = batch_of(), gpu.xp
    group = NcclGroup(OneRank(), gpu, "cuda:0")
    for dtype in (np.float32, np.float64):
        host = np.random.default_rng(0).integers(0, 9, 1000).astype(dtype)
        array = cupy.asarray(host)
        group.all_reduce(array)
        group.broadcast(array)
        group.synchronize()
        put("NCCL sum", dtype=np.dtype(dtype).name, right=bool((array.get() == host).all()))

    def gradients(buckets: Any, graphs: Any) -> tuple[dict[str, Any], float]:
        random.begin_step(1)
        if buckets is None:
            optimizer.zero_grad()
        else:
            buckets.begin(1)
        if graphs is None:
            compute_gradients(model, batch, 0.1)
        else:
            graphs(batch)
        start = time.perf_counter()
        if buckets is not None:
            buckets.finish()
        seconds = time.perf_counter() - start
        found = {name: p.grad.data.copy() for name, p in model.named_parameters().items() if p.grad is not None}
        optimizer.step(0.0)  # no weight changes, and bfloat16 copies are current, without which no step is captured
        return found, seconds

    plain, _ = gradients(None, None)
    buckets = GradientBuckets(model.parameters(), group)
    for graphs in (None, StepGraphs(model, compute_gradients, 0.1, 8)):
        for _ in range(4):
            found, seconds = gradients(buckets, graphs)
        worst = max(float(cupy.abs(found[n] - plain[n]).max() / (cupy.abs(plain[n]).max() + 1e-30)) for n in plain)
        captured = 0 if graphs is None else len(graphs._steps)
        put("buckets", graphs=captured, worst=worst, right=worst < 1e-6, finish_ms=round(1000 * seconds, 2))


if __name__ == "__main__":
    main()
