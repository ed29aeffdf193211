"""Runs with compiled kernels, killed at random instants, with Numba's cache emptied at random in between.

A process that finds no compiled kernels, some or all of them must come to the same bits.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path
from unittest import mock

from tests.helpers.runs import Ground, check, differences, fingerprint
from tests.torture.kills import Tally, kill_at_random, killed_after

FLAGS = ["--kernels", "numba", "--max-steps", "120", "--log-every", "10", "--valid-every", "30", "--save-every", "10"]
EMPTIED = 0.1
"""The share of starts before which the cache is emptied; a process that is killed while it compiles leaves a part."""


def kill_compiled(ground: Ground, tally: Tally, kills: int, draw: random.Random) -> int:
    """Kill and resume commands until `kills` were sent; return how often the cache was emptied."""
    other = Ground(ground.folder / "compiled", [*ground.flags, *FLAGS])
    cache = other.folder / "cache"
    cache.mkdir(parents=True)
    emptied = 0

    def perhaps_empty() -> float:
        nonlocal emptied
        if draw.random() >= EMPTIED:
            return 0.0
        emptied += 1
        shutil.rmtree(cache)
        cache.mkdir()
        return compiling_s

    with mock.patch.dict(os.environ, {"NUMBA_CACHE_DIR": str(cache)}):
        compiling_s = make_reference(other, cache)
        kill_at_random(other, tally, kills, draw, command=True, before_each=perhaps_empty)
    shutil.rmtree(other.folder)
    return emptied


def make_reference(ground: Ground, cache: Path) -> float:
    """Run two undisturbed commands, of which the second finds its kernels compiled; return the seconds so saved."""
    seconds = []
    for _ in range(2):
        run, start = ground.new(), time.perf_counter()
        status = killed_after(ground, run, [], 3600, command=True)
        seconds.append(time.perf_counter() - start)
        check(status == 0, f"the reference run ended with {status}: {ground.said}")
        check(any(cache.rglob("*.nbc")), f"{cache} holds no compiled kernels")
        found = differences(fingerprint(run), ground.expected or fingerprint(run))
        check(not found, f"with an empty and a full cache, two runs differ in {', '.join(found)}")
        ground.expected = fingerprint(run)
        shutil.rmtree(run)
    ground.duration_s = seconds[1]
    return max(0.0, seconds[0] - seconds[1])
