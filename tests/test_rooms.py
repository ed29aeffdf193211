"""The rooms of `minitf/` and `autograd/`: imports go down the floors, in no circle, and stand at the top of files."""

import ast
import functools
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
FLOORS = {  # of rooms and single files, from the lowest; none imports from its own floor
    "minitf": [
        {"errors"},
        {"config", "system"},
        {"data", "storage", "model"},
        {"decoding", "evaluation", "parallel"},
        {"corpora", "fast", "training"},
        {"translation"},
        {"run"},
        {"app"},
    ],
    "autograd": [
        {"backend", "check_install", "gpu_check", "html", "modes", "random"},
        {"devices", "observers", "tensor"},
        {"engine", "hooks", "safety", "unrecorded"},
        {"ops", "recompute"},
        {"fast", "higher_order", "numpy_calls"},
        {"functional"},
        {"gradcheck", "inspect"},
        {"testing"},
    ],
}
ENTRANCES = {"__init__", "__main__"}  # of a package: they may import every room
# imported where they are used
OPTIONAL = {
    "huggingface_hub", "cuda", "cupy", "cupy_backends", "matplotlib", "mpi4py", "ml_dtypes", "hypothesis", "torch",
}  # fmt: skip
LATE = {  # why imports stand inside functions: "file: function"
    "start-up: public names and commands are imported when they are used": {
        "autograd/__init__.py: __getattr__",
        "minitf/__init__.py: __getattr__",
        "minitf/__main__.py: main",
        "minitf/app/arguments.py: function_of",
        "minitf/app/completion.py: main",
    },
    "start-up: --help and wrong flags are answered without NumPy": {
        "minitf/app/corpora.py: presets",
        "minitf/app/models.py: export_model",
        "minitf/app/models.py: import_model",
        "minitf/app/models.py: pack",
        "minitf/app/models.py: shortlist",
        "minitf/app/score.py: bleu",
        "minitf/app/train.py: main",
        "minitf/app/train.py: read_train_args",
        "minitf/app/train.py: train_run",
        "minitf/app/translate.py: main",
        "minitf/system/environment.py: environment_facts",
        "minitf/system/process.py: set_up_device",
    },
    "start-up: libraries that not every command needs": {
        "autograd/fast/numpy_products.py: _computes_rows_alike",
        "autograd/fast/numpy_products.py: _has_small_kernels",
        "autograd/fast/threads.py: set_threads",
        "autograd/fast/devices.py: set_kernels",
        "autograd/fast/devices.py: set_precision",
        "minitf/fast/decoder.py: compiled_search",
        "minitf/evaluation/metrics.py: sacrebleu_metrics",
        "minitf/system/writing.py: locked",
    },
    "start-up: the checker is imported with the first check": {
        "autograd/gradcheck/__init__.py: __getattr__",
        "autograd/gradcheck/__init__.py: gradcheck",
    },
    "needs Hypothesis": {"autograd/testing.py: __getattr__"},
    "needs CuPy": {
        "autograd/fast/devices.py: make_gpu_backend",
    },
    "only at a terminal": {"minitf/app/typed_lines.py: typed_lines"},
    "Unix only": {"minitf/parallel/rendezvous.py: own_addresses"},
}
FILES = sorted(path for package in FLOORS for path in (ROOT / package).rglob("*.py"))


def module_of(path: Path) -> str:
    """minitf/model/layers.py -> minitf.model.layers"""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def imports_in(tree: ast.AST) -> Iterator[str]:
    """All modules imported anywhere in the tree, in functions and for type checkers too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            for alias in node.names:  # `from additions.pages import chart` imports a module, too
                name = f"{node.module}.{alias.name}"
                yield name if is_module(name) else str(node.module)


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@functools.cache
def imports_of(path: Path) -> set[str]:
    """The modules that a file imports of its own package."""
    module = module_of(path)
    found = {name for name in imports_in(tree_of(path)) if is_module(name)}
    package = module.split(".")[0]
    return {name for name in found - {module} if name.split(".")[0] == package}


def floor_of(module: str) -> tuple[int, str]:
    package, _, rest = module.partition(".")
    room = rest.split(".")[0] or "__init__"
    return next(number for number, rooms in enumerate(FLOORS[package]) if room in rooms), room


def test_every_room_has_its_floor():
    for package, floors in FLOORS.items():
        assert len(floors) <= 8
        rooms = {path.stem for path in (ROOT / package).iterdir() if path.is_dir() or path.suffix == ".py"}
        assert rooms - {"__pycache__", *ENTRANCES} == set().union(*floors)
    assert {path.stem for path in (ROOT / "minitf").glob("*.py")} == {"__init__", "__main__", "errors"}


def test_imports_go_down():
    climbing = []
    for path in FILES:
        if path.parent.parent == ROOT and path.stem in ENTRANCES:
            continue
        floor, room = floor_of(module_of(path))
        for imported in imports_of(path):
            other_floor, other = floor_of(imported)
            if other != room and other_floor >= floor:
                climbing.append(f"{path.relative_to(ROOT)} imports {imported}")
    assert climbing == []


def test_engine_knows_nothing_of_transformers():
    for path in (ROOT / "autograd").rglob("*.py"):
        assert not any(name.startswith("minitf") for name in imports_in(tree_of(path))), path


def test_no_file_imports_itself_in_a_circle():
    graph = {module_of(path): imports_of(path) for path in FILES}
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError, which names the files


def is_late(node: ast.AST) -> bool:
    """Does a function import a module that is not optional, or one by its name?"""
    calls = {ast.unparse(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
    return bool({name.split(".")[0] for name in imports_in(node)} - OPTIONAL or calls & {"import_module", "__import__"})


def test_imports_inside_functions_have_a_reason():
    found = {
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef) and is_late(node)
    }
    assert found == set().union(*LATE.values())
