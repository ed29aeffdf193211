"""`minitf learn build FOLDER`: judge the step that the learner is at, and hand out the next one."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from additions.course.path.steps import FILES, MILESTONES, STEPS, Step, find_step, hand_out
from additions.course.progress import Progress
from additions.course.verdict import LIMIT_S, Verdict, judge
from minitf.app.command_line import ArgumentParser
from minitf.errors import UserError
from minitf.system.process import printable

FILE_NAME = "minitf-build.json"
WATCH_S = 0.3  # between two looks at the files


def main(argv: Sequence[str]) -> int:
    """Judge a step; exit status 1: it is wrong."""
    given = _parser().parse_args(argv)
    if not 0 < given.seconds <= 3600:
        raise UserError(f"--seconds {given.seconds:g} leaves no time, or is not a number up to 3600; choose such as 20")
    if given.demo is not None:
        return _demo(given.folder, given.demo, given.steps)
    progress = Progress(given.folder, [step.name for step in STEPS], FILE_NAME)
    asked = find_step(given.step) if given.step is not None else None
    if asked is not None and asked.number > (current := _current(progress)).number:
        raise UserError(f"step {asked} comes after the one you are at, {current}; solve that first")
    files = [given.folder / f"{name}.py" for name in FILES]
    last = STEPS[-1].name
    return judged(
        files,
        lambda: _advance(progress, asked, given.seconds),
        lambda: not given.watch or progress.states.get(last) == "solved",
    )


def judged(files: Sequence[Path], judge_once: Callable[[], int], is_over: Callable[[], bool]) -> int:
    """Judge, and again whenever one of the files is saved, until it is over; return the last exit status."""
    while True:
        seen = _changed_at(files)
        status = judge_once()
        if is_over():
            return status
        if status == 0:  # and a step was handed out
            seen = _changed_at(files)
        print("\nwaiting for a file to be saved; Ctrl-C ends", flush=True)
        while _changed_at(files) == seen:
            time.sleep(WATCH_S)


def _demo(folder: Path, lines: list[str], steps: int) -> int:
    """Train the learner's translator, and print what it makes of lines, given or typed."""
    progress = Progress(folder, [step.name for step in STEPS], FILE_NAME)
    if progress.states.get(STEPS[-1].name) != "solved":
        raise UserError(f"the translator is the last of the steps, you are at {_current(progress)}; solve them first")
    from additions.course.path.demo import run_demo  # deferred: the steps are handed out without NumPy

    page = run_demo(folder, steps, lines or map(str.rstrip, sys.stdin), lambda text: print(text, flush=True))
    print(f"{page} is a training step on your code, to walk through in a browser")
    return 0


def _current(progress: Progress) -> Step:
    """Return the first step that is not solved; the last one if all are."""
    return next((step for step in STEPS if progress.states.get(step.name) != "solved"), STEPS[-1])


def _advance(progress: Progress, asked: Step | None, limit_s: float) -> int:
    """Judge the step asked for, or the one that the learner is at, and hand out the one after it if it is solved."""
    step = asked or _current(progress)
    if step.name not in progress.states:
        _hand_out(step, progress)
        return 0
    hand_out(step, progress.folder)  # if its file was deleted
    print(f"{step} ({progress.folder / step.file}.py)", flush=True)
    if not show_verdict(judge("additions.course.path.judge", step.name, progress.folder, limit_s)):
        print(f"\nchapter {step.chapter} of the book (docs/book) helps")
        return 1
    progress.set(step, "solved")
    if step.name in MILESTONES and asked is None:
        place = f"milestone {[*MILESTONES].index(step.name) + 1} of {len(MILESTONES)}"
        print(f"\n{wrapped(f'{place}: your code now does what {MILESTONES[step.name]}')}\n")
    following = _current(progress)
    if following.name not in progress.states:
        print("solved\n")
        _hand_out(following, progress)
    elif asked is None:
        print(f"solved, and with it all {len(STEPS)} steps")
    else:
        print("solved")
    return 0


def _hand_out(step: Step, progress: Progress) -> None:
    path = hand_out(step, progress.folder)
    progress.set(step, "started")
    print(f"step {step.number} of {len(STEPS)}: {step.title}\n\n{textwrap.indent(step.statement, '    ')}\n")
    print(f"{path} has it now, at its end; chapter {step.chapter} of the book (docs/book) helps")
    print(f"write it, then again: minitf learn build {progress.folder}")


def show_verdict(verdict: Verdict) -> bool:
    """Print the checks that passed and the one that failed, and return whether none did."""
    for what in verdict.passed:
        print(f"  right  {what}")
    if verdict.failed:
        print(f"  wrong  {verdict.failed}")
    if not verdict.is_right:
        print(f"\n{wrapped(verdict.message)}")
    return verdict.is_right


def wrapped(text: str) -> str:
    """Lines of at most 100 characters; those with an indentation stay as they are."""
    lines = printable(text).splitlines()
    return "\n".join(line if line.startswith(" ") else textwrap.fill(line, 100) for line in lines)


def _changed_at(paths: Sequence[Path]) -> list[int]:
    """Return the time at which each file was last written; 0 for a missing file."""
    return [path.stat().st_mtime_ns if path.exists() else 0 for path in paths]


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="minitf learn build",
        description=f"{len(STEPS)} steps from an empty file to an engine, a Transformer and a translator of your own. "
        "Each call judges the step that you are at; if it is right, it appends the next one to your files.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="your files and your progress; made if need be")
    parser.add_argument("--step", metavar="N", help="judge this step, by number or name, instead of the current one")
    parser.add_argument("--watch", action="store_true", help="go on: judge again whenever a file of yours is saved")
    parser.add_argument(
        "--demo", nargs="*", metavar="LINE", help="after the last step: train your translator, and translate lines"
    )
    parser.add_argument("--steps", type=int, default=1000, metavar="N", help="--demo: updates (default: 1,000)")
    parser.add_argument(
        "--seconds", type=float, default=LIMIT_S, metavar="S", help=f"time limit of a step (default: {LIMIT_S:g})"
    )
    return parser
