"""Parameters counted from a configuration are those of the model itself."""

import tracemalloc
from dataclasses import replace

import pytest

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
