"""`minitf bleu`: the card as a person and a program read it."""

import inspect
import json
import subprocess
import sys

import pytest

from minitf.app.score import bleu as main
from minitf.app.score import bleu_parser
from minitf.app.score import parse as command
from minitf.system.process import run_command
from studies.bleu_card import LANGUAGES, bleu_card
from studies.tests.cards import HYPOTHESES, REFERENCES, card


@pytest.fixture
def files(tmp_path):
    for name, lines in (("h", HYPOTHESES), ("r", REFERENCES)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    return [str(tmp_path / "h"), str(tmp_path / "r")]


@pytest.mark.heavy
def test_the_card_as_a_person_sees_it(files):
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "minitf", "bleu", *files, "--resamples", "10"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    assert f"{card()['sacreBLEU 13a, cased'].score:.2f}" in lines[1]
    assert sum("nrefs:1|case:" in line for line in lines) == 7
    assert ["*" in line for line in lines[1:8]] == [False] * 4 + [True] * 2 + [False]
    assert "Compare only scores with the same signature" in ended.stdout


def test_json(files, capsys):
    assert run_command(main, [*files, "--resamples", "10", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found] == list(card())
    assert found[0]["score"] == card()["sacreBLEU 13a, cased"].score


def test_what_cannot_be_scored(files, tmp_path, capsys):
    (tmp_path / "short").write_text("one line\n")
    assert run_command(main, [files[0], str(tmp_path / "short")]) == 2
    assert "error: there are 20 translations but 1 reference lines" in capsys.readouterr().err
    assert run_command(main, [files[0], str(tmp_path / "absent")]) == 2
    assert "error: cannot read" in capsys.readouterr().err
    assert run_command(main, [*files, "--resamples", "0"]) == 2
    assert "error: --resamples 0 is too small for an interval" in capsys.readouterr().err


def test_defaults_are_those_of_the_library(files):
    given, parameters = bleu_parser().parse_args(files), inspect.signature(bleu_card).parameters
    assert (given.language, given.resamples) == (parameters["language"].default, parameters["resamples"].default)
    (choices,) = [action.choices for action in bleu_parser()._actions if action.dest == "language"]
    assert choices == LANGUAGES


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
