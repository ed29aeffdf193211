"""The commands of docs/tutorial.md, as printed and one after the other, lead to a translator."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow  # some minutes of training
def test_the_tutorial(tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in (("python", ""), ("minitf", "-m minitf ")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words}"$@"\n')
        (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    install, *blocks = BLOCK.findall(TUTORIAL)
    assert "pip install" in install[1]
    (tmp_path / "runs" / "tutorial").mkdir(parents=True)
    printed = {}
    last = ""
    for language, text in blocks:
        if language == "text":
            assert last == text
            continue
        done = subprocess.run(
            ["sh", "-e", "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=3000
        )
        assert done.returncode == 0, f"{text}\n{done.stderr}"
        printed[text] = last = done.stdout
    (bleu,) = [out for command, out in printed.items() if "minitf bleu" in command]
    score = float(re.match(r"BLEU ([\d.]+)", bleu)[1])
    assert 87 < score < 95, "the tutorial says about 90"
    (stopped,) = [out for command, out in printed.items() if "pdb" in command]
    assert "def call_backward" in stopped
    assert {path.name for path in (tmp_path / "runs" / "tutorial").glob("*.html")} == {"translator.html", "step.html"}
