"""Training in one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from minitf.config import RunConfig
from minitf.data.batches import Batch, Batches
from minitf.model.transformer import Transformer
from minitf.system.process import StopRequest
from minitf.training.moving_average import MovingAverage
from minitf.training.optim import Adam, global_norm
from minitf.training.schedule import Clock
from minitf.training.state import Interval, TrainState

Nats = tuple[float, int]
"""Negative log-likelihood of a batch, and its number of target tokens."""


class SingleProcess:
    """Training in one process, which computes every batch and writes every file.

    `DataParallel` (data_parallel.py) has the same methods for a rank of several: the training loop is the same.
    """

    is_main_process = True  # writes the files and messages of the run
    is_parallel = False
    description = ""  # for the user

    def __init__(self, config: RunConfig):
        self.device = config.device
        self.threads = config.threads  # None: one a core

    def main_process_first(self) -> AbstractContextManager[None]:
        """Context manager: the main process executes the block first, then all other ranks do."""
        return nullcontext()

    def synchronize(
        self, state: TrainState, model: Transformer, optimizer: Adam, average: MovingAverage | None, train: Batches
    ) -> TrainState:
        """Copy the main process's run to all ranks; return its training state."""
        return state

    # ---- An update ----

    def next_batches(self, train: Batches, count: int) -> list[Batch]:
        """Return the next `count` batches, numbered; of several ranks, each returns its share of them."""
        return [replace(next(train), number=number) for number in range(count)]

    def zero_grad(self, optimizer: Adam, backward_passes: int) -> None:
        """Forget all gradients; this many backward passes follow."""
        optimizer.zero_grad()

    def finish_update(
        self, model: Transformer, update: Interval, step: int, stop: StopRequest, clock: Clock
    ) -> Interval:
        """Return the sums over the update, with the norm of the gradient of a token's mean loss.

        Several ranks sum their gradients here, and agree on the time and on whether to stop.
        """
        update.gradient_norm = global_norm(model.parameters()) / update.target_tokens
        return update

    # ---- Validate, save, log ----

    def validation_batches(self, valid: Batches) -> Iterator[Batch]:
        """Iterate over the validation batches; of several ranks, each has its share of them."""
        return valid.one_epoch()

    def gather(self, losses: Sequence[Nats], stop: StopRequest | None) -> Sequence[Nats]:
        """Return the losses of all validation batches, in their order."""
        return losses

    def broadcast(self, value: Any) -> Any:
        """Return the main process's value."""
        return value

    def check_weights(self, step: int, model: Transformer) -> None:
        """Check that all ranks have the same weights.  Raises: ParallelError"""

    def first_error(self, error: str | None) -> str | None:
        """Return the error of the first rank that has one."""
        return error

    def communication_times(self) -> dict[str, float]:
        """Seconds of communication since the last call, for the log."""
        return {}
