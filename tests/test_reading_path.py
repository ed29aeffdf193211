"""The limits of how much runs when something simple is done: see reading_path.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reading_path import unreached

PROGRAM = Path(__file__).with_name("reading_path.py")
LIMITS = {"train": (47, 11_850), "translate": (27, 7_000), "step": (11, 3_000)}  # files, lines
UNREACHED = 7_000  # lines, of functions that no documented use calls

pytestmark = pytest.mark.heavy


def test_little_is_run_through(tmp_path):
    """One test, so that the programs run once: the second reads the run of the first."""
    run = tmp_path / "run"
    # As long a way, and sooner over
    small = "--vocab-size 500 --max-extra-length 2 --beam 2 --model.layers 1 --model.d-model 16 --model.d-ff 32"
    for words, seen in (
        (["train", run, *small.split()], "minitf/training/loop.py"),
        (["translate", run], "minitf/decoding/search.py"),
        (["step"], "minitf/training/optim.py"),
    ):
        recorded = subprocess.run(
            [sys.executable, PROGRAM, *words], check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        ).stdout
        files, _, lines, _ = recorded.splitlines()[-1].split()
        for found, most in zip((files, lines), LIMITS[words[0]], strict=True):
            assert int(found) <= most, recorded
        assert seen in recorded
        assert "additions/course/" not in recorded


@pytest.mark.slow
def test_few_functions_are_reached_by_no_documented_use():
    """What needs a GPU or has gone wrong is not reached, and little else."""
    faults = []
    found = unreached(faults.append)
    assert faults == []
    assert sum(found.values()) <= UNREACHED, "\n".join(f"{lines:4}  {name}" for name, lines in found.items())
