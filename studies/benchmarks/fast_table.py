"""The cost of each fast implementation: processor time of a training step without it, in turn with the whole.

    python studies/benchmarks/fast_table.py --write docs/fast-table.md

Every implementation of an op is switched off by itself, so that the plain op runs, and every compiled kernel, so that
NumPy's runs.  A process measures one model with one kind of kernels on one processor, with one thread: rounds of one
step for each entry and one of the whole.  The page gives the median over the rounds of how much longer a step takes, in
processor time (user and system), for this processor and, with `--without-avx512`, as one without AVX-512.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # also without an installation

BATCHES = {"base": (16, 32), "small": (32, 16), "multi30k-tiny": (64, 16)}  # sentences, tokens each
WORTH = 0.02  # of a step: what an entry must save somewhere

Switch = Callable[[], Callable[[], None]]  # switches an entry off and returns what switches it on again


def entries(kernels: str) -> dict[str, Switch]:
    """The entries that these kernels add, by name, and how each is switched off."""
    from autograd.engine import implementations
    from autograd.fast.ops import IMPLEMENTATIONS
    from autograd.fast.table import TABLE, cpu

    def without_op(plain: Any) -> Switch:
        def switch() -> Callable[[], None]:
            fast = implementations.pop(plain)
            return lambda: implementations.update({plain: fast})

        return switch

    def without_kernel(key: tuple[str, str]) -> Switch:
        def switch() -> Callable[[], None]:
            removed = TABLE.pop(key)
            cpu.use(*cpu.devices)

            def restore() -> None:
                TABLE[key] = removed
                cpu.use(*cpu.devices)

            return restore

        return switch

    if kernels == "numpy":
        return {plain.__name__: without_op(plain) for plain in IMPLEMENTATIONS}
    return {name: without_kernel((name, device)) for name, device in TABLE if device == "numba"}


def measure(config: str, kernels: str, rounds: int) -> dict[str, float]:
    """How much longer a step takes without each entry, as a fraction."""
    from minitf.system.process import set_up_device
    from train_step import prepared, train_step

    set_up_device(1, kernels=kernels)
    batch, length = BATCHES[config]
    sizes = dict.fromkeys(("layers", "d_model", "d_ff", "heads", "dropout", "vocab_size"))
    model, optimizer, batch_of = prepared(argparse.Namespace(config=config, batch=batch, length=length, **sizes))
    numbers = itertools.count()

    def step() -> float:
        began = time.process_time()
        train_step(model, optimizer, batch_of, next(numbers))
        return time.process_time() - began

    switches = entries(kernels)
    for _ in range(2):
        step()
    whole: list[float] = []
    without: dict[str, list[float]] = {name: [] for name in switches}
    for _ in range(rounds):
        whole.append(step())
        for name, switch in switches.items():
            restore = switch()
            try:
                without[name].append(step())
            finally:
                restore()
        whole.append(step())
    usual = statistics.median(whole)
    return {name: statistics.median(seconds) / usual - 1 for name, seconds in without.items()}


def environment(avx512: bool, folder: str) -> dict[str, str]:
    """The environment of a process on this processor, or as on one without AVX-512."""
    from studies.benchmarks.side_by_side import without_avx512

    changed = {**os.environ, "NUMBA_CACHE_DIR": folder, "OPENBLAS_NUM_THREADS": "1"}
    return changed if avx512 else changed | without_avx512()


def page(found: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    """The lines of the page.  found: processor -> "config kernels" -> entry -> cost"""
    from autograd.fast import compiled, ops
    from autograd.fast.table import TABLE

    guards = {fast.__name__: fast.taken_on_cpu for fast in ops.IMPLEMENTATIONS.values()}
    guards |= {name: each.guard for (name, device), each in TABLE.items() if device == "numba"}
    columns = [
        (processor, config) for processor in found for config in BATCHES if f"{config} numpy" in found[processor]
    ]
    lines = [
        "# The table of fast implementations",
        "",
        "Written by `studies/benchmarks/fast_table.py`: how much more processor time a whole training step takes without",
        "an entry, with one thread. Without an implementation of an op, the plain op runs; without a compiled kernel,",
        "NumPy's. `linear_of_few`, `linear_packed` and `top_tokens` serve translation: no training step calls them, and",
        "their rows show how far the measurement itself goes astray. An entry that stays below 2 % everywhere is deleted,",
        "unless the GPU's path or memory needs it, or the bits: `Dropout` and `LayerNorm` are the classes of CUDA's kernels,",
        "too; `relu_backward_block` sums a bias in the order of earlier versions, whose runs go on to the same bits;",
        "`scale_and_shift_block` computes again what `layer_norm_block` computed, to the bit.",
        "",
        f"| entry | device | takes | {' | '.join(f'{config}, {processor}' for processor, config in columns)} |",
        "|---|---|---|" + "---:|" * len(columns),
    ]
    assert compiled is not None
    for kernels in ("numpy", "numba"):
        processor, config = columns[0]
        for name in sorted(found[processor][f"{config} {kernels}"]):
            guard = guards.get(name)
            takes = " ".join((guard.__doc__ or "").split()) if guard is not None else "everything that gets there"
            costs = [found[processor][f"{config} {kernels}"][name] for processor, config in columns]
            lines.append(f"| `{name}` | {kernels} | {takes} | {' | '.join(f'{100 * cost:+.1f} %' for cost in costs)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--configs", nargs="+", choices=[*BATCHES], default=[*BATCHES])
    parser.add_argument("--without-avx512", action="store_true", help="measure as on a processor without it, too")
    parser.add_argument("--write", type=Path, help="the page; default: print it")
    parser.add_argument("--measure", nargs=2, metavar=("CONFIG", "KERNELS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(*args.measure, args.rounds)))
        return
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in ("this processor", *(["without AVX-512"] if args.without_avx512 else [])):
        found[name] = {}
        with tempfile.TemporaryDirectory() as folder:
            changed = environment(name == "this processor", folder)
            for config, kernels in itertools.product(args.configs, ("numpy", "numba")):
                command = [sys.executable, __file__, "--rounds", str(args.rounds), "--measure", config, kernels]
                done = subprocess.run(command, check=True, env=changed, capture_output=True, text=True)
                found[name][f"{config} {kernels}"] = json.loads(done.stdout.splitlines()[-1])
                print(name, config, kernels, found[name][f"{config} {kernels}"], file=sys.stderr)
    text = "\n".join(page(found)) + "\n"
    if args.write:
        args.write.write_text(text, "utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
