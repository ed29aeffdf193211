"""Data-parallel runs of real processes: N processes train as one, with the launcher and with mpiexec."""

import os
import sys

import numpy as np
import pytest

from minitf.storage import checkpoints
from minitf.storage.log import read_log
from minitf.training.state import CLOCK_KEYS
from tests.helpers.jobs import MPIEXEC, ROOT, mpi, needs_mpi, python
from tests.helpers.marks import parametrize_some
from tests.helpers.runs import write_corpus

pytestmark = pytest.mark.heavy

# Updates of three batches: two processes and eight have rows of each, some of the eight none; three have whole batches.
FLAGS = [
    *("--precision", "float64", "--vocab-size", "320", "--max-length", "32", "--max-tokens-per-batch", "64"),
    *("--accumulate", "3", "--max-steps", "12", "--log-every", "4", "--valid-every", "6", "--save-every", "6"),
    *("--model.dropout", "0.1", "--model.attention-dropout", "0.1", "--model.activation-dropout", "0.1"),
    *("--model.layers", "1", "--model.d-model", "32", "--model.d-ff", "64", "--model.heads", "2"),
    *("--optimizer.warmup-steps", "4000", "--optimizer.peak-learning-rate", "none", "--moving-average", "0.9"),
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


def parameters(run, step=12):
    return checkpoints.load(run / f"checkpoints/step-{step:08}.safetensors")


def check_same_run(ground, run, tolerance=1e-12):
    folder, _, expected = ground
    one, one_state = parameters(folder / "one")
    other, state = parameters(run)
    assert one.keys() == other.keys()
    worst = {name: float(np.abs(one[name] - other[name]).max()) for name in one}
    moved = max(float(np.abs(one[name] - start).max()) for name, start in parameters(folder / "one", 6)[0].items())
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


@parametrize_some(("size", "more"), [(2, []), (3, ["--checkpoint-activations"]), (1, []), (8, [])])
def test_processes_train_as_one(ground, size, more):
    folder, flags, _ = ground
    run = folder / f"cpu-{size}"
    said, status = python("train.py", *flags, "--output", run, "--devices", f"cpu:{size}", *more)
    assert status == 0, said
    assert said.count("\nstep 12") == 2  # rank 0 speaks, and nobody else
    assert said.count("warning: the run has ended at step 12, within its warm-up") == 1
    check_same_run(ground, run, tolerance=0.0 if size in (1, 3) else 1e-12)  # one, and whole batches: the same sums


@parametrize_some("after", ["none", "cpu:3"])
def test_a_run_goes_on_with_another_number_of_processes(ground, tmp_path, after):
    """The first part by the command minitf, from another directory, which its ranks start in as well."""
    _, flags, _ = ground
    run = tmp_path / "run"
    some = ["--output", "run", "--devices", "cpu:2", "--max-steps", "8"]
    said, status = python("-m", "minitf", "train", *flags, *some, cwd=tmp_path)
    assert (status, "2 processes on 1 host, cpu" in said) == (0, True), said
    said, status = python("train.py", "--resume", run, "--devices", after, "--max-steps", "12")
    assert (status, "resumed after step 8" in said) == (0, True), said
    check_same_run(ground, run)


def test_bfloat16_on_the_wire_learns_nearly_the_same(ground):
    folder, flags, expected = ground
    run = folder / "bfloat16"
    more = ["--reduce-dtype", "bfloat16", "--precision", "float32", "--max-steps", "4"]
    said, status = python("train.py", *flags, "--output", run, "--devices", "cpu:2", *more)
    assert status == 0, said
    found = losses(run)
    assert found[1]["loss"] != pytest.approx(expected[1]["loss"], rel=1e-9)
    assert found[1]["loss"] == pytest.approx(expected[1]["loss"], rel=1e-3)


@needs_mpi
def test_processes_of_mpiexec_train_as_one(ground):
    folder, flags, _ = ground
    run = folder / "mpi"
    said, status = mpi(2, *flags, "--output", run, program="train.py")
    assert status == 0, said
    assert said.count("\nstep 12") == 2
    check_same_run(ground, run)


# ---- The command line --------------------------------------------------------------------------------------------


@needs_mpi
def test_ranks_started_with_other_commands_and_environments_are_named(ground, tmp_path):
    """`mpiexec -n 1 … : -n 1 …`, as where the hosts of a job are not set up alike."""
    _, flags, _ = ground
    train = ["train.py", *flags, "--output", tmp_path / "run"]
    one = ["env", "OMP_NUM_THREADS=3", sys.executable, "-W", "error", *map(str, train), "--seed", "7"]
    said, status = python(*train, before=[MPIEXEC, "-n", "1", *one, ":", "-n", "1"], env={"OMP_NUM_THREADS": "1"})
    assert "rank 1 disagrees with rank 0: OMP_NUM_THREADS is '1' there, '3' here, seed is 0 there, 7 here" in said
    assert said.count("error: ") == 1
    assert "Traceback" not in said
    assert status != 0
    assert not (tmp_path / "run").exists()


def test_a_wrong_command_is_told_once_by_rank_0():
    for rank in ("0", "1"):
        said, status = python("train.py", "--model.heads", "5.5", env={"PMI_RANK": rank, "PMI_SIZE": "2"})
        assert status == 2
        assert ("error: --model.heads" in said) == (rank == "0"), said


def test_devices_and_mpiexec_exclude_each_other():
    for rank in ("0", "1"):
        said, status = python("train.py", "--devices", "cpu:2", env={"PMI_RANK": rank, "PMI_SIZE": "2"})
        assert (status, said.count("error: ")) == (2, int(rank == "0"))
        expected = "devices='cpu:2' starts processes, and mpiexec has started this one already"
        assert (expected in said) == (rank == "0")


def test_without_mpi4py_it_says_what_to_install(tmp_path):
    (tmp_path / "mpi4py.py").write_text("raise ImportError('no mpi4py here')")
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    said, status = python(
        "train.py", "--output", tmp_path / "r", env={"OMPI_COMM_WORLD_RANK": "0", "PYTHONPATH": paths}
    )
    assert status == 2
    assert "error: mpiexec has started this as one process of several, but mpi4py cannot be used (no mpi4py" in said
    assert "pip install '.[mpi]'" in said


def test_gpus_that_are_not_there_are_told_once(tmp_path):
    said, status = python("train.py", "--output", tmp_path / "r", "--devices", "64")
    assert status != 0
    assert said.count("error: ") == 1
    assert "choose fewer --devices, or --devices cpu:N" in said
    assert "Traceback" not in said
    assert not (tmp_path / "r").exists()
