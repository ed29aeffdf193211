"""`minitf export`: runs in the formats of other programs."""

import json

import numpy as np
import pytest
import safetensors.numpy

from minitf.app.export_model import FORMATS, main
from minitf.errors import UserError
from minitf.interchange.formats import WRITERS
from minitf.translation.translator import Translator
from tests.helpers.foreign_models import learned_model, write_run


def test_formats_are_those_that_are_written():
    assert set(FORMATS) == set(WRITERS)


@pytest.mark.parametrize("name", ["ctranslate2", "huggingface"])
def test_trained_run_translates_the_same_from_its_export(name, tiny_run, tmp_path, capsys):
    main([str(tiny_run), str(tmp_path / "out"), "--format", name])
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
    main([str(write_run(learned, tmp_path / "run")), str(tmp_path / "out"), "--format", "safetensors"])
    found = safetensors.numpy.load_file(tmp_path / "out" / "model.safetensors")
    assert found.keys() == learned.weights.keys()
    assert all(np.array_equal(found[name], array) for name, array in learned.weights.items())
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["minitf"]["encoder_layers"] == 2


@pytest.mark.parametrize("fields", [{"mixing": "restricted"}, {"attention": "additive"}, {"d_k": 3}])
@pytest.mark.parametrize("name", ["ctranslate2", "marian", "huggingface"])
def test_layers_of_other_kinds_are_refused(name, fields, tmp_path):
    run = write_run(learned_model(**fields), tmp_path / "run")
    with pytest.raises(UserError, match=f"{next(iter(fields))}=.*use --format safetensors"):
        main([str(run), str(tmp_path / "out"), "--format", name])
    assert not (tmp_path / "out").exists()
