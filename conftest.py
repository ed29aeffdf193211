"""For every test: global state, signals, the marker `gpu`; and the lines that sum up skips."""

import gc
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

import pytest

from autograd import random
from autograd.fast import threads
from autograd.fast.table import cpu


@pytest.fixture(autouse=True)
def global_state() -> Iterator[None]:
    """Leave random numbers, the CPU's kernels and its threads as they were found: no test depends on another."""
    state, first_row = random.get_state(), random.get_first_row()
    devices, process = cpu.devices, (threads._Process.threads, threads._Process.pool)
    yield
    random.set_state(state)
    random.set_first_row(first_row)
    cpu.use(*devices)
    threads._Process.threads, threads._Process.pool = process


HOUSE = Path(__file__).parent / "tests"
MEMORY = Path("/dev/shm")  # Linux: files in memory
ENOUGH = 1 << 30  # bytes: several times what all tests hold at a time


def keep_temporary_files_in_memory() -> None:
    """Where there is room for it, and programs can be run from it; TMPDIR names another place.

    A run directory is written with hundreds of fsyncs, for each of which a disk takes milliseconds.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK) or os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        return
    if shutil.disk_usage(MEMORY).free >= ENOUGH:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis tries fewer examples without the slow tests.

    Programs under test inherit which signals are ignored: under nohup, or behind `&` in a script, some are. They also
    inherit whether bytecode is kept: without it, each of hundreds would compile again what it imports.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    keep_temporary_files_in_memory()
    with suppress(ImportError):  # where PyTorch is, for comparisons with it
        from hypothesis import HealthCheck, settings

        patience = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # the machine may be busy
        settings.register_profile("few", max_examples=8, **patience)
        settings.register_profile("many", max_examples=500, **patience)
        if "not slow" in config.option.markexpr:
            settings.load_profile("few")
            # Else each process reads every module for constants to try, for 1.5 s; older versions have none
            from hypothesis.internal.conjecture import providers

            providers._get_local_constants = lambda: providers._local_constants
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)


@cache  # an import that fails looks through all folders each time
def why_no_gpu() -> str | None:
    """Why tests marked gpu cannot run here; None where they can."""
    try:
        with warnings.catch_warnings():  # errors in a test, but no reason to skip all of them
            warnings.simplefilter("ignore")
            import cupy

            return None if cupy.cuda.runtime.getDeviceCount() else "needs a GPU"
    except Exception as error:  # CuPy has its own kinds of them
        return f"needs CuPy and a GPU ({type(error).__name__}: {error})"


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, for `-n auto`
def pytest_xdist_auto_num_workers() -> int | None:
    """One process more than there are processors: some tests wait, for a browser or for the end of a time limit."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # it says how many
    return 1 + (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each process of pytest-xdist go its own way: most of what it imports, another has compiled by then.

    In a new copy of the repository, three processes on the same way would compile every file three times.
    """
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker and isinstance(collector, pytest.Session | pytest.Directory):
        Random(worker["workerid"]).shuffle(report.result)
    return report


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The browser takes seconds to start and to end. What takes long and is not of the house stands apart.

    Files of what takes long come first, so that at the end of a run no process waits for another's last test. The
    tests of a file stay together: what they share is made once. All processes have the same order.
    """
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
            item.add_marker("heavy")
        of_the_house = item.path.is_relative_to(HOUSE) or item.get_closest_marker("look")
        if item.get_closest_marker("heavy") and not of_the_house:
            item.add_marker("apart")
    heavy = {item.path for item in items if item.get_closest_marker("heavy")}
    items.sort(key=lambda item: (item.path not in heavy, item.path))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: nearly all objects that imports and items make stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Take modules and tests out of what the garbage collector looks through, which every `gc.collect()` waits for."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and (reason := why_no_gpu()):
        pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tests that were skipped by reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(each.longrepr[-1]).removeprefix("Skipped: ") for each in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"SKIPPED {count}: {reason}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where all are skipped, no test has passed."""
    if hasattr(session.config, "workeroutput"):  # one of several processes (`pytest -n`)
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not exitstatus and reporter and reporter.stats.get("skipped") and not reporter.stats.get("passed"):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
