"""A week in an hour: starts, stops, kills, resumptions, translations in one folder tree, with faults drawn at random.

    python -m tests.torture.soak                  # 2,000 actions
    python -m tests.torture.soak --actions 100 --minutes 5

Several runs go on at once, each until it ends, and another takes its place. A run that ends must have the bits of one
that was never disturbed. As root, half of the runs belong to an unprivileged user. Memory, open files and the size of
the tree are printed and must not grow. Exits with 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from additions.pages import run_page
from autograd.fast import cpu_kernels
from minitf.app import commands
from minitf.system.process import run_command
from tests.helpers.runs import Child, Ground, check, flip, prepared_ground, start_or_resume
from tests.torture import slippery
from tests.torture.faults import NOBODY, checkpoints_of, harms, is_damaged, last_steps
from tests.torture.kills import Tally, program

AT_ONCE = 4
GROWTH_BYTES = 32 * 2**20
"""Most that the memory of this process may grow after the first measurement."""

STOPPED = {130, 143, -signal.SIGTERM, 0}


@dataclass
class Line:
    """One place for runs, the user they belong to, and how often this one was disturbed."""

    run: Path
    user: int
    disturbed: int = 0


@dataclass
class Soak:
    """The tree, its runs, and what was counted."""

    ground: Ground
    draw: random.Random
    lines: list[Line] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    most_disturbed: int = 0
    figures: list[tuple[int, int, int, int]] = field(default_factory=list)
    child_bytes: int = 0

    def fill(self) -> None:
        """Open as many places as there are to be."""
        users = [os.getuid(), NOBODY if os.getuid() == 0 else os.getuid()]
        while len(self.lines) < AT_ONCE:
            user = min(users, key=[line.user for line in self.lines].count)
            run = self.ground.new()
            run.mkdir()
            os.chown(run, user, -1)
            self.lines.append(Line(run, user))

    # ---- Processes ----

    def work(self, line: Line, argv: Sequence[str], rules: str = "", begun: int | None = None) -> Callable[[], int]:
        """A command, by its user, on a file system of such rules; `begun` gets a byte once signals are handled."""

        def main(words: Sequence[str]) -> int | None:
            if begun is not None:
                os.write(begun, b"x")
            return commands.main(words)

        def work() -> int:
            run_page.SOONEST_S = 0.0
            if os.getuid() != line.user:
                os.setgid(line.user)
                os.setuid(line.user)
            slippery.misbehave(line.run, rules)
            status = run_command(main, argv)
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.signal(each, signal.SIG_IGN)
            return status

        return work

    def ended(self, child: Child, timeout_s: float | None = None) -> tuple[int, str]:
        status = child.wait(timeout_s)
        if status is None:
            os.kill(child.pid, signal.SIGKILL)
            status = child.wait()
        assert status is not None
        said = child.said()
        check("Traceback" not in said, f"a traceback: {said[-2000:]}")
        check(status != 2 or said.splitlines()[-1].startswith("error: "), f"no error at the end: {said}")
        return status, said

    # ---- Actions ----

    def act(self) -> str:
        """Draw and carry out an action; return its name.  Raises: LostError"""
        line = self.draw.choice(self.lines)
        name = self.draw.choice(list(ACTIONS))
        line.disturbed += name != "go on"
        try:
            ACTIONS[name](self, line)
        except AssertionError:
            self.lines.remove(line)
            shutil.rmtree(line.run, ignore_errors=True)
            self.fill()
            raise
        return name

    def train(self, line: Line) -> list[str]:
        """The command that starts or resumes a run; some steps only, so that it is met again."""
        more = [] if self.draw.random() < 0.25 else ["--max-steps", str(self.draw.randrange(2, 13))]
        return ["train", *start_or_resume(line.run, self.ground.flags, *(more or last_steps(self.ground)))]

    def accept(self, line: Line, argv: Sequence[str], status: int, said: str, allowed: set[int]) -> None:
        """Check an exit status; a run that has ended is compared, and a new one takes its place."""
        refused = "is past" in said or "already" in said  # fewer steps than it has
        check(status in allowed or (status == 2 and refused), f"{argv[-2:]} ended with {status}: {said[-2000:]}")
        if status == 0 and argv[-2:] == last_steps(self.ground):
            for path in line.run.rglob("*.damaged"):
                path.unlink()
            self.ground.compare(line.run)
            self.compared += 1
            self.most_disturbed = max(self.most_disturbed, line.disturbed)
            self.lines.remove(line)
            self.fill()

    def go_on(self, line: Line) -> None:
        argv = self.train(line)
        self.accept(line, argv, *self.ended(Child(self.work(line, argv))), {0})

    def stop(self, line: Line) -> None:
        argv = self.train(line)
        ready, begun = os.pipe()
        child = Child(self.work(line, argv, begun=begun))
        os.close(begun)
        os.read(ready, 1)
        os.close(ready)
        time.sleep(self.draw.random() * self.ground.duration_s)
        with suppress(ProcessLookupError):
            os.kill(child.pid, self.draw.choice([signal.SIGINT, signal.SIGTERM]))
        self.accept(line, argv, *self.ended(child), STOPPED)

    def kill(self, line: Line) -> None:
        argv = self.train(line)
        child = Child(self.work(line, argv))
        status, said = self.ended(child, self.draw.random() * self.ground.duration_s)
        self.accept(line, argv, status, said, {0, -signal.SIGKILL})

    def suffer(self, line: Line) -> None:
        """Resume on a file system, or by a clock, that misbehaves."""
        rule = self.draw.choice(list(slippery.RULES.values()))
        rules, _ = rule(self.draw, lambda calls: self.draw.randint(1, 60 * len(calls)))
        argv = self.train(line)
        self.accept(line, argv, *self.ended(Child(self.work(line, argv, rules))), {0, 2, -signal.SIGKILL})

    def damage(self, line: Line) -> None:
        """Damage what a run can do without, or the newest of two checkpoints."""
        checkpoints = checkpoints_of(line.run)
        if len(checkpoints) > 1 and not is_damaged(checkpoints[-2]) and self.draw.random() < 0.5:
            flip(checkpoints[-1], self.draw.randrange(checkpoints[-1].stat().st_size), self.draw.randrange(8))
        elif checkpoints:
            with suppress(IndexError, FileNotFoundError):  # it is not there
                self.draw.choice(harms(self.draw))[1](line.run)
        for path in line.run.rglob("*"):
            os.chown(path, line.user, -1)

    def two_at_once(self, line: Line) -> None:
        argv = self.train(line)
        first, second = Child(self.work(line, argv)), Child(self.work(line, argv))
        ends = [self.ended(first), self.ended(second)]
        for status, said in ends:
            known = "in use by" in said or "already" in said or "is past" in said
            check(status == 0 or (status == 2 and known), f"one of two ended with {status}: {said}")
        if any(status == 0 for status, _ in ends):
            self.accept(line, argv, 0, "", {0})

    def stranger(self, line: Line) -> None:
        """Another user may not resume a run; root may, and is not tried."""
        if os.getuid() or line.user or not (line.run / "checkpoints").exists():
            return
        other = Line(line.run, NOBODY)
        status, said = self.ended(Child(self.work(other, ["train", "--resume", str(line.run)])))
        check(status == 2 and "Permission denied" in said, f"another user ended with {status}: {said}")

    def read(self, line: Line) -> None:
        """Translate, pack, export or report; any user may, as far as the output is theirs."""
        if not checkpoints_of(line.run):
            return
        place = self.ground.folder / "outputs"
        place.mkdir(mode=0o777, exist_ok=True)
        place.chmod(0o777)
        reader = Line(self.ground.folder if self.draw.random() < 0.3 else Path("/nowhere"), line.user)
        rules, _ = slippery.stale(self.draw, lambda calls: self.draw.randint(1, 40))
        text, output = self.ground.folder / "test.en", place / "out"
        argv = self.draw.choice(
            [
                ["translate", str(line.run), "--input", str(text), "--output", str(output), "--threads", "1"],
                ["pack", str(line.run), "--output", str(output)],
                ["pack", str(line.run), "--output", str(output), "--resumable"],
                ["export", str(line.run), str(output), "--format", "safetensors"],
                ["report", str(line.run), "--output", str(output)],
            ]
        )
        status, said = self.ended(Child(self.work(reader, argv, rules)))
        check(status in (0, 2), f"{argv[0]} ended with {status}: {said}")
        if status == 0:
            check(output.exists(), f"{argv[0]} has written nothing")
            lines = output.read_bytes().count(b"\n") if argv[0] == "translate" else 4
            check(lines == 4, f"{lines} of 4 lines were translated")
        shutil.rmtree(place)

    # ---- Figures ----

    def measure(self, number: int) -> None:
        self.child_bytes = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        status = Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()
        tree = sum(path.lstat().st_size for path in self.ground.folder.rglob("*") if path.is_file())
        self.figures.append((number, 1024 * int(status[0]), len(os.listdir("/proc/self/fd")), tree))
        _, memory, open_files, _ = self.figures[-1]
        print(
            f"{number:5,} actions: {self.compared:4,} runs ended with the bits of an undisturbed one; memory "
            f"{memory / 1e6:.0f} MB, largest child {self.child_bytes / 1e6:.0f} MB, {open_files} open files, tree "
            f"{tree / 1e6:.2f} MB",
            flush=True,
        )


ACTIONS: dict[str, Callable[[Soak, Line], None]] = {
    "go on": Soak.go_on,
    "stop": Soak.stop,
    "kill": Soak.kill,
    "misbehaving system": Soak.suffer,
    "damage": Soak.damage,
    "two at once": Soak.two_at_once,
    "another user": Soak.stranger,
    "translate, pack, export, report": Soak.read,
}


def soak(ground: Ground, tally: Tally, actions: int, minutes: float, draw: random.Random) -> Soak:
    """Act until the number or the time is reached; then every run goes on to its end, undisturbed."""
    state = Soak(ground, draw)
    state.fill()
    for argv in warm_up(ground):  # imports, which an unprivileged user may not do
        check(run_command(commands.main, argv) == 0, f"{argv[0]} failed")
    until = time.monotonic() + 60 * minutes
    state.measure(0)
    for number in range(1, actions + 1):
        with tally.trial(f"action {number}"):
            state.done[state.act()] += 1
        if number % max(1, actions // 20) == 0:
            state.measure(number)
        if time.monotonic() > until:
            break
    for line in list(state.lines):
        with tally.trial("to its end"):
            argv = ["train", *start_or_resume(line.run, ground.flags, *last_steps(ground))]
            state.accept(line, argv, *state.ended(Child(state.work(line, argv))), {0})
    for line in state.lines:
        shutil.rmtree(line.run)
    state.measure(sum(state.done.values()))
    with tally.trial("bounds"):
        check_bounds(state)
    return state


def tried(folder: Path, actions: int, seed: int, *flags: str) -> Tally:
    """Run this program with the library loaded; return what it counted."""
    file = folder / f"soak-{seed}.tally"
    words = [sys.executable, "-m", "tests.torture.soak", "--actions", str(actions), "--seed", str(seed), *flags]
    done = subprocess.run([*words, "--tally", file], cwd=program().parent, capture_output=True, text=True, check=False)
    check(file.exists(), f"the soak ended with {done.returncode}: {done.stderr[-2000:]}")
    tally: Tally = pickle.loads(file.read_bytes())
    return tally


def warm_up(ground: Ground) -> list[list[str]]:
    """Commands that import all that others will."""
    run, text = ground.new(), str(ground.folder / "test.en")
    outputs = [str(run.with_suffix(f".{name}")) for name in ("text", "pack", "resumable", "export", "html")]
    return [
        ["train", *ground.flags, "--output", str(run)],
        ["translate", str(run), "--input", text, "--output", outputs[0], "--threads", "1"],
        ["pack", str(run), "--output", outputs[1]],
        ["pack", str(run), "--output", outputs[2], "--resumable"],
        ["export", str(run), outputs[3], "--format", "safetensors"],
        ["report", str(run), "--output", outputs[4]],
    ]


def check_bounds(state: Soak) -> None:
    """Raises: LostError where memory, open files or the tree have grown"""
    _, memory, open_files, tree = state.figures[1]
    _, last_memory, last_open, last_tree = state.figures[-1]
    check(last_memory <= memory + GROWTH_BYTES, f"memory grew from {memory} to {last_memory} bytes")
    check(last_open <= open_files, f"open files grew from {open_files} to {last_open}")
    most = max(size for *_, size in state.figures)
    check(most <= 4 * max(tree, state.figures[0][3]), f"the tree grew from {tree} to {most} bytes")
    check(last_tree <= state.figures[0][3], f"{last_tree} bytes are left, {state.figures[0][3]} before")


def preloaded() -> None:
    """Start this program again with the library of `slippery` loaded, unless it is."""
    if "minitf-soak" in os.environ.get("LD_PRELOAD", ""):
        return
    library = Path(f"/tmp/minitf-soak-{os.getpid()}.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, slippery.SOURCE, "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), "OPENBLAS_NUM_THREADS": "1"}
    os.execve(sys.executable, [sys.executable, "-m", "tests.torture.soak", *sys.argv[1:]], environment)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.soak", description=__doc__)
    parser.add_argument("--actions", type=int, default=2000, help="number of starts, stops, kills, …")
    parser.add_argument("--minutes", type=float, default=60, help="end sooner, after this time")
    parser.add_argument("--spoilt", default="", help="a function of slippery.py that damages the program before")
    parser.add_argument("--tally", type=Path, help="a file to write the tally to")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="seed of all random choices")
    args = parser.parse_args()
    if reason := slippery.why_not():
        print(f"error: the soak {reason}", file=sys.stderr)
        return 2
    preloaded()
    Path(os.environ["LD_PRELOAD"]).unlink(missing_ok=True)  # it stays loaded
    os.environ.pop("LD_PRELOAD")
    if args.spoilt:
        getattr(slippery, args.spoilt)()
    start, tally = time.perf_counter(), Tally("soak")
    print(f"seed {args.seed}", flush=True)
    with prepared_ground() as ground:
        cpu_kernels().set_threads(1)
        state = soak(ground, tally, args.actions, args.minutes, random.Random(args.seed))
    print("\n".join(f"{count:5,} {name}" for name, count in state.done.most_common()))
    print(f"{state.compared:5,} runs compared, of which one was disturbed {state.most_disturbed} times")
    for lost in tally.lost:
        print(f"\nLOST: {lost}")
    print(f"{tally.survived:,} of {tally.tried:,} survived, in {(time.perf_counter() - start) / 60:.1f} minutes")
    if args.tally:
        args.tally.write_bytes(pickle.dumps(tally))
    return int(bool(tally.lost))


if __name__ == "__main__":
    sys.exit(main())
