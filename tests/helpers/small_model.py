"""A Transformer of a few thousand random weights whose output depends on all of its input, and sources for it."""

from dataclasses import replace

import numpy as np

from minitf.config import TransformerConfig
from minitf.config.model import EOS, PAD
from minitf.decoding.search import decoder_of
from minitf.model.transformer import Transformer

SMALL = TransformerConfig(vocab_size=17, layers=2, d_model=8, heads=2, d_ff=12, max_positions=64)


def model_with(changes=None, seed=0, dtype=np.float64, spread=0.4, **more):
    """A model that does not translate, but whose next token depends on everything before."""
    model = Transformer(replace(SMALL, **(changes or {}), **more), seed=seed, dtype=dtype)
    rng = np.random.default_rng(seed)
    for p in model.parameters():
        p.data += (spread * rng.standard_normal(p.shape)).astype(dtype)
    model.eval()
    return model


def sources(*lengths, seed=0, width=None):
    rng = np.random.default_rng(seed)
    batch = np.full((len(lengths), width or max(lengths)), PAD)
    for row, length in zip(batch, lengths, strict=True):
        row[: length - 1] = rng.integers(4, SMALL.vocab_size, length - 1)
        row[length - 1] = EOS
    return batch


class Lively:
    """The logits of a model through a fast wave: random weights alone would repeat one token or end at once."""

    def __init__(self, model):
        self.model = decoder_of(model)
        self.start_decoding = self.model.start_decoding
        self.steps = 0

    def decode_step(self, tokens, state):
        self.steps += 1
        logits = self.model.decode_step(tokens, state)
        with np.errstate(invalid="ignore"):
            logits = np.where(np.isneginf(logits), logits, 6 * np.sin(50 * logits))
        logits[:, EOS] -= 1
        return logits
