"""What a run records of the software and the machine, and how differences are told."""

import platform

import numpy as np

from minitf.system.environment import VERSION, changes, environment_facts


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
