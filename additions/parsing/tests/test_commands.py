"""`minitf parse`."""

from additions.parsing.commands import parse as command
from minitf.system.process import run_command


def test_a_treebank_is_written_and_scored(tmp_path, capsys):
    sizes = ["--train-trees", "5", "--valid-trees", "2", "--test-trees", "3", "--show", "1"]
    assert run_command(command, ["treebank", str(tmp_path), *sizes]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{tmp_path}: 5 training, 2 validation, 3 test trees\n\n(TOP (")
    gold = str(tmp_path / "test.mrg")
    assert run_command(command, ["evalb", gold, gold, "--summary"]) == 0
    assert "Bracketing FMeasure       = 100.00" in capsys.readouterr().out
    assert run_command(command, ["evalb", gold, str(tmp_path / "train.mrg")]) == 2
    assert "the test trees go on after line 3" in capsys.readouterr().err
    assert run_command(command, []) == 2
    assert "required: COMMAND (prepare, trees," in capsys.readouterr().err
