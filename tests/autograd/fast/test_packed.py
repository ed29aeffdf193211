"""Packed weights of several layers are kept once."""

import numpy as np

from autograd.fast.low_precision.int8 import Int8Weights
from autograd.fast.low_precision.packed import words_of


def test_layers_read_their_weights_from_the_words_of_all():
    matrices = np.random.default_rng(0).standard_normal((3, 70, 9)).astype(np.float32)
    layers = [Int8Weights.of(each) for each in matrices]
    words, rows = [each.words.copy() for each in layers], np.arange(70)
    before = [each.rows(rows) for each in layers]
    together = words_of(layers)
    np.testing.assert_array_equal(together, words)
    for layer, expected in zip(layers, before, strict=True):
        assert np.shares_memory(layer.groups, together)
        np.testing.assert_array_equal(layer.rows(rows), expected)
