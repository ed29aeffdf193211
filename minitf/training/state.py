"""Training state: how far a run has come, besides its weights and Adam's moments; saved and restored as a whole."""

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from minitf.config.options import check_fields
from minitf.data.batches import Batch
from minitf.errors import UserError

CLOCK_KEYS = ("elapsed_s", "target_tokens_per_s", "waiting_s", "summing_s", "exposed_s")
"""Keys of a log line that depend on the clock.  All other values of the log, and every bit of the weights and moments,
are the same whether or not a run was interrupted."""

CLOCK_FIELDS = ("elapsed_s", "saved_s", "interval.start_s", "log_offset")
"""Fields of a `TrainState` that depend on the clock: three times, and the length of a log that holds times."""


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

    def add(self, batch: Batch, loss: float, nll: float) -> None:
        """Add one batch and its summed losses."""
        self.loss += loss
        self.nll += nll
        self.source_tokens += batch.source_tokens
        self.target_tokens += batch.target_tokens
        self.slots += batch.padded_tokens

    def add_update(self, update: "Interval") -> None:
        """Add the sums of one update."""
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
        """Return means over the interval, for the log; NaN if every update of it was skipped."""
        tokens = self.source_tokens + self.target_tokens
        targets, slots = self.target_tokens or math.nan, self.slots or math.nan
        return {
            "loss": self.loss / targets,
            "perplexity": perplexity(self.nll / targets),
            "source_tokens": self.source_tokens,
            "target_tokens": self.target_tokens,
            "padded_tokens": self.slots - tokens,
            "fill": tokens / slots,
            "gradient_norm": self.gradient_norm if self.target_tokens else math.nan,
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

    step: int = 0  # updates so far, skipped ones included
    skipped_updates: int = 0  # updates whose loss or gradient was not finite, which Adam never saw
    skipped_in_a_row: int = 0  # of these, the latest
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
    saved_s: float = 0.0  # elapsed time at that step
    elapsed_s: float = 0.0  # time spent in the training loop, over all resumptions
    log_offset: int = 0  # length of the log in bytes
    on_schedule: bool = True  # False: saved because the run stopped here; deleted once there is a newer checkpoint
    interval: Interval = field(default_factory=Interval)

    def add_update(self, update: Interval) -> None:
        """Count an update that Adam has made."""
        self.interval.add_update(update)
        self.target_tokens += update.target_tokens
        self.skipped_in_a_row = 0

    def to_plain(self) -> dict[str, Any]:
        """Convert to JSON values."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Convert from `to_plain`.  Raises: UserError if a field is missing, unknown, or has an impossible value."""
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
