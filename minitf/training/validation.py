"""Validation: loss and BLEU on the validation text, and the best weights so far."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import autograd as ag
from minitf.config import RunConfig
from minitf.data.batches import Batches
from minitf.data.text import read_lines
from minitf.decoding.lines import LineTranslator, Plan, search_of
from minitf.evaluation.metrics import bleu
from minitf.model.transformer import Transformer
from minitf.system.environment import sum_left_to_right
from minitf.system.process import Say, StopRequest
from minitf.training.optim import batch_loss
from minitf.training.run import Nats, Run, SingleProcess, TrainingData, save_best
from minitf.training.state import TrainState, perplexity, record_validation, validation_is_due


class _StopTranslatingError(Exception):
    """Raised inside the translation of the validation text when the run is asked to stop."""


def owes_validation(run: Run) -> bool:
    """True if this step is one to validate, and has not been validated."""
    return run.data.valid is not None and validation_is_due(run.config, run.state, run.data.train.epoch)


def validate(run: Run, stop: StopRequest, say: Say) -> float | None:
    """Measure the validation loss, and BLEU if that is the metric; log them, keep the best weights; return the BLEU.

    The weights measured are the moving average if there is one.  Does nothing without a validation text, and for a step
    that has been validated.  A validation that is interrupted leaves no trace: the checkpoint of its step says that it
    was not validated, and the resumed run makes up for it first.
    """
    state = run.state
    if run.data.valid is None or state.validated_step == state.step:
        return None
    with_bleu = run.config.valid_metric == "bleu"
    start = time.perf_counter()
    with run.moving_average.in_place(run.model) if run.moving_average else nullcontext():
        measured = measure(run.model, run.data, run.config, run.process, stop, with_bleu)
        if measured is not None:
            improved = is_best(run.config.valid_metric, state, *measured)
            if improved and run.process.is_main_process:
                save_best(run, *measured)
            record_validation(state, run.data.train.epoch, improved, *measured)
            sample = sample_of(run) if run.process.is_main_process and math.isfinite(measured[0]) else None
    spent_s = run.process.broadcast(time.perf_counter() - start)
    state.elapsed_s += spent_s
    state.interval.start_s += spent_s  # tokens per second are those of training
    if measured is None:
        return None
    log_validation(run, *measured, say)
    if sample is not None:
        say(f"    {sample[0]}\n  → {sample[1]}")
    return measured[1]


def measure(
    model: Transformer,
    data: TrainingData,
    config: RunConfig,
    process: SingleProcess,
    stop: StopRequest,
    with_bleu: bool,
) -> tuple[float, float | None] | None:
    """Return (loss, BLEU) on the validation text; BLEU is None unless it is asked for.

    Returns None if `stop` is requested before the end.
    """
    assert data.valid is not None
    loss = mean_nll(model, data.valid, process, stop)
    if loss is None or not with_bleu:
        return None if loss is None else (loss, None)
    score = process.broadcast(validation_bleu(model, data, config, stop) if process.is_main_process else None)
    return None if score is None else (loss, score)


def mean_nll(
    model: Transformer, valid: Batches, process: SingleProcess, stop: StopRequest | None = None
) -> float | None:
    """Mean negative log-likelihood in nats per target token, without dropout and label smoothing.

    Its exponential is the perplexity.  Returns None if `stop` is requested before the end.
    """
    losses: list[Nats] = []
    model.eval()
    with ag.no_grad():
        for batch in process.validation_batches(valid):
            if stop:
                break
            losses.append((batch_loss(model, batch, label_smoothing=0.0)[1].item(), batch.target_tokens))
    model.train()
    if stop:
        return None
    gathered = process.gather(losses, stop)
    return sum_left_to_right(nll for nll, _ in gathered) / sum(tokens for _, tokens in gathered)


def validation_bleu(
    model: Transformer, data: TrainingData, config: RunConfig, stop: StopRequest | None = None
) -> float | None:
    """BLEU of the model's greedy translations of the validation text.

    Returns None if `stop` is requested before the end.
    """
    assert data.texts.valid is not None
    sources, references = (list(read_lines(path)) for path in data.texts.valid)

    def check_stop(lines: int) -> None:
        if stop:
            raise _StopTranslatingError

    try:
        hypotheses = greedy_translations(model, data, config, sources, check_stop)
    except _StopTranslatingError:
        return None
    return bleu(hypotheses, references, tokenize=config.bleu_tokenize).score


def sample_of(run: Run) -> tuple[str, str] | None:
    """Return the first validation sentence and its greedy translation; None for another task than translation."""
    if run.config.task != "translation" or run.data.valid is None:
        return None
    (text,) = run.data.vocabulary.source.decode([run.data.valid.corpus.source[0].tolist()])
    (translation,) = greedy_translations(run.model, run.data, run.config, [text])
    return text, translation


def greedy_translations(
    model: Transformer,
    data: TrainingData,
    config: RunConfig,
    sources: list[str],
    progress: Callable[[int], object] = lambda lines: None,
) -> list[str]:
    """Translate lines with the weights that the model has now."""
    was_training = model.training
    model.eval()
    translator = LineTranslator(
        model, data.vocabulary, max_source_length=config.max_length - 1, warn=lambda message: None
    )
    plan = Plan(replace(search_of(config), beam=1), progress=progress)
    try:
        return [best.text for best, *_ in translator.nbest(sources, plan)]
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
