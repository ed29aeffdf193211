"""The checks that must detect a mutant; none is made for mutants, all are also run by users or by the tests.

- the cases of every op (`tests.cases.ops`), by the fast implementations with all kernels, and plainly;
- the cases of every layer and of whole models (`tests.cases`);
- the tests.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from autograd.engine import Op, implementations
from autograd.fast import CpuKernels, Kernels, blocks, cpu_products, devices
from autograd.testing import Case
from tests.cases import cases_for
from tests.cases.layers import LAYERS
from tests.cases.models import MODELS
from tests.cases.table import check_cases
from tests.mutants.damage import Mutant

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = 3  # of each case, with seed 0: the defaults of `python -m tests.cases`


@dataclass(frozen=True)
class Finding:
    """A failed check. name: of the case or test; error: its message; again: runs it once more, alone."""

    name: str
    error: str
    again: Callable[[], Finding | None]


Check = Callable[[], Finding | None]  # returns None if nothing is wrong


# ---- Ways to compute ----


@contextlib.contextmanager
def computing_with(how: str) -> Iterator[None]:
    """Context manager: run ops in another way inside the block.

    "alone": as after `import autograd`; "in blocks": as after `set_threads`, in blocks so small that small arrays are
    split, too; "by definition": fast implementations with the kernels in array code that kernels.py has for every
    device; "plainly": without fast implementations.
    """
    changes: list[tuple[object, str, object]] = []
    if how == "by definition":
        changes = [(devices._Cpu, "kernels", Kernels())]
    elif how == "in blocks":
        changes = [
            (devices._Cpu, "kernels", _in_blocks()),
            (blocks, "BLOCK_BYTES", 64),
            (blocks, "SERIAL_BYTES", 0),
            (cpu_products, "SERIAL_PRODUCT", 1),
            (cpu_products, "_parts_of", _pairs),
            (cpu_products, "ROWS_ALIKE", 2),
            (cpu_products, "BLOCK_PRODUCT", 1),
            (cpu_products, "_computes_rows_alike", lambda dtype: True),
        ]
    before = [getattr(owner, name) for owner, name, _ in changes]
    for owner, name, value in changes:
        setattr(owner, name, value)
    try:
        with patch.dict(implementations, {"cpu": {}} if how == "plainly" else {}):
            yield
    finally:
        for (owner, name, _), value in zip(changes, before, strict=True):
            setattr(owner, name, value)


def _pairs(inner: int) -> list[slice]:
    return [slice(i, i + 2) for i in range(0, inner, 2)]


def _in_blocks() -> CpuKernels:
    """One thread takes all blocks: which thread takes which has its tests elsewhere."""
    backend = CpuKernels()
    backend.threads = 6  # blocks of rows, also where the inner axis has two parts
    return backend


WAYS = ("plainly", "alone", "in blocks", "by definition")


# ---- Cases ----


def case_check(case: Case, how: str = "alone") -> Check:
    def check() -> Finding | None:
        with computing_with(how):
            row = check_cases(str(case), [case], EXAMPLES)
        if not row.failures:
            return None
        error = row.failures[0].partition("): ")[2]
        return Finding(str(case) + ("" if how == "alone" else f" ({how})"), error, check)

    return check


def op_checks(op: str, ways: tuple[str, ...] = WAYS) -> Iterator[Check]:
    for how in ways:
        for case in cases_for(op):
            yield case_check(case, how)


def layer_checks(layer: str) -> Iterator[Check]:
    for case in NETWORKS[layer]:
        yield case_check(case)


NETWORKS = {**LAYERS, "Transformer": [case for cases in MODELS.values() for case in cases]}


# ---- Tests ----


class _FirstFailure:
    """A pytest plugin that notes how many tests ran, and the first failure with its message."""

    def __init__(self) -> None:
        self.ran = 0
        self.test = self.error = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ran += report.when == "call"
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and not self.test:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.test, self.error = report.nodeid, crash.message if crash else str(report.longrepr)


def run_tests(path: str, names: str = "") -> Finding | None:
    """Run the tests of a file (with such names) in this process, and so on the damaged code; return the first failure.

    Raises: RuntimeError if no test ran
    """
    seen = _FirstFailure()
    arguments = [path, "-x", "-k", names, "-m", "not slow", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(io.StringIO()) as output:
        pytest.main(arguments, plugins=[seen])
    if seen.test:
        return Finding(seen.test.partition("[")[0], seen.error, partial(run_tests, seen.test))
    if not seen.ran:
        raise RuntimeError(f"no test ran in {path}:\n{output.getvalue()}")
    return None


def mirrored_tests(module: str) -> Iterator[Check]:
    """The tests of a module: they mirror the tree, but for some rooms with several files of tests."""
    package, name = module.rsplit(".", 1)
    folder = f"tests/{package.replace('.', '/')}"
    files = [f"{folder}/test_{name}.py", *SEVERAL.get(module, ())]
    for file in files:
        if (ROOT / file).exists():
            yield partial(run_tests, file)


KERNEL_TESTS = ["tests/autograd/fast/test_cpu.py", "tests/autograd/fast/test_plain_equals_fast.py"]
SEVERAL = {
    "autograd.recompute": ["tests/autograd/test_recompute.py"],
    "autograd.engine": [f"tests/autograd/test_{name}.py" for name in ("hooks", "memory", "borrowed")],
    "autograd.tensor": [f"tests/autograd/test_{name}.py" for name in ("engine", "hooks", "memory", "borrowed")],
    "autograd.modes": ["tests/autograd/test_engine.py"],
    "autograd.ops.arithmetic": ["tests/autograd/ops/test_elementwise.py"],
    "autograd.unrecorded": ["tests/autograd/test_safety.py", "tests/autograd/test_tensor.py"],
    "autograd.safety": ["tests/autograd/test_safety.py"],
    "autograd.fast.blocks": ["tests/autograd/fast/test_cpu.py"],
    "autograd.fast.cpu_forward": ["tests/autograd/fast/test_cpu.py"],
    "autograd.fast.cpu_products": ["tests/autograd/fast/test_cpu.py"],
    "autograd.fast.cpu_training": ["tests/autograd/fast/test_cpu.py"],
    "autograd.fast.fused": ["tests/autograd/fast/test_plain_equals_fast.py"],
    "autograd.fast.kernels": KERNEL_TESTS,
    "autograd.fast.shared": KERNEL_TESTS,
    "autograd.fast.training": KERNEL_TESTS,
    "autograd.fast.ops": ["tests/autograd/fast/test_plain_equals_fast.py", "tests/autograd/fast/test_recomputed.py"],
    "autograd.fast.unfused": ["tests/autograd/fast/test_plain_equals_fast.py"],
    "minitf.fast.search": ["tests/minitf/fast/test_compiled_search.py"],
    "minitf.fast.layers": ["tests/minitf/fast/test_accelerate.py"],
    "autograd.gradcheck": ["tests/autograd/gradcheck/test_gradcheck.py", "tests/autograd/gradcheck/test_limits.py"],
    **{
        f"autograd.gradcheck.{name}": [
            "tests/autograd/gradcheck/test_gradcheck.py",
            "tests/autograd/gradcheck/test_limits.py",
        ]
        for name in ("compare", "function", "numerical", "variations")
    },
    "autograd.gradcheck.cases": ["tests/autograd/test_testing.py"],
    "tests.cases.table": ["tests/test_cases.py"],
}


# ---- The checks of each mutant ----


def checks_for(mutant: Mutant) -> Iterator[Check]:
    """All checks that concern the place of a mutant, the nearest first.

    Code without a gradient (optimizer, gradcheck, inspect) is checked by tests only.
    """
    near = mutant.near or (mutant.name.split(".")[0],)
    in_a_model = mutant.module.startswith("minitf")
    for name in near:
        if name.endswith(".py"):
            yield partial(run_tests, name)
        elif name in Op.registry and not in_a_model:
            yield from op_checks(name, _ways(mutant.module))
        elif name in NETWORKS:
            yield from layer_checks(name)
        elif name == "exact zeros":
            yield partial(run_tests, *EXACT_ZEROS)
    if mutant.module in ("minitf.model.transformer", "minitf.model.variants") and "exact zeros" not in near:
        yield partial(run_tests, *EXACT_ZEROS)
    yield from mirrored_tests(mutant.module)
    if mutant.module == "minitf.training.optim" or mutant.module.startswith(_TESTED_ONLY):
        return
    for op in sorted(Op.registry):
        if op not in near:
            yield from op_checks(op, _ways(mutant.module))
    for layer in NETWORKS:
        if layer not in near:
            yield from layer_checks(layer)
    if mutant.module.startswith("autograd.ops"):
        yield partial(run_tests, "tests/autograd/ops/test_every_op.py")


_TESTED_ONLY = ("autograd.gradcheck", "autograd.testing", "autograd.inspect", "tests.cases")
EXACT_ZEROS = ("tests/minitf/model/test_gradients.py", "no_gradient or do_not_meet")  # what may not attend to what


def _ways(module: str) -> tuple[str, ...]:
    """The kernels that use the code of a module."""
    if module.startswith("autograd.ops"):  # of an op with a fast implementation, only what computes plainly runs
        return ("plainly", "alone")
    return {
        "autograd.backend": ("plainly", "alone"),
        "autograd.engine": ("alone", "plainly"),
        "autograd.tensor": ("alone", "plainly"),
        "autograd.fast.blocks": ("alone", "in blocks"),
        "autograd.fast.cpu": ("alone", "in blocks"),
        "autograd.fast.cpu_forward": ("alone", "in blocks"),
        "autograd.fast.cpu_products": ("alone", "in blocks"),
        "autograd.fast.cpu_training": ("alone", "in blocks"),
        "autograd.fast.fused": ("plainly", "alone"),
        "autograd.fast.kernels": ("by definition", "alone", "in blocks"),
        "autograd.fast.shared": ("by definition", "alone", "in blocks"),
        "autograd.fast.training": ("by definition", "alone", "in blocks"),
    }.get(module, ("alone",))
