"""Operations counted from a configuration are those of the model itself."""

from dataclasses import replace

import numpy as np
import pytest

import autograd as ag
from additions.corpora.list_presets import update_flops
from additions.inspect.flops import operations
from autograd.modes import Observer, observe
from minitf.model.transformer import Transformer
from tests.minitf.model.test_outlines import SMALL, VARIANTS


class Products(Observer):
    """Operations of matrix products alone: what a profile counts, less biases, ReLU, scales and softmax."""

    def __init__(self):
        self.total = 0.0

    def before_forward(self, op, arrays):
        self.shapes = [np.shape(array) for array in arrays]
        self.op = op

    def after_record(self, op, inputs, outputs):
        kind = type(op).__name__
        if kind == "Linear":
            beside = self.shapes[2] != ()  # the bias, forward and backward
            self.total += sum(operations(op, self.shapes, self.outputs)) - 2 * beside * np.prod(self.outputs[0])
        elif kind == "LinearHeads":
            biases = len(self.shapes) > 1 + op.parameters["count"]
            self.total += sum(operations(op, self.shapes, self.outputs)) - 2 * biases * sum(map(np.prod, self.outputs))
        elif kind == "ScaledDotProductAttention":
            scores = np.prod(self.outputs[0][:-1]) * self.shapes[1][-2]
            self.total += sum(operations(op, self.shapes, self.outputs)) - 11 * scores
        else:
            assert kind not in ("Matmul", "Einsum")

    def after_forward(self, op, outputs):
        self.outputs = [array.shape for array in outputs]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_operations_are_those_of_the_graph(changes):
    """Three sentences of eight tokens: the products that a forward and a backward pass really make."""
    config = replace(SMALL, **changes)
    model = Transformer(config)
    rng = np.random.default_rng(0)
    source, target, expected = rng.integers(4, config.vocab_size, (3, 3, 8))
    products = Products()
    with observe(products):
        ag.cross_entropy(model(source, target), expected).backward()
    assert update_flops(config, 24, 24, length=8) == products.total
