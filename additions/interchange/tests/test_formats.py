"""Models written for another program and read again compute the same; what cannot be written is refused by name."""

import os
from pathlib import Path

import numpy as np
import pytest

from additions.decoding.attention import attention_weights
from additions.interchange.formats import WRITERS, is_foreign, read_foreign, write_foreign
from additions.interchange.stored_arrays import ModelFileError
from additions.interchange.tests.foreign_models import SOURCE, TARGET, learned_model, logits_of
from minitf import Translator
from minitf.config.model import BOS
from minitf.errors import UserError

pretrained = pytest.mark.skipif("MINITF_DATA" not in os.environ, reason="MINITF_DATA names no folder of corpora")
OPUS = {"decoder_start": "zero", "masked_tokens": (0, 2), "output_bias": True, "positions": "sinusoidal-halves"}
MODELS = {
    "as OPUS-MT": OPUS,
    "the paper's": {"norm_epsilon": 1e-5},
    "untied": {**OPUS, "share_embeddings": "none", "shared": False},
    "two ties": {**OPUS, "share_embeddings": "target-output", "shared": False},
    "other two ties": {**OPUS, "share_embeddings": "source-target"},
    "pre-norm": {**OPUS, "norm": "pre", "activation": "silu"},
    "norms of embeddings": {**OPUS, "embedding_norm": True},
    "starts with the end token": {"decoder_start": "eos", "share_embeddings": "none", "activation": "gelu"},
    "first public code": {**OPUS, "positions": "sinusoidal-concatenated", "attention_bias": False},
    "learned positions": {"positions": "learned", "max_positions": 70, "first_position": 2, "source_eos": False},
    "paper's positions": {**OPUS, "positions": "sinusoidal"},
    "a token of its own masked": {"masked_tokens": (6,), "norm_epsilon": 1e-5},
}
REFUSED = {  # what a format does not have
    ("marian", "the paper's"): "decoder_start=bos",
    ("marian", "starts with the end token"): "decoder_start=eos",
    ("marian", "learned positions"): "decoder_start=bos",
    ("marian", "a token of its own masked"): "decoder_start=bos",
    ("huggingface", "pre-norm"): "norm=pre",
    ("huggingface", "norms of embeddings"): "embedding_norm=true",
    ("huggingface", "learned positions"): "source_eos=false",
}
FORMATS = ["ctranslate2", "marian", "huggingface"]


@pytest.mark.heavy
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_and_read_again_computes_the_same(name, model, tmp_path):
    learned = learned_model(**{"norm_epsilon": 1e-6 if name == "marian" else 1e-5, **MODELS[model]})
    if (name, model) in REFUSED:
        with pytest.raises(UserError, match=REFUSED[name, model]):
            write_foreign(learned, tmp_path / "model", name)
        assert not any(tmp_path.iterdir())
        return
    write_foreign(learned, tmp_path / "model", name)
    assert is_foreign(tmp_path / "model")
    is_ours = learned.config.model.positions != "sinusoidal-concatenated"
    positions = "sinusoidal-halves" if name == "marian" and is_ours else None
    found = read_foreign(tmp_path / "model", positions)
    before, after = (logits_of(each, SOURCE[1:4], TARGET[:4]) for each in (learned, found))
    assert before.keys() - after.keys() == set()
    for piece, expected in before.items():
        if np.isfinite(expected).all():
            np.testing.assert_allclose(after[piece], expected, atol=1e-5, err_msg=piece)
        else:  # a masked token
            assert name == "huggingface" or (after[piece] < -1e8).all()


@pytest.mark.parametrize("name", WRITERS)
def test_folder_with_files_is_left_as_it_is(name, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="already exists and is not an empty directory; give a new one"):
        write_foreign(learned_model(**OPUS), tmp_path, name)
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_failure_while_writing_leaves_nothing(tmp_path, monkeypatch):
    def fail(learned, folder):
        (folder / "model.npz").write_bytes(b"begun")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(WRITERS, "marian", fail)
    with pytest.raises(UserError, match="No space left on device"):
        write_foreign(learned_model(**OPUS), tmp_path / "model", "marian")
    assert not any(tmp_path.iterdir())


def test_folder_without_a_model_says_what_is_expected(tmp_path):
    assert not is_foreign(tmp_path)
    with pytest.raises(ModelFileError, match=r"contains no supported model: expected is a directory with model\.npz"):
        read_foreign(tmp_path)
    with pytest.raises(ModelFileError, match="No such file or directory"):
        read_foreign(tmp_path / "missing")


