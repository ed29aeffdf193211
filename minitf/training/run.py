"""A training run: what it consists of, and how its process takes part in a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minitf.config import PathPair, RunConfig
from minitf.config.run_config import parse_devices
from minitf.data.batches import Batch, Batches
from minitf.data.vocabulary import AnyVocabulary
from minitf.model.layers import Module
from minitf.model.parameters import Parameter, load_arrays
from minitf.model.transformer import Transformer
from minitf.storage.checkpoints import Checkpoints
from minitf.storage.run_directory import RunDirectory
from minitf.system.process import StopRequest
from minitf.training.optim import Adam
from minitf.training.state import Clock, Interval, RunLog, TrainState

__all__ = ["MODEL", "OPTIMIZER", "Run"]

MODEL, OPTIMIZER, MOVING_AVERAGE = "model.", "optimizer.", "moving_average."
"""Prefixes of the names of tensors in a checkpoint."""
Array = Any
Sums = Sequence[tuple[Batch, Any, Any]]
"""The batches of an update, each with its loss and negative log-likelihood, which a GPU may yet have to compute."""


@dataclass
class Texts:
    """The files of a run: source and target of each split.

    `train`, None for "not known", and `valid` need not exist where the run keeps their token ids.
    """

    train: PathPair | None
    valid: PathPair | None
    test: PathPair | None


@dataclass
class TrainingData:
    """Texts, vocabulary, and batches of the training and validation text."""

    texts: Texts
    vocabulary: AnyVocabulary
    train: Batches
    valid: Batches | None


class MovingAverage:
    """a ← a + (1 - d_t) (w - a) after update t, with d_t = min(decay, (1 + t) / (10 + t)).

    It is as good as a long average of checkpoints, without the checkpoints. The second bound reduces the influence of
    the initial weights: with a constant decay of 0.9999 they would still have a weight of 90 % after 1,000 updates.
    """

    def __init__(self, named_parameters: dict[str, Parameter], decay: float):
        self.named_parameters = named_parameters
        self.decay = decay
        self.arrays: dict[str, Array] = {name: p.data.copy() for name, p in named_parameters.items()}

    def update(self, update_count: int) -> None:
        """Average in the weights after update number `update_count`, counted from 1."""
        share = 1 - min(self.decay, (1 + update_count) / (10 + update_count))
        for name, parameter in self.named_parameters.items():
            average = self.arrays[name]
            average += share * (parameter.data - average)

    @contextmanager
    def in_place(self, model: Module) -> Iterator[None]:
        """Context manager: inside the block the model has the averaged weights, after it its own, bit for bit."""
        own = {name: parameter.data.copy() for name, parameter in self.named_parameters.items()}
        model.load_parameters(self.arrays)
        try:
            yield
        finally:
            model.load_parameters(own)

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Continue from the averages of a checkpoint.  Raises: ValueError if names or shapes differ."""
        load_arrays(self.arrays, arrays, "the moving averages")


@dataclass
class Run:
    """A training run: data, model, optimizer, training state, and the files it writes."""

    config: RunConfig  # with the size of the vocabulary
    data: TrainingData
    model: Transformer
    optimizer: Adam
    moving_average: MovingAverage | None
    state: TrainState
    directory: RunDirectory
    checkpoints: Checkpoints
    log: RunLog
    process: SingleProcess
    gradients: Callable[[Batch], tuple[float, float]] | None = None
    """Add the gradients of a batch to those of the parameters, and return its losses; None: `compute_gradients`."""


# ---- Processes ----


class SingleProcess:
    """Training in one process, which computes every batch and writes every file.

    `DataParallel` (data_parallel.py) has the same methods for a rank of several: the training loop is the same.
    """

    rank, size = 0, 1
    is_main_process = True  # writes the files and messages of the run
    is_parallel = False
    description = ""  # for the user

    def __init__(self, config: RunConfig):
        self.device = config.device if config.devices is None else parse_devices(config.devices)[0]
        self.threads = config.threads  # None: one a core

    def main_process_first(self) -> AbstractContextManager[None]:
        """Context manager: the main process executes the block first, then all other ranks do."""
        return nullcontext()

    def synchronize(self, run: Run) -> None:
        """Copy the main process's weights, optimizer state, moving average and training state to all ranks."""

    # ---- An update ----

    def next_batches(self, train: Batches, count: int) -> list[Batch]:
        """Return the next `count` batches, numbered; of several ranks, each returns its share of them."""
        return [replace(next(train), number=number) for number in range(count)]

    def zero_grad(self, optimizer: Adam, backward_passes: int) -> None:
        """Forget all gradients; this many backward passes follow."""
        optimizer.zero_grad()

    def finish_update(self, optimizer: Adam, sums: Sums, step: int, stop: StopRequest, clock: Clock) -> Interval:
        """Return the sums over the update, with the norm of the gradient of a token's mean loss.

        sums: of each batch, loss and negative log-likelihood

        Several ranks sum their gradients here, and agree on the time and on whether to stop.
        """
        norm = optimizer.gradient_norm()  # first: launched before the losses are waited for
        update = Interval.of(sums)
        update.gradient_norm = norm / update.target_tokens
        return update

    # ---- Validate, save, log ----

    def all_gather(self, value: Any, purpose: str = "") -> list[Any]:
        """Return the values of all ranks, in order of rank."""
        return [value]

    def broadcast(self, value: Any) -> Any:
        """Return the main process's value."""
        return value

    def check_weights(self, step: int, model: Transformer) -> None:
        """Check that all ranks have the same weights.  Raises: ParallelError"""

    def communication_times(self) -> dict[str, float]:
        """Seconds of communication since the last call, for the log."""
        return {}
