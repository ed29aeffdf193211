"""A run that stopped before its end."""

import pytest

from autograd.fast import set_threads
from tests.helpers.fixtures import ground
from tests.helpers.runs import call

__all__ = ["ground"]


@pytest.fixture(scope="session")
def halfway(ground):
    """Its last checkpoint is off the schedule. Tests damage copies of it."""
    set_threads(1)
    run = ground.folder / "halfway"
    status = ground.child(lambda: call([*ground.flags, "--output", str(run), "--max-steps", "9"]))
    assert status == 0, ground.said
    return run
