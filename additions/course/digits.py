"""The small task of the book: write a sequence of digits backwards."""

from __future__ import annotations

from typing import Any

import numpy as np

import autograd as ag
from minitf.config import OptimizerConfig, TransformerConfig
from minitf.config.model import BOS, EOS
from minitf.model.transformer import Transformer
from minitf.training.optim import Adam, learning_rate

FIRST = 4  # token of the digit 0, after the special ones
CONFIG = TransformerConfig(vocab_size=FIRST + 10, layers=1, d_model=32, heads=4, d_ff=64, dropout=0.0)
SCHEDULE = OptimizerConfig(warmup_steps=40, peak_learning_rate=0.005, label_smoothing=0.0)


def batch(rng: np.random.Generator, rows: int = 32, length: int = 5) -> tuple[Any, Any, Any]:
    """Random digits and EOS; BOS and the digits backwards; the digits backwards and EOS.  Shapes: [rows, length + 1]"""
    digits = rng.integers(FIRST, FIRST + 10, (rows, length))
    backwards = digits[:, ::-1]
    return np.insert(digits, length, EOS, 1), np.insert(backwards, 0, BOS, 1), np.insert(backwards, length, EOS, 1)


def trained(steps: int, seed: int = 0) -> Transformer:
    """A model after this number of steps, ready to decode; in float64, so that every machine gets the same digits."""
    model, rng = Transformer(CONFIG, seed=seed, dtype=np.float64), np.random.default_rng(seed)
    optimizer = Adam(model.named_parameters(), SCHEDULE)
    for step in range(1, steps + 1):
        source, target_in, target_out = batch(rng)
        optimizer.zero_grad()
        ag.cross_entropy(model(source, target_in), target_out).backward()
        optimizer.step(learning_rate(step, CONFIG.d_model, SCHEDULE))
    return model.eval()
