"""When to validate, to save a checkpoint, and to stop: by updates, epochs or minutes.

All answers but the time limit are functions of the configuration and the `TrainState`, so a run that is interrupted
between a step and its validation or checkpoint makes up for them when it is resumed.

In all functions, `epoch` is the number of completed epochs.
"""

from __future__ import annotations

import math
import time

from minitf.config import RunConfig
from minitf.system.messages import duration
from minitf.training.state import TrainState


def validation_is_due(config: RunConfig, state: TrainState, epoch: int) -> bool:
    """True if this step is one to validate, and has not been validated."""
    if state.step <= state.validated_step:
        return False
    if config.valid_every_unit == "epochs":
        return epoch // config.valid_every > state.validated_epoch // config.valid_every
    return state.step % config.valid_every == 0


def bleu_is_due(config: RunConfig, state: TrainState, epoch: int) -> bool:
    """True if the validation of this step computes BLEU."""
    if config.valid_metric == "bleu" or config.valid_bleu_every is None:
        return config.valid_metric == "bleu"
    in_epochs = config.valid_every_unit == "epochs"
    now, before = (epoch, state.validated_epoch) if in_epochs else (state.step, state.validated_step)
    return now // config.valid_bleu_every > before // config.valid_bleu_every


def record_validation(state: TrainState, epoch: int, improved: bool, loss: float, bleu: float | None) -> None:
    """Record that this step has been validated, and the result if it is the best so far."""
    state.validated_step, state.validated_epoch = state.step, epoch
    state.validations_since_best = 0 if improved else state.validations_since_best + 1
    if improved:
        state.best_loss, state.best_bleu, state.best_step = loss, bleu, state.step


def checkpoint_is_due(config: RunConfig, state: TrainState, epoch: int) -> bool:
    """True if this step is one to save a checkpoint at, and none has been saved.

    Source: section 6.1 (checkpoints "written at 10-minute intervals")
    """
    if state.step <= state.saved_step:
        return False
    if config.save_every_unit == "minutes":
        return state.elapsed_s - state.saved_s >= 60 * config.save_every
    if config.save_every_unit == "epochs":
        return epoch // config.save_every > state.saved_epoch // config.save_every
    return state.step % config.save_every == 0


def record_checkpoint(config: RunConfig, state: TrainState, epoch: int) -> None:
    """Record that a checkpoint of this step is about to be saved, and whether it is on schedule.

    A checkpoint saved again, after a validation that was made up for, is on schedule if it was before.
    """
    if checkpoint_is_due(config, state, epoch):
        state.saved_step, state.saved_epoch, state.saved_s = state.step, epoch, state.elapsed_s
    state.on_schedule = state.saved_step == state.step


def out_of_patience(config: RunConfig, state: TrainState) -> bool:
    """True if the last `patience` validations brought no improvement."""
    return config.patience is not None and state.validations_since_best >= config.patience


class Clock:
    """Seconds spent in the training loop, over all resumptions, and the time limit of the run."""

    def __init__(self, elapsed_s: float, max_minutes: float | None, shared: bool = False, step: int = 0):
        """
        elapsed_s, step: time spent and steps made before this start, perhaps on another machine
        shared: show the time set by `follow` instead of this process's, so that all ranks come to the same decisions
        """
        self._before_s, self._before_step = elapsed_s, step
        self._start_s = time.perf_counter()
        self._limit_s = math.inf if max_minutes is None else max_minutes * 60
        self._followed_s = elapsed_s if shared else None

    @property
    def elapsed_s(self) -> float:
        return self.own_s if self._followed_s is None else self._followed_s

    @property
    def own_s(self) -> float:
        """Elapsed time by the clock of this process."""
        return self._before_s + time.perf_counter() - self._start_s

    def follow(self, elapsed_s: float) -> None:
        """Set the elapsed time of a shared clock: rank 0's."""
        self._followed_s = elapsed_s

    @property
    def is_up(self) -> bool:
        """True once the time limit is reached."""
        return self.elapsed_s >= self._limit_s

    def seconds_per_step(self, step: int) -> float:
        """The mean time of a step since this start; infinity before the first."""
        spent_s = self.elapsed_s - (self._before_s if self._before_step else 0.0)
        return spent_s / (step - self._before_step) if step > self._before_step else math.inf

    def remaining_s(self, step: int, max_steps: int) -> float:
        """Estimate the seconds left, from the mean time of a step and the time limit."""
        by_steps = (max_steps - step) * self.seconds_per_step(step) if step < max_steps else 0.0
        return max(0.0, min(by_steps, self._limit_s - self.elapsed_s))

    def share(self, step: int, max_steps: int) -> float:
        """The share of the run that is done, from 0 to 1: of its steps or of its minutes, whichever is larger."""
        return min(1.0, max(step / max_steps, self.elapsed_s / self._limit_s))

    def estimate(self, step: int, max_steps: int) -> str:
        """State how long the whole run takes at the speed since this start."""
        whole_s = self.seconds_per_step(step) * max_steps
        sooner = whole_s > self._limit_s
        limit = f"; max_minutes ends the run after {duration(self._limit_s)}" if sooner else ""
        return f"at this speed: {duration(whole_s)} for {max_steps:,} steps{limit}"


def is_finished(config: RunConfig, state: TrainState, clock: Clock) -> bool:
    """True if no step is left to do.  At least one update is made, however short the time limit."""
    return state.step >= config.max_steps or out_of_patience(config, state) or (state.step > 0 and clock.is_up)
