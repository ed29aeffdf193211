"""What a run records of the software and the machine, and how differences are told."""

import platform

import numpy as np
import pytest

from autograd.backend import CPU
from minitf.system.environment import VERSION, changes, environment_facts


def test_numba_is_recorded_where_it_computes(monkeypatch):
    assert "numba" not in environment_facts()
    numba = pytest.importorskip("numba", reason="needs Numba")
    monkeypatch.setattr(CPU, "kernels", "numba", raising=False)
    assert environment_facts()["numba"] == numba.__version__


def test_facts():
    facts = environment_facts()
    assert facts["python"].endswith(platform.python_version())
    assert facts["numpy"] == np.__version__
    assert facts["minitf"] == VERSION
    assert facts["blas"] != "unknown unknown"
    assert all(isinstance(value, str) and value for value in facts.values())


def test_changes_are_told():
    before = {"numpy": "2.0", "python": "3.11", "old": "x"}
    now = {"numpy": "2.1", "python": "3.11", "new": "y"}
    assert changes(before, now) == [
        "numpy was 2.0 and is 2.1",
        "old was x and is not recorded",
        "new was not recorded and is y",
    ]
