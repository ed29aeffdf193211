"""Files that transformers and CTranslate2 themselves wrote, beside the numbers that these programs compute from them.

`files/make.py` writes the files again.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from additions.interchange.commands import pack
from additions.interchange.formats import read_foreign, write_foreign
from additions.interchange.tests.foreign_models import learned_model
from additions.pages.commands import attention, report
from minitf import Translator
from minitf.app.translate import main as translate
from minitf.decoding.search import length_penalty
from minitf.errors import UserError

FILES = Path(__file__).parent / "files"
EXPECTED = json.loads((FILES / "expected.json").read_text())


@pytest.mark.parametrize("kind", EXPECTED["log-probabilities"])
def test_log_probabilities_of_tied_models_are_those_of_ctranslate2(kind):
    """The scale of tied embeddings is stored under one of their names, and float16 rounds the table of positions."""
    translator = Translator.load(FILES / f"ctranslate2-{kind}")
    pairs = [(" ".join(source), " ".join(target)) for source, target in EXPECTED["pairs"]]
    for found, expected in zip(translator.score(pairs), EXPECTED["log-probabilities"][kind], strict=True):
        np.testing.assert_allclose(found.token_log_probabilities, expected, atol=1e-5)


def test_search_settings_of_transformers_5_are_read():
    config = read_foreign(FILES / "huggingface").config
    assert (config.beam, config.alpha, config.beta) == (6, 0.8, 0.0)
    assert config.model.masked_tokens == (0, 2)  # the padding, which starts the decoder, and one that is added


@pytest.mark.parametrize("found", EXPECTED["searches"]["huggingface"])
def test_length_penalty_of_hugging_face_is_a_power_of_the_length_with_the_end_token(found):
    penalty = length_penalty(len(found["log-probabilities"]), found["penalty"], beta=0.0)
    assert found["score"] == pytest.approx(sum(found["log-probabilities"]) / penalty, abs=1e-5)


@pytest.mark.parametrize("found", EXPECTED["searches"]["ctranslate2"])
def test_search_of_ctranslate2_finds_the_same_translations_and_scores_or_stops_before_a_better_one(found):
    translator = Translator.load(FILES / "ctranslate2-float16")
    settings = {"beam": 4, "n_best": 2, "alpha": found["penalty"], "beta": 0.0}
    (best,) = translator.translate_nbest([" ".join(found["source"])], **settings)
    for ours, text, score in zip(best, found["translations"], found["scores"], strict=True):
        if ours.text.split() == text:
            assert ours.score == pytest.approx(score, abs=1e-5)
        else:
            assert ours.score > score
    assert best[0].text.split() == found["translations"][0]


@pytest.mark.parametrize("name", ["huggingface", "marian"])
def test_search_settings_go_there_and_come_back(name, tmp_path):
    learned = learned_model(decoder_start="zero", norm_epsilon=1e-5, positions="sinusoidal-halves")
    learned = replace(learned, config=replace(learned.config, beam=7, alpha=0.7, beta=0.0))
    assert not any("length^0.7" in note for note in write_foreign(learned, tmp_path / name, name))
    found = read_foreign(tmp_path / name).config
    assert (found.beam, found.alpha, found.beta) == (7, 0.7, 0.0)
    with_offset = replace(learned, config=replace(learned.config, beta=5.0))
    (note,) = [each for each in write_foreign(with_offset, tmp_path / "offset", name) if "length^0.7" in each]
    assert "((length + 5) / 6)^0.7" in note


@pytest.mark.parametrize("fields", [{"decoder_start": "bos"}, {"decoder_start": "eos"}, {"decoder_start": "zero"}])
def test_exported_tokenizer_skips_the_token_that_starts_the_decoder(fields, tmp_path):
    """It is the padding there, also where the run has a padding of its own."""
    write_foreign(learned_model(norm_epsilon=1e-5, **fields), tmp_path / "model", "huggingface")
    names, config, tokenizer = (
        json.loads((tmp_path / "model" / f"{name}.json").read_text())
        for name in ("vocab", "generation_config", "tokenizer_config")
    )
    assert names[tokenizer["pad_token"]] == config["pad_token_id"]
    if fields["decoder_start"] == "zero":
        assert tokenizer["pad_token"] == list(names)[-1] == "<pad>"  # CTranslate2's converter takes off the last
        assert config["decoder_start_token_id"] == config["pad_token_id"]


def test_export_to_hugging_face_says_how_long_translations_may_be_and_has_no_bias_that_the_model_lacks(tmp_path):
    """`generate()` stops after 20 tokens where no length is given, and the class always stores a bias."""
    learned = learned_model(norm_epsilon=1e-5)
    write_foreign(learned, tmp_path / "model", "huggingface")
    assert json.loads((tmp_path / "model" / "generation_config.json").read_text())["max_length"] == 64
    assert not read_foreign(tmp_path / "model").config.model.output_bias


@pytest.mark.parametrize(
    ("fields", "said"),
    [({"decoder_start": "bos"}, "zero vector"), ({"decoder_start": "eos"}, "zero vector"), ({}, None),
     ({"share_embeddings": "none", "shared": False}, "one vocabulary"),
     ({"positions": "sinusoidal-concatenated"}, "save_pretrained leaves them out"),
     ({"positions": "learned", "max_positions": 70}, "save_pretrained leaves them out")],
)  # fmt: skip
def test_export_to_hugging_face_says_what_programs_behind_it_would_get_wrong(fields, said, tmp_path):
    learned = learned_model(norm_epsilon=1e-5, **{"decoder_start": "zero", **fields})
    learned = replace(learned, config=replace(learned.config, beta=0.0))
    notes = write_foreign(learned, tmp_path / "model", "huggingface")
    about = [note for note in notes if "zero vector" in note or "save_pretrained" in note]
    assert [said in note for note in about] == [True] * (said is not None)


@pytest.mark.parametrize("name", ["huggingface", "ctranslate2-int8"])
def test_commands_take_the_folder_as_they_take_a_run(name, tmp_path, capfd):
    """Translating, scoring, attention, packing; what needs a run says what to do."""
    model, source, target = str(FILES / name), tmp_path / "source", tmp_path / "target"
    source.write_text("a ba cab\nabba\n")
    target.write_text("ca\n▁ca\n")
    packed = str(tmp_path / "packed")
    pack([model, "--output", packed])
    capfd.readouterr()
    outputs = []
    for run in (model, packed):
        translate([run, "--input", str(source), "--nbest", "2"])
        translate([run, "--input", str(source), "--score", str(target)])
        outputs.append(capfd.readouterr().out)
    assert outputs[0] == outputs[1]
    attention([model, "--input", str(source), "--output", str(tmp_path / "attention.html")])
    pack([model, "--output", str(tmp_path / "small"), "--precision", "int8"])
    with pytest.raises(UserError, match="is a model of another program, not a run; make a run of it with: minitf"):
        report([model])
