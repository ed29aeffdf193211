"""Runs that are killed, fail or are stopped, and then resumed, end with the bits of a run that nothing happens to.

`make test` tries a few operations on files and `make torture` all.
"""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from autograd.fast import set_threads
from tests.helpers.runs import call, check, start_or_resume
from tests.torture.interference import count_operations, die, die_halfway, interfere, kill_and_resume

pytestmark = pytest.mark.heavy
ALL = "TORTURE" in os.environ
FAILURES = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.EDQUOT)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TRAIN = Path(__file__).parents[2] / "train.py"


@pytest.fixture
def draw():
    return random.Random(None if ALL else 20)


@pytest.fixture(autouse=True)
def one_thread():
    set_threads(1)


@pytest.fixture(scope="module")
def operations(ground):
    return count_operations(ground)


def places(draw, operations, few):
    return range(1, operations + 1) if ALL else draw.sample(range(1, operations + 1), few)


@pytest.mark.parametrize("deed", [die, die_halfway])
def test_killed_at_operations_on_files(ground, draw, operations, deed):
    for number in places(draw, operations, few=1):
        kill_and_resume(ground, number, deed)


def test_operations_that_fail_end_in_one_sentence(ground, draw, operations):
    """A full disk, an error of the disk and the like, once or from there on."""
    for number in places(draw, operations, few=2):
        failure, for_good, run = draw.choice(FAILURES), draw.random() < 0.5, ground.new()

        def fail(function, arguments, options, failure=failure):
            raise OSError(failure, os.strerror(failure))

        def work(number=number, for_good=for_good, run=run, fail=fail):
            interfere(number, fail, for_good)
            return call(start_or_resume(run, ground.flags))

        assert ground.child(work) == 2
        errors = [line for line in ground.said.splitlines() if line.startswith("error: ")]
        assert errors == ground.said.splitlines()[-1:], ground.said
        assert os.strerror(failure) in errors[0]
        ground.finish(run)


@pytest.mark.slow  # test_train.py has one signal of each kind, and the kills have the places
def test_stopped_at_operations_on_files(ground, draw, operations):
    """By one signal, or by a second one some operations later."""
    for number in places(draw, operations, few=3):
        first, second_after, run = draw.choice(SIGNALS), draw.choice([None, None, 1, 2, 5]), ground.new()

        def hurry(function, arguments, options):
            os.kill(os.getpid(), signal.SIGTERM)
            return function(*arguments, **options)

        def ask(function, arguments, options, first=first, second_after=second_after, hurry=hurry):
            os.kill(os.getpid(), first)
            if second_after is not None:
                interfere(second_after, hurry)
            return function(*arguments, **options)

        def work(number=number, run=run, ask=ask):
            interfere(number, ask)
            return call(start_or_resume(run, ground.flags))

        assert ground.child(work) in {128 + first, *([128 + signal.SIGTERM] if second_after else [])}
        assert any(word in ground.said for word in ("stopped after step", "interrupted", "terminated"))
        ground.finish(run)


@pytest.mark.slow  # the kills at operations have the places
def test_killed_at_random_instants(ground, draw):
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import minitf.app.train"], cwd=TRAIN.parent, check=True)
    start_s, kills = time.perf_counter() - start, 0
    while kills < (200 if ALL else 2):
        run, status, delay_s = ground.new(), None, start_s
        while status != 0:
            delay_s += draw.random() * ground.duration_s / 5  # the machine may be slower than it was
            flags = start_or_resume(run, ground.flags, "--threads", str(draw.choice([1, 1, 2])))
            status, said = killed_after(delay_s, flags)
            check(status in (0, -signal.SIGKILL) and "Traceback" not in said, f"it ended with {status}: {said}")
            kills += status != 0
        ground.compare(run)


def killed_after(delay_s, flags):
    """Run train.py, kill it after `delay_s` unless it has ended; return its status and what it said."""
    command = [sys.executable, "-W", "error", str(TRAIN), *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        with suppress(subprocess.TimeoutExpired):
            process.wait(delay_s)
        process.kill()
        return process.wait(), process.stdout.read().decode(errors="replace")
