"""`minitf corpus`."""

import os
import subprocess
import sys

from additions.corpora.commands import corpus
from minitf.corpora.built_in import built_in_corpus


def test_command_line(tmp_path, capsys):
    corpus([str(tmp_path), "--train-pairs", "40", "--valid-pairs", "3", "--test-pairs", "2"])
    expected = built_in_corpus(train_pairs=40, valid_pairs=3, test_pairs=2)
    lines = (tmp_path / "train.de").read_text(encoding="utf-8").splitlines()
    assert lines == [german for _, german in expected.train]
    shown = capsys.readouterr().out
    assert "40 training, 3 validation, 2 test pairs" in shown
    assert "  {}  →  {}\n".format(*expected.train[0]) in shown


def test_command_line_refuses_in_one_sentence(tmp_path):
    command = [sys.executable, "-m", "minitf", "corpus", str(tmp_path), "--test-pairs=-1"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "error: test_pairs=-1 is negative; give a whole number >= 0\n"
    assert os.listdir(tmp_path) == []
