"""The run directory of a tiny model, as in the tests of minitf."""

from tests.helpers.fixtures import make_run, tiny_run, tiny_vocabulary

__all__ = ["make_run", "tiny_run", "tiny_vocabulary"]
