"""The log of the training loop."""

from dataclasses import replace

import pytest

from minitf.storage.run_directory import read_log
from minitf.system.process import StopRequest
from minitf.training.loop import log_interval, train
from minitf.training.state import Clock, Interval


class Shown:
    """A progress line that notes what it is told."""

    def __init__(self):
        self.said, self.left_s, self.losses = [], [], []

    def say(self, text):
        self.said.append(text)

    def step(self, share, remaining_s, means):
        self.left_s.append(remaining_s)
        self.losses.append(means["loss"])

    def update(self, record, remaining_s):
        pass


@pytest.mark.parametrize(
    ("steps", "warm_up", "expected"), [(102, 150, ["will end", "has ended"]), (102, 50, []), (3, 3, ["has ended"])]
)
def test_a_run_that_ends_within_its_warm_up_says_so(run, steps, warm_up, expected):
    config = replace(run.config, max_steps=steps, optimizer=replace(run.config.optimizer, warmup_steps=warm_up))
    shown = Shown()
    train(replace(run, config=config), shown, StopRequest(), on_log=lambda: None)
    assert len(shown.left_s) == len({*shown.losses}) == steps  # at every step, other figures
    told = [text.partition(" at step")[0] for text in shown.said if "warm-up" in text]
    assert told == [f"warning: the run {how}" for how in expected]
    if "will end" in expected:  # known before the first step, from --max-steps
        assert shown.said[0].startswith("warning: the run will end at step 102,")


def test_minutes_that_end_within_the_warm_up_are_told_after_100_steps(run, monkeypatch):
    monkeypatch.setattr(Clock, "last_step", lambda clock, step, max_steps: step)
    config = replace(run.config, max_steps=102, optimizer=replace(run.config.optimizer, warmup_steps=101))
    shown = Shown()
    train(replace(run, config=config), shown, StopRequest(), on_log=lambda: None)
    (told,) = [text for text in shown.said if "warm-up" in text]
    assert told.startswith("warning: the run will end at step 100,")


def test_a_line_of_the_log_begins_a_new_interval(run):
    run.state.step, run.state.elapsed_s = 150, 9.0
    run.state.interval = Interval(loss=6.0, nll=3.0, target_tokens=3, source_tokens=1, slots=8, start_s=8.0)
    record = log_interval(run)
    assert read_log(run.log.path) == [record]
    assert (record["step"], record["loss"]) == (150, 2.0)
    assert record["learning_rate"] == pytest.approx(0.003)  # the top of the tiny preset's curve
    assert run.state.interval == Interval(start_s=9.0)
