"""What the ranks of `test_launch.py` do: `python parallel_worker.py DEED FOLDER`, started by mpiexec."""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from minitf.config import PRESETS
from minitf.errors import UserError
from minitf.parallel.group import join
from minitf.system.process import run_command
from minitf.training.data_parallel import DataParallel
from minitf.training.state import TrainState

LENGTHS = (1, 7, 1001, 300_000)


def numbers(rank: int, length: int) -> np.ndarray:
    """Such that every order of adding them up gives other last bits."""
    rng = np.random.default_rng(rank)
    return rng.standard_normal(length) * 10.0 ** rng.integers(0, 9, length)


def talk(group, folder: Path) -> None:
    """Everything that a group can do; each process writes what it has seen."""
    seen = {"cores": group.cores, "large": [len(each) for each in group.all_gather("x" * (10 + (group.rank << 20)))]}
    seen["gathered"] = group.all_gather({"rank": group.rank, "nan": float("nan")})
    seen["shared"] = group.broadcast_value(group.rank + 7)
    array = np.arange(300_000.0).reshape(2, -1) * (1 if group.rank == 0 else -1)
    group.broadcast(array)
    seen["broadcast"] = bool((array.reshape(-1) == np.arange(300_000)).all())
    with group.main_process_first():
        made = folder / "made"
        if group.rank == 0:
            time.sleep(0.2)
            made.touch()
        seen["made"] = made.exists()
    sums = []
    for _ in range(3):
        for length in LENGTHS:
            for dtype in ("float32", "float64"):
                sums.append(numbers(group.rank, length).astype(dtype))
                group.all_reduce(sums[-1])
    np.savez(folder / f"sum-{group.rank}.npz", *sums)
    (folder / f"seen-{group.rank}.json").write_text(json.dumps(seen))


def fail(group, deed: str) -> None:
    """The last rank does it while the others wait for it."""
    group.barrier()
    if group.rank == group.size - 1:
        match deed:
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stopped":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "asleep":
                time.sleep(600)
            case "error":
                raise UserError("the disk is full")
            case "bug":
                raise ZeroDivisionError("one by none")
    group.all_reduce(np.zeros(10))


def differ(group, deed: str, config) -> None:
    """The last rank is of another configuration, or reads other files."""
    is_other = group.rank == group.size - 1
    match deed if is_other else "":
        case "other-configuration":
            config = replace(config, seed=99, model=replace(config.model, dropout=0.25))
    process = DataParallel(config, group)
    train = SimpleNamespace(corpus=SimpleNamespace(fingerprint="one" if is_other else "two"))
    run = SimpleNamespace(state=TrainState(vocabulary="same"), data=SimpleNamespace(train=train), optimizer=None)
    process.synchronize(run)


def main(argv) -> int:
    deed, folder = argv[0], Path(argv[1])
    with join("cpu") as group:
        (folder / f"pid-{group.rank}").write_text(str(os.getpid()))
        if deed == "talk":
            talk(group, folder)
        elif deed.startswith("other-"):
            differ(group, deed, PRESETS["tiny"])
        else:
            fail(group, deed)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
