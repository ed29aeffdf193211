"""What no emulation can show, a few seconds each: an error of one does not hide the others.

python studies/benchmarks/gpu_window/suspects.py [NAME …]
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numpy as np
from common import SMALL, base_model, batch_of, get_backend, put

from autograd import random
from minitf.fast.step_graphs import StepGraphs
from minitf.training.optim import compute_gradients


def unaligned_bias() -> dict[str, Any]:
    """A bias at any address gives the numbers of one at a multiple of 512 bytes."""
    gpu, rng, found = get_backend("cuda"), np.random.default_rng(0), {}
    gpu.set_precision("bf16")
    for dtype in (np.dtype("bfloat16"), np.dtype(np.float32)):
        x, w, memory = (rng.standard_normal(shape).astype(dtype) for shape in ((256, 128), (192, 128), (400,)))
        on_gpu = gpu.asarray(memory)
        for shift in (0, 1, 2, 3, 4, 8):
            exact = x.astype(np.float64) @ w.astype(np.float64).T + memory[shift : shift + 192].astype(np.float64)
            args = gpu.asarray(x), gpu.asarray(w), on_gpu[shift : shift + 192]
            results = {"BIAS": gpu.linear(*args), "RELU_BIAS": gpu.linear(*args, True)}
            for name, y in results.items():
                right = exact if name == "BIAS" else np.maximum(exact, 0)
                off = np.abs(y.get().astype(np.float64) - right).max() / np.abs(right).max()
                found[f"{dtype.name} {name} {shift}"] = float(off)
    return {"right": max(found.values()) < 0.01, "bad": {k: v for k, v in found.items() if not v < 0.01}}


def same_bits() -> dict[str, Any]:
    """Loss, likelihood and gradients of eager steps and of a graph are the same to the bit."""
    model, optimizer, _ = base_model(layers=1 if SMALL else 2)
    batch, seen = batch_of(), []
    graphs = StepGraphs(model, compute_gradients, 0.1, 8)
    random.begin_step(3)
    graphs(batch)
    optimizer.step(0.0)  # no weight changes; bfloat16 copies are current, without which no step is captured
    for how in (None, None, graphs, graphs, None):
        random.begin_step(3)
        optimizer.zero_grad()
        losses = how(batch) if how else compute_gradients(model, batch, 0.1)
        grads = [p.grad.data.ravel() for p in model.parameters() if p.grad is not None]
        seen.append((*map(float, losses), *[int(g.view("u4").sum(dtype="u8")) for g in grads]))
    return {"right": len({*seen}) == 1 and len(graphs._steps) == 1, "graphs": len(graphs._steps), "loss": seen[0][0]}


def sorted_in_a_graph() -> dict[str, Any]:
    """Of more tokens than are ordered by comparing pairs, CuPy's sort, by Thrust, is captured or refused."""
    rows = 3 if SMALL else 700
    model, optimizer, _ = base_model(layers=1)
    batch, graphs, seen = batch_of(rows), StepGraphs(model, compute_gradients, 0.1, 8), []
    for _ in range(4):
        random.begin_step(1)
        optimizer.zero_grad()
        losses = graphs(batch)
        table = next(iter(optimizer.named_parameters.values())).grad.data
        seen.append((*map(float, losses), int(table.ravel().view("u4").sum(dtype="u8"))))
        optimizer.step(0.0)
    return {"right": len({*seen}) == 1, "graphs": len(graphs._steps), "loss": seen[0][0]}


