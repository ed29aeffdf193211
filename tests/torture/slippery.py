"""Commands on a system that misbehaves: quotas, network file systems, remounts, power failures, clocks, memory.

A library that is loaded before all others, `misbehave.c`, makes the calls of the system fail. It must be there when a
program starts: `tried` starts a Python that forks a process for each trial, with the library's rules set in it.
"""

from __future__ import annotations

import ctypes
import io
import os
import pickle
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EDQUOT, EEXIST, EIO, ENOENT, ENOMEM, ENOSPC, EROFS, ESTALE
from functools import cache
from pathlib import Path
from typing import Any

from additions.pages import run_page
from minitf.app import commands
from minitf.errors import UserError
from minitf.storage.checkpoint_store import CheckpointStore
from minitf.system import failures, writing
from minitf.system.process import run_command
from minitf.training.optim import Adam
from tests.helpers.runs import Child, Ground, check, start_or_resume
from tests.torture.faults import checkpoints_of, copy_of, is_damaged, last_steps
from tests.torture.folders import content
from tests.torture.kills import Tally, check_one_error, program

SOURCE = Path(__file__).with_name("misbehave.c")
CHANGES = "wWSNUMTC"
"""Calls that change files; `misbehave.c` has the letters."""


# ---- The library -------------------------------------------------------------------------------------------------


@cache
def why_not() -> str:
    """Why no library can be loaded before all others here; empty where it can."""
    if sys.platform != "linux":
        return "needs Linux"
    return "" if shutil.which("cc") else "needs a C compiler, cc"


