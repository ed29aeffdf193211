"""What the heads look at: compared with the weights inside the fused op, with equation 1, and with the search."""

from dataclasses import replace

import numpy as np
import pytest

from autograd.observers import Observer, observe
from autograd.ops.nn import ScaledDotProductAttention
from minitf.config import PRESETS
from minitf.config.model import BOS, EOS, PAD
from minitf.decoding.search import BeamSearchConfig, beam_search
from minitf.errors import UserError
from minitf.model.transformer import Transformer
from minitf.translation.attention_weights import AttentionWeights, attention_weights
from minitf.translation.translator import Translator

LAYERS, HEADS = 3, 2
SOURCE = np.array([[7, 8, 9, 10, EOS], [11, 12, EOS, PAD, PAD]])
TARGET = np.array([[BOS, 5, 6, 7], [BOS, 9, PAD, PAD]])


@pytest.fixture(scope="module")
def model():
    config = replace(PRESETS["tiny"].model, layers=LAYERS, d_model=16, d_ff=32, heads=HEADS, dropout=0.5, vocab_size=20)
    return Transformer(config, seed=3, dtype=np.float64)


@pytest.fixture(scope="module")
def weights(model) -> AttentionWeights:
    return attention_weights(model, SOURCE, TARGET)


@pytest.fixture(scope="module")
def translator(tiny_run):
    return Translator.load(tiny_run, dtype="float64", warn=lambda message: None)


class Inside(Observer):
    """The weights that the fused op computed for its own use."""

    def __init__(self):
        self.found = []

    def after_forward(self, op, outputs):
        if isinstance(op, ScaledDotProductAttention):
            self.found.append(op.saved_arrays[-1].copy())


def test_they_are_the_ones_the_model_computes_with(model, weights):
    model.eval()
    with observe(Inside()) as inside:
        logits = model(SOURCE, TARGET)
    model.train()
    encoder, decoder = inside.found[:LAYERS], inside.found[LAYERS:]
    np.testing.assert_allclose(weights.encoder, np.stack(encoder, 1), rtol=1e-12)
    np.testing.assert_allclose(weights.decoder, np.stack(decoder[::2], 1), rtol=1e-12)
    np.testing.assert_allclose(weights.cross, np.stack(decoder[1::2], 1), rtol=1e-12)
    np.testing.assert_allclose(weights.logits, logits.numpy(), rtol=1e-12, atol=1e-13)


def test_nothing_is_left_behind(model):
    before = {name: vars(module).keys() for name, module in enumerate(model.decoder.layers)}
    assert model.training
    attention_weights(model, SOURCE, TARGET)
    with pytest.raises(IndexError):
        attention_weights(model, SOURCE, TARGET + 1000)
    assert model.training
    assert before == {name: vars(module).keys() for name, module in enumerate(model.decoder.layers)}


# ---- One sentence ------------------------------------------------------------------------------------------------


def test_the_labels_are_the_pieces_read_and_written(translator):
    source = "the cat sat on the mat."
    look = translator.attention(source, max_extra_length=5)
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
    look = translator.attention("the cat", "die Katze")
    (ids,) = translator.vocabulary.encode(["die Katze"])
    assert look.target_out == (*translator.vocabulary.pieces(ids), "</s>")
    assert look.target_text == "die Katze"
    assert translator.attention("the cat", "").target_out == ("</s>",)
    shown = look._repr_html_()  # in a notebook
    assert shown.count("<tr>") == 1 + len(look.target_out)
    assert f">{look.cross[:, :, 0, 0].mean():.4g}<" in shown
    assert "&lt;/s&gt;" in shown
    assert "the cat → die Katze" in shown
    # the weights before a position do not depend on what is written there
    other = translator.attention("the cat", "die Katze sang")
    np.testing.assert_allclose(other.cross[:, :, : len(ids)], look.cross[:, :, : len(ids)], rtol=1e-9)


def test_what_has_no_attention_is_refused(translator, tiny_vocabulary):
    with pytest.raises(UserError, match="source is blank"):
        translator.attention(" \t")
    short = Translator(translator.model, translator.vocabulary, max_source_length=3)
    with pytest.raises(UserError, match="more than the 3 the model knows, and is translated in pieces"):
        short.attention("the cat sat on the mat")
    with pytest.raises(UserError, match="type object has no attention"):
        Translator(object(), tiny_vocabulary).attention("the cat", "die Katze")
