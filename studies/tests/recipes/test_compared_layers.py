"""The layers of Table 1 that may stand in the place of self-attention: how far a position sees, by the gradient."""

import numpy as np
import pytest

from additions.decoding.attention import attention_weights
from autograd import Tensor
from minitf.config import TransformerConfig
from minitf.errors import UserError
from minitf.model.parameters import Initializer
from minitf.model.transformer import EncoderLayer, MultiHeadAttention
from studies.tests.load_recipes import load_recipe
from tests.helpers.small_model import model_with

compared_layers = load_recipe("compared_layers")
Convolution, Recurrent = compared_layers.Convolution, compared_layers.Recurrent
SeparableConvolution = compared_layers.SeparableConvolution
CONFIG = TransformerConfig(vocab_size=9, d_model=8, heads=2, d_ff=12, dropout=0.0)
ALL = np.ones((1, 1, 1, 9), bool)


@pytest.fixture(autouse=True)
def the_papers_layers():
    yield
    compared_layers.choose()


def seen_by(function, position, length=9):
    """The input positions on which an output position depends: where the gradient is not exactly zero."""
    x = Tensor(np.random.default_rng(0).standard_normal((1, length, 8)), requires_grad=True)
    function(x)[0, position].backward(np.random.default_rng(1).standard_normal(8))
    return np.flatnonzero((x.grad.data[0] != 0).any(axis=1)).tolist()


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ({"mixing": "restricted", "neighbourhood": 5}, [2, 3, 4, 5, 6]),
        ({"mixing": "restricted", "neighbourhood": 4}, [2, 3, 4, 5]),
        ({"mixing": "recurrent"}, [0, 1, 2, 3, 4]),
        ({"mixing": "convolutional", "kernel_width": 3}, [3, 4, 5]),
        ({"mixing": "convolutional", "kernel_width": 4}, [2, 3, 4, 5]),
        ({"mixing": "separable-convolutional", "kernel_width": 3}, [3, 4, 5]),
    ],
    ids=str,
)
def test_what_position_4_sees_through_one_layer(changes, seen):
    compared_layers.choose(**changes)
    layer = EncoderLayer(CONFIG, Initializer(0, np.float64))
    assert seen_by(lambda x: layer(x, ALL), 4) == seen


def test_a_convolution_by_hand():
    layer = Convolution(2, 3, Initializer(0, np.float64))
    x = np.random.default_rng(2).standard_normal((1, 4, 2))
    padded = np.concatenate([np.zeros((1, 2)), x[0], np.zeros((1, 2))])
    weight = layer.output.weight.data  # [D, k · D]
    expected = [sum(weight[:, 2 * j : 2 * j + 2] @ padded[t + j] for j in range(3)) for t in range(4)]
    np.testing.assert_allclose(layer(Tensor(x), ALL[..., :4]).data[0], expected, rtol=1e-12)


def test_a_separable_convolution_by_hand():
    layer = SeparableConvolution(2, 3, Initializer(0, np.float64))
    x = np.random.default_rng(2).standard_normal((1, 4, 2))
    padded = np.concatenate([np.zeros((1, 2)), x[0], np.zeros((1, 2))])
    alone = [sum(layer.weight.data[:, j] * padded[t + j] for j in range(3)) for t in range(4)]
    expected = np.array(alone) @ layer.output.weight.data.T
    np.testing.assert_allclose(layer(Tensor(x), ALL[..., :4]).data[0], expected, rtol=1e-12)


@pytest.mark.parametrize(
    "layer",
    [
        Recurrent(8, Initializer(0, np.float64)),
        Convolution(8, 5, Initializer(0, np.float64)),
        SeparableConvolution(8, 5, Initializer(0, np.float64)),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_padding_is_not_seen(layer):
    mask = ALL.copy()
    mask[..., 6:] = False
    assert set(seen_by(lambda x: layer(x, mask), 5)) <= set(range(6))


def test_an_encoder_without_attention_has_no_weights_to_show():
    compared_layers.choose(mixing="recurrent")
    with pytest.raises(UserError, match="this model has other layers than minitf's, and no attention weights to show"):
        attention_weights(model_with({}), np.array([[5, 3]]), np.array([[2, 5]]))


@pytest.mark.parametrize(("attention", "name"), [("dot-product", "Unscaled"), ("additive", "Additive")])
def test_every_attention_of_a_model_is_the_one_chosen(attention, name):
    compared_layers.choose(attention=attention)
    model = model_with({})
    kinds = {type(each).__name__ for each in model.modules() if isinstance(each, MultiHeadAttention)}
    assert kinds == {f"{name}Attention"}
    assert model(np.array([[5, 3]]), np.array([[2, 5]])).shape == (1, 2, 17)
