"""What a training run consists of."""

from __future__ import annotations

from dataclasses import dataclass

from minitf.config import RunConfig
from minitf.model.transformer import Transformer
from minitf.storage.checkpoint import CheckpointStore
from minitf.storage.log import NoLog, RunLog
from minitf.storage.run_directory import RunDirectory
from minitf.training.moving_average import MovingAverage
from minitf.training.optim import Adam
from minitf.training.process import SingleProcess
from minitf.training.state import TrainState
from minitf.training.texts import TrainingData


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
    checkpoints: CheckpointStore
    log: RunLog | NoLog
    process: SingleProcess
