"""`minitf learn [list|start N|check N|hint N|solution N]`: exercises in hand-written gradients, and bugs to find.

`minitf learn build FOLDER` is the path on which all of it is built: learn_path.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from additions.course.build_command import judged, show_verdict, wrapped
from additions.course.build_command import main as build
from additions.course.exercise import ALL, BUG_EXERCISES, KINDS, PARTS, Exercise, find
from additions.course.progress import Progress
from additions.course.verdict import LIMIT_S, judge_file
from minitf.app.command_line import ArgumentParser
from minitf.errors import UserError, nearest, shortened
from minitf.system.files import atomic_write, os_errors_explained, read_small_file


def main(argv: Sequence[str]) -> int:
    """Run the action; return 1 if an answer is wrong, else 0."""
    if argv and argv[0] == "build":
        return build(argv[1:])
    given = _parser().parse_args(argv)
    if given.action not in ACTIONS:
        raise UserError(
            f"{shortened(given.action)} is not an action{nearest(given.action, ACTIONS)}; choose {', '.join(ACTIONS)}"
        )
    if given.action == "list" and given.exercise is not None:
        raise UserError("list takes no exercise; minitf learn start N writes the file of exercise N")
    if not 0 < given.seconds <= 3600:
        raise UserError(
            f"--seconds {given.seconds:g} is not a number above 0 and up to 3600; choose a value such as 20"
        )
    progress = Progress(given.folder)
    exercise = _chosen(given.exercise, progress)
    if given.watch and given.action != "check":
        raise UserError("--watch is only for check; omit it, or use minitf learn check N --watch")
    if given.action == "check":
        return judged(
            [progress.folder / exercise.file_name],
            lambda: _check(exercise, progress, given.seconds),
            lambda: not given.watch or progress.states.get(exercise.label) == "solved",
        )
    return ACTIONS[given.action](exercise, progress, given.force) or 0


def _chosen(word: str | None, progress: Progress) -> Exercise:
    if word is not None:
        return find(word)
    exercise = progress.next_unsolved()
    return exercise if exercise is not None else ALL["1"]


def _list(exercise: Exercise, progress: Progress, force: bool) -> None:
    """Print all exercises with their states, and the next command."""
    groups = {**PARTS, "Find the bug": [each.name for each in BUG_EXERCISES.values()]}
    marks = {"started": "…", "solved": "✓"}
    every = iter(ALL.values())
    for part, names in groups.items():
        print(part)
        for each in (next(every) for _ in names):
            print(
                f"  {marks.get(progress.states.get(each.label, ''), ' ')} {each.label:>6}  {each.kind:<7}  {each.title}"
            )
    solved = sum(state == "solved" for state in progress.states.values())
    print(f"\n{solved} of {len(ALL)} solved; next: minitf learn start {exercise.label}")


def _start(exercise: Exercise, progress: Progress, force: bool) -> None:
    """Write the file of an exercise."""
    path = progress.folder / exercise.file_name
    with os_errors_explained(f"look at {path}"):
        exists = path.exists() or path.is_symlink()
    if exists and not force:
        raise UserError(f"{path} exists and may contain your answer; --force replaces it with the original file")
    progress.folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(exercise.starter.encode())
    progress.set(exercise, "started")
    print(f"{path}: {exercise.title}")
    what = "mend that line" if exercise.is_bug else "replace `raise NotImplementedError`"
    print(f"{KINDS[exercise.kind]}\n{what}, then: minitf learn check {exercise.label}")
    print(f"minitf learn hint {exercise.label} helps")


def _hint(exercise: Exercise, progress: Progress, force: bool) -> None:
    progress.folder.mkdir(parents=True, exist_ok=True)
    number = progress.next_hint(exercise)
    print(f"hint {number} of {len(exercise.hints)}: {wrapped(exercise.hints[number - 1])}")
    if number == len(exercise.hints):
        print(f"this is the last hint; minitf learn solution {exercise.label} shows the solution")


def _solution(exercise: Exercise, progress: Progress, force: bool) -> None:
    if exercise.is_bug:
        number = exercise.wrong_line
        print(f"line {number} is wrong:\n    {exercise.starter.splitlines()[number - 1].strip()}")
        print(f"right:\n    {exercise.solution.splitlines()[number - 1].strip()}")
        print(wrapped(exercise.constant("WHY")))
    else:
        print(exercise.solution, end="")


ACTIONS: dict[str, Callable[[Exercise, Progress, bool], None]] = {
    "list": _list,
    "start": _start,
    "check": _list,  # has its own arguments
    "hint": _hint,
    "solution": _solution,
}


def _check(exercise: Exercise, progress: Progress, limit_s: float) -> int:
    path = progress.folder / exercise.file_name
    with os_errors_explained(f"look at {path}"):
        if not path.is_file():
            raise UserError(f"{path} is missing; minitf learn start {exercise.label} writes it")
    try:
        read_small_file(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8") from error
    print(f"{exercise.label}. {exercise.title} ({path})", flush=True)
    right = show_verdict(judge_file(exercise, path, limit_s))
    if right:
        progress.set(exercise, "solved")
        if exercise.is_bug:
            print(wrapped(exercise.constant("WHY")))
        following = progress.next_unsolved(after=exercise)
        print(
            "solved"
            + (f"; next: minitf learn start {following.label}" if following else "; that was the last exercise")
        )
    elif exercise.label not in progress.states:
        progress.set(exercise, "started")
    return 0 if right else 1


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="minitf learn",
        description="Exercises: write backward passes and parts of a Transformer, which are checked with the gradient "
        "checker, and find bugs. Without arguments, list the exercises. `minitf learn build FOLDER` is a path from an "
        "empty file to an engine and a translator of your own.",
    )
    parser.add_argument("action", nargs="?", default="list", metavar="ACTION", help=f"{', '.join(ACTIONS)}")
    parser.add_argument(
        "exercise",
        nargs="?",
        metavar="N",
        help=f"1 to {len(ALL) - len(BUG_EXERCISES)}, bug-1 to bug-{len(BUG_EXERCISES)}, or a name (default: the next "
        "unsolved one)",
    )
    parser.add_argument("--watch", action="store_true", help="check: again whenever the file is saved")
    parser.add_argument(
        "--folder", type=Path, default=Path(), help="directory for answers and progress (default: current directory)"
    )
    parser.add_argument("--force", action="store_true", help="start: replace an existing file")
    parser.add_argument(
        "--seconds", type=float, default=LIMIT_S, metavar="S", help=f"check: time limit (default: {LIMIT_S:g})"
    )
    return parser
