"""A training run: what it consists of, how its process takes part in a job, and its validation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autograd import no_grad
from minitf.config import PathPair, RunConfig
from minitf.config.run_config import parse_devices
from minitf.data.batches import Batch, Batches
from minitf.data.text import read_lines
from minitf.data.vocabulary import AnyVocabulary
from minitf.decoding.lines import LineTranslator, Plan, search_of
from minitf.evaluation.metrics import bleu as bleu_of
from minitf.model.layers import Module
from minitf.model.parameters import Parameter, load_arrays
from minitf.model.transformer import Transformer
from minitf.storage.checkpoints import Checkpoints, with_prefix
from minitf.storage.run_directory import RunDirectory
from minitf.system.environment import sum_left_to_right
from minitf.system.process import Say, StopRequest
from minitf.training.optim import Adam, batch_loss
from minitf.training.state import (
    Clock,
    Interval,
    Progress,
    RunLog,
    TrainState,
    perplexity,
    record_validation,
    validation_is_due,
)

__all__ = ["MODEL", "OPTIMIZER", "Run"]

MODEL, OPTIMIZER, MOVING_AVERAGE = "model.", "optimizer.", "moving_average."
"""Prefixes of the names of tensors in a checkpoint."""
Array = Any
Nats = tuple[float, int]
"""Negative log-likelihood of a batch, and its number of target tokens."""
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


# ---- Validation: loss and BLEU on the validation text ------------------------------------------------------------


def owes_validation(run: Run) -> bool:
    """True if this step is one to validate, and has not been validated."""
    return run.data.valid is not None and validation_is_due(run.config, run.state, run.data.train.epoch)


def validate(run: Run, progress: Progress) -> None:
    """Measure the validation loss, and BLEU if that is the metric; log and show them, and keep the best weights.

    The weights measured are the moving average if there is one.  Does nothing without a validation text, and for a step
    that has been validated.
    """
    state, data, process = run.state, run.data, run.process
    if data.valid is None or state.validated_step == state.step:
        return
    start, bleu, sample = time.perf_counter(), None, None
    with run.moving_average.in_place(run.model) if run.moving_average else nullcontext():
        loss = mean_nll(run.model, data.valid, process)
        if run.config.valid_metric == "bleu":
            bleu = process.broadcast(validation_bleu(run) if process.is_main_process else None)
        improved = is_best(run.config.valid_metric, state, loss, bleu)
        if process.is_main_process and improved:
            save_best(run, loss, bleu)
        if process.is_main_process and math.isfinite(loss):
            sample = sample_of(run, data.valid)
    record_validation(state, data.train.epoch, improved, loss, bleu)
    spent_s = process.broadcast(time.perf_counter() - start)
    state.elapsed_s += spent_s
    state.interval.start_s += spent_s  # tokens per second are those of training
    log_validation(run, loss, bleu, progress.say)
    if bleu is not None:
        progress.bleu = bleu
    if sample is not None:
        progress.say(f"    {sample[0]}\n  → {sample[1]}")


def save_best(run: Run, loss: float, bleu: float | None) -> None:
    """Write the weights that were validated: the model's, which may be a moving average at the time of the call."""
    state = run.state
    arrays = with_prefix(MODEL, {name: p.numpy() for name, p in run.model.named_parameters().items()})
    about = {"step": state.step, "vocabulary": state.vocabulary, "valid_loss": loss, "valid_bleu": bleu}
    run.checkpoints.save_best(state.step, arrays, about)


def mean_nll(model: Transformer, valid: Batches, process: SingleProcess) -> float:
    """Mean negative log-likelihood in nats per target token, without dropout and label smoothing.

    Its exponential is the perplexity.
    """
    losses: list[Nats] = []
    model.eval()
    with no_grad():
        for batch in valid.one_epoch(process.rank, process.size):  # of several ranks, each has its share
            losses.append((batch_loss(model, batch, label_smoothing=0.0)[1].item(), batch.target_tokens))
    model.train()
    gathered = interleaved(process.all_gather(losses, "the validation"))
    return sum_left_to_right(nll for nll, _ in gathered) / sum(tokens for _, tokens in gathered)


def interleaved(ranks: Sequence[Sequence[Nats]]) -> list[Nats]:
    """The losses of all validation batches in their order, from those of batches rank, rank + size, … of each rank."""
    return [ranks[i % len(ranks)][i // len(ranks)] for i in range(sum(map(len, ranks)))]


def validation_bleu(run: Run) -> float:
    """BLEU of the model's greedy translations of the validation text."""
    assert run.data.texts.valid is not None
    sources, references = (list(read_lines(path)) for path in run.data.texts.valid)
    return bleu_of(greedy_translations(run, sources), references, tokenize=run.config.bleu_tokenize).score


def sample_of(run: Run, valid: Batches) -> tuple[str, str]:
    """Return the first validation sentence and its greedy translation."""
    (text,) = run.data.vocabulary.source.decode([valid.corpus.source[0].tolist()])
    (translation,) = greedy_translations(run, [text])
    return text, translation


def greedy_translations(run: Run, sources: list[str]) -> list[str]:
    """Translate lines with the weights that the model has now."""
    longest = run.config.max_length - 1
    translator = LineTranslator(run.model, run.data.vocabulary, max_source_length=longest, warn=lambda message: None)
    found = translator.nbest(sources, Plan(replace(search_of(run.config), beam=1)))
    return [best.text for best, *_ in found]


def is_best(metric: str, state: TrainState, loss: float, score: float | None) -> bool:
    """True if this validation is better than all before, by the run's metric.  A loss that is not finite never is."""
    if not math.isfinite(loss):
        return False
    if metric == "bleu":
        assert score is not None
        return state.best_bleu is None or score > state.best_bleu
    return state.best_loss is None or loss < state.best_loss


def log_validation(run: Run, loss: float, score: float | None, say: Say) -> None:
    """Write a validation to the log, and print it."""
    state = run.state
    record = {
        "step": state.step,
        "epoch": run.data.train.epoch,
        "valid_loss": loss,
        "valid_perplexity": perplexity(loss),
        **({} if score is None else {"valid_bleu": score}),
        "elapsed_s": state.elapsed_s,
    }
    run.log.append(record)
    shown = "" if score is None else f", BLEU {score:.2f}"
    say(f"step {state.step:,}: validation loss {loss:.4f}, perplexity {perplexity(loss):.3f}{shown}")
