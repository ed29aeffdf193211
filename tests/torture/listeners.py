"""Standard streams that are full, closed, without a reader or of another encoding, for every command."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.helpers.runs import Ground, check
from tests.torture.careless import MINITF
from tests.torture.faults import copy_of
from tests.torture.kills import Tally, program

ENDINGS = (
    *("> /dev/full", "2> /dev/full", ">&-", "2>&-", ">&- 2>&-", "<&-", "| true", "2>&1 > /dev/null | true"),
    *("PYTHONIOENCODING=ascii", "PYTHONIOENCODING=latin-1", "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0"),
)
SILENT = ("train", "import", "export")
"""Commands whose messages go to standard error; all others print something on standard output."""


def commands(ground: Ground, run: Path) -> dict[str, str]:
    """A short command line of each command; the working directory is one of its own."""
    text = f"'{ground.folder}/test.en'"
    short = "--beam 1 --max-extra-length 1 --threads 1"
    train = " ".join(f"'{flag}'" for flag in ground.flags)
    return {
        "train": f"train {train} --output new --max-steps 1",
        "resume": f"train --resume '{run}' --max-steps 10",
        "train --help": "train --help",
        "translate": f"translate '{run}' --input {text} {short}",
        "translate with a reference": f"translate '{run}' --input {text} --output out --reference {text} {short}",
        "bleu": f"bleu {text} {text} --resamples 2",
        "parse evalb": "parse evalb gold test",
        "parse tokenize": f"parse tokenize < {text}",
        "parse treebank": "parse treebank trees --train-trees 9 --valid-trees 2 --test-trees 2",
        "report": f"report '{run}' --output page.html",
        "pack": f"pack '{run}' --output packed",
        "export": f"export '{run}' exported --format safetensors",
        "statistics": f"statistics {text} {text}",
        "split": "split lines lines --valid 1 --test 1",
        "corpus": "corpus corpus --train-pairs 9 --valid-pairs 2 --test-pairs 2",
        "presets": "presets",
        "learn": "learn",
        "--help": "--help",
        "--version": "--version",
    }


def every_command_ends(ground: Ground, tally: Tally, halfway: Path, every: int = 1) -> None:
    """Each command with each ending, or one of `every`: its lines, or a sentence; never a traceback."""
    run = copy_of(ground, halfway)
    for number, (name, words) in enumerate(commands(ground, run).items()):
        for place, ending in enumerate(ENDINGS):
            if (number + place) % every:
                continue
            room = ground.new()
            room.mkdir()
            (room / "lines").write_text("".join(f"Zeile {i} — ä\n" for i in range(60)))
            (room / "gold").write_text("(TOP (S (NP (DT the) (NN Fuß)) (VP (VB sits))))\n")
            (room / "test").write_text(
                "(TOP (S (NP (DT the) (NN cat)) (VP (VB sits)) (. .)))\n"
            )  # another number of words
            with tally.trial(f"{name} {ending}"):
                try_ending(name, words, ending, room)
            shutil.rmtree(room)


def try_ending(name: str, words: str, ending: str, room: Path) -> None:
    settings, redirection = (f"{ending} ", "") if "=" in ending else ("", ending)
    environment = {**os.environ, "PYTHONPATH": str(program().parent), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{settings}{MINITF} {words} {redirection}"],
        cwd=room, env=environment, capture_output=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    said = (done.stderr + done.stdout).decode(errors="replace")
    check("Traceback" not in said and "Exception ignored" not in said, said[-2000:])
    is_silent = name.split()[0] in (*SILENT, "resume") and "-" not in name.split()[-1]
    if redirection in ("> /dev/full", ">&-") and not is_silent:
        check(done.returncode == 2 and "standard output" in said, f"lines are lost, with {done.returncode}: {said}")
    elif redirection == ">&- 2>&-":
        check(done.returncode == (0 if is_silent else 2), f"it ended with {done.returncode}")
    elif redirection == "<&-" and name == "parse tokenize":
        check(done.returncode == 2 and "standard input is closed" in said, f"it ended with {done.returncode}: {said}")
    elif redirection == "| true":
        check(done.returncode in (0, 141), f"it ended with {done.returncode}: {said}")
    else:
        check(done.returncode == 0, f"it ended with {done.returncode}: {said}")
