"""Divergence: updates whose loss or gradient is not finite are skipped, or end the run with their cause."""

from __future__ import annotations

from collections.abc import Sequence

from autograd import random
from autograd.inspect import AnomalyError, anomaly_mode
from minitf.data.batches import Batch
from minitf.model.transformer import Transformer
from minitf.system.process import Say
from minitf.training.optim import batch_loss
from minitf.training.run import Run, TrainingError, advice
from minitf.training.state import Interval

MAX_SKIPPED_IN_A_ROW = 10
"""Skipped updates in a row after which a run ends: the weights do not change, so the next one would be skipped too."""


def skip_update(run: Run, step: int, update: Interval, batches: Sequence[Batch], say: Say) -> None:
    """Count an update whose loss or gradient is not finite.

    Raises: TrainingError unless the run skips such updates, and after too many in a row.
    """
    config, state = run.config, run.state
    found = f"step {step:,} has loss {update.loss / update.target_tokens:.4g}, gradient norm {update.gradient_norm:.4g}"
    if state.skipped_in_a_row == MAX_SKIPPED_IN_A_ROW:
        found += f", as had {MAX_SKIPPED_IN_A_ROW} steps before"
    elif config.on_divergence == "skip":
        state.skipped_updates += 1
        state.skipped_in_a_row += 1
        say(f"{found}: skipped, {state.skipped_updates:,} in all")
        return
    run.optimizer.zero_grad()
    origin = run.process.first_error(find_origin(run.model, config.optimizer.label_smoothing, step, batches))
    found += f": {origin or 'each number is finite by itself, but their sum is not'}"
    raise TrainingError(f"training diverged: {found}; {advice(config, run.directory, run.checkpoints)}")


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
