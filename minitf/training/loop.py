"""The training loop (section 5), with its validations and checkpoints."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from autograd import no_grad, random
from autograd.backend import backend_of
from minitf.config import OptimizerConfig
from minitf.data.batches import Batches
from minitf.data.text import read_lines
from minitf.decoding.lines import LineTranslator, Plan, search_of
from minitf.evaluation.metrics import bleu as bleu_of
from minitf.model.transformer import Transformer
from minitf.storage.checkpoints import with_prefix
from minitf.system.environment import sum_left_to_right
from minitf.system.process import Say, StopRequest
from minitf.training.divergence import diverged, divergence
from minitf.training.optim import batch_loss, compute_gradients, learning_rate
from minitf.training.run import MODEL, MOVING_AVERAGE, OPTIMIZER, Run, SingleProcess
from minitf.training.state import (
    PLANNED_AT,
    Clock,
    Interval,
    Progress,
    checkpoint_is_due,
    is_finished,
    last_step,
    perplexity,
    record_checkpoint,
    record_validation,
    schedule,
    validation_is_due,
)

Nats = tuple[float, int]
"""Negative log-likelihood of a batch, and its number of target tokens."""
SPARE = 0.95  # of the steps that would fit the minutes: validations and checkpoints take some time


def train(run: Run, progress: Progress, stop: StopRequest, on_log: Callable[[], None]) -> None:
    """Train until the steps, the minutes or the patience of the run are used up, or `stop` is requested.

    on_log: called after each line of the log
    Raises: TrainingError if the loss or the gradient is not finite.
    """
    config, model, optimizer, state, process = run.config, run.model, run.optimizer, run.state, run.process
    clock = Clock(state.elapsed_s, config.max_minutes, shared=process.is_parallel, step=state.step)
    first_step = saved_step = state.step
    random.manual_seed(config.seed)
    model.train()
    gradients = run.gradients or partial(compute_gradients, model, label_smoothing=config.optimizer.label_smoothing)
    if owes_validation(run):  # the run was stopped between a step and the end of its validation
        validate(run, progress)
        save(run)
    rates, pace_from = schedule(config, state), (state.step, state.elapsed_s)
    warn_of_schedule(run, rates, progress.say)

    while not (stop or is_finished(config, state, clock)):
        # ---- 1. schedule ----
        step = state.step + 1
        rate = learning_rate(step, config.model.d_model, rates)

        # ---- 2. accumulate ----
        batches = process.next_batches(run.data.train, config.accumulate)
        process.zero_grad(optimizer, backward_passes=len(batches))
        sums = []
        for batch in batches:
            random.begin_step(step, batch.number, batch.first_row)
            sums.append((batch, *gradients(batch)))  # loss and nll, summed over the batch

        # ---- 3. step ----
        update = process.finish_update(optimizer, sums, step, stop, clock)
        if not update.is_finite:
            raise diverged(run, step, update, batches)
        apply(run, update, rate)
        state.step = step

        # ---- 4. log ----
        state.elapsed_s = clock.elapsed_s
        show_step(run, clock, progress, rate, first_step)
        if step == 1 or step % config.log_every == 0:
            progress.update(log_interval(run), clock.remaining_s(step, last_step(config, state)))
            on_log()
        if step in (PLANNED_AT // 2, PLANNED_AT):  # by the former, kernels have been compiled
            pace_from = fit_schedule(run, clock, *pace_from, progress.say)
            rates = schedule(config, state)

        # ---- 5. validate and save ----
        if owes_validation(run):
            validate(run, progress)
        if checkpoint_is_due(config, state, run.data.train.epoch):  # after the lines of the log, which it then covers
            save(run)
            saved_step = step

    if saved_step != state.step:
        save(run)
    if not stop:
        finish(run, progress)


def warn_of_schedule(run: Run, rates: OptimizerConfig, say: Say) -> None:
    """Warn of steps that are left with a learning rate of 0, and of a training that ends within its warm-up."""
    config, state = run.config, run.state
    if 0 < state.planned_steps <= state.step:
        say(
            f"warning: the learning rate has come to 0 in the {state.planned_steps:,} steps that fitted --max-minutes; "
            "to train for longer, start a run with more --max-minutes"
        )
    if config.max_steps - state.step > PLANNED_AT:  # of a shorter run, its end says it soon enough
        warn_of_warm_up("will end", last_step(config, state), rates, say)


def fit_schedule(run: Run, clock: Clock, since_step: int, since_s: float, say: Say) -> tuple[int, float]:
    """Fit the schedule, at step PLANNED_AT, to the minutes of the run, if these end it before its steps do.

    since_step, since_s: from where the pace is measured; returned: from where it is to be measured next
    """
    config, state = run.config, run.state
    if config.max_minutes is not None and state.step == PLANNED_AT:
        pace_s = (state.elapsed_s - since_s) / (state.step - since_step)
        planned = state.step + int(SPARE * clock.steps_left(max(pace_s, 1e-9)))
        if 2 * PLANNED_AT <= planned < config.max_steps:  # fewer have no time for a warm-up and a decay
            state.planned_steps = planned
            say(
                f"the learning rate fits --max-minutes {config.max_minutes:g}: it rises for "
                f"{schedule(config, state).warmup_steps:,} steps and falls to 0 at step {planned:,}"
            )
    return state.step, state.elapsed_s


def show_step(run: Run, clock: Clock, progress: Progress, rate: float, first_step: int) -> None:
    """Show the step, and once, after the first hundred, how long the run will take."""
    state, end = run.state, last_step(run.config, run.state)
    means = state.interval.record(state.elapsed_s) | {"learning_rate": rate}
    progress.step(clock.share(state.step, end), clock.remaining_s(state.step, end), means)
    if state.step - first_step == PLANNED_AT:
        progress.say(clock.estimate(state.step, end))


def apply(run: Run, update: Interval, rate: float) -> None:
    """Let Adam, and the moving average after it, make an update of the mean loss of a token, its gradient clipped."""
    clip, norm = run.config.optimizer.clip_norm, update.gradient_norm
    run.optimizer.step(rate, (1.0 if clip is None or norm <= clip else clip / norm) / update.target_tokens)
    run.state.interval.add_update(update)
    run.state.target_tokens += update.target_tokens
    if run.moving_average is not None:
        run.moving_average.update(run.optimizer.step_count)


def finish(run: Run, progress: Progress) -> None:
    """Write the last line of the log, and validate.

    These lines are off the schedule and follow the last checkpoint, which does not cover them: a run resumed for more
    steps drops them, so that its log is that of a run that never ended here.
    """
    if run.state.interval.slots:
        log_interval(run)
    validate(run, progress)
    warn_of_warm_up("has ended", run.state.step, schedule(run.config, run.state), progress.say)


def log_interval(run: Run) -> dict[str, Any]:
    """Write a line of the log, and return it; a new interval begins."""
    state = run.state
    record = {
        "step": state.step,
        "epoch": run.data.train.epoch,
        **state.interval.record(state.elapsed_s),
        "learning_rate": learning_rate(state.step, run.config.model.d_model, schedule(run.config, state)),
        **run.process.communication_times(),
    }
    run.log.append(record)
    state.interval = Interval(start_s=state.elapsed_s)
    return record


def warn_of_warm_up(how: str, end: int, config: OptimizerConfig, say: Say) -> None:
    """Say that a run ends while its learning rate still rises.  how: "will end" or "has ended" at step `end`"""
    if end <= config.warmup_steps:
        say(
            f"warning: the run {how} at step {end:,}, within its warm-up of {config.warmup_steps:,} steps, "
            "before the learning rate falls: the model is undertrained; give it more --max-steps and "
            "--max-minutes, also with --resume, or start again with fewer --optimizer.warmup-steps"
        )


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
        best = state.best_loss if bleu is None else state.best_bleu
        improved = math.isfinite(loss) and (best is None or (loss < best if bleu is None else bleu > best))
        if process.is_main_process and improved:
            save_best(run, loss, bleu)
        if process.is_main_process and math.isfinite(loss):
            (text,) = data.vocabulary.source.decode([data.valid.corpus.source[0].tolist()])
            sample = text, *greedy_translations(run, [text])
    record_validation(state, data.train.epoch, improved, loss, bleu)
    spent_s = process.broadcast(time.perf_counter() - start)
    state.elapsed_s += spent_s
    state.interval.start_s += spent_s  # tokens per second are those of training
    log_validation(run, loss, bleu, progress.say)
    if bleu is not None:
        progress.bleu = bleu
    if sample is not None:
        progress.say(f"    {sample[0]}\n  → {sample[1]}")


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


def greedy_translations(run: Run, sources: list[str]) -> list[str]:
    """Translate lines with the weights that the model has now."""
    longest = run.config.max_length - 1
    translator = LineTranslator(run.model, run.data.vocabulary, max_source_length=longest, warn=lambda message: None)
    found = translator.nbest(sources, Plan(replace(search_of(run.config), beam=1)))
    return [best.text for best, *_ in found]


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


# ---- Files -------------------------------------------------------------------------------------------------------


def save(run: Run) -> None:
    """Write a checkpoint, complete or not at all, in the main process, after checking that all ranks agree.

    Raises: UserError if the system refuses; TrainingError, before a byte is written, if a weight or moment is
    not finite.  Earlier checkpoints stay in both cases.
    """
    state = run.state
    run.process.check_weights(state.step, run.model)
    record_checkpoint(run.config, state, run.data.train.epoch)
    if not run.process.is_main_process:
        return
    arrays = weights_of(run) | with_prefix(OPTIMIZER, run.optimizer.state_arrays())
    if run.moving_average is not None:
        arrays |= with_prefix(MOVING_AVERAGE, run.moving_average.arrays)
    arrays = {name: backend_of([array]).to_host(array) for name, array in arrays.items()}
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise divergence(run, f"after step {state.step:,}, {name} is not finite")
    run.log.sync()
    state.log_offset = run.log.offset
    state.data = run.data.train.state()
    run.checkpoints.save(state.step, arrays, asdict(state))
    run.checkpoints.forget_best(but=state.best_step)


def save_best(run: Run, loss: float, bleu: float | None) -> None:
    """Write the weights that were validated: the model's, which may be a moving average at the time of the call."""
    state = run.state
    about = {"step": state.step, "vocabulary": state.vocabulary, "valid_loss": loss, "valid_bleu": bleu}
    run.checkpoints.save_best(state.step, weights_of(run), about)


def weights_of(run: Run) -> dict[str, np.ndarray]:
    """Return the weights that the model has now, by their names in a checkpoint."""
    return with_prefix(MODEL, {name: p.numpy() for name, p in run.model.named_parameters().items()})
