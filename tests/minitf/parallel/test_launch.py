"""Jobs of real processes: what a group can do, and how a job ends whatever happens to one of its ranks."""

import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
import pytest

from minitf.errors import UserError
from minitf.parallel.launch import launch
from tests.helpers.jobs import ROOT, WORKER, alive, job, mpi, needs_mpi, wait_for
from tests.helpers.marks import parametrize_some
from tests.helpers.parallel_worker import numbers

pytestmark = pytest.mark.heavy

# ---- What a group can do -----------------------------------------------------------------------------------------


def check_talk(folder, size):
    expected = numbers(0)
    for rank in range(1, size):
        expected = expected + numbers(rank)  # in this order, to the bit
    for rank in range(size):
        seen = json.loads((folder / f"seen-{rank}.json").read_text())
        assert seen["large"] == [10 + (each << 20) for each in range(size)]
        assert [each["rank"] for each in seen["gathered"]] == list(range(size))
        assert seen["gathered"][-1]["third"] == 1 / 3
        assert seen["gathered"][0]["nan"] != seen["gathered"][0]["nan"]
        assert (seen["shared"], seen["broadcast"], seen["made"], seen["zeros"]) == (7, True, True, True)
        assert seen["cores"] == max(1, len(os.sched_getaffinity(0)) // size)
        assert np.load(folder / f"sum-{rank}.npy").tobytes() == expected.tobytes()


@parametrize_some("size", [3, 1, 8])
def test_processes_of_this_host(tmp_path, size):
    said, status = job(size, "talk", tmp_path)
    assert (said, status) == ("", 0)
    check_talk(tmp_path, size)


@needs_mpi
@pytest.mark.parametrize("size", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_processes_of_mpiexec(tmp_path, size):
    said, status = mpi(size, "talk", tmp_path)
    assert (said, status) == ("", 0)
    check_talk(tmp_path, size)


# ---- How a job ends ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deed", "status", "reason"),
    [
        ("killed", 1, "was killed by SIGKILL"),
        ("stopped", 1, "sent no heartbeat for 2 seconds"),
        pytest.param("stopped-late", 1, "sent no heartbeat for 2 seconds", marks=pytest.mark.slow),
        pytest.param("killed-late", 1, "was killed by SIGKILL", marks=pytest.mark.slow),
        ("stopped-last", 1, "finished its work, but did not exit within 2 seconds"),
        pytest.param("asleep", 1, "made no progress for 2 seconds in fail (parallel_worker.py", marks=pytest.mark.slow),
        ("error", 2, "failed: the disk is full"),
        pytest.param("bug", 1, "failed with ZeroDivisionError: one by none", marks=pytest.mark.slow),
        pytest.param("exit", 7, "exited with status 7 before its work was done", marks=pytest.mark.slow),
        pytest.param("silent-bye", 1, "exited with status 0 before its work was done", marks=pytest.mark.slow),
    ],
)
def test_the_one_that_fails_is_named_and_nobody_is_left(tmp_path, deed, status, reason):
    start = time.monotonic()
    said, found = job(2, deed, tmp_path)
    assert time.monotonic() - start < 30
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, said
    assert errors[0].startswith("error: rank 1 (process ")
    assert reason in errors[0]
    assert found == status
    assert ("Traceback" in said) == (deed == "bug")
    assert alive(tmp_path) == []


def test_one_that_disagrees_is_named(tmp_path):
    said, status = job(3, "disagrees", tmp_path)
    assert "failed: rank 1 disagrees with rank 0: the seed is True there, False here; use one" in said
    assert said.count("error: ") == 1
    assert status == 1
    assert alive(tmp_path) == []


OTHERS = [
    ("other-version", "the version of minitf is '0.0.9' there, '"),
    ("other-code", "the code is 'ffffffffffffffff' there, '"),
    ("other-package", "numpy is '1.26.4' there, '"),
    ("other-environment", "OMP_NUM_THREADS is '3' there, '"),
    ("other-threads", "threads is 5 there, None here"),
    ("other-configuration", "seed is 99 there, 0 here, model.dropout is 0.25 there"),
    ("other-files", "the training text is 'one' there, 'two' here; every host must see the same directory"),
]


@parametrize_some(("deed", "words"), OTHERS, keep=(5,))
def test_a_rank_of_another_kind_is_named(tmp_path, deed, words):
    said, status = job(2, deed, tmp_path)
    (error,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert f"rank 1 disagrees with rank 0: {words}" in error
    assert status == 1
    assert "Traceback" not in said
    assert alive(tmp_path) == []


@needs_mpi
@pytest.mark.parametrize(("deed", "words"), OTHERS)
def test_a_rank_of_mpiexec_of_another_kind_is_named(tmp_path, deed, words):
    said, status = mpi(2, deed, tmp_path)
    assert f"rank 1 disagrees with rank 0: {words}" in said
    assert said.count("error: ") == 1
    assert status != 0


@pytest.mark.slow
def test_processes_that_all_wait_are_ended(tmp_path):
    said, status = job(2, "deadlock", tmp_path)
    assert "error: deadlock: all ranks waited for each other for 2 seconds: rank 0 in" in said
    assert status == 1
    assert alive(tmp_path) == []


def test_no_process_outlives_its_launcher(tmp_path):
    code = f"import sys; from minitf.parallel.launch import launch; launch([{str(WORKER)!r}, *sys.argv[1:]], 2, 60.0)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code, "asleep", str(tmp_path)], env=environment) as launcher:
        wait_for(lambda: len(list(tmp_path.glob("pid-*"))) == 2)
        launcher.kill()
    wait_for(lambda: not alive(tmp_path))


@needs_mpi
@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("error", "failed: the disk is full"),
        pytest.param("stopped", "sent no heartbeat for 2 seconds", marks=pytest.mark.slow),
    ],
)
def test_mpiexec_ends_them_all(tmp_path, deed, reason):
    said, status = mpi(2, deed, tmp_path)
    assert [line for line in said.splitlines() if "error: rank 1 (process " in line and reason in line], said
    assert said.count("error: ") == 1
    assert status != 0
    wait_for(lambda: not alive(tmp_path))


def test_the_launcher_refuses_what_the_system_cannot_start():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
    try:
        with pytest.raises(UserError, match=r"cannot start 64 processes: Too many open files; choose fewer --devices"):
            launch([str(WORKER), "talk", "nowhere"], 64, 2.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
