"""Validation: its loss, what it changes, and when it is due."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from additions.pages.run_log import read_log
from minitf.training import loop as training_loop
from minitf.training.loop import mean_nll, owes_validation, validate
from minitf.training.run import MovingAverage
from minitf.training.state import out_of_patience
from tests.helpers.batches import batch_of
from tests.helpers.small_run import CONFIG, SENTENCES


def test_mean_nll_is_that_of_each_sentence_alone(run):
    """One sentence at a time, without padding, batches and dropout."""
    total, tokens = 0.0, 0
    run.model.eval()
    for source, target in zip(SENTENCES, SENTENCES[::-1], strict=True):
        batch = batch_of([source], [target])
        logits = run.model(batch.source, batch.target_in).numpy()[0].astype(np.float64)
        log_total = np.log(np.exp(logits).sum(axis=1))
        total += float((log_total - logits[np.arange(len(target) + 1), batch.target_out[0]]).sum())
        tokens += len(target) + 1
    run.model.train()
    assert mean_nll(run.model, run.data.valid, run.process) == pytest.approx(total / tokens, rel=1e-6)
    assert run.model.training  # and it is left as a step needs it


def test_best_loss_and_patience(run, said, monkeypatch):
    losses = [3.0, 2.0, 2.0, math.nan, 2.5, 1.5, math.inf]
    monkeypatch.setattr(training_loop, "mean_nll", lambda *_: losses[run.state.step - 1])
    run.config = replace(CONFIG, patience=3)
    seen = []
    for run.state.step in range(1, 8):
        validate(run, SimpleNamespace(say=said.append))
        validate(run, SimpleNamespace(say=said.append))  # a step is validated once
        seen.append((run.state.best_loss, run.state.validations_since_best, out_of_patience(run.config, run.state)))
    assert seen == [
        (3.0, 0, False),
        (2.0, 0, False),
        (2.0, 1, False),
        (2.0, 2, False),
        (2.0, 3, True),
        (1.5, 0, False),
        (1.5, 1, False),
    ]
    records = read_log(run.log.path)
    assert [float(record["valid_loss"]) for record in records] == pytest.approx(losses, nan_ok=True)
    assert records[1]["valid_perplexity"] == pytest.approx(math.exp(2))
    steps = [line for line in said if "→" not in line]
    assert steps[1] == "step 2: validation loss 2.0000, perplexity 7.389"
    assert (len(steps), len(said)) == (7, 12)  # no sample where the loss is not finite


def test_a_validation_measures_the_moving_average(run, said):
    run.state.step, run.moving_average = 1, MovingAverage(run.model.named_parameters(), 0.9)
    plain = mean_nll(run.model, run.data.valid, run.process)
    for average in run.moving_average.arrays.values():
        average *= 2
    validate(run, SimpleNamespace(say=said.append))
    with run.moving_average.in_place(run.model):
        averaged = mean_nll(run.model, run.data.valid, run.process)
    assert run.state.best_loss == averaged != plain


def test_when_a_validation_is_due(run):
    due = []
    for run.state.step in range(12):
        due.append(owes_validation(run))
    assert [step for step, is_due in enumerate(due) if is_due] == [5, 10]
    run.state.validated_step = run.state.step = 10
    assert not owes_validation(run)
    run.state.validated_step, run.data.valid = 5, None
    assert not owes_validation(run)


def test_a_validation_shows_what_the_model_makes_of_its_first_sentence(run, said):
    run.state.step = 1
    validate(run, SimpleNamespace(say=said.append))
    source = " ".join(f"w{token}" for token in run.data.valid.corpus.source[0])
    (sample,) = (line for line in said if "→" in line)
    assert sample.startswith(f"    {source}\n  → ")
    assert run.model.training
