"""What several processes gain on this machine's CPU, what their communication costs, and what GPUs should gain.

    python studies/benchmarks/parallel.py              all of it; some 10 minutes on an idle machine with 2 cores
    python studies/benchmarks/parallel.py --only model no measurement: the arithmetic of docs/scaling.md

Prints tables. `exposed` is the time from the end of the backward pass until all gradients are summed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

import numpy as np

from autograd import random
from autograd.fast import recompute_large_outputs
from minitf.config import PRESETS
from minitf.data.batches import Batches
from minitf.data.prepared import PreparedCorpus
from minitf.fast.accelerate import accelerate, accelerate_adam
from minitf.model.transformer import Transformer
from minitf.parallel.group import GradientBuckets, Group, join
from minitf.parallel.launch import job
from minitf.system.process import set_up_device
from minitf.training.data_parallel import share_of_update
from minitf.training.optim import Adam, batch_loss

MODEL = replace(PRESETS["small"].model, vocab_size=8_000)
EMBEDDING_PARAMETERS = 37_000 * 512
BASE_PARAMETERS = EMBEDDING_PARAMETERS + 6 * (3_152_384 + 4_204_032)
"""Of the paper's base model: the shared embedding, and six layers each of the encoder and the decoder."""

# What the model of many GPUs assumes; docs/scaling.md says why
STEP_S, TOKENS = 0.0252, 25_000  # measured on one H200 with a batch of the paper's size to itself
NVLINK = 360e9  # bytes a second that an all-reduce sees of the 450 GB/s each way of NVLink 4: 80 %
NETWORK = 40e9  # of the 50 GB/s (400 Gbit/s) of one adapter a GPU: 80 %
HOP_NVLINK_S, HOP_NETWORK_S = 2e-6, 5e-6
BUCKETS = 9  # of 25 MiB, and the embedding

FLOATS = (15_000_000, BASE_PARAMETERS)
SUMS, SECONDS_OF_STEPS = 7, 20.0


# ---- What a process measures -------------------------------------------------------------------------------------


def measure_sums(group: Group, length: int) -> dict[str, float]:
    """Seconds of one sum over all processes of `length` float32 numbers, in one piece."""
    buffer = np.full(length, group.rank, np.float32)
    seconds = []
    for _ in range(SUMS):
        group.barrier()
        start = time.perf_counter()
        group.all_reduce(buffer)
        seconds.append(time.perf_counter() - start)
    return {"best_s": min(seconds), "median_s": statistics.median(seconds)}


def measure_steps(group: Group, tokens: int, threads: int) -> dict[str, float]:
    """Training steps of the small preset on made-up sentences, for some time: means of a step, from rank 0."""
    set_up_device(threads)
    recompute_large_outputs()
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 40, (2_000, 2))
    sides = [[rng.integers(4, MODEL.vocab_size, n).tolist() for n in lengths[:, side]] for side in (0, 1)]
    batches = Batches(PreparedCorpus.from_ids(*sides), tokens)
    model = accelerate(Transformer(MODEL))
    optimizer = accelerate_adam(Adam(model.named_parameters(), PRESETS["small"].optimizer))
    gradients = GradientBuckets(model.parameters(), group)

    def step(number: int) -> int:
        place = batches.next_place()
        _, part, parts = share_of_update(1, group.rank, group.size)[0]
        batch = batches.part(*place, part, parts)
        gradients.begin(int(batch is not None))
        if batch is not None:
            random.begin_step(number, first_row=batch.first_row)
            batch_loss(model, batch, 0.1)[0].backward()
        gradients.finish()
        shares = group.all_gather(0 if batch is None else batch.target_tokens)
        optimizer.step(1e-4, 1 / sum(shares))
        return sum(shares)

    for number in range(3):
        step(number)
    gradients.take_times()
    done, learned, start = 0, 0, time.perf_counter()
    while group.broadcast_value(time.perf_counter() - start) < SECONDS_OF_STEPS:
        learned += step(done)
        done += 1
    elapsed_s = time.perf_counter() - start
    clock = {name: seconds / done for name, seconds in gradients.take_times().items()}
    return {"step_s": elapsed_s / done, "tokens_per_s": learned / elapsed_s, "steps": done, **clock}


def work(what: str, numbers: list[int], result: Path | None) -> int:
    """Measure in this process of a job; rank 0 writes down what it has seen."""
    with join("cpu") as group:
        found = measure_sums(group, *numbers) if what == "sums" else measure_steps(group, *numbers)
        if group.rank == 0 and result is not None:
            result.write_text(json.dumps(found))
    return 0


