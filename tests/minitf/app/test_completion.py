"""The script for completion, as bash runs it."""

import os
import shutil
import subprocess
import sys

import pytest

from minitf.app.commands import COMMANDS, main
from minitf.system.process import run_command

pytestmark = pytest.mark.heavy


@pytest.fixture
def complete(capsys, tmp_path):
    """A function that returns what bash offers for a line."""
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    assert run_command(main, ["completion"]) == 0
    script = capsys.readouterr().out
    command = tmp_path / "minitf"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m minitf "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}

    def offered(*words):
        line = (
            f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; _minitf; echo ${{COMPREPLY[*]}}"
        )
        done = subprocess.run(
            ["bash", "-c", f"{script}\n{line}"], capture_output=True, text=True, check=True, env=environment
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    return offered


def test_commands_flags_and_paths(complete):
    assert complete("minitf", "") == list(COMMANDS)
    assert complete("minitf", "tra") == ["train", "translate"]
    assert complete("minitf", "train", "--max-s") == ["--max-steps"]
    assert complete("minitf", "train", "--help") == ["--help"]
    assert complete("minitf", "translate", "--max-e") == ["--max-extra-length"]
    assert complete("minitf", "train", "--preset", "lap") == ["laptop"]
    assert complete("minitf", "translate", "ru") == []  # bash completes a path