def tried(ground: Ground, halfway: Path, parts: Sequence[str], trials: int, seed: int, spoilt: str = "") -> list[Tally]:
    """Run some of PARTS with the library loaded; spoilt: a function of this file that damages the program before."""
    folder = ground.new()
    folder.mkdir()
    library, job = folder / "misbehave.so", folder / "job"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    job.write_bytes(pickle.dumps((Ground(folder, ground.flags, ground.expected), halfway, parts, trials, seed, spoilt)))
    # Python's own `subprocess` warns of the process that it has just started when it has no memory to go on
    warnings = ["-W", "error", "-W", "ignore:subprocess:ResourceWarning"]
    words = [sys.executable, *warnings, "-m", "tests.torture.slippery", job]
    environment = {**os.environ, "LD_PRELOAD": str(library), "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    done = subprocess.run(words, env=environment, cwd=program().parent, capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"the tests themselves ended with {done.returncode}: {done.stderr[-3000:]}")
    tallies: list[Tally] = pickle.loads(job.with_suffix(".done").read_bytes())
    shutil.rmtree(folder)
    return tallies


def misbehave(place: Path, rules: str) -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.misbehave(os.fsencode(place), rules.encode())
    return library


# ---- Commands ----------------------------------------------------------------------------------------------------


@dataclass
class Command:
    """A command to disturb, the folder in which calls misbehave, and what must hold after it."""

    argv: list[str]
    place: Path
    finish: Callable[[int], None]
    """Called with its exit status; checks what it left, undisturbed."""
    saved: Path | None = None
    """Where the steps of checkpoints are noted that were reported as saved."""


def run_of(ground: Ground, halfway: Path, name: str) -> Command:
    """A run that starts, or goes on: at the end, it has the bits of one that was never disturbed."""
    run = copy_of(ground, halfway) if name == "resume" else ground.new()
    more = last_steps(ground) if name == "resume" else []
    saved = run.with_suffix(".saved")

    def finish(status: int) -> None:
        steps = [0, *map(int, saved.read_text().split())] if saved.exists() else [0]
        whole = [int(path.stem.partition("-")[2]) for path in checkpoints_of(run) if not is_damaged(path)]
        check(max(whole, default=0) >= max(steps), f"the checkpoint of step {max(steps)} is lost; left: {whole}")
        if status != 0:
            ended = ground.child(lambda: call(["train", *start_or_resume(run, ground.flags, *more)]))
            check(ended == 0, f"going on ended with {ended}: {ground.said[-2000:]}")
        check("is damaged" not in ground.said, f"a torn checkpoint: {ground.said}")
        try:
            ground.compare(run)
        except UserError as error:
            check(False, f"after a status of {status}: {error}")

    return Command(["train", *start_or_resume(run, ground.flags, *more)], run, finish, saved)


def output_of(ground: Ground, halfway: Path, name: str) -> Command:
    """A command that reads a run and writes a file or folder: complete, or absent."""
    output = ground.folder / "imported" if name == "import" else ground.new()  # its configuration has the path
    text = str(halfway.parent / "test.en")
    argv = {
        "translate": ["translate", str(halfway), "--input", text, "--output", str(output), "--threads", "1"],
        "pack": ["pack", str(halfway), "--output", str(output)],
        "pack --resumable": ["pack", str(halfway), "--output", str(output), "--resumable"],
        "export": ["export", str(halfway), str(output), "--format", "safetensors"],
        "import": ["import", str(foreign_model(ground, halfway)), str(output)],
    }[name]
    expected = ground.folder / f"{name}.expected"

    def finish(status: int) -> None:
        if not expected.exists():
            output.rename(expected)
            return
        if output.exists() and status:  # its name was there before the failure, such as one of its flush
            check(found(output) in (found(expected), {}), f"{output} is there after a failure, and differs")
        if status:
            shutil.rmtree(output) if output.is_dir() else output.unlink(missing_ok=True)
            again = ground.child(lambda: call(argv))
            check(again == 0, f"the second time it ended with {again}: {ground.said}")
        check(found(output) == found(expected), f"{output} differs")
        shutil.rmtree(output) if output.is_dir() else output.unlink()

    return Command(argv, halfway.parent, finish)


def foreign_model(ground: Ground, halfway: Path) -> Path:
    """The run as a model of another program."""
    folder = ground.folder / "foreign"
    if not folder.exists():
        status = ground.child(lambda: call(["export", str(halfway), str(folder), "--format", "huggingface"]))
        check(status == 0, f"export ended with {status}: {ground.said}")
    return folder


def found(path: Path) -> dict[str, Any]:
    check(path.exists(), f"{path} is not there")
    whole = content(path) if path.is_dir() else {"": path.read_bytes()}
    return {name: each for name, each in whole.items() if name != "lock"}  # which names the process


COMMANDS = {"train": run_of, "resume": run_of} | dict.fromkeys(
    ["translate", "pack", "pack --resumable", "export", "import"], output_of
)


def call(argv: Sequence[str]) -> int:
    secrets.token_hex = lambda size: "0" * 2 * size  # of the identity of an imported run
    return run_command(commands.main, argv)  # type: ignore[arg-type]


def disturbed(ground: Ground, command: Command, rules: str, counted: Path | None = None) -> int:
    """Run a command by such rules in a process of its own; return its exit status."""
    plain_save = CheckpointStore.save

    def save(store: CheckpointStore, step: int, *rest: Any) -> Path:
        path = plain_save(store, step, *rest)
        assert command.saved is not None
        with open(command.saved, "a") as file:
            print(step, file=file)
        return path

    def work() -> int:
        run_page.SOONEST_S, run_page.SHARE = 0.0, float("inf")  # else the number of calls would depend on time
        if command.saved is not None:
            CheckpointStore.save = save  # type: ignore[method-assign,assignment]
        library = misbehave(command.place, rules)
        status = call(command.argv)
        if counted is not None:
            counted.write_text(" ".join(str(library.count_calls(kind.encode())) for kind in KINDS))
        return status

    return ground.child(work)


KINDS = "rwRWSNUMTCsA"


def counts(ground: Ground, halfway: Path, name: str) -> dict[str, int]:
    """How many calls of each kind a command makes; what it leaves is checked, and kept for comparison."""
    counted = ground.folder / f"{name}.counted"
    if counted.exists():
        return dict(zip(KINDS, map(int, counted.read_text().split()), strict=True))
    command = COMMANDS[name](ground, halfway, name)
    status = disturbed(ground, command, "seed=1", counted)
    check(status == 0, f"{name} without faults ended with {status}: {ground.said}")
    command.finish(0)
    return counts(ground, halfway, name)


# ---- Parts -------------------------------------------------------------------------------------------------------

Rules = Callable[[random.Random, Callable[[str], int]], tuple[str, str]]
"""Draw rules, given what draws the number of a call; and the words of the system that an error repeats, if any."""


def full(draw: random.Random, at: Callable[[str], int]) -> tuple[str, str]:
    error, calls = draw.choice([ENOSPC, EDQUOT, EIO]), draw.choice(["W", "wWSNMT"])
    return f"{calls}={error}@{at(calls)}{draw.choice(['', '+'])}", os.strerror(error)


def read_only(draw: random.Random, at: Callable[[str], int]) -> tuple[str, str]:
    return f"{CHANGES}={EROFS}@{at(CHANGES)}+", os.strerror(EROFS)


def stale(draw: random.Random, at: Callable[[str], int]) -> tuple[str, str]:
    error, calls = draw.choice([ESTALE, ESTALE, EIO]), draw.choice(["r", "R", "s", "N", "rRsN", "wWSNUMTCrRs"])
    return f"{calls}={error}@{at(calls)}{draw.choice(['', '', '+'])}", os.strerror(error)


def replayed(draw: random.Random, at: Callable[[str], int]) -> tuple[str, str]:
    calls = draw.choice(["N", "NUM", "U"])
    return f"{calls}=d{draw.choice([EEXIST, ENOENT, EIO])}@{at(calls)}{draw.choice(['', '+'])}", ""


def late(draw: random.Random, at: Callable[[str], int]) -> tuple[str, str]:
    return f"N={draw.choice('lL')}@{at('N')}+", ""


def power(draw: random.Random, at: Callable[[str], int]) -> tuple[str, str]:
    return f"{CHANGES}=p@{at(CHANGES)} N=l@1+ seed={draw.randrange(10**6)}", ""


def clock(draw: random.Random, at: Callable[[str], int]) -> tuple[str, str]:
    return f"clock=jumps seed={draw.randrange(10**6)}", ""


def no_memory(draw: random.Random, at: Callable[[str], int]) -> tuple[str, str]:
    return f"A={ENOMEM}@{at('A')}{draw.choice(['', '+'])}", "memory"


ALLOCATIONS = "an allocation of more than 64 KiB fails"
RULES: dict[str, Rules] = {
    "quota, full disk or I/O error at a call": full,
    "remounted read-only while it runs": read_only,
    "stale handles and I/O errors of a network file system": stale,
    "calls that succeed and report an error (NFS)": replayed,
    "renames that are visible late": late,
    "power failure: what was not flushed is lost": power,
    "the clock jumps back and forth": clock,
    ALLOCATIONS: no_memory,
}
LOCKS = "locks that do not hold"
PARTS = (*RULES, LOCKS)
STATUSES = {power: [0, -signal.SIGKILL], clock: [0]}


def try_rules(ground: Ground, tally: Tally, halfway: Path, trials: int, draw: random.Random) -> None:
    """Commands in turn, each with rules drawn at random: a result or one sentence, and nothing lost."""
    draw_rules = RULES[tally.name]
    names = list(COMMANDS)[:trials]
    numbers = {name: counts(ground, halfway, name) for name in names}
    for trial in range(trials):
        name = names[trial % len(names)]

        def at(calls: str, of: dict[str, int] = numbers[name]) -> int:
            return draw.randint(1, max(1, sum(of[kind] for kind in calls)))

        rules, words = draw_rules(draw, at)
        command = COMMANDS[name](ground, halfway, name)
        with tally.trial(f"{name}, {rules}"):
            status = disturbed(ground, command, rules)
            check(status in STATUSES.get(draw_rules, [0, 2]), f"it ended with {status}: {ground.said}")
            if status == 2:
                check_one_error(ground, status)
                check(words in ground.said or "damaged" in ground.said or not words, f"no {words!r}: {ground.said}")
            command.finish(status)


def two_at_once(ground: Ground, tally: Tally, halfway: Path, trials: int, draw: random.Random) -> None:
    """Two processes resume one run, and locks keep nobody out: one ends with a sentence, and the run as it should."""
    for trial in range(trials):
        command = run_of(ground, halfway, "resume")
        run = command.place

        def work(run: Path = run) -> int:
            misbehave(run, "flock=ok")
            return call(["train", "--resume", str(run), *last_steps(ground)])

        with tally.trial(f"trial {trial}"):
            first = Child(work)
            time.sleep(draw.random() * ground.duration_s / 4)  # a fraction of what the first still has to do
            second = Child(work)
            ended = []
            for each in (first, second):
                ended.append((each.wait(), each.said()))
            for status, said in ended:
                check("Traceback" not in said, f"a traceback: {said}")
                check(status in (0, 2), f"it ended with {status}: {said}")
            check(any(status == 0 for status, _ in ended), f"none has finished: {ended}")
            ground.said = ""
            command.finish(0)


# ---- Damaged programs --------------------------------------------------------------------------------------------


def without_flush() -> None:
    """Files are not flushed before they are renamed."""
    os.fsync = lambda descriptor: None


def without_owner() -> None:
    """Nobody looks whether the lock names another process."""
    writing.HeldFolder.check = lambda held: None  # type: ignore[method-assign]


def without_errors() -> None:
    """Failures to write are not noticed."""

    def write(file: writing.ReportingFile, data: Any) -> int:
        with suppress(OSError):
            io.FileIO.write(file, data)
        return len(data)

    writing.ReportingFile.write = write  # type: ignore[method-assign]


def without_sentence() -> None:
    """A lack of memory is said to be another error."""
    failures.lack_of_memory = lambda error: "something went wrong"


def by_listing() -> None:
    """The checkpoints that a folder lists are taken for all there are."""
    plain = CheckpointStore.delete_superseded
    CheckpointStore.delete_superseded = (  # type: ignore[method-assign]
        lambda store, keep, saved: plain(store, keep, max(store.steps(), default=0))
    )


def without_moments() -> None:
    """A resumed run forgets Adam's moments."""
    Adam.load_state = lambda optimizer, steps, arrays: None  # type: ignore[method-assign]


def main(job: Path) -> None:
    ground, halfway, parts, trials, seed, spoilt = pickle.loads(job.read_bytes())
    if spoilt:
        globals()[spoilt]()
    tallies, draw = [Tally(part) for part in parts], random.Random(seed)
    for tally in tallies:
        if tally.name == LOCKS:
            two_at_once(ground, tally, halfway, max(1, trials // 3), draw)
        else:
            try_rules(ground, tally, halfway, trials, draw)
    job.with_suffix(".done").write_bytes(pickle.dumps(tallies))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
