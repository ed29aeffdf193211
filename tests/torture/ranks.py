"""Data-parallel runs of which one process is killed or stopped at a random instant; then resumed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from minitf.parallel.heartbeat import START_S
from tests.helpers.runs import Ground, check, start_or_resume
from tests.torture.kills import Tally, measure_start, program

DEVICES = ["cpu:1", "cpu:2"]
"""An update has two batches: with one or two ranks, whole batches are summed in the same order, to the same bits."""

END_S = START_S + 60.0
"""Time limit: a rank that is stopped while it starts is waited for; a minute more for a loaded machine."""


def kill_ranks(ground: Ground, tally: Tally, kills: int, draw: random.Random) -> None:
    """Take a process from runs and resume them until they are done; start new ones until `kills` were taken."""
    start_s = 2 * measure_start(ground)  # the launcher, then its processes
    while tally.tried < kills:
        run = ground.new()
        with tally.trial(f"losses from the {tally.tried + 1}. on"):
            losses = 0
            while lose_a_process(ground, run, draw, start_s):
                losses += 1
            ground.compare(run)
        tally.tried += losses - 1
        tally.survived += losses - 1


def lose_a_process(ground: Ground, run: Path, draw: random.Random, start_s: float) -> bool:
    """Start or resume a run, kill or stop one of its processes; return whether that ended the run."""
    flags = ["--devices", draw.choice(DEVICES), "--rank-timeout", "3"]
    words = [sys.executable, "-W", "error", str(program()), *start_or_resume(run, ground.flags, *flags)]
    deed = draw.choice([signal.SIGKILL] * 3 + [signal.SIGSTOP])
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL) as job:
        assert job.stdout is not None
        with suppress(subprocess.TimeoutExpired):
            job.wait(start_s + draw.random() * 2 * ground.duration_s)
        ranks = children(job.pid)
        victim = draw.choice([*ranks, job.pid] if deed == signal.SIGKILL else ranks) if ranks else None
        if victim is not None:
            with suppress(ProcessLookupError):  # it has ended this very moment
                os.kill(victim, deed)
        try:
            job.wait(END_S)
        except subprocess.TimeoutExpired:
            job.kill()
            check(False, f"the job outlives the loss of process {victim} by {END_S:g} s")
        ground.said = job.stdout.read().decode(errors="replace")
    check("Traceback" not in ground.said, f"a traceback: {ground.said}")
    gone_by = time.monotonic() + END_S
    while any(map(is_alive, ranks)):
        check(time.monotonic() < gone_by, f"of {ranks}, some are left behind")
        time.sleep(0.01)
    if job.returncode == 0:
        return False
    if victim == job.pid:
        check(job.returncode == -signal.SIGKILL, f"the launcher ended with {job.returncode}: {ground.said}")
        return True
    check(job.returncode == 1, f"it ended with {job.returncode}: {ground.said}")
    errors = [line for line in ground.said.splitlines() if line.startswith("error: ")]
    reasons = ["was killed by SIGKILL"]
    if deed == signal.SIGSTOP:
        reasons = ["sent no heartbeat", "finished its work, but did not exit"]
    named = len(errors) == 1 and any(f"(process {victim}) {reason}" in errors[0] for reason in reasons)
    check(named, f"the lost process is not named: {ground.said}")
    return True


def children(pid: int) -> list[int]:
    """Return the ids of the live child processes of a process."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:  # it has ended
        return []
    return [int(word) for word in text.split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
