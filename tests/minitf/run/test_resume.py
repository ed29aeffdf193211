"""A run that an earlier version left behind, with the numbers that this version gave, translates and goes on."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from additions.pages.run_log import read_log
from minitf.app.translate import main as translate
from minitf.storage.checkpoints import Checkpoints
from minitf.storage.run_directory import load_config
from minitf.system.process import run_command
from tests.helpers.runs import call

PAIRS = [
    ("the dog sees a tree .", "der Hund sieht einen Baum ."),
    ("a tree is big .", "ein Baum ist groß ."),
    ("the big cat sees a small dog .", "die große Katze sieht einen kleinen Hund ."),
]
LOG_PROBABILITIES = {
    "average": [-123.68257, -105.93636, -189.8292],
    "moving-average": [-123.71176, -105.96151, -189.86411],
}


@pytest.fixture
def old_run(tmp_path):
    """Six steps of a model with one layer, and the weights of its best validation; the texts it names are gone."""
    with tarfile.open(Path(__file__).with_name("old_run.tar.xz")) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "run"


def test_its_configuration_is_read(old_run):
    config = load_config(old_run / "config.json")
    assert (config.max_steps, config.moving_average, config.optimizer.label_smoothing) == (6, 0.9, 0.1)
    model = config.model
    assert (model.layers, model.d_model, model.norm, model.activation) == (1, 8, "pre", "gelu")


@pytest.mark.parametrize("weights", LOG_PROBABILITIES)
def test_it_translates(old_run, tmp_path, capfd, weights):
    for name, lines in zip(("source", "target"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = ["--input", tmp_path / "source", "--score", tmp_path / "target"]
    assert run_command(translate, [str(word) for word in (old_run, *files, "--weights", weights)]) == 0
    found = [float(line.partition("\t")[0]) for line in capfd.readouterr().out.splitlines()]
    np.testing.assert_allclose(found, LOG_PROBABILITIES[weights], rtol=2e-6)


def test_it_is_resumed(old_run, capfd):
    assert call(["--resume", str(old_run), "--max-steps", "9"]) == 0
    said = capfd.readouterr().err
    assert "resumed after step 6" in said
    last = {name: record[name] for record in read_log(old_run / "log.jsonl") for name in record}
    assert last["step"] == 9
    assert last["loss"] == pytest.approx(6.045362330194729, rel=1e-5)
    assert last["valid_loss"] == pytest.approx(5.928118537454044, rel=1e-5)
    assert last["gradient_norm"] == pytest.approx(1.1003472037789912, rel=1e-4)
    assert last["bleu"] == pytest.approx(0.8881070404629651, rel=1e-6)
    assert Checkpoints(old_run / "checkpoints").steps() == [9]
