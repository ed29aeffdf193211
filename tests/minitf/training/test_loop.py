"""The log of the training loop."""

import signal
from dataclasses import replace

import pytest

from additions.pages.run_log import read_log
from minitf.system.process import StopRequest
from minitf.training import loop
from minitf.training import state as of_state
from minitf.training.loop import fit_schedule, log_interval, train
from minitf.training.optim import learning_rate
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
    ("steps", "warm_up", "expected"), [(6, 9, ["will end", "has ended"]), (6, 5, []), (3, 3, ["has ended"])]
)
def test_a_run_that_ends_within_its_warm_up_says_so(run, monkeypatch, steps, warm_up, expected):
    monkeypatch.setattr(loop, "PLANNED_AT", 4)
    config = replace(run.config, max_steps=steps, optimizer=replace(run.config.optimizer, warmup_steps=warm_up))
    shown = Shown()
    train(replace(run, config=config), shown, StopRequest(), on_log=lambda: None)
    assert len(shown.left_s) == len({*shown.losses}) == steps  # at every step, other figures
    told = [text.partition(" at step")[0] for text in shown.said if "warm-up" in text]
    assert told == [f"warning: the run {how}" for how in expected]
    if "will end" in expected:  # known before the first step, from --max-steps
        assert shown.said[0].startswith("warning: the run will end at step 6,")


def test_the_schedule_fits_the_minutes_also_of_a_run_that_is_resumed(run, monkeypatch):
    for module in (loop, of_state):
        monkeypatch.setattr(module, "PLANNED_AT", 10)
    monkeypatch.setattr(Clock, "steps_left", lambda clock, seconds_per_step: 40.0)
    optimizer = replace(run.config.optimizer, warmup_steps=3_000)
    config = replace(run.config, max_steps=5_000, max_minutes=9.0, log_every=1, valid_every=5_000, optimizer=optimizer)
    run, stop, shown = replace(run, config=config), StopRequest(), Shown()

    def stop_at_15(share, remaining_s, means):
        stop.received = signal.SIGTERM if run.state.step == 15 else None

    shown.step = stop_at_15
    train(run, shown, stop, on_log=lambda: None)
    assert run.state.planned_steps == 48
    monkeypatch.setattr(Clock, "steps_left", lambda clock, seconds_per_step: 9_999.0)
    train(run, Shown(), StopRequest(), on_log=lambda: None)
    (told,) = [text for text in shown.said if "fits" in text]
    assert told == "the learning rate fits --max-minutes 9: it rises for 20 steps and falls to 0 at step 48"
    rates = {record["step"]: record["learning_rate"] for record in read_log(run.log.path) if "learning_rate" in record}
    width, fitted = run.config.model.d_model, replace(optimizer, warmup_steps=20, decay_steps=48)
    before, after = ((lambda step, each=each: learning_rate(step, width, each)) for each in (optimizer, fitted))
    assert rates == {step: (before if step <= 10 else after)(step) for step in range(1, 49)}
    assert rates[48] == 0
    again = Shown()
    train(run, again, StopRequest(), on_log=lambda: None)
    assert "start a run with more --max-minutes" in again.said[0]


@pytest.mark.parametrize(("left", "minutes"), [(100, 9.0), (10_000, 9.0), (1_000, None)])
def test_a_schedule_that_need_not_fit_or_cannot_stays(run, monkeypatch, left, minutes):
    monkeypatch.setattr(Clock, "steps_left", lambda clock, seconds_per_step: float(left))
    config = replace(run.config, max_steps=5_000, max_minutes=minutes)
    run.state.step, run.state.elapsed_s = 100, 3.0
    fit_schedule(replace(run, config=config), Clock(0.0, minutes), 50, 2.0, lambda text: pytest.fail(text))
    assert run.state.planned_steps == 0


def test_a_line_of_the_log_begins_a_new_interval(run):
    run.state.step, run.state.elapsed_s = 150, 9.0
    run.state.interval = Interval(loss=6.0, nll=3.0, target_tokens=3, source_tokens=1, slots=8, start_s=8.0)
    record = log_interval(run)
    assert read_log(run.log.path) == [record]
    assert (record["step"], record["loss"]) == (150, 2.0)
    assert record["learning_rate"] == pytest.approx(0.003)  # the top of the tiny preset's curve
    assert run.state.interval == Interval(start_s=9.0)
