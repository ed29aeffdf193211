"""What the processes of `test_data_parallel.py` do: `python parallel_worker.py DEED FOLDER`, started by a launcher."""

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
from minitf.parallel.join import join
from minitf.system import environment
from minitf.system.process import run_command
from minitf.training import data_parallel
from minitf.training.data_parallel import DataParallel, require_same
from minitf.training.state import TrainState

LENGTH = 1001


def numbers(rank: int) -> np.ndarray:
    """Such that every order of adding them up gives other last bits."""
    return np.random.default_rng(rank).standard_normal(LENGTH) * 10.0 ** np.arange(LENGTH).astype(float).clip(0, 9)


def talk(group, folder: Path) -> None:
    """Everything that a group can do; each process writes what it has seen."""
    seen = {"cores": group.cores, "large": [len(each) for each in group.all_gather("x" * (10 + (group.rank << 20)))]}
    seen["gathered"] = group.all_gather({"rank": group.rank, "third": 1 / 3, "nan": float("nan")})
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
    buffer = group.new_buffer(LENGTH, "float64")
    seen["zeros"] = not buffer.any()
    for _ in range(3):  # in turns with other work, as in training
        buffer[...] = numbers(group.rank)
        for part in (slice(0, 1), slice(1, 700), slice(700, LENGTH)):
            group.all_reduce(part)
        group.synchronize()
        group.barrier()
    np.save(folder / f"sum-{group.rank}.npy", buffer)
    (folder / f"seen-{group.rank}.json").write_text(json.dumps(seen))


def fail(group, deed: str) -> None:
    """The last rank does it after a moment; the others wait for it."""
    group.barrier()
    if group.rank == group.size - 1:
        match deed:
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stopped":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "stopped-late":  # when the other has waited for a while
                end = time.monotonic() + 1
                while time.monotonic() < end:
                    pass
                os.kill(os.getpid(), signal.SIGSTOP)
            case "asleep":
                time.sleep(600)
            case "error":
                raise UserError("the disk is full")
            case "bug":
                raise ZeroDivisionError("one by none")
            case "exit":
                os._exit(7)
            case "silent-bye":
                os._exit(0)
    if deed == "stopped-late":
        group.new_buffer(10, "float32")
    require_same(group, {"the seed": group.rank == 1}, "use one") if deed == "disagrees" else None
    with group.waiting():
        group.barrier()
    if deed == "deadlock":
        with group.waiting():
            time.sleep(600)


def differ(group, deed: str, config) -> None:
    """The last rank is of another version, environment or configuration, or reads other files."""
    is_other = group.rank == group.size - 1
    match deed if is_other else "":
        case "other-version":
            environment.VERSION = "0.0.9"
        case "other-code":
            data_parallel.code_digest = lambda: "f" * 64
        case "other-package":
            np.__version__ = "1.26.4"
        case "other-environment":
            os.environ["OMP_NUM_THREADS"] = "3"
        case "other-threads":
            config = replace(config, threads=5)
        case "other-configuration":
            config = replace(config, seed=99, model=replace(config.model, dropout=0.25))
    process = DataParallel(config, group)
    if deed == "other-files":
        corpus = SimpleNamespace(fingerprint="one" if is_other else "two")
        process.synchronize(TrainState(vocabulary="same"), None, None, None, SimpleNamespace(corpus=corpus))


def main(argv) -> int:
    deed, folder = argv[0], Path(argv[1])
    impatient = deed in ("stopped", "stopped-late", "asleep", "deadlock")
    config = replace(PRESETS["tiny"], rank_timeout=2.0 if impatient else 20.0)
    with join(config) as group:
        (folder / f"pid-{group.rank}").write_text(str(os.getpid()))
        if deed == "talk":
            talk(group, folder)
        elif deed.startswith("other-"):
            differ(group, deed, config)
        else:
            fail(group, deed)
    if deed in ("killed-late", "stopped-last") and group.rank == group.size - 1:
        os.kill(os.getpid(), signal.SIGKILL if deed == "killed-late" else signal.SIGSTOP)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
