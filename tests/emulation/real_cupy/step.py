"""Launches, copies and the host's time of a training step of base on the real CuPy, as JSON; kernels compute nothing.

    python -m tests.emulation.real_cupy.step --batch 500 --length 50 [--graphs] [--processes]

The host's time is the processor time of the thread that trains, the least of several steps, in ms.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np

from tests.emulation.real_cupy import stub as stubs

KERNELS = ("kernel", "memset", "graph launched", "copy on the device", "NCCL")
PRODUCTS = ("product", "batch of products")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--batch", type=int, default=500, help="sentences")
    parser.add_argument("--length", type=int, default=50, help="tokens of source and target")
    parser.add_argument("--graphs", action="store_true", help="repeat a CUDA graph")
    parser.add_argument("--processes", action="store_true", help="sum gradients by NCCL, of one process")
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    stub = getattr(sys.modules.get("sitecustomize"), "stub", None) or stubs.install()

    from autograd import random
    from autograd.backend import get_backend
    from minitf.config import PRESETS
    from minitf.data.batches import Batch
    from minitf.fast.accelerate import accelerate, accelerate_adam
    from minitf.fast.step_graphs import StepGraphs
    from minitf.model.transformer import Transformer
    from minitf.parallel.group import GradientBuckets, Group, NcclGroup
    from minitf.training.optim import Adam, compute_gradients

    class Alone(Group):
        def __init__(self) -> None:
            """Without MPI."""

        def all_gather(self, value: Any, purpose: str = "", *, after_rank_0: bool = False) -> list[Any]:
            return [value]

    os.environ["AUTOGRAD_SELF_TEST"] = "0"  # nothing is computed
    backend: Any = get_backend("cuda")
    backend.set_precision("bf16")
    preset = PRESETS[args.preset]
    model = Transformer(replace(preset.model, vocab_size=37000), seed=None).to("cuda")
    model = accelerate(model, compute_dtype="bfloat16").train()
    optimizer = accelerate_adam(Adam(model.named_parameters(), preset.optimizer))
    buckets = None
    if args.processes:
        group = NcclGroup(Alone(), backend, "cuda:0")
        buckets = GradientBuckets(model.parameters(), group)
    graphs = StepGraphs(model, compute_gradients, 0.1, 8) if args.graphs else None
    rng, times = np.random.default_rng(0), []
    for number in range(1, args.steps + 1):
        ids = [rng.integers(4, 37000, (args.batch, args.length)).astype(np.int32) for _ in range(3)]
        batch = Batch(np.arange(args.batch), *ids)
        stub.reset()
        start = time.thread_time()
        random.begin_step(number)
        optimizer.zero_grad() if buckets is None else buckets.begin(1)
        graphs(batch) if graphs else compute_gradients(model, batch, 0.1)
        if buckets is not None:
            buckets.finish()
        optimizer.gradient_norm()
        optimizer.step(1e-4, 1 / ids[0].size)
        times.append(1000 * (time.thread_time() - start))
    rows = stub.counts()
    result = {
        "host_ms": round(min(times[3:]), 2),
        "launches": stub.count(*KERNELS, *PRODUCTS),
        "products": stub.count(*PRODUCTS),
        "faults": stub.count("FAULT"),
        "gib": round(stub.library.stub_peak() / 2**30, 2),
        "calls": {row.name: row.calls for row in rows},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
