"""Threads that share the work, what happens to errors in them, and memory that is kept."""

import ctypes
import os
import platform
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import threadpoolctl

from autograd.fast import cpu_kernels, keep_freed_memory, return_freed_memory, set_threads, thread_count
from autograd.fast.threads import _Process, _quotas, run, run_blocks


def normal(rng, shape):
    return rng.standard_normal(shape).astype(np.float32)


# ---- Memory ----


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux, to see the memory of a process")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs the GNU C library")
def test_kept_memory_is_returned():
    program = """
import re
from pathlib import Path
import numpy as np
from autograd.fast import keep_freed_memory, return_freed_memory

def mib():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

keep_freed_memory()
before = mib()
arrays = [np.ones(2**18) for _ in range(50)]  # 2 MiB each
del arrays
kept = mib()
return_freed_memory()
print(kept - before, mib() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    kept, left = map(float, done.stdout.split())
    assert kept > 90
    assert left < 10


def test_another_c_library_is_left_alone(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert keep_freed_memory() is False
    return_freed_memory()


# ---- Threads ----


def meet(on_main=None, elsewhere=None):
    """Run blocks on two threads that wait for each other in their first block; then call what is given for each."""
    barrier = threading.Barrier(2, timeout=20)
    main, met, done = threading.current_thread(), set(), []

    def work(some):
        here = threading.current_thread()
        if here not in met:
            met.add(here)
            barrier.wait()
        action = on_main if here is main else elsewhere
        if action is not None:
            action()
        done.append(some.start)

    run_blocks(work, 12, 2)
    return done


def fail():
    raise ArithmeticError("in a block")


def test_an_error_in_another_thread_surfaces_and_the_threads_work_on():
    set_threads(2)
    for _ in range(3):
        with pytest.raises(ArithmeticError, match="in a block"):
            meet(elsewhere=fail)
    assert len(meet()) == 6


def test_an_error_in_this_thread_surfaces_when_the_others_have_stopped():
    finished = []

    def slow():
        time.sleep(0.05)
        finished.append(1)

    set_threads(2)
    with pytest.raises(ArithmeticError, match="in a block"):
        meet(on_main=fail, elsewhere=slow)
    assert len(finished) == 1  # the block that it had begun, and no other
    time.sleep(0.15)
    assert len(finished) == 1


def test_several_callers_share_the_threads():
    """Two models in two threads of one process: none waits for the other's blocks forever, none sees them."""
    set_threads(3)
    kernels, rng = cpu_kernels(), np.random.default_rng(0)
    x, weight, bias = normal(rng, (900, 160)), normal(rng, 160), normal(rng, 160)
    expected = kernels.dropout_add_layer_norm(x, None, None, 1.0, weight, bias, 1e-6)[0]
    norm, results = kernels.dropout_add_layer_norm, {}
    callers = [
        threading.Thread(target=lambda i=i: results.update({i: norm(x + i, None, None, 1.0, weight, bias, 1e-6)[0]}))
        for i in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(20)
    for i in range(4):
        np.testing.assert_allclose(results[i], expected, atol=1e-4)


@pytest.mark.parametrize("threads", [0, -2])
def test_no_thread_at_all_is_refused(threads):
    set_threads(2)
    with pytest.raises(ValueError, match=f"threads={threads} is not a number of threads; choose 1 or more"):
        set_threads(threads)
    assert thread_count() == 2


def blas_threads():
    return {lib["num_threads"] for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"}


def test_the_blas_library_is_held_to_one_thread():
    threadpoolctl.threadpool_limits(2, user_api="blas")
    if blas_threads() != {2}:
        pytest.skip("the threads of this BLAS library cannot be set")
    set_threads(2)
    assert blas_threads() == {1}


def test_threads_end_when_others_replace_them():
    def working():
        return [thread for thread in threading.enumerate() if thread.name.startswith("autograd")]

    before = working()
    set_threads(2)
    meet()
    (mine,) = [thread for thread in working() if thread not in before]
    set_threads(1)
    mine.join(20)
    assert not mine.is_alive()


def test_a_thread_that_comes_late_has_kept_nothing():
    set_threads(2)
    go_on = threading.Event()
    _Process.pool.submit(go_on.wait)  # until then, the other thread takes nothing

    def work(task):
        pass

    kept = weakref.ref(work)
    run(work, [1, 2, 3])
    del work
    assert kept() is None
    go_on.set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_threads_start_anew_after_a_fork():
    program = """
import os, threading
from autograd.fast.threads import run, set_threads

def meet():  # two tasks that wait for each other
    run(lambda barrier: barrier.wait(), [threading.Barrier(2, timeout=20)] * 2)

set_threads(2)
meet()
child = os.fork()
if child == 0:
    meet()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
meet()
"""
    subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", program], check=True, timeout=60)


def test_a_containers_quota_limits_the_cores(tmp_path):
    """cpu.max of each control group above the process: 150,000 of 100,000 microseconds are one whole core."""
    cgroup, root = tmp_path / "cgroup", tmp_path / "fs"
    inner = root / "outer" / "inner"
    inner.mkdir(parents=True)
    cgroup.write_text("0::/outer/inner\n")
    assert [*_quotas(str(cgroup), str(root))] == []
    (inner / "cpu.max").write_text("max 100000\n")
    (root / "outer" / "cpu.max").write_text("350000 100000\n")
    assert [*_quotas(str(cgroup), str(root))] == [3]
    (inner / "cpu.max").write_text("50000 100000\n")
    assert [*_quotas(str(cgroup), str(root))] == [1, 3]
    assert [*_quotas(str(tmp_path / "none"), str(root))] == []
