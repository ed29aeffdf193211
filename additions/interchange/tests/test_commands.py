"""`minitf import`: an ordinary run, which translates as the model does."""

import json

import numpy as np
import pytest
import safetensors.numpy

from additions.interchange.commands import FORMATS, export_model, import_model
from additions.interchange.formats import WRITERS, write_foreign
from additions.interchange.tests.foreign_models import learned_model, write_run
from additions.pages.commands import report as report
from minitf.app.train import main as train
from minitf.errors import UserError
from minitf.storage.run_directory import RunDirectory
from minitf.system.process import run_command
from minitf.translation.translator import Translator

pytestmark = pytest.mark.heavy

OPUS = {"decoder_start": "zero", "masked_tokens": (0, 2), "output_bias": True, "positions": "sinusoidal-concatenated"}


def test_run_translates_as_the_model_does(tmp_path, capsys):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")
    import_model([str(tmp_path / "model"), str(tmp_path / "run")])
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
    import_model([str(tmp_path / "model"), str(tmp_path / "run"), "--positions", name])
    assert RunDirectory.open(tmp_path / "run").config().model.positions == f"sinusoidal-{positions}"


def test_an_interrupted_import_leaves_nothing_and_can_be_repeated(tmp_path, monkeypatch):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("additions.interchange.conversion.Checkpoints", interrupted)
        with pytest.raises(KeyboardInterrupt):
            import_model([str(tmp_path / "model"), str(tmp_path / "run")])
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    import_model([str(tmp_path / "model"), str(tmp_path / "run")])
    Translator.load(tmp_path / "run")


def test_run_that_is_there_is_kept(tmp_path):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")
    import_model([str(tmp_path / "model"), str(tmp_path / "run")])
    before = {
        path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file() and path.name != "lock"
    }
    with pytest.raises(UserError, match="run already exists and is not an empty directory; give a new one"):
        import_model([str(tmp_path / "model"), str(tmp_path / "run")])
    assert {path: path.read_bytes() for path in before} == before


def test_run_needs_no_import_and_has_no_log_to_report(tmp_path):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")
    import_model([str(tmp_path / "model"), str(tmp_path / "run")])
    with pytest.raises(UserError, match="run is already a run; translate with: minitf translate"):
        import_model([str(tmp_path / "run"), str(tmp_path / "again")])
    with pytest.raises(UserError, match="run has no log, because it was imported or packed"):
        report([str(tmp_path / "run")])


def test_damaged_model_leaves_no_run(tmp_path):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")
    path = tmp_path / "model" / "model.npz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"model\.npz cannot be read"):
        import_model([str(tmp_path / "model"), str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()


@pytest.mark.heavy
def test_imported_run_cannot_be_resumed_and_says_what_to_do(tmp_path, capfd):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")
    import_model([str(tmp_path / "model"), str(tmp_path / "run")])
    assert run_command(train, ["--resume", str(tmp_path / "run")]) == 2
    message = capfd.readouterr().err.splitlines()[-1]
    assert message.startswith(
        f"error: {tmp_path / 'run'} was imported, or packed for translation, and has no optimizer state; "
    )
    assert message.endswith(f"--init {tmp_path / 'run'}")


def test_formats_are_those_that_are_written():
    assert set(FORMATS) == set(WRITERS)


@pytest.mark.parametrize("name", ["ctranslate2", "huggingface"])
def test_trained_run_translates_the_same_from_its_export(name, tiny_run, tmp_path, capsys):
    export_model([str(tiny_run), str(tmp_path / "out"), "--format", name])
    assert f"written for {name}" in capsys.readouterr().err
    first, second = (Translator.load(each, warn=lambda message: None) for each in (tiny_run, tmp_path / "out"))
    lines = ["the cat sat on the mat.", "ein Haus"]
    pieces = [second.vocabulary.source.pieces(row) for row in second.vocabulary.source.encode(lines)]
    assert pieces == [first.vocabulary.pieces(row) for row in first.vocabulary.encode(lines)]
    found, expected = (each.score([(line, "der Hund") for line in lines]) for each in (second, first))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            one.token_log_probabilities, other.token_log_probabilities, atol=1e-4
        )  # other epsilon


def test_parameters_under_their_own_names(tmp_path):
    learned = learned_model()
    export_model([str(write_run(learned, tmp_path / "run")), str(tmp_path / "out"), "--format", "safetensors"])
    found = safetensors.numpy.load_file(tmp_path / "out" / "model.safetensors")
    assert found.keys() == learned.weights.keys()
    assert all(np.array_equal(found[name], array) for name, array in learned.weights.items())
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["minitf"]["encoder_layers"] == 2


@pytest.mark.parametrize("fields", [{"d_k": 3}])
@pytest.mark.parametrize("name", ["ctranslate2", "marian", "huggingface"])
def test_layers_of_other_kinds_are_refused(name, fields, tmp_path):
    run = write_run(learned_model(**fields), tmp_path / "run")
    with pytest.raises(UserError, match=f"{next(iter(fields))}=.*use --format safetensors"):
        export_model([str(run), str(tmp_path / "out"), "--format", name])
    assert not (tmp_path / "out").exists()
