"""The tests' own order: they mirror the rooms, share through helpers, and take names from where these are defined."""

import ast
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"
SHARED = {"helpers", "emulation", "cases", "mutants"}  # what any test may import from tests/
OWN = {"torture"}  # programs beside the tests: only their own tests import them
ACROSS = {  # tests that belong to no single file, and why
    "autograd/fast/test_compile.py": "all kernels, given to the compiler",
    "autograd/gradcheck/test_limits.py": "what gradcheck does and does not notice, from its public function",
    "autograd/ops/test_against_pytorch.py": "all ops",
    "autograd/ops/test_every_op.py": "all ops",
    "autograd/ops/test_registration.py": "all ops: their cases, FLOPs and exports",
    "autograd/test_borrowed.py": "arrays that gradients share, over engine and ops",
    "autograd/ops/test_gradients.py": "the gradients of all ops, at examples of all their cases",
    "minitf/app/test_messages.py": "what all commands say about careless input",
    "minitf/decoding/test_exactness.py": "beam search against enumeration: a long proof",
    "minitf/fast/test_packed_decoding.py": "decoding with weights of 8 and 16 bits, over decoder and search",
    "minitf/model/test_second_order.py": "the curvature of the whole loss, from autograd.functional",
    "minitf/model/test_against_pytorch.py": "the whole model",
    "autograd/fast/test_plain_equals_fast.py": "every implementation against the op that it replaces",
    "autograd/ops/test_arguments.py": "the arguments of all ops",
    "autograd/ops/test_loss.py": "the losses of nn.py, and of autograd/fast/fused.py",
    "minitf/model/test_compiled_kernels.py": "the whole model",
    "minitf/model/test_gradients.py": "the gradients of all layers and models",
    "minitf/test_on_gpu.py": "everything on the CUDA backend, emulated or real",
    "minitf/test_on_real_cupy.py": "whole commands on the real CuPy over a stub of CUDA",
    "minitf/training/test_data_parallel_runs.py": "whole data-parallel jobs, as commands",
    "minitf/training/test_steady_memory.py": "no memory is lost from step to step, over all rooms",
    "minitf/app/test_hostile_runs.py": "what no command does to files elsewhere",
}
FILES = sorted(path for path in TESTS.rglob("*.py") if "__pycache__" not in path.parts)


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@functools.cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree_of(path)))


def imports_of(path: Path) -> Iterator[tuple[str, str, str]]:
    """(module, name, local name) of every `from module import name`; (module, "", "") of every `import module`."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((str(node.module), alias.name, alias.asname or alias.name) for alias in node.names)


def test_tests_share_through_helpers():
    """No test module is imported, nor a conftest; nothing of tests/ is imported under a shorter name."""
    helpers = {each.stem for folder in SHARED for each in (TESTS / folder).rglob("*.py")}
    wrong = []
    for path in FILES:
        if path.parent.name == "reference":  # a learner's files, which import each other
            continue
        room = path.relative_to(TESTS).parts[0]
        allowed = SHARED | ({room, room.removeprefix("test_").removesuffix(".py")} & OWN)
        for module, name, _ in imports_of(path):
            top, *rest = f"{module}.{name}".rstrip(".").split(".")
            if top in helpers or "conftest" in rest:
                wrong.append(f"{path} imports {module}")
            if top == "tests" and (rest[0] not in allowed or any(part.startswith("test_") for part in rest)):
                wrong.append(f"{path} imports {module}")
    assert wrong == []


@pytest.mark.parametrize("package", ["autograd", "minitf"])
def test_tests_mirror_the_rooms(package):
    """tests/minitf/model/test_layers.py tests minitf/model/layers.py; a file of the room's name, the whole room."""
    alone = set()
    for path in (TESTS / package).rglob("test_*.py"):
        tested = path.relative_to(TESTS).with_name(path.name.removeprefix("test_"))
        if not (ROOT / tested).exists() and tested.stem != tested.parent.name:
            alone.add(str(path.relative_to(TESTS)))
    assert alone == {name for name in ACROSS if name.startswith(f"{package}/")}


def file_of(module: str) -> Path:
    return (ROOT / module.replace(".", "/")).with_suffix(".py")


@functools.cache
def defined_in(path: Path) -> set[str]:
    """The names that a file defines at its top level, also under `if` and `try`, or re-exports in `__all__`."""
    found: set[str] = set()
    todo: list[ast.AST] = [tree_of(path)]
    while todo:
        for node in ast.iter_child_nodes(todo.pop()):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif not isinstance(node, ast.Import | ast.ImportFrom):
                todo.append(node)
    return found


def dotted(node: ast.expr) -> str:
    """The name `a.b.c`; of any other expression, what is no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def taken_by(path: Path) -> set[tuple[str, str]]:
    """(module, name) of the names that a file takes from modules of this repository."""
    modules, taken = {}, set()
    for module, name, local in imports_of(path):
        if file_of(f"{module}.{name}").exists():
            modules[local] = f"{module}.{name}"
        elif name and file_of(module).exists():  # a package may re-export
            taken.add((module, name))
    for node in nodes_of(path):  # not local variables that are called like a module
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)):
            modules.pop(node.arg if isinstance(node, ast.arg) else node.id, None)
    replaced = {  # what a test replaces is the name that the module under test uses
        tuple(ast.unparse(each) for each in node.args[:2])
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr"
    }
    for node in nodes_of(path):
        if isinstance(node, ast.Attribute) and not node.attr.startswith("__"):
            alias = dotted(node.value)
            if alias in modules and (alias, repr(node.attr)) not in replaced:
                taken.add((modules[alias], node.attr))
    return taken


def test_names_are_taken_from_where_they_are_defined():
    """`training.replace` would be dataclasses.replace, reached through the module under test."""
    ours = [path for path in FILES if "learner" not in path.parts]  # a learner's train.py is not the project's
    found = [(path, module, name) for path in ours for module, name in taken_by(path)]
    assert [each for each in found if each[2] not in defined_in(file_of(each[1]))] == []


@pytest.mark.heavy
def test_a_run_in_which_everything_is_skipped_fails(tmp_path):
    (tmp_path / "test_it.py").write_text("import pytest\n\ndef test_it():\n    pytest.skip('no luck')\n")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", f"--rootdir={tmp_path}", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ROOT})
    assert "SKIPPED 1: no luck" in done.stdout
    assert done.returncode != 0
