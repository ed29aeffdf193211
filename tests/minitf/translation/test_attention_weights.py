"""What the heads look at: compared with the weights inside the fused op, with equation 1, and with the search."""

from dataclasses import replace

import numpy as np
import pytest

from autograd.observers import Observer, observe
from autograd.ops.nn import ScaledDotProductAttention
from minitf.config import PRESETS
from minitf.config.model import BOS, EOS, PAD
from minitf.model.transformer import Transformer
from minitf.translation.forced_decoding import AttentionWeights, attention_weights

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
