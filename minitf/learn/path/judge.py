"""Judge one step of a learner's folder; `minitf/learn/verdict.py` starts it in a process of its own.

python -m minitf.learn.path.judge STEP FOLDER SECONDS
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from minitf.learn.judge import hand_in, run_checks
from minitf.learn.path import engine_checks  # noqa: F401 (each enters its checks)
from minitf.learn.path.checks import Work, checks_of
from minitf.learn.path.steps import Step, find_step
from minitf.learn.verdict import LIMIT_S, Verdict


def main(words: Sequence[str]) -> None:
    name, folder, limit_s = words
    hand_in(lambda: judge_step(find_step(name), Path(folder), float(limit_s)))


def judge_step(step: Step, folder: Path, limit_s: float = LIMIT_S) -> Verdict:
    """Run the learner's files and the checks of a step on them, in this process."""
    work = Work(folder, step)
    return run_checks(checks_of(work), work.texts, limit_s)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:  # the process that asks says so
        sys.exit(130)
