"""Cases of the whole model: the training loss is differentiated by all parameters at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from autograd import Tensor
from minitf.config import TransformerConfig
from minitf.config.model import BOS
from minitf.data.batches import Batch
from minitf.model.transformer import Transformer
from minitf.training.optim import batch_loss
from tests.cases.checks import Case, Example
from tests.cases.modules import CONFIG, VOCABULARY, Rng, cases, example_of, sentences


def _transformer(**changes: Any) -> Callable[[Rng], Example]:
    """The training loss, smoothed and over real tokens only, by all parameters."""
    config: TransformerConfig = replace(CONFIG, **changes)

    def draw(rng: Rng) -> Example:
        model = Transformer(config, seed=int(rng.integers(2**32)), dtype=np.float64)
        source, target = sentences(rng, 4), sentences(rng, 3)
        shifted = np.concatenate([np.full((2, 1), BOS), target[:, :-1]], axis=1)

        batch = Batch(np.arange(2), source, shifted, target)

        def loss() -> Tensor:
            return batch_loss(model, batch, 0.1, reduction="mean")[0]

        return example_of(model, loss, [], rng)

    return draw


_VARIANTS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 6},
    "concatenated sinusoids": {"positions": "sinusoidal-concatenated"},
    "matrices apart": {"share_embeddings": "none"},
    "source and target share a matrix": {"share_embeddings": "source-target"},
    "target and output share a matrix, other source vocabulary": {
        "share_embeddings": "target-output",
        "source_vocab_size": VOCABULARY + 2,
    },
    "other depths": {"encoder_layers": 1, "decoder_layers": 3},
    "sinusoids in halves": {"positions": "sinusoidal-halves", "first_position": 2},
    "start with a zero vector": {"decoder_start": "zero", "positions": "learned", "max_positions": 6},
    "start with the end token": {"decoder_start": "eos", "scale_embeddings": False},
    "normalised embeddings": {"embedding_norm": True, "decoder_start": "zero"},
    "bias on the logits": {"output_bias": True},
    "masked tokens": {"masked_tokens": (0, 2, 7), "output_bias": True},
    "other widths of keys and values": {"d_k": 3, "d_v": 1},
    "gelu": {"activation": "gelu"},
    "silu": {"activation": "silu"},
}

MODELS: dict[str, list[Case]] = {
    name: cases("Transformer", {name: _transformer(**changes)}, fast=True) for name, changes in _VARIANTS.items()
}
