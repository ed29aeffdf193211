"""The loss of a batch, against its formula."""

import numpy as np
import pytest

from minitf.config.model import PAD
from minitf.training.loss import batch_loss


def test_the_loss_of_a_batch(run):
    run.model.eval()
    batch = run.data.train.batch(0, 0)
    smooth, nll = batch_loss(run.model, batch, 0.1)
    plain, same = batch_loss(run.model, batch, 0.0)
    logits = run.model(batch.source, batch.target_in).numpy().astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    real = batch.target_out != PAD
    expected = -np.take_along_axis(log_p, batch.target_out[..., None], -1)[..., 0][real].sum()
    uniform = -log_p.mean(-1)[real].sum()
    assert nll.item() == same.item() == plain.item() == pytest.approx(expected, rel=1e-5)
    assert smooth.item() == pytest.approx(0.9 * expected + 0.1 * uniform, rel=1e-5)
