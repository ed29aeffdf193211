"""The rooms of `minitf/` and `autograd/`: imports go down the floors, in no circle; and the additions beside them."""

import ast
import functools
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

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
        {"check_install", "devices", "modes", "random"},
        {"backend"},
        {"tensor"},
        {"engine", "safety", "unrecorded"},
        {"anomaly", "ops", "recompute"},
        {"fast", "higher_order", "numpy_calls"},
        {"functional"},
        {"creation", "gradcheck"},
    ],
}
ENTRANCES = {"__init__", "__main__"}  # of a package: they may import every room
NEIGHBOURS = {  # the course shows a step, which pages record, and other sinusoids; a page has attention and word pieces
    "course": {"interchange", "pages"},
    "pages": {"decoding", "inspect", "interchange"},
}
TEXT = "autograd.ops."  # the plain ops, whose sources the course takes apart: all names are public that have no _
FILES = sorted(path for package in FLOORS for path in (ROOT / package).rglob("*.py"))


def module_of(path: Path) -> str:
    """minitf/model/layers.py -> minitf.model.layers"""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


@functools.cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Imports, and names of a module's attributes, anywhere in the file."""
    kinds = ast.Import | ast.ImportFrom | ast.Attribute
    return [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, kinds)]


@functools.cache
def imports_in(path: Path) -> set[str]:
    """All modules imported anywhere in the file, in functions and for type checkers too."""
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}, line {node.lineno}: a relative import"
            for alias in node.names:  # `from additions.pages import chart` imports a module, too
                name = f"{node.module}.{alias.name}"
                found.add(name if is_module(name) else str(node.module))
    return found


@functools.cache
def imports_of(path: Path) -> set[str]:
    """The modules that a file imports of its own package."""
    module = module_of(path)
    found = {name for name in imports_in(path) if is_module(name)}
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


def test_no_two_files_of_the_house_have_one_name():
    names = Counter(path.name for package in FLOORS for path in (ROOT / package).rglob("*.py"))
    assert [name for name, count in names.items() if count > 1 and name != "__init__.py"] == []


def test_engine_knows_nothing_of_transformers():
    for path in (ROOT / "autograd").rglob("*.py"):
        assert not any(name.startswith("minitf") for name in imports_in(path)), path


def test_no_file_imports_itself_in_a_circle():
    graph = {module_of(path): imports_of(path) for path in FILES}
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError, which names the files


# ---- Additions ----

ADDITIONS = sorted(path.parent.name for path in (ROOT / "additions").glob("*/__init__.py"))


def is_of_house(module: str) -> bool:
    return module.split(".")[0] in FLOORS


def test_the_house_imports_nothing_that_is_added():
    for path in [*FILES, ROOT / "train.py", ROOT / "translate.py"]:
        imported = {name.split(".")[0] for name in imports_in(path)}
        assert not imported & {"additions", "studies", "tests", "examples"}, path


def names_taken(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (module of the house, name) for every name that a file takes from it, by import or as its attribute."""
    modules = {}
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names if is_of_house(alias.name)}
        elif isinstance(node, ast.ImportFrom) and is_of_house(str(node.module)):
            for alias in node.names:
                if is_module(f"{node.module}.{alias.name}"):
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                else:
                    yield str(node.module), alias.name
    for node in nodes_of(path):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            module = modules[node.value.id]
            if not is_module(f"{module}.{node.attr}"):
                yield module, node.attr


@pytest.mark.parametrize("addition", ADDITIONS)
def test_additions_take_only_what_the_house_offers(addition):
    """Names in `__all__` of `autograd`, of `minitf` and of their modules."""
    wrong = []
    for path in (ROOT / "additions" / addition).rglob("*.py"):
        if "tests" in path.parts:
            continue
        for module, name in names_taken(path):
            offered = getattr(import_module(module), "__all__", ())
            if name.startswith("_") or not (name in offered or module.startswith(TEXT)):
                wrong.append(f"{path.relative_to(ROOT)} takes {name} from {module}")
        for name in imports_in(path):
            package, _, rest = name.partition(".")
            if package in ("studies", "tests") or (
                package == "additions" and rest.split(".")[0] not in {addition, *NEIGHBOURS.get(addition, ())}
            ):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []
