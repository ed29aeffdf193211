"""The limits of how much runs when something simple is done: see reading_path.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reading_path import unreached

PROGRAM = Path(__file__).with_name("reading_path.py")
LIMITS = {"train": (48, 11_850), "translate": (30, 7_200), "step": (12, 3_000)}  # files, lines
UNREACHED = 7_000  # lines, of functions that no documented use calls

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """What reading_path.py prints of each program."""
    run = tmp_path_factory.mktemp("reading") / "run"

    def output(*words):
        return subprocess.run(
            [sys.executable, PROGRAM, *words], check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        ).stdout

    # As long a way, and sooner over
    small = ["--vocab-size", "500", "--max-extra-length", "2", "--beam", "2", "--model.layers", "1"]
    small += ["--model.d-model", "16", "--model.d-ff", "32"]
    return {"train": output("train", run, *small), "translate": output("translate", run), "step": output("step")}


@pytest.mark.parametrize("name", LIMITS)
def test_little_is_run_through(recorded, name):
    words = recorded[name].splitlines()[-1].split()
    files, lines = int(words[0]), int(words[2])
    most_files, most_lines = LIMITS[name]
    assert files <= most_files, recorded[name]
    assert lines <= most_lines, recorded[name]


def test_the_program_sees_what_runs(recorded):
    for name, file in (
        ("train", "minitf/training/loop.py"),
        ("translate", "minitf/decoding/search.py"),
        ("step", "minitf/training/optim.py"),
    ):
        assert file in recorded[name]
        assert "additions/course/" not in recorded[name]


@pytest.mark.slow
def test_few_functions_are_reached_by_no_documented_use():
    """What needs a GPU or has gone wrong is not reached, and little else."""
    faults = []
    found = unreached(faults.append)
    assert faults == []
    assert sum(found.values()) <= UNREACHED, "\n".join(f"{lines:4}  {name}" for name, lines in found.items())
