"""The script for completion, as bash runs it."""

import shutil
import subprocess

import pytest

from minitf.app.command_line import flags_of
from minitf.app.commands import COMMANDS, main
from minitf.app.completion import flags_of_command
from minitf.config import RunConfig, TranslateConfig
from minitf.system.process import run_command

pytestmark = pytest.mark.heavy


@pytest.fixture
def complete(capsys):
    """A function that returns what bash offers for a line."""
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    assert run_command(main, ["completion"]) == 0
    script = capsys.readouterr().out

    def offered(*words):
        line = (
            f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; _minitf; echo ${{COMPREPLY[*]}}"
        )
        done = subprocess.run(["bash", "-c", f"{script}\n{line}"], capture_output=True, text=True, check=True)
        assert done.stderr == ""
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


def test_every_flag_is_known():
    for function, config_class in (("train", RunConfig), ("translate", TranslateConfig)):
        found = flags_of_command(function)
        every = {flag.name for flag in flags_of(config_class) if not flag.field.metadata["positional"]}
        assert every <= set(found), every - set(found)
    assert "--output" in flags_of_command("report")
