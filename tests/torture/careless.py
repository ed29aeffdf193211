"""Careless use and hostile surroundings, one command each: a sentence, or a result, and never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.helpers.runs import Ground, check
from tests.torture.faults import copy_of
from tests.torture.kills import Tally, program

MINITF = f"'{sys.executable}' -W error -m minitf"


def cases(ground: Ground, run: Path) -> list[tuple[str, Sequence[int], str]]:
    """(shell script, exit statuses, words in its output); the working directory is one of its own."""
    train = " ".join(f"'{flag}'" for flag in ground.flags)
    text = f"'{ground.folder}/test.en'"
    translate = f"{MINITF} translate '{run}' --input {text} --quiet --threads 1"
    full = "cannot write to standard output: No space left on device"
    return [
        (f"{translate} --threads 100000", [2], "threads=100000; choose a whole number"),
        (f"{translate} --threads {10**30}", [2], "; choose a "),
        (f"{translate} --max-extra-length {10**9}", [2], "; choose a "),
        (f"{translate} --beam {10**9}", [2], "; choose a "),
        (f"{translate} --alpha 1e300", [2], "; choose a "),
        (f"{translate} --device {'x' * 5000}", [2], "(5,002 characters)"),
        (
            f"head -c 20000000 /dev/zero | tr '\\0' a > long; {MINITF} translate '{run}' --input long",
            [2],
            "more than 16 MiB",
        ),
        (f"head -c 20000000 /dev/zero | tr '\\0' a | {MINITF} translate '{run}'", [2], "more than 16 MiB"),
        *(
            (f"{MINITF} {command} > /dev/full", [2], full)
            for command in ("presets", "--help", "--version", "train --help")
        ),
        (f"{MINITF} bleu {text} {text} --resamples 2 > /dev/full", [2], full),
        (f"PYTHONIOENCODING=ascii {MINITF} presets", [0], ""),
        (f"PYTHONIOENCODING=latin-1 {MINITF} presets", [0], ""),
        (f"PYTHONIOENCODING=ascii {MINITF} bleu {text} {text} --resamples 2", [0], ""),
        (f"PYTHONIOENCODING=ascii {MINITF} corpus c --train-pairs 9 --valid-pairs 2 --test-pairs 2", [0], ""),
        (f"mkdir gone; cd gone; rmdir ../gone; {MINITF} train --output x", [2], "error: cannot"),
        (f"unset HOME; {MINITF} train --data multi30k --output x", [0, 2], ""),
        (
            f"MINITF_WORKER=garbage {MINITF} train {train} --output x",
            [2],
            "MINITF_WORKER was not set by the launcher",
        ),
        (f"MINITF_WORKER='[1]' {MINITF} train {train} --output x", [2], "MINITF_WORKER was not set by the launcher"),
        (f"{MINITF} train --train <(cat {text}) <(cat {text}) --output x; test ! -e x", [0], "is a pipe or device"),
        (
            f"printf ' \\n \\n' > blank; {MINITF} train {train} --valid blank blank --output x",
            [2],
            "blank: 2 have an empty side",
        ),
        (f"ulimit -v 1500000; {MINITF} train {train} --output x --max-steps 1", [0, 2], ""),
    ]


def commands_end_in_a_sentence(ground: Ground, tally: Tally, halfway: Path, every: int = 1) -> None:
    """Each of the cases, or one of `every`."""
    for script, statuses, words in cases(ground, halfway)[::every]:
        room = ground.new()
        room.mkdir()
        with tally.trial(script[:80]):
            ended(ground, room, script, statuses, words)


def ended(ground: Ground, room: Path, script: str, statuses: Sequence[int], words: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(program().parent), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=room, env=environment, capture_output=True, timeout=120, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    said = (done.stderr + done.stdout).decode(errors="replace")
    check(done.returncode in statuses, f"it ended with {done.returncode}: {said[-2000:]}")
    check(words in said, f"{words!r} is not in {said[-2000:]}")
    check("Traceback" not in said and "Exception ignored" not in said, said[-2000:])
    check("\x1b" not in said, f"a terminal escape: {said[-2000:]!r}")


PIPES = ("vocabulary.model", "environment.json", "data/train/prepared.json", "config.json", "log.jsonl", "lock")


def pipes_are_not_waited_for(ground: Ground, tally: Tally, halfway: Path, names: Sequence[str] = PIPES) -> None:
    """A named pipe in place of a file of a run, and terminal escapes in environment.json."""
    for name in names:
        for command in ("train --resume", "translate --input /dev/null", "report"):
            run = copy_of(ground, halfway)
            (run / name).unlink()
            os.mkfifo(run / name)
            with tally.trial(f"{name}, {command}"):
                ended(ground, ground.folder, f"{MINITF} {command} '{run}'", [0, 2], "")
    run = copy_of(ground, halfway)
    (run / "environment.json").write_text('{"minitf": "\\u001b]0;mine\\u0007", "numpy": "1\\u009b31m"}')
    with tally.trial("terminal escapes"):
        ended(ground, ground.folder, f"{MINITF} train --resume '{run}'", [0], r"\x1b]0;mine\x07")
