"""Small models of every variant of the architecture, and padded batches for them."""

from dataclasses import replace

import numpy as np
import pytest

import autograd as ag
from minitf.config import TransformerConfig
from minitf.config.model import BOS, EOS, PAD
from minitf.model.transformer import Transformer

SMALL = TransformerConfig(vocab_size=17, layers=2, d_model=8, heads=2, d_ff=12, dropout=0.0, max_positions=32)
VARIANTS = {
    "paper": {},
    "pre-norm": {"norm": "pre"},
    "concatenated sinusoids": {"positions": "sinusoidal-concatenated", "activation": "gelu"},
    "learned positions": {"positions": "learned", "activation": "silu"},
    "pre-norm, learned positions": {"positions": "learned", "norm": "pre"},
    "narrow keys": {"d_k": 3, "d_v": 5},
    "unshared": {"share_embeddings": "none"},
    "source and target shared": {"share_embeddings": "source-target", "output_bias": True},
    "target and output shared, two vocabularies": {"share_embeddings": "target-output", "source_vocab_size": 29},
    "other depths": {"encoder_layers": 3, "decoder_layers": 1},
    "sinusoids in halves, from position 1": {"positions": "sinusoidal-halves", "first_position": 1},
    "start with a zero vector": {"decoder_start": "zero", "output_bias": True},
    "start with a zero vector, learned positions": {"decoder_start": "zero", "positions": "learned"},
    "start with the end token": {"decoder_start": "eos", "scale_embeddings": False},
    "normalised embeddings": {"embedding_norm": True, "decoder_start": "zero"},
}
every_variant = pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())


def model_with(changes=None, seed=0, dtype=np.float64, **more):
    """A model whose norms and biases do not stand at 1 and 0, which would hide mistakes."""
    model = Transformer(replace(SMALL, **(changes or {}), **more), seed=seed, dtype=dtype)
    rng = np.random.default_rng(seed)
    for p in model.parameters():
        p.data += (0.2 * rng.standard_normal(p.shape)).astype(dtype)
    return model


def ids(rng, *lengths, width=None, start=None):
    """Sentences of these lengths, EOS (and a start token) included, padded to `width`."""
    batch = np.full((len(lengths), width or max(lengths)), PAD)
    for row, length in zip(batch, lengths, strict=True):
        row[:length] = rng.integers(4, SMALL.vocab_size, length)
        row[length - 1 if start is None else 0] = EOS if start is None else start
    return batch


def batch(seed=0, width=None):
    rng = np.random.default_rng(seed)
    source, target = ids(rng, 6, 3, 5, width=width), ids(rng, 4, 7, 5, width=width, start=BOS)
    expected = np.where(target == PAD, PAD, np.roll(target, -1, axis=1))
    expected[np.arange(3), (target != PAD).sum(axis=1) - 1] = EOS
    return source, target, expected


def loss_of(model, source, target, expected, label_smoothing=0.1):
    return ag.cross_entropy(
        model(source, target), expected, ignore_index=PAD, reduction="sum", label_smoothing=label_smoothing
    )
