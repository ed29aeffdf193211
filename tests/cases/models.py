"""Cases of the whole model: the training loss is differentiated by all parameters at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import autograd as ag
from autograd import Tensor
from autograd.testing import Case, Example
from minitf.config import TransformerConfig
from minitf.config.special_tokens import BOS, PAD
from minitf.model.transformer import Transformer
from tests.cases.modules import CONFIG, Rng, cases, example_of, sentences


def _transformer(**changes: Any) -> Callable[[Rng], Example]:
    """The training loss, smoothed and over real tokens only, by all parameters."""
    config: TransformerConfig = replace(CONFIG, **changes)

    def draw(rng: Rng) -> Example:
        model = Transformer(config, seed=int(rng.integers(2**32)), dtype=np.float64)
        source, target = sentences(rng, 4), sentences(rng, 3)
        shifted = np.concatenate([np.full((2, 1), BOS), target[:, :-1]], axis=1)

        def loss() -> Tensor:
            return ag.cross_entropy(model(source, shifted), target, label_smoothing=0.1, ignore_index=PAD)

        return example_of(model, loss, [], rng)

    return draw


_VARIANTS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 6},
    "concatenated sinusoids": {"positions": "sinusoidal-concatenated"},
    "matrices apart": {"share_embeddings": False},
    "other widths of keys and values": {"d_k": 3, "d_v": 1},
    "gelu": {"activation": "gelu"},
    "silu": {"activation": "silu"},
}

MODELS: dict[str, list[Case]] = {
    name: cases("Transformer", {name: _transformer(**changes)}, fast=True) for name, changes in _VARIANTS.items()
}
