"""Judge one step of a learner's folder; `additions/course/verdict.py` starts it in a process of its own.

python -m additions.course.path.judge STEP FOLDER SECONDS
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from additions.course.judge import hand_in, run_checks
from additions.course.path import engine_checks, model_checks, ops_checks, training_checks  # noqa: F401 (each enters its checks)
from additions.course.path.checks import CHECKS, Work
from additions.course.path.steps import Step, find_step
from additions.course.path.system import check_training_step
from additions.course.verdict import LIMIT_S, Verdict


def main(words: Sequence[str]) -> None:
    """Judge one step.  words: its name, the folder of the learner's files, the time limit in seconds"""
    name, folder, limit_s = words
    hand_in(lambda: judge_step(find_step(name), Path(folder), float(limit_s)))


def judge_step(step: Step, folder: Path, limit_s: float = LIMIT_S) -> Verdict:
    """Run the learner's files and the checks of a step on them, in this process."""
    work = Work(folder, step)

    def checks() -> Iterator[tuple[str, Callable[[], None]]]:
        work.run()
        for check in CHECKS[step.name]:
            yield inspect.getdoc(check) or "", partial(check, work)
        if step.number >= find_step("broadcasting").number:  # with which the engine is complete
            yield inspect.getdoc(check_training_step) or "", partial(check_training_step, work)

    return run_checks(checks(), work.texts, limit_s)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:  # the process that asks says so
        sys.exit(130)
