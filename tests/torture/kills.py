"""Runs that are killed, fail or are stopped at each file operation, or at a random instant; then resumed."""

from __future__ import annotations

import errno
import io
import itertools
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from minitf.storage import log
from minitf.system import writing
from tests.helpers.runs import Ground, call, check, start_or_resume

OPERATIONS = ("open", "fsync", "chmod", "rename", "replace", "unlink", "mkdir", "rmdir")
"""The functions of `os` that change files, beside the methods of the files that `atomic_write` and a log open."""

Deed = Callable[[Callable[..., Any], Sequence[Any], dict[str, Any]], Any]


@dataclass
class Tally:
    """How often a fault was tried and how often survived, with a sentence for each loss."""

    name: str
    tried: int = 0
    survived: int = 0
    seconds: float = 0.0
    lost: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add what another tally has counted."""
        self.tried += other.tried
        self.survived += other.survived
        self.seconds += other.seconds
        self.lost += other.lost

    @contextmanager
    def trial(self, what: str) -> Iterator[None]:
        """Count one trial; an AssertionError inside is recorded as a loss."""
        self.tried += 1
        start = time.perf_counter()
        try:
            yield
        except AssertionError as error:
            self.lost.append(f"{self.name}, {what}: {error}")
        else:
            self.survived += 1
        finally:
            self.seconds += time.perf_counter() - start


# ---- At every operation ------------------------------------------------------------------------------------------


def interfere(at: int, deed: Deed, for_good: bool = False) -> Iterator[int]:
    """Call `deed` in place of file operation number `at`, counted from 1; for_good: of all later ones, too.

    Return an iterator whose next value is the number of the next operation.
    """
    with suppress(ModuleNotFoundError):
        run_page = import_module("additions.pages.run_page")
        run_page.SOONEST_S, run_page.SHARE = 0.0, math.inf  # else the number of operations would depend on time
    numbers = itertools.count(1)

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any, **options: Any) -> Any:
            number = next(numbers)
            if number == at or (for_good and number > at):
                return deed(function, arguments, options)
            return function(*arguments, **options)

        act.__name__ = function.__name__
        return act

    for name in OPERATIONS:
        function = getattr(os, name)
        setattr(os, name, act := wrapped(function))
        if function in os.supports_dir_fd:  # else `shutil.rmtree` would take it for one that knows no open folders
            os.supports_dir_fd.add(act)

    class Raw(io.FileIO):
        write = wrapped(io.FileIO.write)
        truncate = wrapped(io.FileIO.truncate)

    def counted_open(path: Any, mode: str, buffering: int = -1, **text: Any) -> Any:
        raw = wrapped(Raw)(path, mode.replace("b", ""))
        if buffering == 0:
            return raw
        return io.TextIOWrapper(io.BufferedWriter(raw), **text) if text else io.BufferedWriter(raw)

    for module in (writing, log):
        module.open = counted_open  # type: ignore[attr-defined]
    return numbers


def count_operations(ground: Ground) -> int:
    """Return the number of file operations of a whole run."""
    run = ground.new()
    place = ground.folder / "operations"

    def work() -> int:
        numbers = interfere(0, die)
        status = call(start_or_resume(run, ground.flags))
        place.write_text(str(next(numbers) - 1))
        return status

    check(ground.child(work) == 0, f"counting operations failed: {ground.said}")
    ground.compare(run)
    return int(place.read_text())


def die(function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> None:
    """SIGKILL, before the operation."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_halfway(function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> None:
    """SIGKILL after the first half of a write, before any other operation."""
    if function.__name__ == "write":
        *before, data = arguments
        function(*before, bytes(data)[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(ground: Ground, tally: Tally, number: int, deed: Deed = die) -> None:
    """Kill a run at one operation; resume it."""

    def work() -> int:
        interfere(number, deed)
        return call(start_or_resume(run, ground.flags))

    run = ground.new()
    with tally.trial(f"operation {number}"):
        status = ground.child(work)
        check(status == -signal.SIGKILL, f"it ended with {status} before it was killed: {ground.said}")
        ground.finish(run)


FAILURES = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.EDQUOT)


def fail_at(ground: Ground, tally: Tally, number: int, failure: int, for_good: bool) -> None:
    """Let one operation of a run fail, or all from there on; resume the run."""

    def fail(function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> None:
        raise OSError(failure, os.strerror(failure))

    def work() -> int:
        interfere(number, fail, for_good)
        return call(start_or_resume(run, ground.flags))

    run = ground.new()
    with tally.trial(f"operation {number}, {errno.errorcode[failure]}{', for good' if for_good else ''}"):
        status = ground.child(work)
        check_one_error(ground, status, os.strerror(failure))
        ground.finish(run)


def check_one_error(ground: Ground, status: int, *words: str) -> None:
    """Raises: LostError unless the exit status is 2 and the last line is the only error, with all `words`."""
    lines = ground.said.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    check(status == 2, f"it ended with {status}: {ground.said}")
    check(len(errors) == 1 and lines[-1] == errors[0], f"not one error at the end: {ground.said}")
    for word in words:
        check(word in errors[0], f"{word!r} is not in {errors[0]!r}")


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop_at(ground: Ground, tally: Tally, number: int, first: signal.Signals, second_after: int | None = None) -> None:
    """Send a run a signal at one operation, and perhaps a second one some operations later; resume it."""

    def ask(function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        os.kill(os.getpid(), first)
        if second_after is not None:
            interfere(second_after, hurry)
        return function(*arguments, **options)

    def hurry(function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return function(*arguments, **options)

    def work() -> int:
        interfere(number, ask)
        return call(start_or_resume(run, ground.flags))

    run = ground.new()
    with tally.trial(f"operation {number}, {first.name}, {second_after}"):
        status = ground.child(work)
        allowed = {128 + first, 128 + signal.SIGTERM} if second_after else {128 + first}
        check(status in allowed, f"it ended with {status}: {ground.said}")
        check(
            "stopped after step" in ground.said or "interrupted" in ground.said or "terminated" in ground.said, "mute"
        )
        ground.finish(run)


# ---- At random instants ------------------------------------------------------------------------------------------


def kill_at_random(ground: Ground, tally: Tally, kills: int, draw: random.Random) -> None:
    """Kill and resume train.py at random instants until it is done; start new runs until `kills` were sent."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import minitf.app.train"], cwd=PROGRAM.parent, check=True)
    start_s = time.perf_counter() - start
    while tally.tried < kills:
        run = ground.new()
        with tally.trial(f"kills from the {tally.tried + 1}. on"):
            deaths = 0
            while True:
                threads = ["--threads", str(draw.choice([1, 1, 2]))]
                delay_s = start_s + draw.random() * ground.duration_s * (1 + deaths / 10)  # the machine may be slower
                status = killed_after(ground, run, threads, delay_s)
                if status == 0:
                    break
                check(status == -signal.SIGKILL, f"it ended with {status}: {ground.said}")
                deaths += 1
            ground.compare(run)
        tally.tried += deaths - 1
        tally.survived += deaths - 1


PROGRAM = Path(__file__).absolute().parents[2] / "train.py"


def killed_after(ground: Ground, run: Path, changes: Sequence[str], delay_s: float) -> int:
    """Start or resume a run, kill it after `delay_s` unless it has ended; return its status."""
    words = [sys.executable, "-W", "error", str(PROGRAM), *start_or_resume(run, ground.flags, *changes)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        with suppress(subprocess.TimeoutExpired):
            process.wait(delay_s)
        process.kill()
        ground.said = process.stdout.read().decode(errors="replace")
    check("Traceback" not in ground.said, f"a traceback: {ground.said}")
    return process.returncode
