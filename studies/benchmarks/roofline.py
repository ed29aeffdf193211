"""Where the time of a training step on the CPU goes, beside what this machine could do: a roofline for each model.

    python studies/benchmarks/roofline.py --plot docs/roofline-cpu.svg --write roofline.md

For each op of a step: its time, the floating-point operations that it states, and the bytes of its arguments and
results, forward and backward.  An op cannot take less time than its operations at the speed of a large matrix product,
nor than its bytes at the speed at which memory is copied: that is the roofline (Williams, Waterman and Patterson 2009).
An op above the roof reads what is still in a cache.  Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without an installation

import numpy as np

from additions.inspect import profile
from autograd.fast import cpu_kernels
from autograd.modes import Observer, observe
from minitf.system.process import set_up_device
from side_by_side import machine
from train_step import prepared, train_step
from workload import BATCHES, add_arguments


@dataclass
class Activity:
    """A row of the table: an op, the optimizer, or Python."""

    name: str
    ms: float
    gflop: float = 0.0
    gbytes: float = 0.0


class Traffic(Observer):
    """Bytes of the arguments and results of each op, of the forward and the backward pass."""

    def __init__(self) -> None:
        self.bytes: dict[str, int] = defaultdict(int)

    def before_forward(self, op: Any, arrays: Sequence[Any]) -> None:
        self._add(op, arrays)

    def after_forward(self, op: Any, outputs: Sequence[Any]) -> None:
        self._add(op, outputs)

    def before_backward(self, op: Any, g_outputs: Sequence[Any]) -> None:
        self._add(op, [*g_outputs, *op.saved_arrays])

    def after_backward(self, op: Any, g_inputs: Sequence[Any]) -> None:
        self._add(op, g_inputs)

    def _add(self, op: Any, arrays: Sequence[Any]) -> None:
        self.bytes[type(op).__name__] += sum(getattr(a, "nbytes", 0) for a in arrays)


def fastest(call: Callable[[], object], times: int = 7) -> float:
    """Seconds of the fastest of several calls."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def product_speed() -> float:
    """Gflop/s of a large float32 product on all threads."""
    x, w = np.ones((4096, 2048), np.float32), np.ones((2048, 2048), np.float32)
    return 2 * 4096 * 2048 * 2048 / fastest(lambda: cpu_kernels().product(x, w)) / 1e9


def copy_speed(threads: int) -> float:
    """GB/s, read and written, of copying arrays far larger than the caches."""
    source = [np.ones(1 << 25, np.float32) for _ in range(threads)]
    target = [np.empty_like(a) for a in source]
    with ThreadPoolExecutor(threads) as pool:
        seconds = fastest(lambda: list(pool.map(np.copyto, target, source)))
    return 2 * sum(a.nbytes for a in source) / seconds / 1e9


