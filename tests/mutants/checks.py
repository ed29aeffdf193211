"""The checks that must detect a mutant, by rule: none is made for mutants, all are also run by users or by the tests.

The nearest come first: the cases of the op or layer of that name; the test file of the module, and those of its folder
that name the function; the tests elsewhere in the package that name it; the cases of the other ops of the module; the
other tests of the folder.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import resource
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest

from autograd.engine import Op, implementations
from tests.cases import ops  # noqa: F401 (registers the cases of all ops)
from tests.cases.checks import Case, cases_for
from tests.cases.layers import LAYERS
from tests.cases.models import MODELS
from tests.cases.table import check_cases
from tests.mutants.mutants import ROOT, Mutant, ran

EXAMPLES = 2  # of each case
LIMIT_S = 300  # of processor time for a check; the longest takes a tenth
MEMORY_BYTES = 8 << 30
NETWORKS = {**LAYERS, "Transformer": [case for cases in MODELS.values() for case in cases]}
Check = partial[str | None]  # returns what it says of the mistake, None if nothing


def checks_for(mutant: Mutant) -> Iterator[Check]:
    """Yield every check of a mutant, the nearest first."""
    name, called = mutant.function.partition(".")[0], {*mutant.function.split(".")} - {"forward", "backward"}
    names = re.compile(rf"\b({'|'.join(sorted(called))})\b")  # by which a test calls the function
    own, *others = files_of_tests(mutant.module)
    package = ROOT / "tests" / mutant.module.partition(".")[0]
    naming = [str(file.relative_to(ROOT)) for file in sorted(package.rglob("test_*.py")) if _fits(names, file)]
    if mutant.module.startswith("minitf"):
        yield from (partial(_check_case, case, False) for case in NETWORKS.get(name, ()))
    yield from _op_checks(op for op in Op.registry if op.lower() == name.replace("_", "").lower())
    yield partial(run_tests, own, first=names)
    yield from (partial(run_tests, file, first=names) for file in others if file in naming)
    yield from (partial(run_tests, file, names) for file in naming if file not in (own, *others))
    yield from _op_checks(op for op, kind in Op.registry.items() if kind.__module__ == mutant.module)
    yield from (partial(run_tests, file) for file in others if file not in naming)


def _op_checks(names: Iterable[str]) -> Iterator[Check]:
    yield from (
        partial(_check_case, case, plainly) for op in names for case in cases_for(op) for plainly in (True, False)
    )


def files_of_tests(module: str) -> list[str]:
    """The test file of a module, which has its name, and the others of its folder."""
    package, _, name = module.rpartition(".")
    folder = ROOT / "tests" / package.replace(".", "/")
    if (ROOT / module.replace(".", "/")).is_dir():
        folder, name = ROOT / "tests" / module.replace(".", "/"), module.rpartition(".")[2]
    files = sorted(folder.glob("test_*.py"), key=lambda file: (file.stem != f"test_{name}", file))
    return [str(file.relative_to(ROOT)) for file in files]


def _check_case(case: Case, plainly: bool) -> str | None:
    """Check a case, plainly or by the fast implementations."""
    with patch.dict(implementations, clear=plainly):
        row = check_cases(str(case), [case], EXAMPLES)
    return f"{row.failures[0]}" if row.failures else None


class _FirstFailure:
    """A pytest plugin that notes the first failure.

    only: a pattern; tests whose text it does not fit are left out
    first: a pattern; tests whose text it fits come first
    """

    found: str | None = None

    def __init__(self, only: re.Pattern[str] | None, first: re.Pattern[str] | None):
        self.only, self.first = only, first

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        if (only := self.only) is not None:
            items[:] = [item for item in items if _fits(only, item)]
        elif (first := self.first) is not None:
            items.sort(key=lambda item: not _fits(first, item))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            skipped.append(report.longrepr[2].removeprefix("Skipped: "))
        if report.failed and self.found is None:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.found = f"{report.nodeid}: {crash.message if crash else report.longrepr}"


NOT_RUN = "not run here:"
skipped: list[str] = []  # why tests were left out, those of the nearest file first


def _fits(pattern: re.Pattern[str], where: Path | pytest.Function) -> bool:
    text = where.read_text("utf-8") if isinstance(where, Path) else inspect.getsource(where.function)
    return bool(pattern.search(text))


PYTEST = ["-n", "0", "-p", "no:cacheprovider", f"--rootdir={ROOT}", "-W", "ignore::pytest.PytestAssertRewriteWarning"]


def run_tests(path: str, only: re.Pattern[str] | None = None, first: re.Pattern[str] | None = None) -> str | None:
    """Run the tests of a file in this process, and so on the code with the mistake; `only` some, or some `first`."""
    seen = _FirstFailure(only, first)
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(io.StringIO()):
        pytest.main([path, "-x", "-m", "not slow", *PYTEST], plugins=[seen])
    return seen.found


def all_checks(mutants: Sequence[Mutant]) -> Iterator[Check]:
    """Yield the checks of mutants, each once."""
    seen = set()
    for mutant in mutants:
        for check in checks_for(mutant):
            key = (check.func, str(check.args))
            if key not in seen:
                seen.add(key)
                yield check


def import_tests(modules: Iterable[str]) -> None:
    """Import the tests of modules once, before processes of single mutants are made of this one."""
    files = {file for module in modules for file in files_of_tests(module)}
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*sorted(files), "--collect-only", *PYTEST])


Mutants = Iterable[Mutant | None]


def try_out(
    mutants: Mutants, jobs: int = 1, checks: Callable[[Any], Iterator[Check]] = checks_for
) -> Iterator[tuple[Mutant | None, str | None]]:
    """Yield mutants, in the order in which they are done, and what notices each first; None if nothing does.

    Each runs in a process of its own. mutants: None for the code as it is
    """
    waiting = iter(mutants)
    running: dict[Connection, tuple[int, Mutant | None]] = {}  # by the pipe that it answers through
    while True:
        for mutant in islice(waiting, jobs - len(running)):
            reader, process = _start(mutant, checks)
            running[reader] = process, mutant
        if not running:
            return
        for ready in cast("list[Connection]", wait([*running])):
            process, mutant = running.pop(ready)
            try:
                message = ready.recv()
            except EOFError:
                message = "the process ended: it took too long, or too much memory"
            ready.close()
            os.waitpid(process, 0)
            yield mutant, message


def _start(mutant: Mutant | None, checks: Callable[[Any], Iterator[Check]]) -> tuple[Connection, int]:
    reader, writer = Pipe(duplex=False)
    process = os.fork()
    if process:
        writer.close()
        return reader, process
    found: str | None = None
    try:
        _make_quiet()
        if mutant is not None:
            mutant.make()
        for check in checks(mutant):
            _limit()
            found = found or check()
            if found:
                break
        if mutant is not None and found is None and not ran and skipped:
            found = f"{NOT_RUN} {skipped[0]}"
    except BaseException as error:
        found = f"{type(error).__name__}: {error}"
    finally:
        writer.send(found)
        os._exit(0)


def _make_quiet() -> None:
    warnings.simplefilter("ignore")  # a warning does not count
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def _limit() -> None:
    """Bound the time and memory of the next check; the system ends a process that needs more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + LIMIT_S
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.RLIM_INFINITY))
    signal.alarm(10 * LIMIT_S)
