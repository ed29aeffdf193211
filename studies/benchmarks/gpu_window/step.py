"""A bf16 training step of base, 500 sentences of 50 + 50 tokens: eager and as a CUDA graph, and where its time goes.

python studies/benchmarks/gpu_window/step.py [--once]      --once: two eager steps, for a profiler
"""

from __future__ import annotations

import collections
import json
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import LENGTH, ROWS, SMALL, base_model, batch_of, put

from autograd import random
from minitf.fast.step_graphs import StepGraphs
from minitf.training.optim import compute_gradients

TFLOP = 9.585 * ROWS * LENGTH / 25_000  # of the products of a step of base
H100_TFLOPS = 989  # bf16, dense, by its data sheet


def main() -> None:
    model, optimizer, gpu = base_model()
    batch, tokens, numbers = batch_of(), ROWS * LENGTH, iter(range(1, 1000))

    def step(graphs: Any, with_norm: bool = True) -> tuple[float, float]:
        random.begin_step(next(numbers))
        optimizer.zero_grad()
        loss, _ = graphs(batch) if graphs else compute_gradients(model, batch, 0.1)
        norm = optimizer.gradient_norm() if with_norm else 0.0  # PyTorch's step computes none
        loss = float(loss)
        optimizer.step(1e-4, 1 / tokens)
        return loss / tokens, norm / tokens

    if "--once" in sys.argv:
        print(step(None), step(None))
        return
    graphs = StepGraphs(model, compute_gradients, 0.1, 8)
    for name, repeated, with_norm in (
        ("eager", None, True), ("graph", graphs, True), ("graph, without the norm", graphs, False),
    ):  # fmt: skip
        seconds = []
        for number in range(4 if SMALL else 25):
            gpu.device.synchronize()
            start = time.perf_counter()
            loss, norm = step(repeated, with_norm)
            gpu.device.synchronize()
            if number >= (3 if SMALL else 5):
                seconds.append(time.perf_counter() - start)
        start = time.thread_time()  # of this thread: launches, and the waiting for loss and norm, which spins
        step(repeated, with_norm)
        median = statistics.median(seconds)
        put(
            f"step, {name}", ms=round(1000 * median, 3), best_ms=round(1000 * min(seconds), 3),
            thread_ms=round(1000 * (time.thread_time() - start), 2), tokens_per_s=round(tokens / median),
            graphs=len(graphs._steps) if repeated else 0, mfu=round(TFLOP / median / H100_TFLOPS, 4),
            loss=loss, norm=norm, pool_mib=round(gpu.xp.get_default_memory_pool().total_bytes() / 2**20),
            used_mib=round((gpu.device.mem_info[1] - gpu.device.mem_info[0]) / 2**20),
        )  # fmt: skip
    for name, repeated in (("graph", graphs), ("eager", None)):  # after all times: a profiler may leave traces
        try:
            profile(name, lambda repeated=repeated: step(repeated))
        except Exception as error:  # the times above are what counts
            put(f"profile, {name}", error=f"{type(error).__name__}: {error}"[:300])


KINDS = {
    "products": r"gemm|nvjet|xmma|cutlass|splitK|cublas", "attention": "^attention", "layer norm": "layer_norm",
    "loss": "cross_entropy", "optimizer": "adam_|squares", "embedding": "embedding|order_rows",
}  # fmt: skip


def profile(name: str, work: Any) -> None:
    """Times of all kernels of a step, by PyTorch's profiler, which sees those of the whole process."""
    import torch

    torch.cuda.init()
    work()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        work()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        seen.export_chrome_trace(f"{folder}/trace.json")
        events = json.loads(Path(folder, "trace.json").read_text("utf-8"))["traceEvents"]
    events = [e for e in events if e.get("ph") == "X" and e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    count, total = collections.Counter[str](), collections.Counter[str]()
    groups = collections.Counter[str]()
    for event in events:
        each, ms = re.sub(r"^void ", "", event["name"]), event["dur"] / 1000
        count[each] += 1
        total[each] += ms
        groups[next((kind for kind, pattern in KINDS.items() if re.search(pattern, each)), "other")] += ms
    span = max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events)
    put(
        f"profile, {name}", busy_ms=round(sum(total.values()), 3), span_ms=round(span / 1000, 3), launches=len(events),
        groups_ms={kind: round(ms, 3) for kind, ms in groups.most_common()},
        products_for_ampere_ms=round(sum(ms for each, ms in total.items() if re.search("sm80|ampere", each)), 3),
    )  # fmt: skip
    for each, ms in total.most_common(40):
        print(f"{ms:9.3f} ms {count[each]:5}  {each[:150]}")


if __name__ == "__main__":
    main()