def measured(config: str) -> list[Activity]:
    """What a step of a model consists of, largest first."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    model, optimizer, batch = prepared(parser.parse_args(["--config", config]))
    for number in range(2):
        train_step(model, optimizer, batch, number)
    with observe(traffic := Traffic()):
        train_step(model, optimizer, batch, 2)
    with profile(Adam=optimizer.step) as found:
        train_step(model, optimizer, batch, 3)
    moments = 7 * sum(parameter.data.nbytes for parameter in model.parameters())  # reads g, p, m, v; writes p, m, v
    activities = [
        Activity(row.name.strip("()"), row.total_ms, row.flops / 1e9, traffic.bytes.get(row.name, 0) / 1e9)
        for row in found.rows()
        if row.name != "(the profiler itself)"
    ]
    for activity in activities:
        if activity.name == "Adam":
            activity.gbytes, activity.gflop = moments / 1e9, 16 * moments / 28e9  # 16 operations a parameter
    return sorted(activities, key=lambda activity: -activity.ms)


def table(activities: Sequence[Activity], gflops: float, gbytes_s: float) -> str:
    """A Markdown table: time, speed, and the share of the time that the roofline says is needed."""
    total = sum(activity.ms for activity in activities)
    rows = ["| | ms | share | Gflop/s | GB/s | of the roof |", "|---|---|---|---|---|---|"]
    for a in activities:
        if a.ms < 0.005 * total:
            continue
        cells = [f"{a.ms:.1f}", f"{a.ms / total:.1%}", "", "", ""]
        if a.gbytes:
            least = max(a.gflop / gflops, a.gbytes / gbytes_s)  # seconds
            cells[2:] = f"{a.gflop / a.ms * 1e3:.0f}", f"{a.gbytes / a.ms * 1e3:.1f}", f"{least / a.ms * 1e3:.2f}"
        rows.append(f"| {a.name} | {' | '.join(cells)} |")
    return "\n".join(rows)


WORDS = {
    "Linear": "linear layers",
    "LinearCrossEntropy": "output layer and loss",
    "DropoutAddLayerNorm": "dropout, residual sum and norm",
    "ScaledDotProductAttention": "attention",
    "Adam": "Adam",
    "Embedding": "embedding",
}


def plot(found: dict[str, list[Activity]], gflops: float, gbytes_s: float, path: Path) -> None:
    """A panel for each model, one below the other: the roof, and each op as a disk whose area is its share of the step.

    The figure is 5 inches wide, so that its letters are legible in a column of 400 pixels.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"--plot needs matplotlib ({error}); pip install '.[plot]' in the project's directory"
        ) from None
    figure = Figure(figsize=(5, 2.6 * len(found) + 0.9), layout="constrained")
    panels = figure.subplots(len(found), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    shown = {a.name for activities in found.values() for a in activities if a.gflop and a.gbytes}
    names = [name for name in WORDS if name in shown] + sorted(shown - WORDS.keys())
    disks = {}
    intensity = np.geomspace(0.02, 6000, 100)
    for panel, (config, activities) in zip(panels, found.items(), strict=True):
        total = sum(activity.ms for activity in activities)
        panel.plot(intensity, np.minimum(gflops, intensity * gbytes_s), color="0.5")
        for a in activities:
            if a.gflop and a.gbytes and a.ms > 0.005 * total:
                x, y, k = a.gflop / a.gbytes, a.gflop / a.ms * 1e3, names.index(a.name)
                label = f"{k + 1} {WORDS.get(a.name, a.name)}"
                disks[label] = panel.scatter(x, y, s=3000 * a.ms / total, color=f"C{k}", alpha=0.4)
                panel.annotate(str(k + 1), (x, y), ha="center", va="center", fontsize=10, fontweight="bold")
        panel.set(xscale="log", yscale="log", title=f"the model {config}", ylabel="Gflop/s")
        panel.set_ylim(0.1, 4 * gflops)  # room for the disks at the roof
        panel.grid(alpha=0.3)
    panels[-1].set_xlabel("operations a byte")
    labels = sorted(disks)
    legend = figure.legend([disks[label] for label in labels], labels, loc="outside lower center", ncols=2, fontsize=9)
    for handle in legend.legend_handles:
        handle.set_sizes([60])  # type: ignore[union-attr]
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "roofline"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", nargs="+", default=["base", "small", "multi30k-tiny"], choices=BATCHES)
    parser.add_argument("--threads", type=int, help="default: one a core")
    parser.add_argument("--kernels", choices=["numpy", "numba"], default="numpy")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the rooflines (.svg, .png)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the tables as Markdown")
    args = parser.parse_args()

    set_up_device(args.threads, kernels=args.kernels)
    gflops, gbytes_s = product_speed(), copy_speed(args.threads or os.cpu_count() or 1)
    parts = [f"{machine()}; a large product {gflops:.0f} Gflop/s, copying {gbytes_s:.0f} GB/s"]
    print(parts[0])
    found = {}
    for config in args.configs:
        found[config] = measured(config)
        parts.append(f"### {config}\n\n{table(found[config], gflops, gbytes_s)}")
        print(f"\n{parts[-1]}", flush=True)
    if args.plot is not None:
        plot(found, gflops, gbytes_s, args.plot)
    if args.write is not None:
        args.write.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
