"""The tests share through helpers, and a run in which everything is skipped fails."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_no_test_is_imported():
    """What two tests need is in tests/helpers, cases, emulation or mutants; a conftest is not imported by name."""
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
                parts = [*node.module.split("."), *(alias.name for alias in node.names)]
                assert not any(part == "conftest" for part in parts), path
                assert not any(part.startswith("test_") for part in parts[:-1]), path


@pytest.mark.heavy
def test_a_run_in_which_everything_is_skipped_fails(tmp_path):
    (tmp_path / "test_it.py").write_text("import pytest\n\ndef test_it():\n    pytest.skip('no luck')\n")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", f"--rootdir={tmp_path}", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ROOT})
    assert "SKIPPED 1: no luck" in done.stdout
    assert done.returncode != 0
