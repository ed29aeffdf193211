#!/usr/bin/env python3
"""Train a Transformer to translate: `python train.py` for the built-in corpus, `--help` for everything else.

The loop, before the details:

    while there is something to do:
        schedule     the learning rate of this update (equation 3)
        accumulate   sum the loss and its gradients over the batches of one update
        step         Adam, with the gradient divided by the target tokens of the whole update
        validate and save, every so often
        log          one JSON line, and the progress bar
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from minitf.cli import parse_train_args, run_command


def main(argv: Sequence[str]) -> int:
    """Train the run that the command line describes; returns the exit status."""
    config, resume = parse_train_args(argv)

    # after the command line: `--help` and a wrong flag need none of it
    from minitf.progress import Progress
    from minitf.report.held_out import report_held_out
    from minitf.signals import StopRequest
    from minitf.training import open_run

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with open_run(config, resume, say) as run:
        say(
            f"model: {run.model.parameter_count():,} parameters, vocabulary of {len(run.vocabulary):,}; "
            f"run: {run.directory.path}"
        )
        with Progress(run.config.max_steps, run.state.step) as progress, StopRequest(progress.say) as stop:
            train(run, progress, stop)
        if stop:
            say(f"stopped after step {run.state.step:,}; go on with: python train.py --resume {run.directory.path}")
            return stop.exit_status
        report_held_out(run, say)
    return 0


def train(run, progress, stop) -> None:
    """The loop.  Raises: TrainingError where the loss or the gradient is no longer a number."""
    import autograd as ag
    from autograd import random
    from minitf.data.vocabulary import PAD
    from minitf.optim import global_norm, learning_rate
    from minitf.training import Clock, diverged, log_record, out_of_patience, save, validate

    config, model, optimizer, state = run.config, run.model, run.optimizer, run.state
    clock = Clock(run)
    saved_step = state.step or None
    batches = iter(run.train)
    random.manual_seed(config.seed)
    model.train()

    while not (stop or state.step >= config.max_steps or clock.is_up or out_of_patience(run)):
        # ---- 1. schedule ----
        step = state.step + 1
        rate = learning_rate(step, config.model.d_model, config.optimizer)
        random.begin_step(step)

        # ---- 2. accumulate ----
        optimizer.zero_grad()
        target_tokens, loss_sum = 0, 0.0
        for _ in range(config.accumulate):
            batch = next(batches)
            logits = model(batch.source, batch.target_in)  # [B, T, V]
            loss, nll = ag.cross_entropy(
                logits,
                batch.target_out,
                label_smoothing=config.optimizer.label_smoothing,
                ignore_index=PAD,
                reduction="sum",
                with_nll=True,
                overwrite_logits=True,
            )
            loss.backward()
            del logits
            target_tokens += batch.target_tokens
            loss_sum += loss.item()
            state.interval.add(batch, loss.item(), nll.item())

        # ---- 3. step ----
        norm = global_norm(model.parameters()) / target_tokens
        if not (math.isfinite(loss_sum) and math.isfinite(norm)):
            raise diverged(step, loss_sum / target_tokens, norm, saved_step)
        clip = config.optimizer.clip_norm
        optimizer.step(rate, (1.0 if clip is None or norm <= clip else clip / norm) / target_tokens)
        state.step = step
        state.target_tokens += target_tokens
        progress.step()

        # ---- 4. validate and save ----
        last = bool(stop) or step == config.max_steps or clock.is_up
        valid_loss = validate(run) if last or step % config.valid_every == 0 else None
        state.elapsed_s = clock.elapsed_s

        # ---- 5. log ----
        if valid_loss is not None or step == 1 or step % config.log_every == 0:
            record = log_record(run, rate, norm, valid_loss)
            run.log.append(record)
            progress.update(record, clock.remaining_s(step, config.max_steps))
        if last or step % config.save_every == 0:  # after the step's line, which the checkpoint then covers
            save(run)
            saved_step = step

    if state.step and saved_step != state.step:
        save(run)  # the loop ended between a step and the next: on a signal, or out of patience


if __name__ == "__main__":
    sys.exit(run_command(main))
