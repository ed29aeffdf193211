"""An op of the package is complete: it has a function, an export, a FLOP count and a case."""

import sys
from types import FunctionType

import pytest

import autograd as ag
from autograd import Op
from autograd.testing import cases_for


def missing_places(op: type[Op]) -> list[str]:
    """What an op lacks, each with the file to edit."""
    name, file = op.__name__, op.__module__.replace(".", "/") + ".py"
    functions = [
        value.__name__
        for value in vars(sys.modules[op.__module__]).values()
        if isinstance(value, FunctionType) and name in value.__code__.co_names
    ]
    missing = []
    if not functions:
        missing.append(f"{name} has no function: write one that applies it, below its class in {file}")
    elif not {*functions} & {*ag.__all__}:
        missing.append(f"{functions[0]}() is not exported: add it to __all__ in autograd/ops/__init__.py")
    if op.flops is Op.flops:
        missing.append(f"{name} has no FLOP count: set `flops` beside forward and backward in {file}")
    if not cases_for(name):
        missing.append(f"{name} has no case: @register one in autograd/testing/cases_*.py")
    return missing


@pytest.mark.parametrize("name", Op.registry)
def test_no_place_is_missing(name):
    assert missing_places(Op.registry[name]) == []
