"""Data-parallel runs of real processes: N processes train as one, started by --devices and by mpiexec."""

import shutil

import numpy as np
import pytest

from additions.pages.run_log import read_log
from minitf.storage import checkpoints
from minitf.training.state import CLOCK_KEYS
from tests.helpers.jobs import mpi, python
from tests.helpers.runs import write_corpus

pytestmark = pytest.mark.heavy

# Updates of three batches: two processes have rows of each, three have whole batches.
FLAGS = [
    *("--precision", "float64", "--vocab-size", "320", "--max-length", "32", "--max-tokens-per-batch", "64"),
    *("--accumulate", "3", "--max-steps", "6", "--log-every", "2", "--valid-every", "3", "--save-every", "3"),
    *("--model.dropout", "0.1", "--set", "model.attention_dropout=0.1", "--set", "model.activation_dropout=0.1"),
    *("--model.layers", "1", "--model.d-model", "32", "--model.d-ff", "64", "--model.heads", "2"),
    *("--optimizer.warmup-steps", "2000", "--optimizer.peak-learning-rate", "none", "--set", "moving_average=0.9"),
    *("--average-checkpoints", "1", "--beam", "1", "--max-extra-length", "2"),
]

# ---- N processes train as one ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """The texts, and the run of one process."""
    folder = tmp_path_factory.mktemp("parallel")
    flags = [*FLAGS, *write_corpus(folder)]
    said, status = python("train.py", *flags, "--output", folder / "one", "--threads", "1")
    assert status == 0, said
    return folder, [*flags, "--vocabulary", folder / "one/vocabulary.model"], losses(folder / "one")


def losses(run):
    return [{k: v for k, v in each.items() if k not in CLOCK_KEYS} for each in read_log(run / "log.jsonl")]


def parameters(run, step=6):
    return checkpoints.load(run / f"checkpoints/step-{step:08}.safetensors")


def check_same_run(ground, run, tolerance=1e-12):
    folder, _, expected = ground
    one, one_state = parameters(folder / "one")
    other, state = parameters(run)
    assert one.keys() == other.keys()
    worst = {name: float(np.abs(one[name] - other[name]).max()) for name in one}
    moved = max(float(np.abs(one[name] - start).max()) for name, start in parameters(folder / "one", 3)[0].items())
    assert moved > 1e-4  # they have learned something
    assert max(worst.values()) <= tolerance, sorted(worst.items(), key=lambda item: -item[1])[:3]
    for name in ("step", "target_tokens", "data", "best_step", "validations_since_best", "vocabulary"):
        assert state[name] == one_state[name]
    found = losses(run)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.keys() == theirs.keys()
        for key, value in mine.items():
            assert value == (pytest.approx(theirs[key], rel=1e-9) if isinstance(value, float) else theirs[key]), key


@pytest.mark.slow  # the next tests have two processes
def test_processes_with_whole_batches_train_as_one_to_the_bit(ground):
    folder, flags, _ = ground
    run = folder / "cpu-3"
    said, status = python("train.py", *flags, "--output", run, "--devices", "cpu:3", "--checkpoint-activations")
    assert status == 0, said
    check_same_run(ground, run, tolerance=0.0)


def test_a_run_goes_on_with_another_number_of_processes(ground, tmp_path):
    """By the command minitf, from another directory, which its ranks start in as well."""
    folder, _, _ = ground
    run = tmp_path / "run"
    shutil.copytree(folder / "one", run)
    checkpoints.Checkpoints(run / "checkpoints").path(6).unlink()
    said, status = python("-m", "minitf", "train", "--resume", "run", "--devices", "cpu:2", cwd=tmp_path)
    assert (status, "resumed after step 3" in said) == (0, True), said
    assert "2 processes on 1 host, cpu" in said
    assert said.count("\nstep 6") == 2  # rank 0 speaks, and nobody else
    assert said.count("warning: the run has ended at step 6, within its warm-up") == 1
    check_same_run(ground, run)


def test_processes_of_mpiexec_train_as_one(ground):
    folder, flags, _ = ground
    run = folder / "mpi"
    said, status = mpi(2, *flags, "--output", run, program="train.py")
    assert status == 0, said
    assert said.count("\nstep 6") == 2
    check_same_run(ground, run)


# ---- The command line --------------------------------------------------------------------------------------------


def test_another_number_of_devices_than_mpiexec_has_started_is_refused_once(ground, tmp_path):
    said, status = mpi(3, *ground[1], "--output", tmp_path / "r", "--devices", "cpu:2", program="train.py")
    assert (status, said.count("error: ")) == (2, 1)
    assert "error: devices='cpu:2', but mpiexec has started 3 processes; omit --devices, or leave mpiexec out" in said
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("start", [["--devices", "cpu:2"], []])
def test_without_mpi4py_it_says_what_to_install(tmp_path, start):
    code = "import sys; sys.modules['mpi4py'] = None; from minitf.__main__ import main; sys.exit(main())"
    rank = {} if start else {"PMI_RANK": "0", "PMI_SIZE": "2"}
    said, status = python("-c", code, "train", "--output", tmp_path / "r", *start, env=rank)
    assert (status, said.count("\n")) == (2, 1)
    assert "mpi4py" in said
    assert "pip install '.[parallel]' in the project's directory" in said


def test_gpus_that_are_not_there_are_told_once(tmp_path):
    said, status = python("train.py", "--output", tmp_path / "r", "--devices", "2")
    assert status != 0
    assert said.count("error: ") == 1
    assert "choose fewer --devices, or --devices cpu:N" in said
    assert "Traceback" not in said
    assert not (tmp_path / "r").exists()
