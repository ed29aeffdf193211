"""Arrays of parameters, checked against the shapes that the configuration gives, and the order of rows."""

import numpy as np
import pytest

from additions.interchange.incoming import read_parameters, rows_in_order
from additions.interchange.stored_arrays import ModelFileError
from minitf.config import TransformerConfig
from minitf.model.transformer import Transformer


@pytest.mark.parametrize("order", [[], [0, 1, 2], [-1, 1, 3, 0, 2, 4], [-1, -1, -1, 0, 1], [2, 1, 0], [4, 0, 1]])
def test_rows_are_put_in_order(order):
    array = np.arange(10.0).reshape(5, 2) + 1
    expected = [array[index] if index >= 0 else np.zeros(2) for index in order]
    np.testing.assert_array_equal(rows_in_order(array, order), np.reshape(expected, (-1, 2)))


def test_shapes_that_do_not_fit_and_numbers_that_are_not_finite_are_refused():
    config = TransformerConfig(vocab_size=5, layers=1, d_model=4, heads=2, d_ff=3)
    shapes = {name: p.shape for name, p in Transformer(config, seed=None).named_parameters().items()}
    order = range(5)
    name = "decoder.layers.0.feed_forward.up.weight"
    arrays = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    assert read_parameters(config, arrays.__getitem__, order, order, "x").keys() == shapes.keys()
    with pytest.raises(ModelFileError, match=r"x: .*up\.weight has shape \[4, 3\], expected is \[3, 4\]"):
        read_parameters(config, {**arrays, name: arrays[name].T}.__getitem__, order, order, "x")
    with pytest.raises(ModelFileError, match="numbers that are not finite; the file is damaged"):
        read_parameters(config, {**arrays, name: arrays[name] * np.inf}.__getitem__, order, order, "x")
    with pytest.raises(ModelFileError, match="has fewer rows than pieces"):
        read_parameters(config, arrays.__getitem__, range(6), range(6), "x")
