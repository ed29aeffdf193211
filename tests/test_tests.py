"""The tests share through helpers, and a run in which everything is skipped fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.heavy
def test_a_run_in_which_everything_is_skipped_fails(tmp_path):
    (tmp_path / "test_it.py").write_text("import pytest\n\ndef test_it():\n    pytest.skip('no luck')\n")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", f"--rootdir={tmp_path}", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ROOT})
    assert "SKIPPED 1: no luck" in done.stdout
    assert done.returncode != 0
