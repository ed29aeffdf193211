#!/usr/bin/env python3
"""Train a Transformer to translate: `python train.py` for the built-in corpus, `--help` for everything else.

The loop, before the details:

    while there is something to do:
        schedule     the learning rate of this update (equation 3)
        accumulate   sum the loss and its gradients over the batches of one update
        step         Adam, with the gradient divided by the target tokens of the whole update
        log          one JSON line, and the progress bar
        validate and save, every so often

A run that is killed at any instant and resumed ends with the same bits as one that is not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from minitf.system.signals import uninterrupted, without_traceback

if __name__ == "__main__":
    without_traceback()  # before anything is imported that takes its time

from minitf.app.cli import parse_train_args, run_command
from minitf.config.devices import one_voice


def main(argv: Sequence[str]) -> int:
    """Train the run that the command line describes; returns the exit status."""
    with one_voice():
        config, resume = parse_train_args(argv)

    with uninterrupted():  # after the command line: `--help` and a wrong flag need none of it
        from minitf.app.test_scores import report_held_out
        from minitf.parallel.join import join, run_as_job
        from minitf.report.run_report import RunReport
        from minitf.system.progress import Progress, Silence, say, silent
        from minitf.system.signals import StopRequest
        from minitf.training.run import open_run

    status = run_as_job(Path(__file__), argv, config)
    if status is not None:
        return status
    with (
        join(config) as group,
        open_run(config, resume, say if group.is_first else silent, group) as run,
        RunReport(run.directory, run.config, parameters=run.model.parameter_count(), writes=group.is_first) as report,
    ):
        tell = say if group.is_first else silent
        tell(
            f"model: {run.model.parameter_count():,} parameters, vocabulary of {len(run.vocabulary):,}; "
            f"run: {run.directory.path}"
        )
        if group.reduces:
            tell(f"{group.size} processes on {group.hosts} hosts, {group.device.partition(':')[0]}; rank 0 speaks")
        bar = Progress(run.config.max_steps, run.state.step) if group.is_first else Silence()
        with bar as progress, StopRequest(shared=group.reduces) as stop:
            train(run, progress, stop, report)
        if run.state.skipped_updates:
            tell(f"{run.state.skipped_updates:,} updates were left out: their loss or gradient was not a number")
        if stop:
            report.end("stopped", f"go on with: python train.py --resume {run.directory.path}")
            tell(f"stopped after step {run.state.step:,}; go on with: python train.py --resume {run.directory.path}")
            return stop.exit_status
        if group.is_first:
            report_held_out(run, say)
        report.end("finished")
    return 0


def train(run, progress, stop, report) -> None:
    """The loop.  Raises: TrainingError where the loss or the gradient is no longer a number."""
    from autograd import random
    from minitf.training import run as training
    from minitf.training.data_parallel import next_batches, sum_update
    from minitf.training.optim import learning_rate
    from minitf.training.state import Interval

    config, model, optimizer, state = run.config, run.model, run.optimizer, run.state
    clock = training.Clock(run)
    saved_step = state.step
    random.manual_seed(config.seed)
    model.train()
    if training.owes_validation(run):  # the run was stopped between a step and the end of its validation
        training.validate(run, stop, progress.say)
        training.save(run)

    while not (stop or training.finished(run, clock)):
        # ---- 1. schedule ----
        step = state.step + 1
        rate = learning_rate(step, config.model.d_model, config.optimizer)

        # ---- 2. accumulate ----
        update = Interval()
        batches = next_batches(run)  # of several processes, each has a share
        run.gradients.begin(len(batches))
        for batch in batches:
            random.begin_step(step, batch.number, batch.first_row)
            loss, nll = training.batch_loss(model, batch, config.optimizer.label_smoothing)  # sums over the batch
            loss.backward()
            update.add(batch, loss.item(), nll.item())

        # ---- 3. step ----
        update = sum_update(run, step, update, stop, clock)  # of all processes
        norm = update.gradient_norm
        if update.is_finite:
            clip = config.optimizer.clip_norm
            optimizer.step(rate, (1.0 if clip is None or norm <= clip else clip / norm) / update.target_tokens)
            state.count(update)
            if run.moving_average is not None:
                run.moving_average.update(optimizer.step_count)
        else:
            training.leave_out(run, step, update, batches, progress.say)
        state.step = step
        progress.step()

        # ---- 4. log ----
        state.elapsed_s = clock.elapsed_s
        if step == 1 or step % config.log_every == 0:
            progress.update(training.log_interval(run), clock.remaining_s(step, config.max_steps))
            report.refresh()

        # ---- 5. validate and save ----
        if training.owes_validation(run):
            training.validate(run, stop, progress.say)
        if training.owes_checkpoint(run):  # after the lines of the log, which the checkpoint then covers
            training.save(run)
            saved_step = step

    if saved_step != state.step:
        training.save(run)
    if not stop:
        training.conclude(run, stop, progress.say)


if __name__ == "__main__":
    sys.exit(run_command(main))
