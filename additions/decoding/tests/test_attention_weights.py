"""What the heads look at: compared with the weights inside the fused op, with equation 1, and with the search."""

import io
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from additions.decoding import commands
from additions.decoding.attention import Alignment, AttentionWeights, align, attention_weights
from autograd.modes import Observer, observe
from autograd.ops.nn import ScaledDotProductAttention
from minitf.config import PRESETS
from minitf.config.model import BOS, EOS, PAD
from minitf.model.transformer import Transformer
from minitf.translation.translator import Translator
from tests.helpers.imported import MODEL, PAIR

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


# ---- Alignments ----


def test_an_alignment_has_the_weights_of_the_last_layer_but_one(make_run):
    """Of a model of two vocabularies that reads no end token."""
    run = make_run(vocabulary=PAIR, model=replace(MODEL, decoder_layers=3), precision="float64")
    translator = Translator.load(run, warn=lambda message: None)
    (scored,) = translator.score([("abc", "BAD")])
    found = align(translator, scored)
    assert (found.source, found.target) == (("a", "b", "c"), ("B", "A", "D"))
    cross = attention_weights(translator.decoder, np.array([[4, 5, 6]]), np.array([[BOS, 5, 4, 7]])).cross
    np.testing.assert_allclose(found.weights, cross[0, 1].mean(axis=0)[:3], rtol=1e-12)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, rtol=1e-9)


def test_alignments_name_words_by_their_subwords():
    found = Alignment(("▁the", "▁ca", "t"), ("▁Ka", "tze"), np.array([[0.1, 0.2, 0.6], [0.5, 0.4, 0.0]]))
    assert found.links() == [(2, 0), (0, 1)]
    assert found.word_links() == [(0, 0), (1, 0)]


def test_an_alignment_of_a_line_in_pieces_stays_within_the_pieces(tiny_run):
    translator = Translator.load(tiny_run, warn=lambda message: None)
    translator.max_source_length = 12
    ((best,),) = translator.translate_nbest(["the cat sat on the mat. the dog did not. a tree"], n_best=1)
    assert len(best.parts) > 1
    found = align(translator, best)
    assert found.weights.shape == (len(found.target), len(found.source))
    s = t = 0
    for source, target in best.parts:
        inside = found.weights[t : t + len(target), s : s + len(source)]
        assert inside.sum() == pytest.approx(found.weights[t : t + len(target)].sum())
        assert (inside.sum(axis=1) <= 1 + 1e-6).all()
        s, t = s + len(source), t + len(target)


@pytest.mark.heavy
def test_commands_write_a_line_for_each(tiny_run, monkeypatch, capsys):
    translator = Translator.load(tiny_run, warn=lambda message: None)
    lines = ["the cat", "a tree"]
    outputs = []
    for command, words in ((commands.align, [tiny_run]), (commands.ensemble, [tiny_run, tiny_run]),
                           (commands.sample, [tiny_run, "--top-k", "1", "--seed", "3"])):  # fmt: skip
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO("\n".join(lines).encode())))
        command([*map(str, words)])
        outputs.append(capsys.readouterr().out.splitlines())
    aligned, together, drawn = outputs
    assert together == translator.translate(lines)
    assert drawn == translator.translate(lines, beam=1)
    for line, text in zip(aligned, together, strict=True):
        assert line.startswith(f"{text} ||| ")
