"""Around the loop of train.py: what a run consists of, how it starts or goes on, how it is validated and saved."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import autograd as ag
from autograd import random
from autograd.backend import backend_of
from minitf.config import RunConfig
from minitf.config.special_tokens import PAD
from minitf.data.batches import Batch, Batches
from minitf.data.vocabulary import Vocabulary
from minitf.errors import UserError
from minitf.model.transformer import Transformer
from minitf.parallel.buckets import Gradients, gradients_of
from minitf.parallel.group import Alone, Group
from minitf.parsing.aligned_text import check_trees
from minitf.storage.checkpoint import CheckpointStore, read_state, with_prefix, without_prefix
from minitf.storage.log import NoLog, RunLog
from minitf.storage.run_directory import RunDirectory
from minitf.system.arithmetic import sum_left_to_right
from minitf.system.device import set_up_device
from minitf.system.signals import StopRequest
from minitf.training.best import is_best, keep_best, validation_bleu
from minitf.training.data_parallel import (
    first_of,
    require_same_config,
    require_same_texts,
    require_same_weights,
    share_state,
    sum_in_order,
)
from minitf.training.moving_average import MovingAverage
from minitf.training.optim import Adam, learning_rate
from minitf.training.schedule import checkpoint_is_due, count_checkpoint, count_validation, validation_is_due
from minitf.training.state import Interval, TrainState, perplexity
from minitf.training.texts import Texts, check_texts, given_texts, load_or_train_vocabulary, made_texts, prepare_split

Say = Callable[[str], None]

MAX_SKIPPED_IN_A_ROW = 10
"""Updates without a gradient, one after the other, from which a model does not come back: the next ones see the same
weights."""


@dataclass
class Run:
    """What train.py works on."""

    config: RunConfig  # resolved: with the size of the vocabulary
    directory: RunDirectory
    texts: Texts
    vocabulary: Vocabulary
    train: Batches
    valid: Batches | None
    model: Transformer
    optimizer: Adam
    state: TrainState
    checkpoints: CheckpointStore
    log: RunLog | NoLog
    moving_average: MovingAverage | None = None
    group: Group = field(default_factory=Alone)  # the processes that train as one
    gradients: Gradients = field(init=False)

    def __post_init__(self) -> None:
        as_bfloat16 = self.config.reduce_dtype == "bfloat16"
        self.gradients = gradients_of(self.model.named_parameters(), self.group, as_bfloat16=as_bfloat16)


class TrainingError(UserError):
    """Training cannot go on by itself: the loss, a gradient or a weight is not a number."""

    exit_status = 1  # nothing was wrong with the command


# ---- Start and resume --------------------------------------------------------------------------------------------


@contextmanager
def open_run(config: RunConfig, resume: Path | None, say: Say, group: Group | None = None) -> Iterator[Run]:
    """Start the run that `config` describes, or go on with the one in the folder `resume`.

    group: the processes that train as one; the first of them makes the run's folder and all that is in it

    Raises: UserError for texts, vocabularies and folders that cannot be used.
    """
    group = group or Alone(config.device)
    require_same_config(group, config)
    threads = max(1, config.threads // group.local_size) if config.threads else group.cores
    set_up_device(threads, group.device, config.precision)
    with ExitStack() as stack:
        with group.main_process_first():
            given = given_texts(config, say)
            directory = stack.enter_context(open_directory(config, given, resume, say, group))
            texts = given or made_texts(config, directory)
            vocabulary = load_or_train_vocabulary(config, directory, texts, say)
            config = replace(config, model=replace(config.model, vocab_size=len(vocabulary)))
            train = prepare_split("train", texts.train, vocabulary, directory, config, say)
            valid = prepare_split("valid", texts.valid, vocabulary, directory, config, say) if texts.valid else None
        model = Transformer(config.model, seed=config.seed, dtype=config.dtype, compute_dtype=compute_dtype(config))
        model.to(group.device)
        run = Run(
            config=config,
            directory=directory,
            texts=texts,
            vocabulary=vocabulary,
            train=Batches(train, config.max_tokens_per_batch, seed=config.seed),
            valid=Batches(valid, config.max_tokens_per_batch, seed=config.seed, shuffle=False) if valid else None,
            model=model,
            optimizer=Adam(model.named_parameters(), config.optimizer),
            state=TrainState(vocabulary=vocabulary.fingerprint(), valid_corpus=valid.fingerprint if valid else ""),
            checkpoints=CheckpointStore(
                directory.checkpoints_path, keep=config.keep_checkpoints if group.is_first else None
            ),
            log=stack.enter_context(RunLog(directory.log_path)) if group.is_first else NoLog(),
            group=group,
        )
        require_same_texts(run)
        if config.moving_average is not None:
            run.moving_average = MovingAverage(model.named_parameters(), config.moving_average)
        if resume is not None and group.is_first:
            restore(run, say)
        share_state(run)
        yield run


def open_directory(config: RunConfig, given: Texts | None, resume: Path | None, say: Say, group: Group) -> RunDirectory:
    """The folder of the run: made or locked by the first process, read by the others."""
    if not group.is_first:
        try:
            return RunDirectory.open(config.output)
        except UserError as error:
            raise UserError(f"{error}; every host must see the folder that rank 0 has made") from None
    if resume is None:
        if given is not None:
            check_texts(given, config.errors)  # before the folder of the run exists
        if config.task == "parsing":
            check_trees(config.parsing, config.errors)
        return RunDirectory.create(config.output, config)
    directory = RunDirectory.resume(resume, config)
    for change in directory.environment_changes():
        say(f"note: {change} since this run began; its bits may differ")
    return directory


def compute_dtype(config: RunConfig) -> str | None:
    """The dtype of activations where it is not that of the parameters."""
    return "bfloat16" if config.precision == "bf16" else None


# ---- Learn -------------------------------------------------------------------------------------------------------


def batch_loss(model: Transformer, batch: Batch, label_smoothing: float) -> tuple[ag.Tensor, ag.Tensor]:
    """(cross-entropy with smoothed labels, negative log-likelihood) of a batch, in nats, summed over its tokens."""
    on_device = model.backend.asarray
    logits = model(on_device(batch.source), on_device(batch.target_in))  # [B, T, V]
    return ag.cross_entropy(
        logits,
        on_device(batch.target_out),
        label_smoothing=label_smoothing,
        ignore_index=PAD,
        reduction="sum",
        with_nll=True,
        overwrite_logits=True,
    )


# ---- Validate ----------------------------------------------------------------------------------------------------


def mean_nll(
    model: Transformer, batches: Batches, stop: StopRequest | None = None, group: Group | None = None
) -> float | None:
    """Negative log-likelihood of the targets, in nats a token, without dropout and label smoothing.

    Perplexity is its exponential. None when `stop` is requested before the end.
    """
    group = group or Alone()
    own: list[tuple[float, int]] = []  # of this process's batches: nats, tokens
    model.eval()
    with ag.no_grad():
        for batch in batches.one_epoch(group.rank, group.size):
            if stop:
                break
            logits = model(batch.source, batch.target_in)
            nll = ag.cross_entropy(logits, batch.target_out, ignore_index=PAD, reduction="sum").item()
            own.append((nll, batch.target_tokens))
    model.train()
    if stop:
        return None
    every = sum_in_order(group, own, stop)
    return sum_left_to_right(nll for nll, _ in every) / sum(tokens for _, tokens in every)


def validate(run: Run, stop: StopRequest, say: Say) -> None:
    """Measure the validation loss of this step, and BLEU if that counts, unless it has been done; a line of the log.

    The weights measured are those of the moving average where there is one; the best so far are kept.
    Stopped in the midst of it, the run owes it: the step's checkpoint says that it was not validated, and when the run
    goes on from there, this comes first.
    """
    state = run.state
    if run.valid is None or state.validated_step == state.step:
        return
    start = time.perf_counter()
    measured = measure(run, stop)
    spent_s = run.group.share(time.perf_counter() - start)
    state.elapsed_s += spent_s
    state.interval.start_s += spent_s  # tokens a second are those of training
    if measured is not None:
        log_validation(run, *measured, say)


def measure(run: Run, stop: StopRequest) -> tuple[float, float | None] | None:
    """Loss and BLEU, None if it does not count, of a validation, and what follows for the state: is it the best?

    None when `stop` is requested before the end.
    """
    metric = run.config.valid_metric
    with run.moving_average.in_place(run.model) if run.moving_average else nullcontext():
        loss = mean_nll(run.model, run.valid, stop, run.group) if run.valid is not None else None
        if loss is None:
            return None
        translates = metric == "bleu" and run.group.is_first
        score = run.group.share(validation_bleu(run, stop) if translates else None)
        if score is None and metric == "bleu":
            return None
        improved = is_best(metric, run.state, loss, score)
        if improved and run.group.is_first:
            keep_best(run, loss, score)
    count_validation(run.state, run.train.epoch, improved, loss, score)
    return loss, score


def log_validation(run: Run, loss: float, score: float | None, say: Say) -> None:
    """Write a line of the log about a validation, and say it."""
    state = run.state
    record = {"step": state.step, "epoch": run.train.epoch, "valid_loss": loss, "valid_perplexity": perplexity(loss)}
    record |= {} if score is None else {"valid_bleu": score}
    run.log.append({**record, "elapsed_s": state.elapsed_s})
    bleu = "" if score is None else f", BLEU {score:.2f}"
    say(f"step {state.step:,}: validation loss {loss:.4f}, perplexity {perplexity(loss):.3f}{bleu}")


def owes_validation(run: Run) -> bool:
    """Is this a step to validate, and has it not been done?"""
    return run.valid is not None and validation_is_due(run.config, run.state, run.train.epoch)


def out_of_patience(run: Run) -> bool:
    """Has no validation been better than the best for `patience` of them?"""
    return run.config.patience is not None and run.state.validations_since_best >= run.config.patience


# ---- Log ---------------------------------------------------------------------------------------------------------


def log_interval(run: Run) -> dict[str, Any]:
    """Write a line of the log, and give it; a new interval begins."""
    state = run.state
    rate = learning_rate(state.step, run.config.model.d_model, run.config.optimizer)
    record = {"step": state.step, "epoch": run.train.epoch, **state.interval.record(state.elapsed_s)}
    record |= {"learning_rate": rate, "skipped_updates": state.skipped_updates}
    record |= run.gradients.clock.read() if run.group.reduces else {}
    run.log.append(record)
    state.interval = Interval(start_s=state.elapsed_s)
    return record


def conclude(run: Run, stop: StopRequest, say: Say) -> None:
    """The log's last lines: what came since the last ones, and the validation loss of the last step.

    They are off the schedule and follow the last checkpoint, which does not cover them: a run that goes on from there,
    because it may take more steps, drops them, and its log is that of a run that never ended here.
    """
    if run.state.interval.slots:
        log_interval(run)
    validate(run, stop, say)


# ---- Divergence --------------------------------------------------------------------------------------------------


def leave_out(run: Run, step: int, update: Interval, batches: Sequence[Batch], say: Say) -> None:
    """Count an update whose loss or gradient is not a number.

    Raises: TrainingError unless the run is to skip such updates, and after too many in a row.
    """
    state = run.state
    found = f"step {step:,} has loss {update.loss / update.target_tokens:.4g}, gradient norm {update.gradient_norm:.4g}"
    if state.skipped_in_a_row == MAX_SKIPPED_IN_A_ROW:
        found += f", as had {MAX_SKIPPED_IN_A_ROW} steps before"
    elif run.config.on_divergence == "skip":
        state.skipped_updates += 1
        state.skipped_in_a_row += 1
        say(f"{found}: left out, {state.skipped_updates:,} in all")
        return
    raise TrainingError(f"training diverged: {found}: {origin(run, step, batches)}; {advice(run)}")


def origin(run: Run, step: int, batches: Sequence[Batch]) -> str:
    """Which op first gave no number, found by computing the update again and looking at every result."""
    from autograd.inspect import AnomalyError, anomaly_mode

    found = None
    run.optimizer.zero_grad()
    try:
        with anomaly_mode():
            for batch in batches:
                random.begin_step(step, batch.number, batch.first_row)
                loss, _ = batch_loss(run.model, batch, run.config.optimizer.label_smoothing)
                loss.backward()
    except AnomalyError as error:
        found = str(error)
    return first_of(run.group, found) or "each number is finite by itself, but their sum is not"


def advice(run: Run) -> str:
    """What to do about a run that has diverged, and what there is of it."""
    folder = run.directory.path
    good = [
        path for path in run.checkpoints.last(run.config.keep_checkpoints) if not read_state(path)["skipped_in_a_row"]
    ]
    last = f"the last good checkpoint is {good[-1]}" if good else "there is no good checkpoint"
    skip = f"leave such updates out (--resume {folder} --on-divergence skip), or "
    given_peak = run.config.optimizer.peak_learning_rate is not None
    return (
        f"{last}; {skip if run.config.on_divergence == 'stop' else ''}start again with a smaller "
        f"--optimizer.{'peak-learning-rate' if given_peak else 'learning-rate-scale'}, "
        "more --optimizer.warmup-steps, or --optimizer.clip-norm 1"
    )


# ---- Save and restore --------------------------------------------------------------------------------------------

MODEL, OPTIMIZER, MOVING_AVERAGE = "model.", "optimizer.", "moving_average."


def save(run: Run) -> None:
    """Write a checkpoint: weights, Adam's moments, the moving average and the training state, whole or not at all.

    The first process writes it, after all have found that they have the same weights.

    Raises: CheckpointError where the system refuses; TrainingError, before a byte is written, where there are weights
    or moments that are not numbers. The checkpoints that are there stay in both cases.
    """
    require_same_weights(run)
    count_checkpoint(run.config, run.state, run.train.epoch)
    if not run.group.is_first:
        return
    arrays = with_prefix(MODEL, {name: p.numpy() for name, p in run.model.named_parameters().items()})
    arrays |= with_prefix(OPTIMIZER, run.optimizer.state_arrays())
    if run.moving_average is not None:
        arrays |= with_prefix(MOVING_AVERAGE, run.moving_average.arrays)
    arrays = {name: backend_of([array]).to_host(array) for name, array in arrays.items()}
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            found = f"after step {run.state.step:,}, {name} is not finite"
            raise TrainingError(f"training diverged: {found}; {advice(run)}")
    run.log.sync()
    run.state.log_offset = run.log.offset
    run.state.data = run.train.state()
    run.checkpoints.save(run.state.step, arrays, run.state.to_plain())
    run.checkpoints.forget_best(but=run.state.best_step)


def owes_checkpoint(run: Run) -> bool:
    """Is this a step to save a checkpoint at?"""
    return checkpoint_is_due(run.config, run.state, run.train.epoch)


def restore(run: Run, say: Say) -> None:
    """Go on from the newest whole checkpoint; without any, from the start."""
    found = run.checkpoints.latest(warn=lambda message: say(f"warning: {message}"))
    if found is None:
        say("no checkpoint yet: starting from the beginning")
        run.checkpoints.forget_best(but=0)
        run.log.truncate_to(0, say)
        return
    arrays, plain = found
    try:
        state = TrainState.from_plain(plain)
        check_belongings(run, state)
        run.model.load_parameters(without_prefix(MODEL, arrays))
        run.optimizer.load_state(state.step - state.skipped_updates, without_prefix(OPTIMIZER, arrays))
        if run.moving_average is not None:
            run.moving_average.load(without_prefix(MOVING_AVERAGE, arrays))
        run.train.restore(state.data)
    except ValueError as error:
        raise UserError(f"the last checkpoint of {run.directory.path} does not fit this run: {error}") from error
    run.state = state
    run.checkpoints.forget_best(but=state.best_step)
    run.checkpoints.check_best(state.best_step, lambda message: say(f"warning: {message}"))
    run.log.truncate_to(state.log_offset, lambda message: say(f"warning: {message}"))
    say(f"resumed after step {state.step:,}")


def check_belongings(run: Run, state: TrainState) -> None:
    """Refuse another vocabulary or validation text: numbers would go on to be computed, but mean something else."""
    if state.vocabulary != run.state.vocabulary:
        raise UserError(f"{run.directory.vocabulary_path} has changed; put back the vocabulary it was trained with")
    if state.valid_corpus != run.state.valid_corpus:
        raise UserError(f"the validation text {run.texts.valid and run.texts.valid[0]} has changed; put it back")


# ---- The end -----------------------------------------------------------------------------------------------------


def finished(run: Run, clock: Clock) -> bool:
    """Is there nothing left to do? At least one update is made, however short the time."""
    step = run.state.step
    return step >= run.config.max_steps or out_of_patience(run) or (step > 0 and clock.is_up)


class Clock:
    """Time spent in the loop, over all resumptions, and whether the run's minutes are used up."""

    def __init__(self, run: Run):
        self._before = run.state.elapsed_s
        self._start = time.perf_counter()
        self._limit_s = math.inf if run.config.max_minutes is None else run.config.max_minutes * 60
        self._told_s = run.state.elapsed_s if run.group.reduces else None

    @property
    def elapsed_s(self) -> float:
        return self.own_s if self._told_s is None else self._told_s

    @property
    def own_s(self) -> float:
        """By the clock of this process."""
        return self._before + time.perf_counter() - self._start

    def follow(self, elapsed_s: float) -> None:
        """Show this, the first process's time, until told again: all must come to the same decisions by it."""
        self._told_s = elapsed_s

    @property
    def is_up(self) -> bool:
        return self.elapsed_s >= self._limit_s

    def remaining_s(self, step: int, max_steps: int) -> float:
        """Seconds left, by the pace so far or the limit, whichever ends first."""
        by_steps = (max_steps - step) * self.elapsed_s / step if step else math.inf
        return max(0.0, min(by_steps, self._limit_s - self.elapsed_s))
