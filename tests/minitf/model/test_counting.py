"""Parameters and operations counted from a configuration are those of the model itself."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import autograd as ag
from additions.corpora.list_presets import update_flops
from additions.inspect.flops import operations
from autograd.observers import Observer, observe
from minitf.config import TransformerConfig
from minitf.config.presets import NAMED
from minitf.model.counting import parameter_count, parameter_shapes
from minitf.model.transformer import Transformer

SMALL = TransformerConfig(vocab_size=17, layers=2, d_model=16, heads=4, d_ff=24, max_positions=9)
VARIANTS = [
    {},
    {"norm": "pre"},
    {"positions": "learned"},
    {"d_k": 3},
    {"d_k": 3, "d_v": 5},
    {"share_embeddings": "none"},
    {"share_embeddings": "source-target", "output_bias": True},
    {"share_embeddings": "target-output", "source_vocab_size": 23},
    {"encoder_layers": 3, "decoder_layers": 1},
    {"embedding_norm": True, "norm": "pre"},
    {"attention_bias": False},
    {"layers": 1, "d_ff": 7},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_parameters_of_small_models(changes):
    config = replace(SMALL, **changes)
    model = Transformer(config)
    assert parameter_count(config) == model.parameter_count()
    assert [*parameter_shapes(config).items()] == [(name, p.shape) for name, p in model.named_parameters().items()]


@pytest.mark.parametrize("name", NAMED)
def test_shapes_of_every_preset_take_no_memory(name):
    preset = NAMED[name].config
    tracemalloc.start()
    count = parameter_count(replace(preset.model, vocab_size=10**9))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count > 10**9 * preset.model.d_model > 10 * peak


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
