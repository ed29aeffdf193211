"""Jobs of real processes: what a group can do, and how a job ends whatever happens to one of its ranks."""

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time

import numpy as np
import pytest

from minitf.parallel.launch import job
from tests.helpers.jobs import ROOT, WORKER, alive, mpi, wait_for
from tests.helpers.marks import parametrize_some
from tests.helpers.parallel_worker import LENGTHS, numbers
from tests.helpers.runs import write_corpus

pytestmark = pytest.mark.heavy


@parametrize_some("size", [3, 1, 8])
def test_what_a_group_can_do(tmp_path, size):
    assert mpi(size, "talk", tmp_path) == ("", 0)
    totals = []
    for rank in range(size):
        seen = json.loads((tmp_path / f"seen-{rank}.json").read_text())
        assert seen["large"] == [10 + (each << 20) for each in range(size)]
        assert [each["rank"] for each in seen["gathered"]] == list(range(size))
        assert seen["gathered"][0]["nan"] != seen["gathered"][0]["nan"]
        assert (seen["shared"], seen["broadcast"], seen["made"]) == (7, True, True)
        assert seen["cores"] == max(1, len(os.sched_getaffinity(0)) // size)
        totals.append([*np.load(tmp_path / f"sum-{rank}.npz").values()])
    for rank in range(size):
        for mine, theirs in zip(totals[rank], totals[0], strict=True):
            assert mine.tobytes() == theirs.tobytes()  # on every rank
        for now, again in zip(totals[rank], totals[rank][2 * len(LENGTHS) :], strict=False):
            assert now.tobytes() == again.tobytes()  # and each time
    for total, length in zip(totals[0][1::2], LENGTHS, strict=False):
        terms = [numbers(rank, length) for rank in range(size)]
        np.testing.assert_allclose(total, sum(terms), rtol=0, atol=1e-15 * size * max(np.abs(terms).max(), 1))


@pytest.mark.parametrize(
    ("deed", "status", "reason"),
    [
        ("killed", 9, "Killed (signal 9)"),
        ("stopped", 1, "error: rank 0 waited 1 seconds for rank 1, in the sum of gradients; continue from the last"),
        pytest.param("asleep", 1, "error: rank 0 waited 1 seconds for rank 1", marks=pytest.mark.slow),
        ("error", 2, "error: rank 1: the disk is full"),
        pytest.param("bug", 1, "error: rank 1: ZeroDivisionError: one by none", marks=pytest.mark.slow),
        ("other-configuration", 1, "rank 1 disagrees with rank 0: seed is 99 there, 0 here; start all"),
        ("other-files", 1, "the training text is 'one' there, 'two' here; every host must see the same directory"),
    ],
)
def test_a_job_ends_with_the_rank_that_fails_and_names_it(tmp_path, deed, status, reason):
    waits = deed in ("stopped", "asleep")  # others only if the machine is busy
    said, found = mpi(2, deed, tmp_path, env={"MINITF_COLLECTIVE_TIMEOUT_S": "1" if waits else "60"})
    assert reason in said
    assert found == status
    assert said.count("error: ") == (deed != "killed"), said
    assert ("Traceback" in said) == (deed == "bug")
    wait_for(lambda: not alive(tmp_path))


def test_no_process_outlives_mpiexec(tmp_path):
    command, environment = job([str(WORKER), "asleep", str(tmp_path)], 2)
    with subprocess.Popen(command, env=environment) as launcher:
        wait_for(lambda: len(list(tmp_path.glob("pid-*"))) == 2)
        launcher.kill()
    wait_for(lambda: not alive(tmp_path))


def test_the_first_rank_shows_its_progress_and_ctrl_c_saves(tmp_path):
    primary, secondary = pty.openpty()
    termios.tcsetwinsize(secondary, (24, 100))
    flags = [*write_corpus(tmp_path), "--vocab-size", "320", "--max-tokens-per-batch", "256"]
    flags += ["--devices", "cpu:2", "--output", str(tmp_path / "run")]
    flags += ["--model.layers", "1", "--model.d-model", "32", "--model.d-ff", "64", "--model.heads", "2"]
    command = [sys.executable, str(ROOT / "train.py"), *flags]
    with subprocess.Popen(
        command, stdin=secondary, stdout=secondary, stderr=secondary, start_new_session=True
    ) as started:
        os.close(secondary)
        said, interrupted, end = b"", False, time.monotonic() + 120
        while time.monotonic() < end:
            try:
                said += os.read(primary, 65536)
            except OSError:  # closed
                break
            if not interrupted and b"tokens/s" in said:
                os.killpg(started.pid, signal.SIGINT)  # as a terminal does
                interrupted = True
    os.close(primary)
    text = said.decode()
    assert text.count("SIGINT: finishing this step and saving") == 1, text
    assert f"resume with: python train.py --resume {tmp_path / 'run'}" in text
    assert started.returncode == 130
    assert list((tmp_path / "run/checkpoints").glob("step-*"))
