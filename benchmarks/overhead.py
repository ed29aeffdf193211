"""Cost of recording an op, besides its arithmetic: ours, HIPS autograd, MyGrad and PyTorch in turn, on one thread.

    python benchmarks/overhead.py --peer hips=PYTHON --peer mygrad=PYTHON --peer pytorch=PYTHON

Each peer is given by the Python that has it, and left out where it is not given.  Measured, on arrays so small that
the arithmetic hardly counts: single recorded ops on 8 × 8 arrays; chains of 1,000 ops, forward and backward, an op; a
chain of 10⁶ ops, built; and the memory of one node of that chain.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
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


def ours() -> dict[str, Callable]:
    import numpy as np

    import autograd as ag

    return {
        "leaf": lambda: ag.Tensor(np.full((8, 8), 0.5), requires_grad=True),
        "tanh": ag.tanh,
        "sum": ag.sum,
        "differentiate": lambda f, leaf: f(leaf).backward(),
        "chain_leaf": lambda: ag.Tensor(np.array(0.5), requires_grad=True),
    }


def mygrad() -> dict[str, Callable]:
    """With its memory guarding off: then nothing notices a change in place, but an op costs half as much."""
    import mygrad as mg
    import numpy as np

    mg.turn_memory_guarding_off()
    return {
        "leaf": lambda: mg.tensor(np.full((8, 8), 0.5)),
        "tanh": mg.tanh,
        "sum": mg.sum,
        "differentiate": lambda f, leaf: f(leaf).backward(),
        "chain_leaf": lambda: mg.tensor(np.array(0.5)),
    }


def pytorch() -> dict[str, Callable]:
    import torch

    torch.set_num_threads(1)
    return {
        "leaf": lambda: torch.full((8, 8), 0.5, dtype=torch.float64, requires_grad=True),
        "tanh": torch.tanh,
        "sum": torch.sum,
        "differentiate": lambda f, leaf: f(leaf).backward(),
        "chain_leaf": lambda: torch.tensor(0.5, dtype=torch.float64, requires_grad=True),
    }


def hips() -> dict[str, Callable]:
    """A function is traced here, so recording is timed inside of one that is being differentiated."""
    import numpy as np

    # By name, because ours has the same: in that Python, `autograd` is HIPS's
    anp, core, boxes = map(import_module, ("autograd.numpy", "autograd.core", "autograd.numpy.numpy_boxes"))
    grad = import_module("autograd").grad

    def box(value: Any) -> Any:
        return boxes.ArrayBox(value, 0, core.VJPNode.new_root())

    return {
        "leaf": lambda: box(np.full((8, 8), 0.5)),
        "tanh": anp.tanh,
        "sum": anp.sum,
        "differentiate": lambda f, leaf: grad(f)(leaf._value),
        "chain_leaf": lambda: box(np.array(0.5)),
    }


def timed(work: Callable[[], object], calls: int, repeats: int = 7) -> float:
    """Seconds a call: the least of several means, which is what the machine's other work disturbs least."""
    work()
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        found.append((time.perf_counter() - start) / calls)
    return min(found)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(name: str) -> dict[str, float]:
    """All figures of one library, in this process."""
    library = {"minitf": ours, "hips": hips, "mygrad": mygrad, "pytorch": pytorch}[name]()
    tanh, total, differentiate = library["tanh"], library["sum"], library["differentiate"]
    x, y = library["leaf"](), library["leaf"]()
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

    leaf = library["leaf"]()
    found["chain"] = 1e6 * timed(lambda: differentiate(chain, leaf), 3) / 1000
    found["mixed"] = 1e6 * timed(lambda: differentiate(mixed, leaf), 3) / 1000
    z = start = library["chain_leaf"]()
    gc.collect()
    before, began = resident_bytes(), time.perf_counter()
    for _ in range(LONG):
        z = z + start
    found["build"] = time.perf_counter() - began
    found["node"] = (resident_bytes() - before) / LONG
    return found


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from benchmarks.side_by_side import add_arguments, machine, measured, peers_given, publish

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
        sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
        print(json.dumps(measure(sys.argv[2])))
    else:
        main()
