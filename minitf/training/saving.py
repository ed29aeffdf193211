"""Checkpoints of a training run: weights, optimizer state, moving average and training state, saved and restored."""

from __future__ import annotations

import numpy as np

from autograd.backend import backend_of
from minitf.errors import UserError
from minitf.storage.checkpoint import with_prefix, without_prefix
from minitf.system.messages import Say
from minitf.training.divergence import TrainingError, advice
from minitf.training.run import Run
from minitf.training.schedule import record_checkpoint
from minitf.training.state import TrainState

MODEL, OPTIMIZER, MOVING_AVERAGE = "model.", "optimizer.", "moving_average."
"""Prefixes of the names of tensors in a checkpoint."""


def save(run: Run) -> None:
    """Write a checkpoint, complete or not at all, in the main process, after checking that all ranks agree.

    Raises: CheckpointError if the system refuses; TrainingError, before a byte is written, if a weight or moment is
    not finite.  Earlier checkpoints stay in both cases.
    """
    state = run.state
    run.process.check_weights(state.step, run.model)
    record_checkpoint(run.config, state, run.data.train.epoch)
    if not run.process.is_main_process:
        return
    arrays = with_prefix(MODEL, {name: p.numpy() for name, p in run.model.named_parameters().items()})
    arrays |= with_prefix(OPTIMIZER, run.optimizer.state_arrays())
    if run.moving_average is not None:
        arrays |= with_prefix(MOVING_AVERAGE, run.moving_average.arrays)
    arrays = {name: backend_of([array]).to_host(array) for name, array in arrays.items()}
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            found = f"after step {state.step:,}, {name} is not finite"
            raise TrainingError(f"training diverged: {found}; {advice(run.config, run.directory, run.checkpoints)}")
    run.log.sync()
    state.log_offset = run.log.offset
    state.data = run.data.train.state()
    run.checkpoints.save(state.step, arrays, state.to_plain())
    run.checkpoints.forget_best(but=state.best_step)


def save_best(run: Run, loss: float, bleu: float | None) -> None:
    """Write the weights that were validated: the model's, which may be a moving average at the time of the call."""
    state = run.state
    arrays = with_prefix(MODEL, {name: p.numpy() for name, p in run.model.named_parameters().items()})
    about = {"step": state.step, "vocabulary": state.vocabulary, "valid_loss": loss, "valid_bleu": bleu}
    run.checkpoints.save_best(state.step, arrays, about)


def restore(run: Run, say: Say) -> None:
    """Continue from the newest complete checkpoint; without any, from the beginning."""

    def warn(message: str) -> None:
        say(f"warning: {message}")

    found = run.checkpoints.latest(warn)
    if found is None:
        say("no checkpoint yet: starting from the beginning")
        run.checkpoints.forget_best(but=0)
        run.log.truncate_to(0, say)
        return
    arrays, plain = found
    try:
        state = TrainState.from_plain(plain)
        _check_texts(run, state)
        run.model.load_parameters(without_prefix(MODEL, arrays))
        run.optimizer.load_state(state.step - state.skipped_updates, without_prefix(OPTIMIZER, arrays))
        if run.moving_average is not None:
            run.moving_average.load(without_prefix(MOVING_AVERAGE, arrays))
        run.data.train.restore(state.data)
    except ValueError as error:
        raise UserError(f"the last checkpoint of {run.directory.path} does not fit this run: {error}") from error
    run.state = state
    run.checkpoints.forget_best(but=state.best_step)
    run.checkpoints.check_best(state.best_step, warn)
    run.log.truncate_to(state.log_offset, warn)
    say(f"resumed after step {state.step:,}")


def _check_texts(run: Run, state: TrainState) -> None:
    """Refuse another vocabulary or validation text, with which the run's numbers would mean something else."""
    if state.vocabulary != run.state.vocabulary:
        raise UserError(f"{run.directory.vocabulary_path} has changed; put back the vocabulary it was trained with")
    if state.valid_corpus != run.state.valid_corpus:
        valid = run.data.texts.valid
        raise UserError(f"the validation text {valid and valid[0]} has changed; put it back")
