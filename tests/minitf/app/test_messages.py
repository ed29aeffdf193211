"""What commands say about careless input: the fault is named, not one beside it, and what is suggested can be typed."""

import json
import os
import shlex

import pytest

from minitf import __main__ as commands
from minitf.system.process import run_command
from tests.helpers.runs import FLAGS, write_corpus


@pytest.fixture
def texts(tmp_path):
    """Flags of a run of a second, whose folder has a space in its name."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    return [*write_corpus(folder), *FLAGS]


@pytest.fixture
def say(capfd):
    """Run a command in this process: (exit status, all that it printed)."""

    def run(*words):
        status = run_command(commands.run, [str(word) for word in words])
        return status, "".join(capfd.readouterr())

    return run


def test_a_blank_validation_text_is_not_called_the_training_text(texts, tmp_path, say):
    (tmp_path / "blank").write_text(" \n\n")
    blank = str(tmp_path / "blank")
    status, said = say("train", *texts, "--valid", blank, blank, "--output", tmp_path / "run")
    assert status == 2
    assert f"no pair is left of {blank} and {blank}: 2 have an empty side" in said


def test_process_substitution_is_refused_before_it_is_read_and_leaves_no_folder(texts, tmp_path, say):
    reading, writing = os.pipe()
    os.write(writing, b"the cat\n")
    os.close(writing)
    status, said = say("train", *texts, "--train", f"/dev/fd/{reading}", texts[2], "--output", tmp_path / "run")
    assert os.read(reading, 100) == b"the cat\n"
    os.close(reading)
    assert status == 2
    assert (
        f"/dev/fd/{reading} is a pipe or device, but a corpus is read more than once; save it to a file first" in said
    )
    assert not (tmp_path / "run").exists()


def test_commands_that_are_suggested_can_be_typed(texts, tmp_path, say):
    folder = tmp_path / "a folder"
    lines = folder / "my lines"
    lines.write_text("".join(f"line {number}\n" for number in range(60)))
    _, said = say("split", lines, lines, "--valid", 1, "--test", 1, "--output", folder / "my split")
    command = shlex.split(said.partition("train with:\n")[2].strip())
    assert command[:4] == ["minitf", "train", "--train", str(folder / "my split" / "train.source")]
    _, said = say("statistics", lines, lines)
    assert shlex.split(said.splitlines()[-1])[:4] == ["minitf", "split", str(lines), str(lines)]
    run = folder / "my run"
    status, said = say("train", *texts, "--output", run, "--max-steps", 1)
    assert status == 0
    assert f"minitf translate '{run}' < input.txt" in said
    _, said = say("train", *texts, "--output", run)
    assert f"continue it with --resume '{run}'" in said
    _, said = say("pack", run)
    assert shlex.split(said.splitlines()[-1]) == ["minitf", "translate", f"{run}-packed"]


def test_what_a_file_says_is_not_obeyed_by_a_terminal(texts, tmp_path, say):
    run = tmp_path / "run"
    assert say("train", *texts, "--output", run, "--max-steps", 1)[0] == 0
    (run / "environment.json").write_text(json.dumps({"minitf": "\x1b]0;mine\x07", "numpy": "1\x9b31m\r"}))
    status, said = say("train", "--resume", run, "--max-steps", 2)
    assert status == 0
    assert r"\x1b]0;mine\x07" in said
    assert not any(character in said for character in "\x1b\x07\x9b\r")
