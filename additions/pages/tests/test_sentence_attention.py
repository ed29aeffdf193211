"""The attention of one sentence, with the pieces that were read and written."""

import numpy as np
import pytest

from additions.pages.sentence_attention import attention
from minitf.config.model import EOS
from minitf.decoding.search import BeamSearchConfig, beam_search
from minitf.errors import UserError
from minitf.translation.translator import Translator


@pytest.fixture(scope="module")
def translator(tiny_run):
    return Translator.load(tiny_run, dtype="float64", warn=lambda message: None)


def test_the_labels_are_the_pieces_read_and_written(translator):
    source = "the cat sat on the mat."
    look = attention(translator, source, max_extra_length=5)
    (ids,) = translator.vocabulary.encode([source])
    search = BeamSearchConfig(beam=4, max_extra_length=5)
    ((best,),) = beam_search(translator.model, np.array([[*ids, EOS]]), search)
    emitted = [*best.tokens, EOS] if best.finished else [*best.tokens]
    assert look.source == (*translator.vocabulary.pieces(ids), "</s>")
    assert look.target_out == tuple(translator.vocabulary.pieces(emitted))
    assert look.target_in == ("<s>", *look.target_out[:-1])
    assert look.source_text == source
    assert look.target_text == translator.translate([source], max_extra_length=5)[0]
    assert look.log_probabilities.sum() == pytest.approx(best.log_probability, rel=1e-9)
    s, t = len(look.source), len(look.target_out)
    assert (look.layers, look.heads) == (2, 2)
    assert look.encoder.shape == (2, 2, s, s)
    assert look.decoder.shape == (2, 2, t, t)
    assert look.cross.shape == (2, 2, t, s)


def test_a_given_target_is_written_whatever_the_model_thinks(translator):
    look = attention(translator, "the cat", "die Katze")
    (ids,) = translator.vocabulary.encode(["die Katze"])
    assert look.target_out == (*translator.vocabulary.pieces(ids), "</s>")
    assert look.target_text == "die Katze"
    assert attention(translator, "the cat", "").target_out == ("</s>",)
    shown = look._repr_html_()  # in a notebook
    assert shown.count("<tr>") == 1 + len(look.target_out)
    assert f">{look.cross[:, :, 0, 0].mean():.4g}<" in shown
    assert "&lt;/s&gt;" in shown
    assert "the cat → die Katze" in shown
    # the weights before a position do not depend on what is written there
    other = attention(translator, "the cat", "die Katze sang")
    np.testing.assert_allclose(other.cross[:, :, : len(ids)], look.cross[:, :, : len(ids)], rtol=1e-9)


def test_what_has_no_attention_is_refused(translator, tiny_vocabulary):
    with pytest.raises(UserError, match="source is blank"):
        attention(translator, " \t")
    short = Translator(translator.model, translator.vocabulary, max_source_length=3)
    with pytest.raises(UserError, match="more than the 3 the model knows, and is translated in pieces"):
        attention(short, "the cat sat on the mat")
    with pytest.raises(UserError, match="type object has no attention"):
        attention(Translator(object(), tiny_vocabulary), "the cat", "die Katze")