def test_checkpoints_of_tensorflow_are_refused_by_name(tmp_path):
    for name in ("checkpoint", "model.ckpt-7.index", "model.ckpt-7.meta", "model.ckpt-7.data-00000-of-00001"):
        (tmp_path / name).write_bytes(b"\0" * 8)
    for name in ("", "model.ckpt-7", "model.ckpt-7.index", "model.ckpt-7.data-00000-of-00001"):
        with pytest.raises(
            ModelFileError, match=r"model\.ckpt-7\.index is a checkpoint of TensorFlow, such as tensor2t"
        ):
            read_foreign(tmp_path / name)


def test_positions_are_an_option_of_marian_alone(tmp_path):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "ctranslate2")
    with pytest.raises(UserError, match="positions=sinusoidal-halves applies only to models of Marian"):
        read_foreign(tmp_path / "model", "sinusoidal-halves")


def test_translator_takes_a_foreign_folder_as_it_is(tmp_path):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "ctranslate2")
    lines = ["the cat", "my mat sat on the cat", ""]
    settings = {"beam": 2, "max_length": 8}
    translator = Translator.load(tmp_path / "model", warn=lambda message: None)
    together = translator.translate(lines, **settings)
    assert together == [translator.translate([line], **settings)[0] for line in lines]
    assert together[2] == "" != together[0]


@pytest.mark.parametrize("name", FORMATS)
def test_weights_stay_where_they_are_read_to(name, tmp_path):
    """No matrix is copied: all are views of one block."""
    write_foreign(learned_model(**OPUS, **{"d_model": 64, "d_ff": 128}), tmp_path / "model", name)
    translator = Translator.load(tmp_path / "model")
    parameters = translator.model.named_parameters()
    matrices = [each.data for each in parameters.values() if each.data.nbytes >= 2**14]
    assert len(matrices) == 3 * 4 + 4 + 3 * 2
    assert all(each.base is matrices[0].base for each in matrices)
    assert all((each.T if name == "marian" else each).flags.c_contiguous for each in matrices)


@pytest.mark.parametrize("choice", [{"average": 2}, {"checkpoint": 100}, {"weights": "best"}])
def test_foreign_models_have_no_checkpoints_to_choose_from(choice, tmp_path):
    write_foreign(learned_model(**OPUS), tmp_path / "model", "ctranslate2")
    (name,) = choice
    with pytest.raises(UserError, match=f"{name}=.* selects checkpoints"):
        Translator.load(tmp_path / "model", **choice)
    assert Translator.load(tmp_path / "model", average=1)


# ---- A trained model ---------------------------------------------------------------------------------------------

EXPECTED = {  # natural logarithms; the file's own tests expect them
    ("آتزمون", "atzmon"): [-0.106023, -0.065410, -0.056002, -0.447953, -0.230714, -0.092184, -0.063463],
    ("آرباكه", "arbake"): [-0.103136, -0.089504, -0.063889, -0.007327, -0.452072, -0.060154, -0.016636],
}


def trained():
    return Path(os.environ["MINITF_DATA"]) / "pretrained" / "aren-transliteration"


@pretrained
@pytest.mark.parametrize("positions", [None, "exported"])
def test_trained_transliteration_has_its_published_scores(positions, tmp_path):
    folder = trained()
    if positions == "exported":
        config, vocabulary, weights = read_foreign(folder)
        write_foreign(type(learned_model())(config, vocabulary, weights), tmp_path / "again", "ctranslate2")
        folder = tmp_path / "again"
    translator = Translator.load(folder)
    found = translator.score(list(EXPECTED))
    for each, expected in zip(found, EXPECTED.values(), strict=True):
        np.testing.assert_allclose(each.token_log_probabilities, expected, atol=1e-5)
    sources = [source for source, _ in EXPECTED]
    for beam in (1, 4):
        assert translator.translate(sources[:1], beam=beam) == ["atzmon"]
        assert translator.translate(sources, beam=beam) == ["atzmon", "arbake"]


@pretrained
def test_trained_transliteration_attends_to_the_letters_in_order():
    translator = Translator.load(trained())
    ((best,),) = translator.translate_nbest(["آتزمون"], n_best=1)
    ((source, target),) = best.parts
    assert best.text == "atzmon"
    assert translator.vocabulary.source.pieces(source) == list("آتزمون")
    weights = attention_weights(translator.model, np.array([source]), np.array([[BOS, *target]]))
    cross = weights.cross[0]
    assert cross.shape == (6, 8, 7, 6)
    np.testing.assert_allclose(cross.sum(axis=-1), 1, atol=1e-5)
