"""Cost of recording an op, besides its arithmetic: ours, HIPS autograd, MyGrad and PyTorch in turn, on one thread.

    python studies/benchmarks/overhead.py --peer hips=PYTHON --peer mygrad=PYTHON --peer pytorch=PYTHON

Each peer is given by the Python that has it, and left out where it is not given.  Measured, on arrays so small that
the arithmetic hardly counts: single recorded ops on 8 × 8 arrays; chains of 1,000 ops, forward and backward, an op; a
chain of 10⁶ ops, built; and the memory of one node of that chain.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import os
import sys
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("minitf", "hips", "mygrad", "pytorch")
MEASURES = {
    "add": "x + y, 8 × 8, recorded (µs)",
    "tanh": "tanh(x), 8 × 8, recorded (µs)",
    "sum": "x.sum(), 8 × 8, recorded (µs)",
    "matmul": "x @ y, 8 × 8, recorded (µs)",
    "chain": "1,000 × (x + y), forward and backward, an op (µs)",
    "mixed": "250 × tanh((x + y) * y) - y, forward and backward, an op (µs)",
    "build": "10⁶ ops, built (s)",
    "node": "a node of it (bytes, data included)",
}
LONG = 1_000_000


@dataclass(frozen=True)
class Library:
    """leaf: of numbers, which a gradient is asked for; differentiate: a function of a leaf, forward and backward"""

    leaf: Callable[[Any], Any]
    tanh: Callable[[Any], Any]
    sum: Callable[[Any], Any]
    differentiate: Callable[[Callable[[Any], Any], Any], object] = lambda f, leaf: f(leaf).backward()


def ours() -> Library:
    import numpy as np

    import autograd as ag

    return Library(lambda numbers: ag.Tensor(np.array(numbers), requires_grad=True), ag.tanh, ag.sum)


def mygrad() -> Library:
    """With its memory guarding off: then nothing notices a change in place, but an op costs half as much."""
    import mygrad as mg

    mg.turn_memory_guarding_off()
    return Library(mg.tensor, mg.tanh, mg.sum)


def pytorch() -> Library:
    import torch

    torch.set_num_threads(1)
    leaf = functools.partial(torch.tensor, dtype=torch.float64, requires_grad=True)
    return Library(leaf, torch.tanh, torch.sum)


def hips() -> Library:
    """A function is traced here, so recording is timed inside of one that is being differentiated."""
    import numpy as np

    # By name, because ours has the same: in that Python, `autograd` is HIPS's
    anp, core, boxes = map(import_module, ("autograd.numpy", "autograd.core", "autograd.numpy.numpy_boxes"))
    grad = import_module("autograd").grad

    def leaf(numbers: Any) -> Any:
        return boxes.ArrayBox(np.array(numbers), 0, core.VJPNode.new_root())

    return Library(leaf, anp.tanh, anp.sum, lambda f, leaf: grad(f)(leaf._value))


def timed(work: Callable[[], object], calls: int) -> float:
    """Seconds a call: the least of several means, which is what the machine's other work disturbs least."""
    work()
    return min(timeit.repeat(work, "gc.enable()", number=calls, repeat=7)) / calls


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(name: str) -> dict[str, float]:
    """All figures of one library, in this process."""
    library = {"minitf": ours, "hips": hips, "mygrad": mygrad, "pytorch": pytorch}[name]()
    tanh, total = library.tanh, library.sum
    x, y, leaf = (library.leaf([[0.5] * 8] * 8) for _ in range(3))
    found = {
        "add": 1e6 * timed(lambda: x + y, 2_000),
        "tanh": 1e6 * timed(lambda: tanh(x), 2_000),
        "sum": 1e6 * timed(lambda: total(x), 2_000),
        "matmul": 1e6 * timed(lambda: x @ y, 2_000),
    }

    def chain(leaf: Any) -> Any:
        z = leaf
        for _ in range(999):
            z = z + leaf
        return total(z)

    def mixed(leaf: Any) -> Any:
        z = leaf
        for _ in range(250):
            z = tanh((z + leaf) * leaf) - leaf
        return total(z)

    found["chain"] = 1e6 * timed(lambda: library.differentiate(chain, leaf), 3) / 1000
    found["mixed"] = 1e6 * timed(lambda: library.differentiate(mixed, leaf), 3) / 1000
    z = start = library.leaf(0.5)
    gc.collect()
    before, began = resident_bytes(), time.perf_counter()
    for _ in range(LONG):
        z = z + start
    found["build"] = time.perf_counter() - began
    found["node"] = (resident_bytes() - before) / LONG
    return found


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from studies.benchmarks.side_by_side import add_arguments, machine, measured, peers_given, publish

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    args = parser.parse_args()
    pythons = {"minitf": sys.executable, **peers_given(parser, args.peer, NAMES[1:])}
    records: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
    for _ in range(args.rounds):
        for name, python in pythons.items():
            records[name].append(measured(parser, name, python, [name], sees_project=name == "minitf"))
    lines = [machine(), "", f"| | {' | '.join(pythons)} |", "|---|" + "---|" * len(pythons)]
    for key, title in MEASURES.items():
        cells = [f"{median(record[key] for record in records[name]):,.2f}" for name in pythons]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    publish(lines, args.write)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2])))
    else:
        main()
