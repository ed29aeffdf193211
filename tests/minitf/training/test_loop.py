"""The log of the training loop."""

import pytest

from minitf.storage.log import read_log
from minitf.training.loop import log_interval
from minitf.training.state import Interval


def test_a_line_of_the_log_begins_a_new_interval(run):
    run.state.step, run.state.elapsed_s, run.state.skipped_updates = 150, 9.0, 2
    run.state.interval = Interval(loss=6.0, nll=3.0, target_tokens=3, source_tokens=1, slots=8, start_s=8.0)
    record = log_interval(run)
    assert read_log(run.log.path) == [record]
    assert (record["step"], record["loss"], record["skipped_updates"]) == (150, 2.0, 2)
    assert record["learning_rate"] == pytest.approx(0.003)  # the top of the tiny preset's curve
    assert run.state.interval == Interval(start_s=9.0)
