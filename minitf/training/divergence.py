"""Divergence: a loss, gradient or weight that is not finite ends a run, with its cause."""

from collections.abc import Sequence

from autograd import random
from autograd.anomaly import AnomalyError, anomaly_mode
from minitf.data.batches import Batch
from minitf.errors import UserError
from minitf.model.transformer import Transformer
from minitf.training.optim import batch_loss
from minitf.training.run import Run
from minitf.training.state import Interval


class TrainingError(UserError):
    """Raised when training has diverged: the loss, a gradient or a weight is not finite."""

    exit_status = 1  # the command line was right


def diverged(run: Run, step: int, update: Interval, batches: Sequence[Batch]) -> TrainingError:
    """Return the error of an update whose loss or gradient is not finite, with the op that it comes from."""
    run.optimizer.zero_grad()
    own = find_origin(run.model, run.config.optimizer.label_smoothing, step, batches)
    found = [(rank, each) for rank, each in enumerate(run.process.all_gather(own)) if each is not None]
    origin = found[0][1] + (f" (rank {found[0][0]})" if run.process.is_parallel else "") if found else None
    return divergence(
        run,
        f"step {step:,} has loss {update.loss / update.target_tokens:.4g}, gradient norm {update.gradient_norm:.4g}: "
        f"{origin or 'each number is finite by itself, but their sum is not'}",
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


def divergence(run: Run, found: str) -> TrainingError:
    """Return the error of a run whose numbers are not finite: what was found, the last checkpoint, and what helps."""
    paths = run.checkpoints.last(1)
    last = f"the last checkpoint is {paths[0]}" if paths else "there is no checkpoint"
    return TrainingError(
        f"training diverged: {found}; {last}; start again with a smaller --optimizer.peak-learning-rate, more "
        "--optimizer.warmup-steps, or --optimizer.clip-norm 1"
    )
