"""Outlines of models, whose parameters take no memory: they have the names and shapes of the model itself."""

import tracemalloc
from dataclasses import replace

import pytest

from minitf.config import TransformerConfig
from minitf.config.presets import NAMED
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
    model, outline = (Transformer(config, seed=seed).named_parameters() for seed in (0, None))
    assert [(name, p.shape) for name, p in outline.items()] == [(name, p.shape) for name, p in model.items()]


def test_shapes_of_every_preset_take_no_memory():
    for name, preset in NAMED.items():
        tracemalloc.start()
        count = Transformer(replace(preset.config.model, vocab_size=10**9), seed=None).parameter_count()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count > 10**9 * preset.config.model.d_model > 10 * peak, name
