"""The loss of a batch, and its gradients."""

from __future__ import annotations

import autograd as ag
from minitf.data.batches import Batch
from minitf.model.transformer import Reduction, Transformer


def batch_loss(
    model: Transformer, batch: Batch, label_smoothing: float, reduction: Reduction = "sum"
) -> tuple[ag.Tensor, ag.Tensor]:
    """Cross-entropy with smoothed labels, and negative log-likelihood, of the target tokens, in nats."""
    source, target, labels = map(model.backend.asarray, (batch.source, batch.target_in, batch.target_out))
    return model.loss(source, target, labels, label_smoothing, reduction)


def compute_gradients(model: Transformer, batch: Batch, label_smoothing: float) -> tuple[float, float]:
    """Forward and backward pass of a batch; return its summed loss and negative log-likelihood."""
    loss, nll = batch_loss(model, batch, label_smoothing)
    loss.backward()
    return loss.item(), nll.item()
