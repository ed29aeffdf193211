"""`studies/benchmarks/checkers.py` without its peers: its table, and its exit status."""

import subprocess
import sys
from pathlib import Path

import pytest

from studies.benchmarks.checked_functions import RIGHT, WRONG
from studies.benchmarks.checkers import HEAD, table

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_our_column_of_the_table(tmp_path):
    page = tmp_path / "table.md"
    command = [sys.executable, "-W", "error", ROOT / "studies" / "benchmarks" / "checkers.py", "--write", page]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert page.read_text("utf-8") == HEAD + done.stdout
    assert f"| **found** | {len(WRONG)} of {len(WRONG)} |" in done.stdout
    assert f"| **false alarms** | 0 of {len(RIGHT)} |" in done.stdout


def test_what_passes_is_not_counted_as_found():
    nothing = {"wrong": [""] * len(WRONG), "right": ["flagged"] * len(RIGHT)}
    lines = table({"one": nothing})
    assert f"| **found** | 0 of {len(WRONG)} |" in lines
    assert f"| **false alarms** | {len(RIGHT)} of {len(RIGHT)} |" in lines
