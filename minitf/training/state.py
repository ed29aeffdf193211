"""Where a training run stands, besides its weights and Adam's moments: one value, saved and restored whole."""

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from minitf.config.options import check_fields
from minitf.data.batches import Batch
from minitf.errors import UserError

CLOCK_KEYS = ("elapsed_s", "target_tokens_per_s", "waiting_s", "summing_s", "exposed_s")
"""What depends on the clock in a line of the log. All else in the log, and every bit of the weights and moments, is the
same whether or not a run was interrupted."""

CLOCK_FIELDS = ("elapsed_s", "saved_s", "interval.start_s", "log_offset")
"""The same in a `TrainState`: three times, and the length of a log that holds times."""


@dataclass
class Interval:
    """Sums over one update, or over those since the last line of the log."""

    loss: float = 0.0  # smoothed loss, nats
    nll: float = 0.0  # negative log-likelihood, nats
    source_tokens: int = 0  # real ones, end tokens included, as in the next line
    target_tokens: int = 0
    slots: int = 0  # real and padded, both sides
    gradient_norm: float = 0.0  # of the last update; its gradient is that of the mean loss of a token
    start_s: float = 0.0  # the run's clock when the interval began

    def add(self, batch: Batch, loss: float, nll: float) -> None:
        """Count one batch and its summed losses."""
        self.loss += loss
        self.nll += nll
        self.source_tokens += batch.source_tokens
        self.target_tokens += batch.target_tokens
        self.slots += batch.padded_tokens

    def add_update(self, update: "Interval") -> None:
        """Count the batches of one update."""
        self.loss += update.loss
        self.nll += update.nll
        self.source_tokens += update.source_tokens
        self.target_tokens += update.target_tokens
        self.slots += update.slots
        self.gradient_norm = update.gradient_norm

    @property
    def is_finite(self) -> bool:
        """Are the losses and the gradient numbers, neither infinite nor NaN?"""
        return all(map(math.isfinite, (self.loss, self.nll, self.gradient_norm)))

    def record(self, elapsed_s: float) -> dict[str, Any]:
        """Means over the interval, for the log; NaN where every update of it was left out."""
        tokens = self.source_tokens + self.target_tokens
        empty = not self.target_tokens
        return {
            "loss": math.nan if empty else self.loss / self.target_tokens,
            "perplexity": math.nan if empty else perplexity(self.nll / self.target_tokens),
            "source_tokens": self.source_tokens,
            "target_tokens": self.target_tokens,
            "padded_tokens": self.slots - tokens,
            "fill": math.nan if empty else tokens / self.slots,
            "gradient_norm": math.nan if empty else self.gradient_norm,
            "target_tokens_per_s": self.target_tokens / max(elapsed_s - self.start_s, 1e-9),
            "elapsed_s": elapsed_s,
        }


def perplexity(nll_per_token: float) -> float:
    """exp(nats a token); a loss too large for that gives infinity, and NaN gives NaN."""
    return math.inf if nll_per_token > 700 else math.exp(nll_per_token)


@dataclass
class TrainState:
    """Everything that a resumed run needs besides the weights and Adam's moments.

    The random numbers of a step are a function of (seed, step), so `step` is their state, too.
    """

    step: int = 0  # updates done, those left out included
    skipped_updates: int = 0  # left out because the loss or the gradient was not a number; Adam never saw them
    skipped_in_a_row: int = 0  # the latest ones of these
    target_tokens: int = 0  # real target tokens learned from, end tokens included
    data: dict = field(default_factory=dict)  # place in the data, as Batches.state() gives it
    valid_corpus: str = ""  # fingerprints: a resumed run must not measure, or mean by a token id, something else
    vocabulary: str = ""
    best_loss: float | None = None  # lowest validation loss so far, nats a token
    best_bleu: float | None = None  # highest BLEU of a validation so far
    best_step: int = 0  # of the best validation, by the metric that the run goes by; its weights are kept
    validations_since_best: int = 0
    validated_step: int = 0  # the last one with a validation
    validated_epoch: int = 0  # epochs that were complete at that step
    saved_step: int = 0  # the last one with a checkpoint on schedule
    saved_epoch: int = 0  # epochs that were complete at that step
    saved_s: float = 0.0  # and `elapsed_s` then
    elapsed_s: float = 0.0  # time spent in the loop, over all its resumptions
    log_offset: int = 0  # bytes of the log at this point
    on_schedule: bool = True  # False: saved because the run stopped here; deleted once there is a newer checkpoint
    interval: Interval = field(default_factory=Interval)

    def count(self, update: Interval) -> None:
        """Count an update that has been made."""
        self.interval.add_update(update)
        self.target_tokens += update.target_tokens
        self.skipped_in_a_row = 0

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """What `to_plain` gave.  Raises: UserError where a field is missing, unknown, or cannot be what it is."""
        _check_names(plain, cls)
        interval = plain["interval"]
        _check_names(interval, Interval)
        state = cls(**{**plain, "interval": Interval(**interval)})
        check_fields(state)
        check_fields(state.interval)
        return state


def _check_names(plain: Any, kind: type) -> None:
    names = {each.name for each in fields(kind)}
    found = set(plain) if isinstance(plain, dict) else set()
    if found != names:
        raise UserError(f"the training state does not fit this version: {', '.join(sorted(found ^ names))} differ")
    for name, value in plain.items():
        if isinstance(value, int | float) and value < 0:
            raise UserError(f"{name}={value} in the training state is negative")
