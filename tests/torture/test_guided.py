"""Inputs of all readers that coverage-guided fuzzing starts from and has found; `guided.py` looks for more."""

import time
import tracemalloc

import pytest

from minitf.errors import UserError
from tests.torture.guided import FOUND, MOST_MIB, READERS, SLOWEST_S, Target

KEPT = sorted(FOUND.glob("*/*"))


@pytest.mark.parametrize("name", READERS)
def test_the_first_input_of_each_reader_is_accepted(name, tmp_path):
    """Else fuzzing would only reach what refuses it."""
    target = READERS[name](tmp_path)
    assert target.try_input(target.seeds[0])
    assert not target.try_input(b"\xff\n")


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_fuzzing_has_found_is_read_or_refused(path, tmp_path):
    target = READERS[path.parent.name](tmp_path)
    start = time.process_time()
    tracemalloc.start()
    target.try_input(path.read_bytes())
    assert tracemalloc.get_traced_memory()[1] < MOST_MIB * 2**20
    tracemalloc.stop()
    assert time.process_time() - start < SLOWEST_S


@pytest.mark.parametrize("error", [ValueError("bad"), KeyError(1), RecursionError(), UserError("two\nlines")])
def test_anything_but_a_sentence_is_a_finding(tmp_path, error):
    def read():
        raise error

    with pytest.raises((type(error), AssertionError)):
        Target(tmp_path / "file", read, []).try_input(b"")
