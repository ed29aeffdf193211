"""Divergence: an update whose loss or gradient is not finite ends the run, with its cause."""

from __future__ import annotations

from collections.abc import Sequence

from autograd import random
from autograd.inspect import AnomalyError, anomaly_mode
from minitf.data.batches import Batch
from minitf.model.transformer import Transformer
from minitf.training.optim import batch_loss
from minitf.training.run import Run, TrainingError, advice
from minitf.training.state import Interval


def diverged(run: Run, step: int, update: Interval, batches: Sequence[Batch]) -> TrainingError:
    """Return the error of an update whose loss or gradient is not finite, with the op that it comes from."""
    run.optimizer.zero_grad()
    origin = run.process.first_error(find_origin(run.model, run.config.optimizer.label_smoothing, step, batches))
    return TrainingError(
        f"training diverged: step {step:,} has loss {update.loss / update.target_tokens:.4g}, gradient norm "
        f"{update.gradient_norm:.4g}: {origin or 'each number is finite by itself, but their sum is not'}; "
        f"{advice(run.config, run.directory, run.checkpoints)}"
    )


def find_origin(model: Transformer, label_smoothing: float, step: int, batches: Sequence[Batch]) -> str | None:
    """Compute the gradients of an update again, and return the first op whose result is not finite."""
    try:
        with anomaly_mode():
            for batch in batches:
                random.begin_step(step, batch.number, batch.first_row)
                loss, _ = batch_loss(model, batch, label_smoothing)
                loss.backward()
    except AnomalyError as error:
        return str(error)
    return None
