"""Checkpoints of a run: everything comes back, and nothing is written that is not finite."""

import math
from dataclasses import asdict

import numpy as np
import pytest

from additions.pages.run_log import read_log
from minitf.errors import UserError
from minitf.training.divergence import TrainingError
from minitf.training.loop import save
from minitf.training.resuming import restore
from minitf.training.state import TrainState
from tests.helpers.jobs import python
from tests.helpers.runs import FLAGS, write_corpus


def test_everything_is_restored(run, said):
    rng = np.random.default_rng(0)
    for name, parameter in run.model.named_parameters().items():
        parameter.data[...] = rng.normal(size=parameter.shape)
        run.optimizer.m[name][...] = rng.normal(size=parameter.shape)
        run.optimizer.v[name][...] = rng.random(parameter.shape)
    next(run.data.train)
    run.log.append({"step": 1})
    run.state.step, run.state.best_loss = 6, 1.5
    save(run)
    saved = asdict(run.state)
    arrays = {name: p.data.copy() for name, p in run.model.named_parameters().items()}
    arrays |= {name: moment.copy() for name, moment in run.optimizer.state_arrays().items()}
    assert saved["on_schedule"] is False  # every 4 steps

    run.log.append({"step": "lost"})
    for parameter in run.model.parameters():
        parameter.data[...] = 0
    for moment in run.optimizer.state_arrays().values():
        moment[...] = 0
    next(run.data.train)
    run.state = TrainState(vocabulary="w", valid_corpus="v")
    restore(run, said.append)
    assert asdict(run.state) == saved
    assert run.optimizer.step_count == 6
    assert (run.data.train.epoch, run.data.train.position) == (saved["data"]["epoch"], saved["data"]["position"])
    assert read_log(run.log.path) == [{"step": 1}]
    now = {name: p.data for name, p in run.model.named_parameters().items()} | run.optimizer.state_arrays()
    assert all((now[name] == array).all() for name, array in arrays.items())
    assert said == ["resumed after step 6"]


@pytest.mark.parametrize(
    ("change", "message"),
    [({"vocabulary": "other"}, "vocabulary.model has changed"), ({"valid_corpus": "other"}, "the validation text")],
)
def test_what_does_not_belong_to_the_run(run, said, change, message):
    run.state = TrainState(**{"vocabulary": "w", "valid_corpus": "v", "step": 4, **change})
    save(run)
    run.state = TrainState(vocabulary="w", valid_corpus="v")
    with pytest.raises(UserError, match=f"the last checkpoint of .* does not match this run: .*{message}"):
        restore(run, said.append)
    assert run.state.step == 0


def test_a_checkpoint_of_something_else(run, said):
    """Whole, but not of a training run: as an average, or from another program."""
    run.checkpoints.save(3, {"model.a": np.zeros(2)}, {"note": "mine"})
    with pytest.raises(UserError, match="does not match this run: the training state does not fit this version"):
        restore(run, said.append)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("part", ["weight", "m", "v"])
def test_a_checkpoint_without_sound_numbers_is_not_written(run, value, part):
    run.state.step = 4
    name, parameter = list(run.model.named_parameters().items())[-1]
    array = parameter.data if part == "weight" else getattr(run.optimizer, part)[name]
    array.reshape(-1)[-1] = value
    with pytest.raises(TrainingError, match=f"after step 4, .*{name} is not finite; there is no checkpoint"):
        save(run)
    assert run.checkpoints.steps() == []


@pytest.mark.heavy
def test_one_process_imports_nothing_of_parallel(tmp_path):
    code = (
        "import sys; from minitf.__main__ import main; status = main(sys.argv[1:]); "
        "sys.exit(status or str([name for name in sys.modules if 'parallel' in name]))"
    )
    flags = [*FLAGS, *write_corpus(tmp_path), "--output", tmp_path / "run", "--max-steps", "1"]
    said, _ = python("-c", code, "train", *flags)
    assert said.endswith("\n[]\n"), said
