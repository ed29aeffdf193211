"""A training step on one GPU beside PyTorch's, and beside what the card could do at best.

    python studies/benchmarks/gpu.py --peer studies/benchmarks/peers/torch_transformer.py

Runs our step in every precision, the peer (a PyTorch program that prints one JSON line, in a process of its own) eager
and compiled, and measures the card's rates: a large copy and a large product.  Prints a table; --json gets
all of it as one line, renewed after each row.  Every figure is a median of steps between synchronisations, after a
warm-up.  The exit status is 1 if a row has no time.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

import numpy as np

from autograd.devices import get_backend
from train_step import prepared, train_step
from workload import add_arguments, chosen

PEER_FLAGS = {"bf16": ["--amp", "bf16"], "tf32": ["--tf32"], "float32": []}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.set_defaults(batch=500, length=50)
    parser.add_argument("--precision", nargs="+", default=["bf16", "tf32"], choices=PEER_FLAGS)
    parser.add_argument("--peer", type=Path, help="the PyTorch program; none: only ours")
    parser.add_argument("--peer-python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()

    rows: list[dict[str, Any]] = []
    rates = card_rates()
    floor = floor_ms(chosen(args), args.batch, args.length, rates)
    print(f"card: copies {rates['copy_gb_per_s']:.0f} GB/s, bf16 products {rates['bf16_tflop_per_s']:.0f} TFLOP/s")
    for precision in args.precision:
        commands = {"ours": None, "torch eager": [], "torch compiled": ["--compile"]}
        for name, flags in commands.items():
            if flags is not None and args.peer is None:
                continue
            found = our_step(args, precision) if flags is None else peer_step(args, precision, flags)
            rows.append({"who": name, "precision": precision, **found})
            print(row_text(rows[-1]), flush=True)
            save(args, rows, rates, floor)
    print(
        f"at best, bf16: {floor['flop_ms']:.1f} ms for {floor['tflop']:.1f} TFLOP of products, "
        f"{floor['byte_ms']:.1f} ms for {floor['gbyte']:.1f} GB through memory"
    )
    return 1 if any("error" in row for row in rows) else 0


def save(args: argparse.Namespace, rows: list[dict[str, Any]], rates: Any, floor: Any) -> None:
    """Write all rows measured so far: a program that is stopped keeps them."""
    if args.json is not None:
        text = json.dumps({"config": args.config, "rows": rows, "rates": rates, "floor": floor})
        args.json.write_text(text + "\n", encoding="utf-8")


def row_text(row: dict[str, Any]) -> str:
    """A line of the table."""
    head = f"{row['who']:16}{row['precision']:9}"
    if "error" in row:
        return f"{head}failed: {row['error']}"
    numbers = 1000 * row["seconds"], row["tokens_per_second"], row["peak_mib"]
    return head + "{:8.2f} ms a step{:12,.0f} tokens/s{:9,} MiB".format(*numbers)


# ---- Steps -------------------------------------------------------------------------------------------------------


def our_step(args: argparse.Namespace, precision: str) -> dict[str, Any]:
    """Forward, backward and Adam, without reading anything back."""
    backend = get_backend("cuda")
    backend.set_precision(precision)
    cupy = backend.xp
    cupy.get_default_memory_pool().free_all_blocks()
    model, optimizer, batch = prepared(args, "cuda", "bfloat16" if precision == "bf16" else None)
    seconds = []
    for number in range(args.warmup + args.runs):
        backend.device.synchronize()
        start = time.perf_counter()
        loss = train_step(model, optimizer, batch, number)
        issued = time.perf_counter() - start
        backend.device.synchronize()
        if number >= args.warmup:
            seconds.append((time.perf_counter() - start, issued))
    nats = loss.item() / batch.target_out.size  # of a token
    if not math.isfinite(nats):
        return {"error": f"the loss is {nats} after {args.warmup + args.runs} steps"}
    median = statistics.median(whole for whole, _ in seconds)
    return {
        "loss": nats,
        "seconds": median,
        "issue_seconds": statistics.median(issued for _, issued in seconds),  # Python's part, hidden where it is less
        "tokens_per_second": args.batch * args.length / median,
        "peak_mib": round(cupy.get_default_memory_pool().total_bytes() / 2**20),
    }


def peer_step(args: argparse.Namespace, precision: str, flags: list[str]) -> dict[str, Any]:
    """What the peer prints about itself."""
    command = [args.peer_python, str(args.peer), "train", "--device", "cuda"]
    command += [word for name, size in chosen(args).items() for word in ("--" + name.replace("_", "-"), str(size))]
    command += ["--batch", str(args.batch), "--length", str(args.length), *PEER_FLAGS[precision], *flags]
    command += ["--runs", str(args.runs), "--warmup", str(args.warmup)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


# ---- What the card could do --------------------------------------------------------------------------------------


def card_rates() -> dict[str, float]:
    """Bytes a second of a large copy, read and written; operations a second of a large bf16 product."""
    backend = get_backend("cuda")
    cupy = backend.xp
    pair = [cupy.ones(1 << 28, np.float32) for _ in range(2)]
    copy_s = best_time(backend, lambda: cupy.copyto(*pair))
    pair.clear()
    matrix = cupy.random.standard_normal((8192, 8192), np.float32).astype("bfloat16")
    product_s = best_time(backend, lambda: backend.product(matrix, matrix))
    return {"copy_gb_per_s": 2 * (1 << 30) / copy_s / 1e9, "bf16_tflop_per_s": 2 * 8192**3 / product_s / 1e12}


def best_time(backend: Any, work: Any) -> float:
    times = []
    for _ in range(13):
        backend.device.synchronize()
        start = time.perf_counter()
        work()
        backend.device.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[3:])


def floor_ms(c: dict[str, Any], batch: int, length: int, rates: dict[str, float]) -> dict[str, float]:
    """The products of a step, and the fewest bytes it moves in bf16, at the card's rates.

    Bytes: each activation written and read once forward and its gradient once each way, logits written, read twice and
    overwritten once, then read twice as a gradient; a parameter's gradient, moments and copies in Adam.
    """
    d, f, v, n = int(c["d_model"]), int(c["d_ff"]), int(c["vocab_size"]), int(c["layers"])
    tokens = batch * length
    matrices = n * ((4 * d * d + 2 * d * f) + (8 * d * d + 2 * d * f)) + v * d
    attention = 3 * n * 2 * tokens * length * d  # multiplications of q kᵀ and p v, encoder, decoder, cross
    flop = 6 * matrices * tokens + 6 * attention
    activations = n * tokens * ((4 * d + f + 2 * d) + (8 * d + f + 3 * d)) * 2  # bytes of what products and norms write
    gbyte = (4 * activations + 6 * tokens * v * 2 + (matrices + v * d) * 34) / 1e9
    return {
        "tflop": flop / 1e12,
        "flop_ms": flop / rates["bf16_tflop_per_s"] / 1e9,
        "gbyte": gbyte,
        "byte_ms": 1000 * gbyte / rates["copy_gb_per_s"],
    }


if __name__ == "__main__":
    sys.exit(main())
