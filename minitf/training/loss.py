"""The loss of a batch, and its gradients."""

from __future__ import annotations

from typing import Literal

import numpy as np

import autograd as ag
from minitf.config.model import PAD
from minitf.data.batches import Batch
from minitf.model.attention import padding_mask
from minitf.model.transformer import Transformer


def batch_loss(
    model: Transformer, batch: Batch, label_smoothing: float, reduction: Literal["mean", "sum", "none"] = "sum"
) -> tuple[ag.Tensor, ag.Tensor]:
    """Cross-entropy with smoothed labels, and negative log-likelihood, of the target tokens, in nats.

    The logits [B, T, V], the largest array of a training step, are computed a block of rows at a time.
    Tokens that the model never produces get no share of the label smoothing; where they are labels, there is no loss.
    """
    backend = model.backend
    source, target_in, labels = map(backend.asarray, (batch.source, batch.target_in, batch.target_out))
    masked = None
    if model.config.masked_tokens:
        masked = np.zeros(model.config.vocab_size, bool)
        masked[list(model.config.masked_tokens)] = True
        labels = backend.xp.where(backend.asarray(masked)[labels], PAD, labels)
    return ag.linear_cross_entropy(
        model.decode(target_in, model.encode(source), padding_mask(source)),
        model.output_matrix,
        labels,
        model.output_bias,
        masked=masked,
        label_smoothing=label_smoothing,
        ignore_index=PAD,
        reduction=reduction,
        with_nll=True,
    )


def compute_gradients(model: Transformer, batch: Batch, label_smoothing: float) -> tuple[float, float]:
    """Forward and backward pass of a batch; return its summed loss and negative log-likelihood."""
    loss, nll = batch_loss(model, batch, label_smoothing)
    loss.backward()
    return loss.item(), nll.item()
