"""`minitf corpus`."""

import os
import subprocess
import sys

from minitf.app.corpus import main
from minitf.corpora.phrases import generate_corpus
from minitf.corpora.phrases.templates import KINDS


def test_command_line(tmp_path, capsys):
    main([str(tmp_path), "--seed", "5", "--train-pairs", "40", "--valid-pairs", "3", "--test-pairs", "2"])
    expected = generate_corpus(5, train_pairs=40, valid_pairs=3, test_pairs=2)
    lines = (tmp_path / "train.de").read_text(encoding="utf-8").splitlines()
    assert lines == [german for _, german in expected.train]
    shown = capsys.readouterr().out
    assert "40 training, 3 validation, 2 test pairs" in shown
    for kind in KINDS:
        block = shown.split(f"\n{kind.name} (")[1].split("\n\n")[0]
        assert block.count("  →  ") == 3


def test_command_line_refuses_in_one_sentence(tmp_path):
    command = [sys.executable, "-m", "minitf", "corpus", str(tmp_path), "--test-pairs=-1"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "error: test_pairs=-1 is negative; give a whole number from 0 on\n"
    assert os.listdir(tmp_path) == []
