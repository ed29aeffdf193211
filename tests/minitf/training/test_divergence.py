"""Divergence: the op that is named."""

import math
from dataclasses import replace

import numpy as np

from autograd import random
from minitf.training.divergence import diverged, find_origin
from minitf.training.optim import batch_loss
from minitf.training.state import Interval


def diverging(run):
    batch = run.data.train.batch(0, 0)
    return Interval(loss=math.nan, nll=1.0, target_tokens=2, gradient_norm=1.0), [batch]


def test_the_op_that_first_gave_no_number_is_named(run):
    run.model.output_matrix.data[...] = 1e30
    with np.errstate(all="ignore"):
        error = diverged(run, 3, *diverging(run))
    message = str(error)
    assert message.startswith("training diverged: step 3 has loss nan, gradient norm 1: the forward pass of ")
    assert "minitf/" in message
    assert error.exit_status == 1


def test_numbers_that_only_overflow_together(run):
    found = str(diverged(run, 3, *diverging(run)))
    assert "each number is finite by itself, but their sum is not; there is no checkpoint; start again" in found


def test_the_repetition_draws_the_same_dropout(run, monkeypatch):
    """Else what it looks at is another computation."""
    masks = []
    next_mask = random.next_mask

    def spy(*arguments):
        masks.append(next_mask(*arguments))
        return masks[-1]

    monkeypatch.setattr(random, "next_mask", spy)
    random.manual_seed(7)
    batches = [
        run.data.train.batch(0, 0),
        replace(run.data.train.part(0, 1, 1, 2), number=1),
    ]  # the second half of the second
    for batch in batches:
        random.begin_step(3, batch.number, batch.first_row)
        batch_loss(run.model, batch, 0.1)[0].backward()
    first = len(masks)
    find_origin(run.model, 0.1, 3, batches)
    assert len(masks) == 2 * first > 0
    assert masks[:first] == masks[first:]
