"""README's "Train your own", as printed but for its time, to the page in a browser."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from minitf.corpora.built_in import built_in_corpus
from tests.helpers.readme import README, commands_under

SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "el")]
SHORTER = {"--max-minutes 40": "--max-minutes 0.1"}


def test_make_demo_ends_with_the_command_of_the_readme():
    *_, last = commands_under("Try it")
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "demo"], cwd=README.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == f"echo '    {last}'"


@pytest.mark.slow
def test_train_your_own(tmp_path, chromium):
    draw = random.Random(0)
    pairs = built_in_corpus(train_pairs=2_000, valid_pairs=0, test_pairs=0).train
    names = ["".join(draw.choices(SYLLABLES, k=3)) for _ in pairs]  # as many words as a text of people has
    for side, name in enumerate(("mine.en", "mine.de")):
        lines = (f"{pair[side]} {called}\n" for pair, called in zip(pairs, names, strict=True))
        (tmp_path / name).write_text("".join(lines), encoding="utf-8")
    program = tmp_path / "bin" / "minitf"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m minitf "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    said = {}
    commands = commands_under("Train your own")
    assert [command.split()[1] for command in commands] == ["statistics", "split", "train", "translate", "page"]
    for command in commands:
        for long, short in SHORTER.items():
            command = command.replace(long, short)
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, (command, done.stderr)
        said[command.split()[1]] = done.stdout + done.stderr
    assert "BLEU" in said["train"]
    assert "minitf split" not in said["train"]  # no warning of held-out text that is trained on
    assert "in the other order" not in said["train"]
    sources, lines = (
        (tmp_path / name).read_text(encoding="utf-8").splitlines() for name in ("split/test.en", "out.de")
    )
    assert len(lines) == len(sources) > 50
    chromium.complaints()
    chromium.open(tmp_path / "translator.html")
    chromium.wait_for("document.body.dataset.ready")
    assert chromium.run("return document.getElementById('languages').textContent") == "English → German"
    assert chromium.run("return state.tokens.length === document.querySelectorAll('#target li').length")
    assert chromium.run("return document.getElementById('problem').hidden")
    assert chromium.complaints() == []
