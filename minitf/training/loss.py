"""The loss of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

import autograd as ag
from minitf.config.special_tokens import PAD
from minitf.data.batches import Batch
from minitf.model.attention import padding_mask
from minitf.model.transformer import Transformer

IGNORED = -100
"""The label of a position that has no loss."""


def batch_loss(model: Transformer, batch: Batch, label_smoothing: float) -> tuple[ag.Tensor, ag.Tensor]:
    """Cross-entropy with smoothed labels, and negative log-likelihood, each summed over the target tokens, in nats."""
    logits, labels, ignored = logits_and_labels(model, batch)
    return ag.cross_entropy(
        logits,
        labels,
        label_smoothing=label_smoothing,
        ignore_index=ignored,
        reduction="sum",
        with_nll=True,
        overwrite_logits=True,
    )


def logits_and_labels(model: Transformer, batch: Batch) -> tuple[ag.Tensor, Any, int]:
    """The logits of the tokens that the model may produce, the number of each label among them, and that of padding.

    Tokens that the model never produces get no share of the label smoothing; where they are labels, there is no loss.

    Shapes: -> [B, T, V'], int [B, T]
    """
    source, target_in, target_out = map(model.backend.asarray, (batch.source, batch.target_in, batch.target_out))
    if not model.config.masked_tokens:
        return model(source, target_in), target_out, PAD
    allowed = np.delete(np.arange(model.config.vocab_size), model.config.masked_tokens)  # [V']
    number = np.full(model.config.vocab_size, IGNORED)
    number[allowed] = np.arange(len(allowed))
    number[PAD] = IGNORED
    allowed, number = model.backend.asarray(allowed), model.backend.asarray(number)
    hidden = model.decode(target_in, model.encode(source), padding_mask(source))
    bias = None if model.output_bias is None else ag.take(model.output_bias, allowed, axis=0)
    return ag.linear(hidden, ag.take(model.output_matrix, allowed, axis=0), bias), number[target_out], IGNORED