# ---- The tables --------------------------------------------------------------------------------------------------


def in_job(size: int, what: str, *numbers: int) -> dict[str, float]:
    """What rank 0 of `size` processes of this host measures."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result"
        words = ["--work", what, "--numbers", *map(str, numbers), "--result", str(result)]
        command, environment = job([__file__, *words], size)
        subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL)
        return json.loads(result.read_text())


def show_sums() -> None:
    print("\nOne sum over all processes of a host, float32, milliseconds (best / median of 7)\n")
    print(f"{'numbers':>12} {'MiB':>6} {'processes':>9} {'best / median':>20}")
    for length in FLOATS:
        for size in (2, 8):
            found = in_job(size, "sums", length)
            cell = f"{1e3 * found['best_s']:.1f} / {1e3 * found['median_s']:.1f}"
            print(f"{length:12,} {length * 4 / 2**20:6.0f} {size:9} {cell:>20}", flush=True)


def show_steps() -> None:
    cores = len(os.sched_getaffinity(0))
    parameters = Transformer(MODEL).parameter_count()
    print(f"\nSteps of the small preset, {parameters:,} parameters, {parameters * 4 / 2**20:.0f} MiB of gradients;")
    print("milliseconds a step; `exposed` is waiting for the other processes, and summing\n")
    heads = "".join(f"{name:>9}" for name in ("step", "exposed"))
    print(f"{'tokens':>7} {'processes x threads':>20}{heads} {'tokens/s':>10}")
    for tokens in (4_096, 1_024):
        found = {}
        for size, threads in ((1, cores), (cores, 1), (8, 1)):
            found[size] = seen = in_job(size, "steps", tokens, threads)
            cells = "".join(f"{1e3 * seen[name]:9.1f}" for name in ("step_s", "exposed_s"))
            print(f"{tokens:7,} {f'{size} x {threads}':>20}{cells} {seen['tokens_per_s']:10,.0f}", flush=True)
        ratio = found[cores]["tokens_per_s"] / found[1]["tokens_per_s"]
        print(
            f"{cores} processes of one thread make {ratio:.2f} times the tokens per second of one of {cores} threads\n"
        )


def show_model() -> None:
    """Seconds of a step on N GPUs, by the assumptions of docs/scaling.md."""
    print(f"\nModel: base on H200s, {TOKENS:,} tokens per side on each, {1e3 * STEP_S:.1f} ms a step on one\n")
    heads = "".join(f"{name:>12}" for name in ("MB sent", "sum ms", "exposed ms", "tokens/s", "efficiency"))
    print(f"{'wire':>9} {'hosts':>5} {'GPUs':>5}{heads}")
    for wire, bytes_ in (("float32", 4),):
        for hosts in (1, 2, 8, 64):
            sum_s = seconds_of_sum(hosts, BASE_PARAMETERS * bytes_)
            # the embedding is complete with the backward pass; the rest hides behind it, two thirds of the step
            last_s = sum_s * EMBEDDING_PARAMETERS / BASE_PARAMETERS
            exposed_s = last_s + max(0.0, sum_s - last_s - 2 / 3 * STEP_S)
            total_s, moved = STEP_S + exposed_s, 2 * 7 / 8 * BASE_PARAMETERS * bytes_
            print(
                f"{wire:>9} {hosts:5} {8 * hosts:5}{moved / 1e6:12.0f}{1e3 * sum_s:12.2f}{1e3 * exposed_s:12.2f}"
                f"{8 * hosts * TOKENS / total_s:12,.0f}{100 * STEP_S / total_s:10.1f} %"
            )


def seconds_of_sum(hosts: int, bytes_: int) -> float:
    """Of a ring within each host of 8, and 8 rings between hosts, each with an eighth of the bytes."""
    within_s = 2 * 7 / 8 * bytes_ / NVLINK
    between_s = 2 * (hosts - 1) / hosts * bytes_ / 8 / NETWORK
    return within_s + between_s + BUCKETS * (2 * 7 * HOP_NVLINK_S + 2 * (hosts - 1) * HOP_NETWORK_S)


def main() -> int:
    shows: dict[str, Callable[[], None]] = {"sums": show_sums, "steps": show_steps, "model": show_model}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(shows))
    parser.add_argument("--work", choices=["sums", "steps"], help=argparse.SUPPRESS)
    parser.add_argument("--numbers", type=int, nargs="+", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.work, args.numbers, args.result)
    for name, show in shows.items():
        if args.only in (None, name):
            show()
    return 0


if __name__ == "__main__":
    sys.exit(main())
