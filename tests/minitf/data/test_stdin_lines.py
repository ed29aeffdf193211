"""Lines of a pipe, cut the same however they arrive."""

import contextlib
import io
import os

import numpy as np
import pytest

from minitf.data.stdin_lines import READ_BYTES, StdinLines
from minitf.errors import UserError


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in reading, writing:
        with contextlib.suppress(OSError):  # the test may have closed it
            os.close(descriptor)


def test_the_lines_are_those_of_a_file_however_they_are_chopped():
    rng = np.random.default_rng(0)
    for _ in range(50):
        text = bytes(rng.choice(list(b"ab\n\r\xff\x85 "), size=rng.integers(0, 300)).tolist())
        expected = list(io.BytesIO(text))

        reading, writing = os.pipe()
        lines, found, begin = StdinLines(reading), [], 0
        iterator = iter(lines)
        while begin < len(text):
            end = begin + int(rng.integers(1, 20))
            os.write(writing, text[begin:end])
            begin = end
            while not lines.must_wait():
                found.append(next(iterator))
        os.close(writing)
        found += iterator
        os.close(reading)
        assert found == expected


def test_half_a_line_is_no_line_yet(pipe):
    reading, writing = pipe
    lines = StdinLines(reading)
    assert lines.must_wait()
    os.write(writing, b"one\ntw")
    assert not lines.must_wait()
    iterator = iter(lines)
    assert next(iterator) == b"one\n"
    assert lines.must_wait()
    os.write(writing, b"o\n")
    assert not lines.must_wait()
    assert next(iterator) == b"two\n"
    os.write(writing, b"three")
    assert lines.must_wait()
    os.close(writing)
    assert not lines.must_wait()  # the end is here
    assert list(iterator) == [b"three"]
    assert not lines.must_wait()


def test_a_long_line_and_a_file(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"x" * (3 * READ_BYTES) + b"\nend")
    with path.open("rb") as file:
        lines = StdinLines(file.fileno())
        assert not lines.must_wait()
        assert [len(line) for line in lines] == [3 * READ_BYTES + 1, 3]


def test_a_descriptor_that_cannot_be_read_is_one_sentence(tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(UserError, match="cannot read standard input: Is a directory"):
        list(StdinLines(folder))
    os.close(folder)
