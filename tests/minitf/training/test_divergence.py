"""Divergence: the op that is named, updates that are skipped, and the advice."""

import math
from dataclasses import replace

import numpy as np
import pytest

from autograd import random
from minitf.training.divergence import MAX_SKIPPED_IN_A_ROW, find_origin, skip_update
from minitf.training.optim import batch_loss
from minitf.training.run import TrainingError
from minitf.training.state import Interval
from tests.helpers.small_run import CONFIG


def diverging(run):
    batch = run.data.train.batch(0, 0)
    return Interval(loss=math.nan, nll=1.0, target_tokens=2, gradient_norm=1.0), [batch]


def test_the_op_that_first_gave_no_number_is_named(run, said):
    run.model.output_matrix.data[...] = 1e30
    with np.errstate(all="ignore"), pytest.raises(TrainingError) as caught:
        skip_update(run, 3, *diverging(run), said.append)
    message = str(caught.value)
    assert message.startswith("training diverged: step 3 has loss nan, gradient norm 1: the forward pass of ")
    assert "minitf/" in message
    assert caught.value.exit_status == 1
    assert (run.state.skipped_updates, said) == (0, [])


def test_numbers_that_only_overflow_together(run, said):
    with pytest.raises(TrainingError, match="each number is finite by itself, but their sum is not"):
        skip_update(run, 3, *diverging(run), said.append)


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


def test_skipping_counts(run, said):
    run.config = replace(CONFIG, on_divergence="skip")
    for _ in range(MAX_SKIPPED_IN_A_ROW):
        skip_update(run, 3, *diverging(run), said.append)
    assert run.state.skipped_updates == run.state.skipped_in_a_row == len(said) == 10
    assert said[1] == "step 3 has loss nan, gradient norm 1: skipped, 2 in all"
    with pytest.raises(
        TrainingError, match=r"as had 10 steps before: .*; there is no good checkpoint; start again with"
    ):
        skip_update(run, 3, *diverging(run), said.append)
