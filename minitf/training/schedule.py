"""When it is time to validate and to save a checkpoint: every so many updates, epochs or minutes.

All answers are functions of the configuration and the `TrainState`, so that a run that was interrupted between a step
and what was due after it still owes it when it goes on.
"""

from minitf.config import RunConfig
from minitf.training.state import TrainState


def validation_is_due(config: RunConfig, state: TrainState, epoch: int) -> bool:
    """Is this step one to validate, and has that not been done?

    epoch: epochs that are complete
    """
    if state.step <= state.validated_step:
        return False
    if config.valid_every_unit == "epochs":
        return epoch // config.valid_every > state.validated_epoch // config.valid_every
    return state.step % config.valid_every == 0


def count_validation(state: TrainState, epoch: int, improved: bool, loss: float, score: float | None) -> None:
    """Remember that this step has been validated, and what it gave if that was the best so far."""
    state.validated_step, state.validated_epoch = state.step, epoch
    state.validations_since_best = 0 if improved else state.validations_since_best + 1
    if improved:
        state.best_loss, state.best_bleu, state.best_step = loss, score, state.step


def checkpoint_is_due(config: RunConfig, state: TrainState, epoch: int) -> bool:
    """Is this step one to save a checkpoint at, and has that not been done?

    epoch: epochs that are complete
    Source: section 6.1 (checkpoints "written at 10-minute intervals")
    """
    if state.step <= state.saved_step:
        return False
    if config.save_every_unit == "minutes":
        return state.elapsed_s - state.saved_s >= 60 * config.save_every
    if config.save_every_unit == "epochs":
        return epoch // config.save_every > state.saved_epoch // config.save_every
    return state.step % config.save_every == 0


def count_checkpoint(config: RunConfig, state: TrainState, epoch: int) -> None:
    """Remember that a checkpoint of this step is about to be saved, and whether it is on schedule.

    One that is saved anew, because a validation was made up for, is on schedule if it was so before.
    """
    if checkpoint_is_due(config, state, epoch):
        state.saved_step, state.saved_epoch, state.saved_s = state.step, epoch, state.elapsed_s
    state.on_schedule = state.saved_step == state.step
