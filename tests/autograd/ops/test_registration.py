"""An op of the package is complete: it has a function, an export and a case."""

import sys
from pathlib import Path
from types import FunctionType

import autograd as ag
from autograd import Op
from tests.cases import cases_for


def missing_places(op: type[Op]) -> list[str]:
    """What an op lacks, each with the file to edit."""
    name, file = op.__name__, op.__module__.replace(".", "/") + ".py"
    package = ag.fast if op.__module__ == "autograd.ops.fused" else ag
    places = [op.__module__, *[place for place in sys.modules if place.startswith("autograd.ops.")]]
    functions = [
        value.__name__
        for place in places
        for value in vars(sys.modules[place]).values()
        if isinstance(value, FunctionType) and name in value.__code__.co_names
    ]
    missing = []
    if not functions:
        missing.append(f"{name} has no function: write one that applies it, below its class in {file}")
    elif not {*functions} & {*package.__all__}:
        where = "ops" if package is ag else "fast"
        missing.append(f"{functions[0]}() is not exported: add it to __all__ in autograd/{where}/__init__.py")
    if not cases_for(name):
        missing.append(f"{name} has no case: @register one in tests/cases/ops/{Path(file).name}")
    return missing


def test_no_place_is_missing():
    assert [missing for op in Op.registry.values() for missing in missing_places(op)] == []


def test_every_file_of_ops_is_imported():
    """A file that autograd/ops/__init__.py forgets would take its ops out of the register, and of every check."""
    files = {path.stem for path in Path(ag.ops.__file__).parent.glob("*.py")} - {"__init__"}
    assert [file for file in sorted(files) if f"autograd.ops.{file}" not in sys.modules] == []
