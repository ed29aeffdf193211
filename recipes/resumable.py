"""Runs that a recipe makes one after the other: begun, gone on with, and left alone once they are done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # also without an installation

from minitf.errors import UserError  # noqa: E402
from minitf.rundir import CHECKPOINTS_NAME, CONFIG_NAME, LOG_NAME, read_log  # noqa: E402


def train(run: Path, flags: list[str]) -> None:
    """Start the run, or go on with it; nothing happens to one that is done.

    Raises: UserError where training fails, whose own message stands above.
    """
    if final_score(run) is not None:
        return
    has_begun = (run / CONFIG_NAME).exists() and any((run / CHECKPOINTS_NAME).glob("step-*"))
    status = call_train(["--resume", str(run)] if has_begun else [*flags, "--output", str(run)])
    if status:
        raise UserError(f"training {run} ended with status {status}; once its cause is mended, run this again")


def call_train(argv: list[str]) -> int:
    """train.py in a process of its own; its exit status."""
    return subprocess.run([sys.executable, str(ROOT / "train.py"), *argv], check=False).returncode


def final_score(run: Path) -> dict[str, Any] | None:
    """The last line of a run's log, which has the BLEU of its test text; None for a run that has not come to it."""
    records = read_log(run / LOG_NAME) if (run / LOG_NAME).exists() else []
    return records[-1] if records and "bleu" in records[-1] else None


def minutes(run: Path) -> float:
    """Time spent in the loop of training, over all resumptions."""
    return max(record["elapsed_s"] for record in read_log(run / LOG_NAME) if "elapsed_s" in record) / 60
