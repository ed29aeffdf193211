"""Runs that are killed, fail or are stopped at each file operation, each import, or a random instant; then resumed."""

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
from pathlib import Path
from typing import Any

from additions.pages import run_page
from minitf.system.files import os_errors_explained
from minitf.system.writing import ReportingFile
from tests.helpers.runs import Ground, call, check, start_or_resume

OPERATIONS = ("open", "write", "fsync", "fchmod", "rename", "replace", "unlink", "ftruncate", "mkdir", "rmdir")
"""The functions of `os` that change files."""

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
        if function in os.supports_dir_fd:  # else names in open folders would be taken for unknown here, as on Windows
            os.supports_dir_fd.add(act)
    raw_write = wrapped(io.FileIO.write)

    def write(file: Any, data: Any) -> int:
        with os_errors_explained(file._action, file._kind):
            return raw_write(file, data)

    ReportingFile.write = write  # type: ignore[method-assign]
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


# ---- At every import ---------------------------------------------------------------------------------------------

ASKING = """
import os, runpy, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes background processes ignore it
number, at, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

class Asking:
    # sends this process a signal at the start of import number `at`
    count = 0

    def find_spec(self, name, path=None, target=None):
        if self.count or name == "minitf.app.command_line":  # earlier imports are those of Python itself
            self.count += 1
            if self.count == at:
                os.kill(os.getpid(), number)

sys.meta_path.insert(0, asking := Asking())
sys.argv[:] = sys.argv[3:]
try:
    runpy.run_path(program, run_name="__main__")
finally:
    if not at:
        print(asking.count, file=sys.stderr)
"""


def ask_at_import(ground: Ground, name: str, argv: Sequence[str], number: int, at: int) -> int:
    """Run a program that gets a signal at import number `at` (0: never; it prints their number); return its status."""
    which = program().with_name(name)
    words = [sys.executable, "-W", "error", "-c", ASKING, str(int(number)), str(at), str(which), *argv]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=False)
    ground.said = done.stderr.decode(errors="replace")
    return done.returncode


def stop_at_imports(
    ground: Ground,
    tally: Tally,
    name: str,
    command: Callable[[], tuple[Sequence[str], Callable[[], object]]],
    share: float,
    draw: random.Random,
) -> None:
    """Send a program signals at random imports: it ends without a traceback, with the status of the signal.

    command: returns the arguments of the program, and a function to call after it has ended
    """
    argv, _ = command()
    check(ask_at_import(ground, name, argv, 0, 0) == 0, f"counting imports failed: {ground.said}")
    imports = int(ground.said.splitlines()[-1])
    for at in sorted(draw.sample(range(1, imports + 1), max(1, round(share * imports)))):
        number = draw.choice([signal.SIGINT, signal.SIGTERM])
        argv, then = command()
        with tally.trial(f"{number.name} at import {at} of {imports}"):
            check_stopped(ground, ask_at_import(ground, name, argv, number, at), number)
            then()


def check_stopped(ground: Ground, status: int, number: signal.Signals) -> None:
    """Raises: LostError unless a program ended with the status and the message of a signal."""
    if status == -number:  # before the handlers are installed, the signal itself ends it
        check(not ground.said, f"it said {ground.said}")
        return
    check(status == 128 + number, f"it ended with {status}: {ground.said}")
    last = ground.said.splitlines()[-1:]
    word = "interrupted" if number == signal.SIGINT else "terminated"
    check(last == [word] or "stopped after step" in last[0], f"it said {ground.said}")
    check("Traceback" not in ground.said and "Exception" not in ground.said, f"it said {ground.said}")


# ---- At random instants ------------------------------------------------------------------------------------------


def kill_at_random(
    ground: Ground,
    tally: Tally,
    kills: int,
    draw: random.Random,
    command: bool,
    before_each: Callable[[], float] = lambda: 0.0,
) -> None:
    """Kill and resume runs at random instants until they are done; start new ones until `kills` were sent.

    command: run train.py as a command; else in forks, which need no time to start
    before_each: called before each start; returns the seconds by which that takes longer
    """
    start_s = measure_start(ground) if command else 0.0
    while tally.tried < kills:
        run = ground.new()
        with tally.trial(f"kills from the {tally.tried + 1}. on"):
            deaths = 0
            while True:
                longest_s = ground.duration_s + before_each()
                threads = ["--threads", str(draw.choice([1, 1, 2]))]
                delay_s = start_s + draw.random() * longest_s * (1 + deaths / 10)  # the machine may be slower now
                status = killed_after(ground, run, threads, delay_s, command)
                if status == 0:
                    break
                check(status == -signal.SIGKILL, f"it ended with {status}: {ground.said}")
                deaths += 1
            ground.compare(run)
        tally.tried += deaths - 1
        tally.survived += deaths - 1


def measure_start(ground: Ground) -> float:
    """Return the seconds that train.py takes to start."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import minitf.app.train"], cwd=program().parent, check=True)
    return time.perf_counter() - start


def program() -> Path:
    return Path(__file__).absolute().parents[2] / "train.py"


def killed_after(ground: Ground, run: Path, changes: Sequence[str], delay_s: float, command: bool) -> int:
    """Start or resume a run, kill it after `delay_s` unless it has ended; return its status."""
    argv = start_or_resume(run, ground.flags, *changes)
    if not command:
        return ground.child(lambda: call(argv), delay_s)
    words = [sys.executable, "-W", "error", str(program()), *argv]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        with suppress(subprocess.TimeoutExpired):
            process.wait(delay_s)
        process.kill()
        ground.said = process.stdout.read().decode(errors="replace")
    check("Traceback" not in ground.said, f"a traceback: {ground.said}")
    return process.returncode