def beyond_2_31() -> dict[str, Any]:
    """Of arrays of more than 2³¹ elements, the last rows of a loss and of dropout."""
    gpu, bf16 = get_backend("cuda"), np.dtype("bfloat16")
    gpu.set_precision("bf16")
    cupy = gpu.xp
    rows, classes, few = (100, 300, 8) if SMALL else (60_000, 37_000, 64)
    some = gpu.asarray(np.random.default_rng(0).standard_normal((few, classes), np.float32).astype(bf16))
    logits = cupy.zeros((rows, classes), bf16)
    logits[-few:] = some
    targets = gpu.asarray(np.arange(rows, dtype=np.int32) % classes)
    losses = cupy.empty((2, rows), np.float32), cupy.empty((2, few), np.float32)
    for (loss, nll), g, ids in zip(losses, (logits, some), (targets, targets[-few:]), strict=True):
        gpu._launch_loss(g, ids, None, None, loss, nll, g, 0.1)
    last = logits[-few:].view("u2")
    same = bool((losses[0][:, -few:] == losses[1]).all()) and bool((last == some.view("u2")).all())
    del logits, last
    shape = (70, 320) if SMALL else (70_000, 32_768)
    given = {"seed": 1, "step": 2, "site": 3, "drop_below": 6554}
    mask, tail = (random.Mask(shape=(n, shape[1]), first_row=shape[0] - n, **given) for n in (shape[0], 2))
    y = gpu.dropout(cupy.ones(shape, bf16), mask, mask.scale)[-2:].astype(np.float32).get()
    return {"right": same and bool(((y != 0) == tail.array()).all()), "loss": same}


def memory_of_a_graph() -> dict[str, Any]:
    """MiB that the driver takes for a captured step of base, and ms of a capture, in which the GPU has nothing to do."""
    model, optimizer, gpu = base_model()
    graphs, held, seconds = StepGraphs(model, compute_gradients, 0.1, 100), [], []
    longest, shapes = (9, 4) if SMALL else (30, 20)
    lengths = [length for length in range(longest, longest - shapes, -1) for _ in range(2)]
    for number, length in enumerate(lengths, 1):
        random.begin_step(number)
        optimizer.zero_grad()
        gpu.device.synchronize()
        before, start = len(graphs._steps), time.perf_counter()
        graphs(batch_of(2 if SMALL else 20, length))
        gpu.device.synchronize()
        if len(graphs._steps) > before:
            seconds.append(time.perf_counter() - start)
            pool = gpu.xp.get_default_memory_pool()
            pool.free_all_blocks()
            free, total = gpu.device.mem_info
            held.append((total - free - pool.total_bytes() - graphs._graphs._pool.total_bytes()) / 2**20)
        optimizer.step(0.0)
    mib = (held[-1] - held[2]) / (len(held) - 3)
    return {"right": len(held) >= shapes - 2, "graphs": len(held), "mib_a_graph": round(mib, 3),
            "capture_ms": round(1000 * sorted(seconds)[len(seconds) // 2], 1)}  # fmt: skip


def as_float32() -> dict[str, Any]:
    """Losses of a base model's first steps in bf16 are those in float32."""
    batch, found = batch_of(), {}
    for precision in ("float32", "tf32", "bf16"):
        model, optimizer, _ = base_model(precision, dropout=0.0)
        losses = []
        for number in range(1, 3 if SMALL else 26):
            random.begin_step(number)
            optimizer.zero_grad()
            losses.append(float(compute_gradients(model, batch, 0.1)[0]) / batch.target_out.size)
            optimizer.step(1e-4, 1 / batch.target_out.size)
        found[precision] = losses
    apart = {p: max(abs(a / b - 1) for a, b in zip(found[p], found["float32"], strict=True)) for p in ("tf32", "bf16")}
    return {"right": max(apart.values()) < 0.01, "apart": apart, "losses": {p: each[::6] for p, each in found.items()}}


SUSPECTS = {
    f.__name__: f for f in (as_float32, unaligned_bias, same_bits, sorted_in_a_graph, beyond_2_31, memory_of_a_graph)
}


def main() -> int:
    if len(sys.argv) == 1:  # each in a process of its own: an illegal address ends it
        names = [name for name in SUSPECTS if name != "memory_of_a_graph"]  # which measures what all processes take
        statuses = [subprocess.run([sys.executable, __file__, name], check=False).returncode for name in names]
        return int(any(statuses))
    right = True
    for name in sys.argv[1:]:
        try:
            found = SUSPECTS[name]()
        except Exception as error:
            found = {"right": False, "error": f"{type(error).__name__}: {error}"[:400]}
        put(f"suspect, {name}", **found)
        right = right and found["right"]
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
