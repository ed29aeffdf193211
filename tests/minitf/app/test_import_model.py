"""`minitf import`: an ordinary run, which translates as the model does."""

import json

import numpy as np
import pytest

from minitf.app.import_model import main
from minitf.app.report import main as report
from minitf.app.train import main as train
from minitf.errors import UserError
from minitf.interchange.formats import write_foreign
from minitf.storage.run_directory import RunDirectory
from minitf.system.process import run_command
from minitf.translation.translator import Translator
from tests.helpers.foreign_models import learned_model

OPUS = {"decoder_start": "zero", "masked_tokens": (0, 2), "output_bias": True, "positions": "sinusoidal-concatenated"}


def test_run_translates_as_the_model_does(tmp_path, capsys):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")
    main([str(tmp_path / "model"), str(tmp_path / "run")])
    assert "translate with: minitf translate" in capsys.readouterr().err
    first, second = (Translator.load(tmp_path / name, warn=lambda message: None) for name in ("model", "run"))
    lines = ["the cat sat", "on my mat"]
    settings = {"beam": 3, "max_length": 9}
    assert first.translate_nbest(lines, **settings) == second.translate_nbest(lines, **settings)
    config = RunDirectory.open(tmp_path / "run").config()
    assert config.model == Translator.load(tmp_path / "run").model.config
    for name, parameter in first.model.named_parameters().items():
        np.testing.assert_array_equal(parameter.data, second.model.named_parameters()[name].data)


@pytest.mark.parametrize(("name", "positions"), [("marian", "concatenated"), ("huggingface", "halves")])
def test_positions_may_be_those_of_other_readers(name, positions, tmp_path):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")
    main([str(tmp_path / "model"), str(tmp_path / "run"), "--positions", name])
    assert RunDirectory.open(tmp_path / "run").config().model.positions == f"sinusoidal-{positions}"


def test_an_edit_of_the_tokens_that_it_never_writes_is_refused(tmp_path):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")
    main([str(tmp_path / "model"), str(tmp_path / "run")])
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_text())
    assert config["model"]["masked_tokens"] == [0, 2]
    path.write_text(json.dumps(config | {"model": config["model"] | {"masked_tokens": [0]}}))
    with pytest.raises(UserError, match=r"model\.masked_tokens is .* and was .*; put it back"):
        Translator.load(tmp_path / "run")


def test_run_that_is_there_is_kept(tmp_path):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")
    main([str(tmp_path / "model"), str(tmp_path / "run")])
    before = {
        path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file() and path.name != "lock"
    }
    with pytest.raises(UserError, match="already holds a run; give another directory"):
        main([str(tmp_path / "model"), str(tmp_path / "run")])
    assert {path: path.read_bytes() for path in before} == before


def test_run_needs_no_import_and_has_no_log_to_report(tmp_path):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")
    main([str(tmp_path / "model"), str(tmp_path / "run")])
    with pytest.raises(UserError, match="run is a run already; translate with: minitf translate"):
        main([str(tmp_path / "run"), str(tmp_path / "again")])
    with pytest.raises(UserError, match="run has no log, as runs that were imported or packed"):
        report([str(tmp_path / "run")])


def test_damaged_model_leaves_no_run(tmp_path):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")
    path = tmp_path / "model" / "model.npz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"model\.npz cannot be read"):
        main([str(tmp_path / "model"), str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()


@pytest.mark.heavy
def test_imported_run_cannot_be_resumed_and_says_what_to_do(tmp_path, capfd):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")
    main([str(tmp_path / "model"), str(tmp_path / "run")])
    assert run_command(train, ["--resume", str(tmp_path / "run")]) == 2
    message = capfd.readouterr().err.splitlines()[-1]
    assert message.startswith(f"error: {tmp_path / 'run'} was imported and holds no state of an optimizer; ")
    assert message.endswith(f"--init {tmp_path / 'run'}")
