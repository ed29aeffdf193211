"""Training state: how far a run has come, besides its weights and Adam's moments; what is due next; the log, and
the line on the terminal.

When to validate, to save and to stop, but for the time limit, are functions of the configuration and the `TrainState`:
a run that is interrupted between a step and its validation or checkpoint makes up for them when it is resumed.
`epoch` is the number of completed epochs.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from minitf.config import OptimizerConfig, RunConfig
from minitf.data.batches import Batch
from minitf.errors import UserError
from minitf.system.files import os_errors_explained
from minitf.system.process import Say, clock, put, say

__all__ = ["TrainState"]

CLOCK_KEYS = ("elapsed_s", "target_tokens_per_s", "exposed_s")
"""Keys of a log line that depend on the clock.  All other values of the log, and every bit of the weights and moments,
are the same whether or not a run was interrupted."""

PLANNED_AT = 100
"""The step at which the duration of a run is estimated, and its schedule fitted to its minutes."""


@dataclass
class Interval:
    """Sums over one update, or over all updates since the last line of the log."""

    loss: float = 0.0  # smoothed loss, nats
    nll: float = 0.0  # negative log-likelihood, nats
    source_tokens: int = 0  # end tokens included, padding not; so are target tokens
    target_tokens: int = 0
    slots: int = 0  # of both sides, padding included
    gradient_norm: float = 0.0  # of the last update, for the mean loss of a token
    start_s: float = 0.0  # elapsed time when the interval began

    @classmethod
    def of(cls, sums: Iterable[tuple[Batch, Any, Any]]) -> Self:
        """Add up batches with their summed losses, numbers or arrays of one number."""
        total = cls()
        for batch, loss, nll in sums:
            tokens = batch.source_tokens, batch.target_tokens, batch.padded_tokens
            total.add_update(cls(float(loss), float(nll), *tokens))
        return total

    def add_update(self, update: "Interval") -> None:
        """Add the sums of one update, or of a batch of it."""
        self.loss += update.loss
        self.nll += update.nll
        self.source_tokens += update.source_tokens
        self.target_tokens += update.target_tokens
        self.slots += update.slots
        self.gradient_norm = update.gradient_norm

    @property
    def is_finite(self) -> bool:
        """True if the losses and the norm of the gradient are neither infinite nor NaN."""
        return all(map(math.isfinite, (self.loss, self.nll, self.gradient_norm)))

    def record(self, elapsed_s: float) -> dict[str, Any]:
        """Return means over the interval, for the log."""
        tokens = self.source_tokens + self.target_tokens
        return {
            "loss": self.loss / self.target_tokens,
            "perplexity": perplexity(self.nll / self.target_tokens),
            "source_tokens": self.source_tokens,
            "target_tokens": self.target_tokens,
            "padded_tokens": self.slots - tokens,
            "fill": tokens / self.slots,
            "gradient_norm": self.gradient_norm,
            "target_tokens_per_s": self.target_tokens / max(elapsed_s - self.start_s, 1e-9),
            "elapsed_s": elapsed_s,
        }


def perplexity(nll_per_token: float) -> float:
    """exp(nats per token); infinity if that overflows, and NaN for NaN."""
    return math.inf if nll_per_token > 700 else math.exp(nll_per_token)


@dataclass
class TrainState:
    """Everything that a resumed run needs besides the weights and Adam's moments.

    Random numbers are a function of (seed, step), so `step` is their state too.
    """

    step: int = 0  # updates so far
    target_tokens: int = 0  # learned from, end tokens included
    data: dict = field(default_factory=dict)  # position in the training data, from Batches.state()
    valid_corpus: str = ""  # fingerprints: a resumed run must measure the same text, with the same token ids
    vocabulary: str = ""
    best_loss: float | None = None  # lowest validation loss so far, nats per token
    best_bleu: float | None = None  # highest validation BLEU so far
    best_step: int = 0  # of the best validation, by the run's metric; its weights are kept
    validations_since_best: int = 0
    validated_step: int = 0  # of the last validation
    validated_epoch: int = 0  # epochs completed at that step
    saved_step: int = 0  # of the last checkpoint on schedule
    saved_epoch: int = 0  # epochs completed at that step
    elapsed_s: float = 0.0  # time spent in the training loop, over all resumptions
    log_offset: int = 0  # length of the log in bytes
    on_schedule: bool = True  # False: saved because the run stopped here; deleted once there is a newer checkpoint
    planned_steps: int = 0  # updates of the schedule that fits the minutes; 0: the configuration's schedule
    interval: Interval = field(default_factory=Interval)


# ---- Schedule ----


def _is_due(step: int, epoch: int, every: int, unit: str, last_step: int, last_epoch: int) -> bool:
    """True if an interval ends with this step, or with its epoch, and the last time was not at this step."""
    ends = epoch // every > last_epoch // every if unit == "epochs" else step % every == 0
    return ends and step > last_step


def validation_is_due(config: RunConfig, state: TrainState, epoch: int) -> bool:
    """True if this step is one to validate, and has not been validated."""
    interval = config.valid_every, config.valid_every_unit
    return _is_due(state.step, epoch, *interval, state.validated_step, state.validated_epoch)


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
    return _is_due(state.step, epoch, config.save_every, config.save_every_unit, state.saved_step, state.saved_epoch)


def record_checkpoint(config: RunConfig, state: TrainState, epoch: int) -> None:
    """Record that a checkpoint of this step is about to be saved, and whether it is on schedule.

    A checkpoint saved again, after a validation that was made up for, is on schedule if it was before.
    """
    if checkpoint_is_due(config, state, epoch):
        state.saved_step, state.saved_epoch = state.step, epoch
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
        """Seconds in the training loop so far: of a shared clock, those of rank 0."""
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

    def steps_left(self, seconds_per_step: float) -> float:
        """Estimate the steps until the time limit."""
        return (self._limit_s - self.elapsed_s) / seconds_per_step

    def share(self, step: int, max_steps: int) -> float:
        """The share of the run that is done, from 0 to 1: of its steps or of its minutes, whichever is larger."""
        return min(1.0, max(step / max_steps, self.elapsed_s / self._limit_s))

    def estimate(self, step: int, max_steps: int) -> str:
        """State how long the whole run takes at the speed since this start."""
        whole_s = self.seconds_per_step(step) * max_steps
        sooner = whole_s > self._limit_s
        limit = f"; max_minutes ends the run after {clock(self._limit_s)}" if sooner else ""
        return f"at this speed: {clock(whole_s)} for {max_steps:,} steps{limit}"


def last_step(config: RunConfig, state: TrainState) -> int:
    """The step at which the run ends, unless its minutes or its patience end it before."""
    return min(config.max_steps, state.planned_steps or config.max_steps)


def schedule(config: RunConfig, state: TrainState) -> OptimizerConfig:
    """The schedule of the learning rate: the configuration's, or the one that fits the planned steps.

    Then a tenth of the steps warms up, of few steps up to half, but no more than the configuration has; and the rate
    falls to 0 at the last.
    """
    if not state.planned_steps:
        return config.optimizer
    warmup = min(max(state.planned_steps // 10, 2 * PLANNED_AT), state.planned_steps // 2)
    return replace(
        config.optimizer, warmup_steps=min(config.optimizer.warmup_steps, warmup), decay_steps=state.planned_steps
    )


def is_finished(config: RunConfig, state: TrainState, clock: Clock) -> bool:
    """True if no step is left to do.  At least one update is made, however short the time limit."""
    return state.step >= last_step(config, state) or out_of_patience(config, state) or (state.step > 0 and clock.is_up)


# ---- The log ----


class RunLog(AbstractContextManager["RunLog"]):
    """Append-only file of complete JSON lines; opening it cuts off an incomplete last line."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        with os_errors_explained(f"open {path}"):
            self._file = open(path, "ab+", buffering=0)  # noqa: SIM115 (closed by `close`)
        if os.fstat(self._file.fileno()).st_nlink > 1:
            self.close()
            raise UserError(f"{path} has another name (a hard link), whose content would change; replace it by a copy")
        if (end := self._end_of_whole_lines(self.offset)) < self.offset:  # the null device cannot be cut off
            self._file.truncate(end)

    @property
    def offset(self) -> int:
        """Size in bytes, which a checkpoint stores for `truncate_to`."""
        return os.fstat(self._file.fileno()).st_size

    def append(self, record: dict[str, Any]) -> None:
        """Write one line. Numbers that JSON lacks become the strings "nan", "inf" and "-inf", which `float` accepts."""
        line = json.dumps(_without_non_finite(record), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        with os_errors_explained(f"write {self.path}"):
            start = self.offset
            try:
                written = 0
                while written < len(line):  # where the disk is nearly full, a part is written, and only the rest fails
                    written += self._file.write(line[written:])
            except BaseException:
                self._file.truncate(start)
                raise

    def sync(self) -> None:
        """Flush all lines to the disk; call before saving a checkpoint that stores `offset`."""
        with os_errors_explained(f"write {self.path}"):
            os.fsync(self._file.fileno())

    def truncate_to(self, offset: int, warn: Callable[[str], None]) -> None:
        """Delete the lines after `offset`, which a resumed run writes again. A shorter log is left as it is."""
        size = self.offset
        if size < offset:
            warn(f"{self.path} has {size} bytes, but had {offset} at the checkpoint: some of its lines are lost")
        elif self._end_of_whole_lines(offset) != offset:
            raise UserError(
                f"{self.path} has no end of line at byte {offset}: it was edited; move it to another place to continue"
            )
        else:
            with os_errors_explained(f"write {self.path}"):
                self._file.truncate(offset)

    def close(self) -> None:
        """Close the file; nothing happens the second time."""
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end_of_whole_lines(self, end: int) -> int:
        """Return the last offset up to `end` at which a line ends, or 0."""
        self._file.seek(0)
        return self._file.read(end).rfind(b"\n") + 1


def _without_non_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if isinstance(value, dict):
        return {key: _without_non_finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_non_finite(part) for part in value]
    return value


# ---- The line on the terminal ----

REDRAW_S = 0.1
"""Shortest time between two drawings of the line."""


class Progress(AbstractContextManager["Progress"]):
    """A line on the terminal that shows how far a run is, below the lines that `say` prints.

    Where standard error is no terminal, `update` prints a line for every record. With `shown=False`, neither is shown.
    tell: prints the lines of `say`
    """

    def __init__(self, total: int, start: int, shown: bool = True, tell: Say = say):
        self.bleu: float | None = None  # of the last validation that measured it
        self._total, self._step = total, start
        self._say = tell
        self._shown = shown
        self._on_terminal = shown and sys.stderr is not None and sys.stderr.isatty()
        self._drawn, self._drawn_at_s = "", -math.inf

    def say(self, text: str) -> None:
        """Print a line, in the place of the one that is drawn again by the next step."""
        if self._drawn:
            put(f"\r{' ' * len(self._drawn)}\r")
            self._drawn = ""
        self._say(text)

    def step(self, share: float, remaining_s: float, means: dict[str, Any]) -> None:
        """Count one step.

        share: of the run that is done, from 0 to 1
        means: figures as `update` has them, since its last record
        """
        self._step += 1
        if self._on_terminal and time.monotonic() - self._drawn_at_s >= REDRAW_S:
            left = f"{clock(remaining_s)} left"
            text = "  ".join([left, f"{100 * share:.0f} %", f"{self._step:,}/{self._total:,}", *self._figures(means)])
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            text = text[: columns - 1]  # the last column would move to the next line
            put(f"\r{text.ljust(len(self._drawn))}")
            self._drawn, self._drawn_at_s = text, time.monotonic()

    def update(self, record: dict[str, Any], remaining_s: float) -> None:
        """Show the figures of a log record and the remaining time, where there is no terminal."""
        if self._shown and not self._on_terminal:
            self._say("  ".join([f"step {record['step']:,}", *self._figures(record), f"{clock(remaining_s)} left"]))

    def _figures(self, record: dict[str, Any]) -> list[str]:
        figures = [f"loss {record['loss']:.3f}", f"ppl {record['perplexity']:.2f}"]
        if self.bleu is not None:
            figures.append(f"BLEU {self.bleu:.1f}")
        return [*figures, f"{record['target_tokens_per_s']:,.0f} tokens/s", f"lr {record['learning_rate']:.1e}"]

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            put("\n")
