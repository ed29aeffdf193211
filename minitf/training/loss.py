"""The loss of a batch."""

from __future__ import annotations

import autograd as ag
from minitf.config.special_tokens import PAD
from minitf.data.batches import Batch
from minitf.model.transformer import Transformer


def batch_loss(model: Transformer, batch: Batch, label_smoothing: float) -> tuple[ag.Tensor, ag.Tensor]:
    """Cross-entropy with smoothed labels, and negative log-likelihood, each summed over the target tokens, in nats."""
    on_device = model.backend.asarray
    logits = model(on_device(batch.source), on_device(batch.target_in))  # [B, T, V]
    return ag.cross_entropy(
        logits,
        on_device(batch.target_out),
        label_smoothing=label_smoothing,
        ignore_index=PAD,
        reduction="sum",
        with_nll=True,
        overwrite_logits=True,
    )
