"""Validation: loss and BLEU on the validation text, and the best weights so far."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from dataclasses import replace

import autograd as ag
from minitf.data.batches import Batches
from minitf.data.text import read_lines
from minitf.decoding.lines import LineTranslator, Plan, search_of
from minitf.evaluation.metrics import bleu as bleu_of
from minitf.model.transformer import Transformer
from minitf.system.environment import sum_left_to_right
from minitf.system.process import Progress, Say
from minitf.training.optim import batch_loss
from minitf.training.run import Nats, Run, SingleProcess, save_best
from minitf.training.state import TrainState, perplexity, record_validation, validation_is_due


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
            sample = sample_of(run)
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
    with ag.no_grad():
        for batch in process.validation_batches(valid):
            losses.append((batch_loss(model, batch, label_smoothing=0.0)[1].item(), batch.target_tokens))
    model.train()
    gathered = process.gather(losses)
    return sum_left_to_right(nll for nll, _ in gathered) / sum(tokens for _, tokens in gathered)


def validation_bleu(run: Run) -> float:
    """BLEU of the model's greedy translations of the validation text."""
    assert run.data.texts.valid is not None
    sources, references = (list(read_lines(path)) for path in run.data.texts.valid)
    return bleu_of(greedy_translations(run, sources), references, tokenize=run.config.bleu_tokenize).score


def sample_of(run: Run) -> tuple[str, str] | None:
    """Return the first validation sentence and its greedy translation; None without one."""
    if run.data.valid is None:
        return None
    (text,) = run.data.vocabulary.source.decode([run.data.valid.corpus.source[0].tolist()])
    (translation,) = greedy_translations(run, [text])
    return text, translation


def greedy_translations(run: Run, sources: list[str]) -> list[str]:
    """Translate lines with the weights that the model has now."""
    was_training = run.model.training
    model = run.model.eval()
    longest = run.config.max_length - 1
    translator = LineTranslator(model, run.data.vocabulary, max_source_length=longest, warn=lambda message: None)
    try:
        found = translator.nbest(sources, Plan(replace(search_of(run.config), beam=1)))
        return [best.text for best, *_ in found]
    finally:
        model.train(was_training)


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
