"""Layers: their masks, where they normalise, their residual connections."""

import numpy as np
import pytest

import autograd as ag
from additions.course.conformance import check_layer
from additions.course.tests.conformance.numpy_transformer import D, NumpyTransformer, norm
from minitf.config import TransformerConfig
from minitf.model.parameters import Initializer
from minitf.model.transformer import DecoderLayer, EncoderLayer


def config(**changes):
    return TransformerConfig(vocab_size=20, layers=1, d_model=8, heads=2, d_ff=16, **changes)


@pytest.mark.parametrize("order", ["post", "pre"])
def test_the_layers_of_this_project(order):
    layer = EncoderLayer(config(norm=order), Initializer(0))
    table = check_layer(layer, 8, norm=order)
    assert [row.outcome for row in table.rows] == ["right", "not given"] + ["right"] * 5
    assert f"{order}-norm" in str(table)
    decoder_layer = DecoderLayer(config(norm=order), Initializer(0))
    table = check_layer(decoder_layer, 8, norm=order, causal=True)
    assert [row.outcome for row in table.rows] == ["right", "right", "not given"] + ["right"] * 4
    other = {"post": "pre", "pre": "post"}[order]
    assert f"it is {order}-norm, expected {other}-norm" in str(check_layer(layer, 8, norm=other))


def test_a_layer_without_its_residual_connection():
    class NoResidual(EncoderLayer):
        def __call__(self, x, mask):
            return self.feed_forward_residual.norm(self.self_attention(x, x, x, mask))

    table = check_layer(NoResidual(config(), Initializer(0)), 8)
    assert table.outcome("residual") == "wrong"
    assert "x is not added to what the sub-layers give" in " ".join(str(table).split())


def test_functions_of_numpy_arrays():
    model = NumpyTransformer()
    table = check_layer(lambda x, real: model.encoder_layer(x, real), D)
    assert {row.name for row in table.rows if row.outcome != "right"} == {"future", "gradients"}
    assert table.is_right
    assert check_layer(lambda x: x + np.tanh(norm(x)), D, vjp=None).outcome("norm order") == "right"


MATRICES = {"w": np.random.default_rng(0).standard_normal((D, D)), "read only": np.ones((D, D))}
MATRICES["read only"].flags.writeable = False


def with_residual(x):
    return norm(x + x @ MATRICES["w"])


class WithoutResidual:
    def __init__(self):
        self.weights = [MATRICES["w"].copy()]

    def __call__(self, x):
        return norm(np.tanh(x @ self.weights[0]))


def test_the_matrices_of_a_function_of_numpy_arrays_are_found_and_left_as_they_were():
    before = MATRICES["w"].copy()
    assert check_layer(with_residual, D).outcome("residual") == "right"
    np.testing.assert_array_equal(MATRICES["w"], before)
    held = WithoutResidual()
    for layer in (held, held.__call__, lambda x: held(x)):
        assert "x is not added" in str(check_layer(layer, D, mask="none"))
    for unknown in (lambda x: norm(x + x.mean(-1, keepdims=True)), lambda x: norm(x @ MATRICES["read only"] + x)):
        assert check_layer(unknown, D).outcome("residual") == "not given"


@pytest.mark.parametrize(
    ("layer", "row", "message"),
    [
        (lambda x, real: norm(x + (x * ~real[..., None]).sum(axis=1, keepdims=True)), "padding", 'mask="forbidden"'),
        (lambda x: np.tanh(x), "norm order", "neither"),
        (lambda x: norm(x + x.mean(axis=0)), "batch", "are the axes exchanged?"),
        (lambda x, real: norm(x + x.mean(axis=1, keepdims=True)), "padding", "change by"),
        (lambda x: x[:, :2], "repeatable", "the output has shape"),
        (lambda x: x / 0 + "x", "repeatable", "raises"),
    ],
)
def test_a_mistake_is_named(layer, row, message):
    table = check_layer(layer, D)
    (found,) = [each for each in table.rows if each.name == row]
    assert found.outcome == "wrong"
    assert message in found.detail


def test_a_causal_layer_that_sees_the_future():
    assert check_layer(lambda x: norm(x + x[:, ::-1]), D, causal=True).outcome("future") == "wrong"
    assert check_layer(lambda x: norm(x + np.cumsum(x, axis=1)), D, causal=True).outcome("future") == "right"


def test_gradients_of_a_layer():
    right = check_layer(lambda x: x * x, D, vjp=lambda g, x: 2 * g * x)
    wrong = check_layer(lambda x: x * x, D, vjp=lambda g, x: g * x)
    assert (right.outcome("gradients"), wrong.outcome("gradients")) == ("right", "wrong")
    assert check_layer(ag.tanh, D, mask="none").outcome("gradients") == "right"


def test_a_function_of_tensors_is_called_with_tensors():
    layer = EncoderLayer(config(), Initializer(0, np.float64)).eval()
    table = check_layer(lambda x, real: layer(x, real[:, None, None, :]), 8)
    assert {row.name for row in table.rows if row.outcome != "right"} == {"future", "residual"}
    assert table.is_right
